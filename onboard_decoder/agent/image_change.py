# SPDX-License-Identifier: Apache-2.0
"""How much two images of one camera differ around some points: cheap, and deaf to pixel noise.

Knows pixels; not what they show.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.image_codec import Image

Point = tuple[float, float]
"""x to the right and y down, in 0..1 from the top left corner."""

_NOISE = 30  # difference of a pixel's value, of 255, that may be noise


def changed_share(
    before: Image, after: Image, points: Iterable[Point] = (), radius: float = 0.1
) -> float:
    """Return the share of pixels that differ, 0..1: of the patch that differs most.

    Args:
      before: (height, width, 3) RGB.
      after: the same camera's, later. Another size counts as changed all over.
      points: centres of square patches; the whole image where there are none.
      radius: half of a patch's side, as share of the image's width.
    """
    if before.shape != after.shape:
        return 1.0
    patches = [_patch(before.shape, point, radius) for point in points]
    return max(
        (_share(before[patch], after[patch]) for patch in patches),
        default=0.0 if patches else _share(before, after),
    )


def _patch(
    shape: tuple[int, ...], point: Point, radius: float
) -> tuple[slice, slice]:
    """Return rows and columns of a patch, at least one pixel."""
    height, width = shape[:2]
    half = max(1, round(radius * width))
    x = min(max(round(point[0] * width), 0), width - 1)
    y = min(max(round(point[1] * height), 0), height - 1)
    return slice(max(0, y - half), y + half + 1), slice(max(0, x - half), x + half + 1)


def _share(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> float:
    """Return the share of pixels with a channel that differs by more than noise."""
    difference = np.abs(before.astype(np.int16) - after.astype(np.int16)).max(axis=2)
    return float((difference > _NOISE).mean())
