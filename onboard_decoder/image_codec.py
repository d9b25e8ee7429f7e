# SPDX-License-Identifier: Apache-2.0
"""Camera data -> RGB array -> JPEG of the size that the backbone wants.

Knows pixel layouts by the names that ROS gives them, and no ROS.
"""

import cv2
import numpy as np
from numpy.typing import NDArray
from onboard_decoder.errors import ImageRefused
from onboard_decoder.manifest import Camera

Image = NDArray[np.uint8]

JPEG_QUALITY = 90
_HALVE_ABOVE = 1.5
_CHANNELS = {'rgb8': 3, 'bgr8': 3, 'rgba8': 4, 'bgra8': 4, 'mono8': 1}
_TO_RGB = {
    'bgr8': cv2.COLOR_BGR2RGB,
    'rgba8': cv2.COLOR_RGBA2RGB,
    'bgra8': cv2.COLOR_BGRA2RGB,
    'mono8': cv2.COLOR_GRAY2RGB,
}


def decode_raw(
    data: bytes | bytearray | memoryview, width: int, height: int, step: int, encoding: str
) -> Image:
    """Read raw pixels.

    Args:
      data: rows of ``step`` bytes each; bytes behind the pixels of a row are padding.
      width: pixels per row.
      height: rows.
      step: bytes per row.
      encoding: rgb8, bgr8, rgba8, bgra8 or mono8.

    Returns:
      (height, width, 3) RGB.

    Raises:
      ImageRefused: for another encoding or too few bytes.
    """
    channels = _CHANNELS.get(encoding)
    if channels is None:
        raise ImageRefused(f'image encoding is {encoding!r}; it must be one of {list(_CHANNELS)}')
    if width < 1 or height < 1 or step < width * channels:
        raise ImageRefused(f'image {width}x{height} {encoding} cannot have rows of {step} bytes')
    flat = np.frombuffer(data, np.uint8)
    if flat.size < step * height:
        raise ImageRefused(f'image has {flat.size} bytes; {height} rows of {step} are needed')
    rows = flat[:step * height].reshape(height, step)[:, :width * channels]
    pixels = np.ascontiguousarray(rows).reshape(height, width, channels)
    return pixels if encoding == 'rgb8' else _converted(pixels, _TO_RGB[encoding])


def decode_compressed(data: bytes | bytearray | memoryview) -> Image:
    """Read JPEG or PNG bytes as (height, width, 3) RGB. Raises ImageRefused for anything else."""
    flat = np.frombuffer(data, np.uint8)
    pixels = cv2.imdecode(flat, cv2.IMREAD_COLOR) if flat.size else None
    if pixels is None:
        raise ImageRefused(f'{flat.size} bytes are no whole JPEG or PNG')
    return _converted(np.asarray(pixels, dtype=np.uint8), cv2.COLOR_BGR2RGB)


def check_size(image: Image, camera: Camera) -> None:
    """Refuse an image of another size than the manifest's camera has."""
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise ImageRefused(
            f'image of camera {camera.name!r} has shape {image.shape} {image.dtype}; '
            f'it must be (height, width, 3) uint8'
        )
    height, width = image.shape[:2]
    if (width, height) != (camera.width_px, camera.height_px):
        raise ImageRefused(
            f'image of camera {camera.name!r} is {width}x{height}; the manifest has '
            f'{camera.width_px}x{camera.height_px}: set the camera to that size or calibrate anew'
        )


def encode_jpeg(image: Image, width: int, height: int, quality: int = JPEG_QUALITY) -> bytes:
    """Resize (height, width, 3) RGB by area and write a JPEG of a quality in 1..100."""
    image = _shrunk(image, width, height)
    if image.shape[:2] != (height, width):
        image = _resized(image, width, height)
    done, buffer = cv2.imencode(
        '.jpg', _converted(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, quality]
    )
    if not done:
        raise ImageRefused(f'image {width}x{height} cannot be written as JPEG')
    return bytes(buffer.tobytes())


def _shrunk(image: Image, width: int, height: int) -> Image:
    """Halve an image as long as it stays well above a size.

    By area, halves are several times faster than odd ratios, and the little that is left to do
    then costs a fourth for each. Nearer to the size, rounding to whole pixels would show.
    """
    rows, columns = image.shape[0] // 2, image.shape[1] // 2
    while rows >= _HALVE_ABOVE * height and columns >= _HALVE_ABOVE * width:
        image = _resized(image, columns, rows)
        rows, columns = rows // 2, columns // 2
    return image


def _resized(image: Image, width: int, height: int) -> Image:
    """Resize by area."""
    size = (width, height)
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)


def _converted(pixels: Image, code: int) -> Image:
    return np.asarray(cv2.cvtColor(pixels, code), dtype=np.uint8)
