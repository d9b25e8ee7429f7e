# SPDX-License-Identifier: Apache-2.0
"""What an evaluation changes about a scene, one axis at a time.

Axes: 'none' (as in training), 'visual' (light, texture, grey clutter), 'action' (start pose of
the arm, size and mass of the objects). Other words for the same task are `sim.instructions`'
business, other places and held-out pairs are the seed's and the split's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import get_args, Literal

from numpy.random import Generator
from sim.appearance import Appearance, draw_appearance, triple
from sim.entity import Entity
from sim.errors import SceneError
from sim.placement import Placement, TableFullError
from sim.scene import draw_clutter, SceneSpec

Axis = Literal['none', 'visual', 'action']
AXES = get_args(Axis)


def vary(scene: SceneSpec, axis: Axis, rng: Generator) -> SceneSpec:
    """Change a scene along one axis, keeping places and names.

    Raises:
        SceneError: an unknown axis.
    """
    if axis not in AXES:
        raise SceneError('axis', axis, AXES)
    if axis == 'visual':
        return replace(scene, appearance=_odd_look(rng, scene))
    if axis == 'action':
        joints = [*(q + rng.normal(0, 0.12) for q in scene.joints[:6]), scene.joints[6]]
        things = tuple(_odd_thing(rng, e) for e in scene.entities)
        return replace(scene, entities=things, joints=tuple(map(float, joints)))
    return scene


def _odd_look(rng: Generator, scene: SceneSpec) -> Appearance:
    """Stronger light from further aside, shadows, a tinted table, clutter between the things."""
    placement = Placement(
        [(e.x, e.y, e.yaw) for e in scene.entities if e.kind == 'bin'],
        [(e.x, e.y, e.yaw) for e in scene.entities if e.kind != 'bin'],
    )
    try:
        clutter = draw_clutter(rng, placement)
    except TableFullError:
        clutter = ()
    side = rng.choice([-1.0, 1.0])
    return replace(
        draw_appearance(rng, clutter),
        table_rgb=triple(rng.uniform(0.25, 0.75, 3)),
        light_from=(float(rng.uniform(0.2, 1.4)), float(side * rng.uniform(0.8, 1.6)), 1.2),
        light_strength=float(rng.uniform(0.6, 0.9)),
        ambient=float(rng.uniform(0.2, 0.35)),
        shadows=True,
    )


def _odd_thing(rng: Generator, entity: Entity) -> Entity:
    """An object up to a tenth smaller or larger and up to three times as heavy."""
    if entity.kind == 'bin':
        return entity
    scale = float(rng.uniform(0.9, 1.1))
    mass_kg = entity.mass_kg * float(rng.uniform(0.5, 3.0))
    return replace(entity, scale=scale, mass_kg=mass_kg, z=entity.z * scale)
