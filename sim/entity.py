# SPDX-License-Identifier: Apache-2.0
"""What can stand on the table: kinds, colours, sizes, and one entity with its pose.

Knows lengths and names only; nothing about MuJoCo, images or language.
"""

from __future__ import annotations

from dataclasses import dataclass

from sim.errors import SceneError

KINDS = ('cube', 'ball', 'cylinder', 'bin')
COLOURS = ('red', 'green', 'blue', 'yellow', 'purple', 'orange', 'white', 'black')
OBJECT_KINDS = KINDS[:3]
OBJECT_COLOURS = COLOURS[:6]
BIN_COLOURS = COLOURS
STACKABLE_KINDS = ('cube', 'cylinder')

# (colour, kind) pairs that no training scene and no training instruction ever shows.
HELD_OUT = (('green', 'ball'), ('purple', 'cube'), ('yellow', 'cylinder'))

RADIUS_M = {'cube': 0.022, 'ball': 0.022, 'cylinder': 0.021, 'bin': 0.060}
HALF_HEIGHT_M = {'cube': 0.022, 'ball': 0.022, 'cylinder': 0.025, 'bin': 0.025}
BIN_WALL_M = 0.006

# Plain paint colours, RGB in 0..1.
PAINT = {
    'red': (0.80, 0.06, 0.08),
    'green': (0.08, 0.58, 0.16),
    'blue': (0.08, 0.22, 0.82),
    'yellow': (0.93, 0.82, 0.08),
    'purple': (0.48, 0.12, 0.62),
    'orange': (0.96, 0.45, 0.04),
    'white': (0.93, 0.93, 0.92),
    'black': (0.07, 0.07, 0.08),
}


@dataclass(frozen=True)
class Entity:
    """One object or bin.

    Attributes:
        kind: one of KINDS.
        colour: one of COLOURS.
        x, y, z: geometric centre in the robot base frame [m].
        yaw: rotation about z [rad].
        roll: rotation about its own x axis, applied first [rad]; pi / 2 for a cylinder that lies.
        inside: index of the bin it lies in or of the object it stands on, else -1.
        touching: index of the bin whose wall it was pushed against, else -1.
        held: True while the gripper holds it.
        rgb: painted colour, 0..1.
        scale: factor on the nominal size.
        mass_kg: mass of an object; bins have their own.
        firm: share of an object's height, from below, that resists what touches it; what is above
            is as soft as air.
    """

    kind: str
    colour: str
    x: float
    y: float
    z: float
    yaw: float = 0.0
    roll: float = 0.0
    inside: int = -1
    touching: int = -1
    held: bool = False
    rgb: tuple[float, float, float] = (0.5, 0.5, 0.5)
    scale: float = 1.0
    mass_kg: float = 0.08
    firm: float = 1.0

    def __post_init__(self) -> None:
        """Refuse kinds and colours that no other part could name."""
        if self.kind not in KINDS:
            raise SceneError('kind of an entity', self.kind, KINDS)
        colours = BIN_COLOURS if self.kind == 'bin' else OBJECT_COLOURS
        if self.colour not in colours:
            raise SceneError(f'colour of a {self.kind}', self.colour, colours)

    @property
    def name(self) -> str:
        """Words for people: 'red cube'."""
        return f'{self.colour} {self.kind}'

    @property
    def half_height_m(self) -> float:
        """Half of the height [m], with the scale applied."""
        return HALF_HEIGHT_M[self.kind] * self.scale

    @property
    def radius_m(self) -> float:
        """Half side of a cube or bin, radius of a ball or cylinder [m]."""
        return RADIUS_M[self.kind] * self.scale
