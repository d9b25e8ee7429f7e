# SPDX-License-Identifier: Apache-2.0
"""How a scene looks: table, light, small camera errors, grey clutter, shades of the paint.

Draws numbers only. `sim.world` writes them into the MuJoCo model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from sim.entity import PAINT

Triple = tuple[float, float, float]

TEXTURES = ('plain', 'wood', 'noise', 'checker', 'cloth')


@dataclass(frozen=True)
class Clutter:
    """A grey thing that no instruction ever names.

    Attributes:
        x, y: centre in the robot base frame [m].
        yaw: rotation about z [rad].
        size: half lengths of the box [m].
        grey: brightness, 0..1.
    """

    x: float
    y: float
    yaw: float
    size: Triple
    grey: float


@dataclass(frozen=True)
class Appearance:
    """Everything about the look of a scene that is not an entity.

    Attributes:
        table_rgb: tint of the table, 0..1.
        table_texture: one of TEXTURES.
        light_from: where the lamp hangs in the robot base frame [m].
        light_strength: diffuse brightness of the lamp, 0..1.
        ambient: brightness of the room, 0..1.
        shadows: whether the lamp casts shadows.
        camera_shift: displacement of the camera from its calibration [m].
        camera_turn: rotation vector of the camera away from its calibration [rad].
        clutter: grey things on the table.
    """

    table_rgb: Triple = (0.62, 0.58, 0.52)
    table_texture: str = 'plain'
    light_from: Triple = (0.6, 0.5, 1.6)
    light_strength: float = 0.5
    ambient: float = 0.42
    shadows: bool = False
    camera_shift: Triple = (0.0, 0.0, 0.0)
    camera_turn: Triple = (0.0, 0.0, 0.0)
    clutter: tuple[Clutter, ...] = ()


def triple(values: np.ndarray) -> Triple:
    """Turn an array of three numbers into a hashable triple."""
    return float(values[0]), float(values[1]), float(values[2])


def draw_appearance(rng: Generator, clutter: tuple[Clutter, ...] = ()) -> Appearance:
    """Draw a random look.

    The table stays between dark grey and pale wood, so that neither a black nor a white bin
    melts into it.
    """
    value = rng.uniform(0.28, 0.75)
    warmth = rng.normal(0.0, 0.035)
    table = np.clip(value + np.array([warmth, 0.3 * warmth, -warmth]), 0.2, 0.82)
    table = np.clip(table + rng.normal(0, 0.02, 3), 0.2, 0.82)
    return Appearance(
        table_rgb=triple(table),
        table_texture=str(rng.choice(TEXTURES, p=[0.4, 0.2, 0.15, 0.1, 0.15])),
        light_from=triple(np.array([0.5, 0.0, 1.6]) + rng.uniform(-1, 1, 3) * [0.8, 1.0, 0.4]),
        light_strength=float(rng.uniform(0.3, 0.7)),
        ambient=float(rng.uniform(0.3, 0.5)),
        shadows=bool(rng.random() < 0.3),
        camera_shift=triple(rng.normal(0, 0.003, 3)),
        camera_turn=triple(rng.normal(0, 0.003, 3)),
        clutter=clutter,
    )


def draw_shade(rng: Generator, colour: str) -> Triple:
    """Draw a shade of a paint colour, RGB in 0..1."""
    paint = np.array(PAINT[colour]) * rng.uniform(0.85, 1.08) + rng.normal(0, 0.02, 3)
    return triple(np.clip(paint, 0.02, 1.0))
