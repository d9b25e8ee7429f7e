# SPDX-License-Identifier: Apache-2.0
"""JPEG bytes become an RGB image, or a refusal that names what is wrong.

The size is read from the header, so that a small file cannot unpack into a huge image.
Knows JPEG; knows no model and no session.
"""

from __future__ import annotations

from cloud_backbone.errors import FixRequestError, Reason
import cv2
import numpy as np
from numpy.typing import NDArray

START, END = b'\xff\xd8', b'\xff\xd9'
# Start-of-frame markers: all from C0 to CF but DHT (C4), JPG (C8) and DAC (CC).
FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
ALONE = frozenset((0x01, *range(0xD0, 0xD8)))


def check_jpeg(data: bytes, size: tuple[int, int]) -> None:
    """Refuse what is not a whole JPEG of this size (width, height) [px], without decoding it.

    Raises:
        FixRequestError: with both sizes, or with what is missing.
    """
    if not data:
        raise _refusal('the image is empty, a JPEG was expected')
    found = jpeg_size(data)
    if found is None:
        raise _refusal(f'the image ({len(data)} bytes) is no JPEG: it has no frame header')
    if found != size:
        raise _refusal(
            f'the image is {found[0]} x {found[1]} px, this backbone wants {size[0]} x {size[1]}'
        )
    if not data.rstrip(b'\0').endswith(END):
        raise _refusal(f'the JPEG ({len(data)} bytes) is truncated: its end marker is missing')


def jpeg_size(data: bytes) -> tuple[int, int] | None:
    """Return (width, height) [px] from the header of a JPEG, or None if there is none."""
    if not data.startswith(START):
        return None
    place = 2
    while place + 9 <= len(data):
        if data[place] != 0xFF:
            return None
        marker = data[place + 1]
        if marker == 0xFF:  # padding
            place += 1
        elif marker in ALONE:
            place += 2
        elif marker in FRAMES:
            height = int.from_bytes(data[place + 5 : place + 7], 'big')
            width = int.from_bytes(data[place + 7 : place + 9], 'big')
            return width, height
        else:
            place += 2 + max(int.from_bytes(data[place + 2 : place + 4], 'big'), 2)
    return None


def decode_jpeg(data: bytes, size: tuple[int, int]) -> NDArray[np.uint8]:
    """Return the RGB image (height, width, 3).

    Raises:
        FixRequestError: the file cannot be decoded to this size (width, height) [px].
    """
    check_jpeg(data, size)
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    image = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    if image is None or image.shape != (size[1], size[0], 3):
        raise _refusal(f'the JPEG ({len(data)} bytes) cannot be decoded')
    return np.ascontiguousarray(image[:, :, ::-1], dtype=np.uint8)


def _refusal(message: str) -> FixRequestError:
    return FixRequestError(Reason.BAD_IMAGE, message)
