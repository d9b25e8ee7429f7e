# SPDX-License-Identifier: Apache-2.0
"""Promises of the image intake."""

from cloud_backbone.errors import FixRequestError, Reason
from cloud_backbone.image_intake import decode_jpeg, jpeg_size
import cv2
from hypothesis import given
from hypothesis import strategies as st
import numpy as np
from numpy.typing import NDArray
import pytest

SIZE = (48, 32)


def encode(image: NDArray[np.uint8], *options: int) -> bytes:
    """Return the JPEG of an RGB image."""
    ok, data = cv2.imencode('.jpg', image[:, :, ::-1], options)
    assert ok
    return data.tobytes()


def picture() -> NDArray[np.uint8]:
    """Return red on the left, blue on the right."""
    image = np.zeros((SIZE[1], SIZE[0], 3), np.uint8)
    image[:, : SIZE[0] // 2, 0] = 255
    image[:, SIZE[0] // 2 :, 2] = 255
    return image


@pytest.mark.parametrize('options', [(), (cv2.IMWRITE_JPEG_PROGRESSIVE, 1)])
def test_decoded_image_is_rgb_of_the_right_size(options: tuple[int, ...]) -> None:
    """Red stays red, and rows stay rows, whatever the kind of JPEG."""
    image = decode_jpeg(encode(picture(), *options), SIZE)
    assert image.shape == (SIZE[1], SIZE[0], 3)
    assert image.flags.c_contiguous
    assert np.allclose(image[5, 5], (255, 0, 0), atol=12)
    assert np.allclose(image[5, -5], (0, 0, 255), atol=12)


def test_size_comes_from_the_header_alone() -> None:
    """The first bytes tell the size, before anything is decoded."""
    assert jpeg_size(encode(picture())[:800]) == SIZE


def test_other_size_is_refused_with_both_sizes() -> None:
    """An image of another size is not scaled in secret."""
    sizes = '48 x 32 px, this backbone wants 128 x 128'
    with pytest.raises(FixRequestError, match=sizes) as caught:
        decode_jpeg(encode(picture()), (128, 128))
    assert caught.value.reason is Reason.BAD_IMAGE


@pytest.mark.parametrize(
    ('data', 'message'),
    [
        (b'', 'is empty'),
        (b'\x89PNG\r\n\x1a\n' + bytes(60), 'is no JPEG'),
        (b'\xff\xd8' + bytes(60), 'is no JPEG'),
        (encode(picture())[:-40], 'is truncated'),
        (encode(picture())[:30], 'is no JPEG'),
    ],
)
def test_what_is_no_whole_jpeg_is_refused(data: bytes, message: str) -> None:
    """Empty, foreign and truncated files are told apart."""
    with pytest.raises(FixRequestError, match=message):
        decode_jpeg(data, SIZE)


@given(st.binary(max_size=400), st.integers(0, 600), st.binary(max_size=8))
def test_any_bytes_give_an_image_or_a_refusal(data: bytes, place: int, patch: bytes) -> None:
    """Random and damaged files never raise anything else."""
    whole = encode(picture())
    for candidate in (data, b'\xff\xd8' + data, whole[:place] + patch + whole[place + 8 :]):
        try:
            assert decode_jpeg(candidate, SIZE).shape == (SIZE[1], SIZE[0], 3)
        except FixRequestError as error:
            assert error.reason is Reason.BAD_IMAGE
