# SPDX-License-Identifier: Apache-2.0
import cv2
import numpy as np
from onboard_decoder.errors import ImageRefused
from onboard_decoder.image_codec import decode_compressed, decode_raw, encode_jpeg
import pytest

RGB = np.random.default_rng(0).integers(0, 255, (6, 5, 3), dtype=np.uint8)
SMOOTH = cv2.resize(RGB, (64, 48), interpolation=cv2.INTER_CUBIC)


def packed(pixels, padding=0):
    """Rows with padding behind them, and the length of a row."""
    height, width = pixels.shape[:2]
    rows = pixels.reshape(height, -1)
    rows = np.concatenate([rows, np.full((height, padding), 7, np.uint8)], axis=1)
    return rows.tobytes(), rows.shape[1]


@pytest.mark.parametrize('padding', [0, 3])
@pytest.mark.parametrize(('encoding', 'code'), [
    ('rgb8', None), ('bgr8', cv2.COLOR_RGB2BGR), ('rgba8', cv2.COLOR_RGB2RGBA),
    ('bgra8', cv2.COLOR_RGB2BGRA),
])
def test_every_encoding_gives_the_same_rgb(encoding, code, padding):
    """Order of channels and padding of rows are undone."""
    pixels = RGB if code is None else cv2.cvtColor(RGB, code)
    data, row = packed(pixels, padding)

    assert np.array_equal(decode_raw(data, 5, 6, row, encoding), RGB)


def test_grey_becomes_three_equal_channels():
    """A mono camera is served too."""
    data, row = packed(RGB[:, :, :1])

    image = decode_raw(data, 5, 6, row, 'mono8')

    assert all(np.array_equal(image[:, :, i], RGB[:, :, 0]) for i in range(3))


@pytest.mark.parametrize(('change', 'words'), [
    ({'encoding': '16UC1'}, "encoding is '16UC1'; it must be one of"),
    ({'step': 14}, 'cannot have rows of 14 bytes'),
    ({'height': 7}, 'has 90 bytes; 7 rows of 15 are needed'),
    ({'width': 0}, '0x6'),
])
def test_raw_images_that_contradict_themselves_are_refused(change, words):
    """One sentence, no guess."""
    told = {'width': 5, 'height': 6, 'step': 15, 'encoding': 'rgb8', **change}

    with pytest.raises(ImageRefused, match=words):
        decode_raw(RGB.tobytes(), **told)


@pytest.mark.parametrize('kind', ['.png', '.jpg'])
def test_compressed_images_are_read(kind):
    """PNG exactly, JPEG nearly."""
    data = cv2.imencode(kind, cv2.cvtColor(SMOOTH, cv2.COLOR_RGB2BGR))[1].tobytes()

    difference = np.abs(decode_compressed(data).astype(int) - SMOOTH.astype(int))

    assert difference.max() <= (0 if kind == '.png' else 40)


CUT = cv2.imencode('.png', SMOOTH)[1].tobytes()[:40]


@pytest.mark.parametrize('data', [b'', b'no image', CUT])
def test_truncated_bytes_are_refused(data):
    """Nothing is made up."""
    with pytest.raises(ImageRefused, match='no whole JPEG or PNG'):
        decode_compressed(data)


def test_the_jpeg_has_the_size_asked_for_and_the_right_colours():
    """What the backbone decodes is the image made smaller by area."""
    image = decode_compressed(encode_jpeg(SMOOTH, 32, 24))

    expected = cv2.resize(SMOOTH, (32, 24), interpolation=cv2.INTER_AREA)
    assert image.shape == (24, 32, 3)
    assert np.abs(image.astype(int) - expected.astype(int)).mean() < 6


@pytest.mark.parametrize('size', [(640, 480), (1280, 720), (1920, 1080), (256, 256), (150, 140)])
def test_an_image_made_smaller_in_steps_is_the_one_made_smaller_at_once(size):
    """The steps that make it cheap change no pixel by more than rounding and edges do."""
    width, height = size
    rng = np.random.default_rng(3)
    blocks = rng.integers(0, 256, (9, 16, 3), dtype=np.uint8)
    image = cv2.resize(blocks, size, interpolation=cv2.INTER_CUBIC)

    shown = decode_compressed(encode_jpeg(image, 128, 128, quality=100)).astype(int)
    at_once = cv2.resize(image, (128, 128), interpolation=cv2.INTER_AREA)

    exact = decode_compressed(encode_jpeg(at_once, 128, 128, quality=100)).astype(int)
    assert np.abs(shown - exact).mean() < 1.0
    assert np.abs(shown - exact).max() <= 12
