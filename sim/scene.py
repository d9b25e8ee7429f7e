# SPDX-License-Identifier: Apache-2.0
"""A scene drawn from a seed: entities, where they lie, how it looks, how the arm stands.

The same (seed, split, style) always gives the same scene. Knows nothing about rendering or
physics, and no language: `sim.instructions` speaks about a scene, `sim.tasks` judges it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
import math
from typing import Literal

import numpy as np
from numpy.random import Generator
from sim.appearance import Appearance, Clutter, draw_appearance, draw_shade
from sim.arm_pose import HOME, joints_over
from sim.entity import (
    BIN_COLOURS,
    BIN_WALL_M,
    Entity,
    HALF_HEIGHT_M,
    HELD_OUT,
    OBJECT_COLOURS,
    OBJECT_KINDS,
    RADIUS_M,
    STACKABLE_KINDS,
)
from sim.errors import SceneError
from sim.placement import Placement, Spot, TableFullError

Split = Literal['train', 'test']
Style = Literal['task', 'dataset']
Name = tuple[str, str]

SPLITS = ('train', 'test')
MAX_OBJECTS = 5
MAX_BINS = 3
MAX_CLUTTER = 2


@dataclass(frozen=True)
class SceneSpec:
    """Everything needed to show a scene.

    Attributes:
        seed: what it was drawn from; (seed, 0) for a scene of its own.
        split: 'train', or 'test' where held-out (colour, kind) pairs may appear.
        entities: objects and bins in any order.
        appearance: light, table, camera errors, clutter.
        joints: positions of the seven commanded joints, manifest order [rad], finger [m].
    """

    seed: tuple[int, ...]
    split: Split
    entities: tuple[Entity, ...]
    appearance: Appearance = Appearance()
    joints: tuple[float, ...] = HOME


def draw_scene(
    seed: int | Sequence[int], split: Split = 'train', style: Style = 'task'
) -> SceneSpec:
    """Draw a scene.

    Args:
        seed: one number or several; every one counts.
        split: 'train' leaves out the held-out pairs, 'test' shows them often.
        style: 'task' has all things apart on the table and the arm at home; 'dataset' adds
            finished tasks, held objects and other arm poses.

    Raises:
        SceneError: an unknown split.
    """
    if split not in SPLITS:
        raise SceneError('split', split, SPLITS)
    words = (seed,) if isinstance(seed, int) else tuple(int(s) for s in seed)
    rng = np.random.default_rng(np.random.SeedSequence([*words, SPLITS.index(split)]))
    while True:
        try:
            entities, clutter = _draw_things(rng, split, style)
            break
        except TableFullError:
            continue
    appearance = draw_appearance(rng, clutter)
    joints: tuple[float, ...] = HOME
    if style == 'dataset':
        entities, joints = _draw_arm(rng, entities)
    else:
        appearance = replace(appearance, shadows=False)  # they cost ten times the rest
    return SceneSpec(words, split, tuple(entities), appearance, joints)


def _draw_things(
    rng: Generator, split: Split, style: Style
) -> tuple[list[Entity], tuple[Clutter, ...]]:
    placement = Placement()
    bins = int(rng.integers(1, MAX_BINS + 1))
    colours = rng.choice(BIN_COLOURS, bins, replace=False)
    entities = [_entity(rng, 'bin', str(c), placement.add_bin(rng)) for c in colours]
    names = _draw_names(rng, int(rng.integers(2, MAX_OBJECTS + 1)), split)
    relation = 'none'
    if style == 'dataset':
        kinds = ['none', 'inside', 'stacked', 'touching']
        relation = str(rng.choice(kinds, p=[0.56, 0.22, 0.12, 0.10]))
    if relation == 'inside':
        entities += _fill_bins(rng, names, bins, entities)
    elif relation == 'stacked':
        entities += _stack(rng, names, placement, bins)
    elif relation == 'touching':
        entities += _touch(rng, names, placement, bins)
    for colour, kind in names:
        entities.append(_entity(rng, kind, colour, placement.add_object(rng)))
    clutter = draw_clutter(rng, placement) if rng.random() < 0.2 else ()
    return entities, clutter


def _draw_names(rng: Generator, count: int, split: Split) -> list[Name]:
    """Draw different (colour, kind) pairs; in the test split a third are held-out ones."""
    every = [(c, k) for c in OBJECT_COLOURS for k in OBJECT_KINDS]
    known = [name for name in every if name not in HELD_OUT]
    names: list[Name] = []
    while len(names) < count:
        pool = HELD_OUT if split == 'test' and rng.random() < 0.3 else known
        name = pool[rng.integers(len(pool))]
        if name not in names:
            names.append(name)
    return names


def _entity(rng: Generator, kind: str, colour: str, spot: Spot) -> Entity:
    x, y, yaw = spot
    return Entity(kind, colour, x, y, HALF_HEIGHT_M[kind], yaw, rgb=draw_shade(rng, colour))


def _take(rng: Generator, names: list[Name], kinds: Sequence[str]) -> Name:
    """Remove and return a random name of one of these kinds.

    Raises:
        TableFullError: there is none; the scene is drawn again.
    """
    fit = [name for name in names if name[1] in kinds]
    if not fit:
        raise TableFullError
    name = fit[rng.integers(len(fit))]
    names.remove(name)
    return name


def _fill_bins(
    rng: Generator, names: list[Name], bins: int, all_bins: list[Entity]
) -> list[Entity]:
    """Lay one or two objects into bins; at least one object stays on the table."""
    filled: list[Entity] = []
    count = 2 if len(names) > 2 and rng.random() < 0.35 else 1
    for _ in range(count):
        index = int(rng.integers(bins))
        colour, kind = _take(rng, names, OBJECT_KINDS)
        home = all_bins[index]
        others = [e for e in filled if e.inside == index]
        while True:
            u, v = rng.uniform(-0.026, 0.026, 2)
            c, s = math.cos(home.yaw), math.sin(home.yaw)
            x, y = home.x + c * u - s * v, home.y + s * u + c * v
            if all(math.hypot(x - o.x, y - o.y) > 0.052 for o in others):
                break
            if rng.random() < 0.01:
                raise TableFullError
        spot = (x, y, float(home.yaw + rng.uniform(-0.3, 0.3)))
        lies = kind == 'cylinder' and rng.random() < 0.3
        z = BIN_WALL_M + (RADIUS_M if lies else HALF_HEIGHT_M)[kind]
        thing = _entity(rng, kind, colour, spot)
        filled.append(replace(thing, z=z, roll=math.pi / 2 * lies, inside=index))
    return filled


def _stack(rng: Generator, names: list[Name], placement: Placement, first: int) -> list[Entity]:
    """Stand one object on another; the lower one gets index `first`; others stay on the table."""
    if len(names) < 3:
        raise TableFullError
    lower, upper = (_take(rng, names, STACKABLE_KINDS) for _ in range(2))
    x, y, yaw = placement.add_object(rng)
    base = _entity(rng, lower[1], lower[0], (x, y, yaw))
    dx, dy, turn = rng.normal(0, 0.003, 2).tolist() + [float(rng.normal(0, 0.15))]
    top = _entity(rng, upper[1], upper[0], (x + dx, y + dy, yaw + turn))
    z = 2 * base.half_height_m + top.half_height_m
    return [base, replace(top, z=z, inside=first)]


def _touch(rng: Generator, names: list[Name], placement: Placement, bins: int) -> list[Entity]:
    """Stand one object against the wall of a bin."""
    colour, kind = _take(rng, names, STACKABLE_KINDS)
    index = int(rng.integers(bins))
    entity = _entity(rng, kind, colour, placement.add_beside(rng, index))
    return [replace(entity, touching=index)]


def draw_clutter(rng: Generator, placement: Placement) -> tuple[Clutter, ...]:
    """Draw one or two grey things on free spots, none if the table is full."""
    clutter = []
    for _ in range(int(rng.integers(1, MAX_CLUTTER + 1))):
        try:
            x, y, yaw = placement.add_object(rng)
        except TableFullError:
            break
        a, b, c = rng.uniform([0.01, 0.01, 0.004], [0.03, 0.03, 0.02]).tolist()
        clutter.append(Clutter(x, y, yaw, (a, b, c), float(rng.uniform(0.3, 0.6))))
    return tuple(clutter)


def _draw_arm(
    rng: Generator, entities: list[Entity]
) -> tuple[list[Entity], tuple[float, ...]]:
    """Draw an arm pose: near home, somewhere over the table, or holding an object there."""
    style = rng.choice(['home', 'over', 'held'], p=[0.5, 0.3, 0.2])
    free = [i for i, e in enumerate(entities) if _is_free(entities, i)]
    if style == 'held' and len(free) >= 2:
        return _hold(rng, entities, free[rng.integers(len(free))])
    if style == 'home' or style == 'held':
        noise = rng.normal(0, [0.05] * 6 + [0.0])
        home = np.array(HOME) + noise
        home[6] = rng.uniform(0.0, 0.042) if rng.random() < 0.5 else HOME[6]
        return entities, tuple(map(float, home))
    return entities, _joints_anywhere(rng, float(rng.uniform(0.0, 0.042)))


def _is_free(entities: Sequence[Entity], index: int) -> bool:
    entity = entities[index]
    covered = any(other.inside == index for other in entities)
    return entity.kind != 'bin' and entity.inside < 0 and entity.touching < 0 and not covered


def _joints_anywhere(rng: Generator, finger: float, lowest_m: float = 0.12) -> tuple[float, ...]:
    while True:
        x, y = rng.uniform(0.28, 0.58), rng.uniform(-0.26, 0.26)
        z, yaw = rng.uniform(lowest_m, 0.36), rng.uniform(-1.2, 1.2)
        try:
            return joints_over(x, y, z, yaw, finger)
        except SceneError:
            continue


def _hold(
    rng: Generator, entities: list[Entity], index: int
) -> tuple[list[Entity], tuple[float, ...]]:
    """Put one free object between the closed fingers."""
    while True:
        x, y = rng.uniform(0.30, 0.58), rng.uniform(-0.24, 0.24)
        z, yaw = rng.uniform(0.10, 0.32), rng.uniform(-1.0, 1.0)
        entity = entities[index]
        try:
            joints = joints_over(x, y, z, yaw, RADIUS_M[entity.kind])
        except SceneError:
            continue
        along = rng.uniform(-0.003, 0.006)
        at = float(x), float(y), float(z + along), float(yaw)
        held = replace(entity, held=True, x=at[0], y=at[1], z=at[2], yaw=at[3])
        return [*entities[:index], held, *entities[index + 1:]], joints
