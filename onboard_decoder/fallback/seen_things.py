# SPDX-License-Identifier: Apache-2.0
"""From the readings of an image's cells to where a named thing is, and how sure that is.

The likelihoods of all cells for a name make a heat map; its peak is read at sub-pixel precision.
Knows arrays and names; nothing of sentences, cameras or plans.
"""

from __future__ import annotations

from dataclasses import dataclass
import math

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.agent.image_change import Point
from onboard_decoder.fallback.onboard_model import About, Kind, Reading

Array = NDArray[np.float64]

SAME_THING = 0.06
"""Cells nearer to each other than this see one thing [share of the image side]."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Where a thing with a name is most likely, and what else is known of it there.

    ``likelihood`` is of the name at ``point`` and ``second`` of the same name elsewhere, 0 to 1;
    ``is_supported``: it lies in or on another thing; ``yaw_rad`` in the base frame, 0 for a thing
    that is round.
    """

    point: Point
    likelihood: float
    second: float
    is_supported: bool
    is_held: bool
    yaw_rad: float


class Picture:
    """One image as it was read."""

    def __init__(self, reading: Reading, about: About) -> None:
        self._reading, self._about = reading, about
        self._presence = _sigmoid(reading.presence)  # (2, rows, columns)
        side = reading.presence.shape[-1]
        columns, rows = np.meshgrid(np.arange(side), np.arange(side))
        corner = np.stack([columns, rows])  # (2, rows, columns), x and y
        self._points = (corner + reading.offset) / side  # (2 slots, 2, rows, columns)

    def find(self, colour: str, kind: Kind) -> Seen:
        """Return where this thing is most likely, however unlikely that is."""
        slot = int(kind.is_container)
        heat = self._heat(colour, kind)
        points = self._points[slot]
        row, column = np.unravel_index(int(heat.argmax()), heat.shape)
        peak = points[:, row, column]
        near = np.linalg.norm(points - peak[:, None, None], axis=0) < SAME_THING
        weights = heat * near
        x, y = (points * weights).sum(axis=(1, 2)) / max(float(weights.sum()), 1e-12)
        elsewhere = float(heat[~near].max(initial=0.0))
        state = self._reading.state[:, row, column] > 0
        return Seen(
            (float(np.clip(x, 0, 1)), float(np.clip(y, 0, 1))), float(heat[row, column]),
            elsewhere, bool(state[0]) and slot == 0, bool(state[1]) and slot == 0,
            self._yaw(row, column) if kind.name == 'cube' else 0.0,
        )

    def things_near(self, point: Point, radius: float) -> float:
        """Return how likely any thing, no container, is nearer to a point than ``radius``."""
        offset = self._points[0] - np.array(point)[:, None, None]
        near = np.linalg.norm(offset, axis=0) < radius
        return float(self._presence[0][near].max(initial=0.0))

    def _heat(self, colour: str, kind: Kind) -> Array:
        """Return the likelihood of a name in every cell, (rows, columns)."""
        reading, slot = self._reading, int(kind.is_container)
        number = self._about.colours.index(colour)
        heat = self._presence[slot] * _softmax(reading.colour[slot])[number]
        if not kind.is_container:
            names = [k.name for k in self._about.kinds if not k.is_container]
            heat = heat * _softmax(reading.kind)[names.index(kind.name)]
        return np.asarray(heat, dtype=np.float64)

    def _yaw(self, row: int | np.int64, column: int | np.int64) -> float:
        sine, cosine = self._reading.turn[:, row, column]
        return math.atan2(float(sine), float(cosine)) / 4


def _sigmoid(logits: NDArray[np.float32]) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(logits, -40, 40))), dtype=np.float64)


def _softmax(logits: NDArray[np.float32]) -> Array:
    """Return shares of 1 along the first axis."""
    powers = np.exp(logits - logits.max(axis=0, keepdims=True))
    return np.asarray(powers / powers.sum(axis=0, keepdims=True), dtype=np.float64)
