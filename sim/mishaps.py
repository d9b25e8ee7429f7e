# SPDX-License-Identifier: Apache-2.0
"""What may go wrong with a task, drawn from a seed, and scenes prepared for it.

- 'moved': when the fingers come near the thing for the first time, a hand shifts it by 4 to 7 cm,
  or farther where there is no room.
- 'dropped': once, on the way, the fingers lose the thing, and it lies at a free place.
- 'blocked': another thing stands where this one should go, until a person clears it away.
- 'slick': the fingers lose the thing whenever they carry it at the usual speed.
- 'flat': only the lowest 12 mm of the thing are firm, though it looks like any other: fingers at
  the usual height find nothing to hold.
- 'hand_move': a hand moves the thing to another free place at a given time.

'flat' and 'blocked' are all in the scene that `prepare` makes; `sim.mischief` does the rest while
the robot works. Nothing here says what a robot should do about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import get_args, Literal

import numpy as np
from numpy.random import Generator
from sim.appearance import draw_shade
from sim.entity import (
    BIN_WALL_M,
    Entity,
    HALF_HEIGHT_M,
    HELD_OUT,
    OBJECT_COLOURS,
    STACKABLE_KINDS,
)
from sim.errors import SceneError
from sim.scene import SceneSpec
from sim.tasks import Task, TaskKind

MishapKind = Literal['none', 'moved', 'dropped', 'blocked', 'slick', 'flat', 'hand_move']
MISHAP_KINDS: tuple[MishapKind, ...] = get_args(MishapKind)
MISHAPS: tuple[MishapKind, ...] = ('moved', 'dropped', 'blocked', 'slick', 'flat')
"""Those that a benchmark draws; 'hand_move' is an experiment of its own."""

FIRM_M = 0.012
_CARRIED: tuple[TaskKind, ...] = ('pick', 'put', 'stack')
_TASKS: dict[MishapKind, tuple[TaskKind, ...]] = {
    'none': ('pick', 'put', 'stack', 'push', 'absent'),
    'moved': ('pick', 'put', 'stack', 'push'),
    'dropped': _CARRIED,
    'blocked': ('put', 'stack'),
    'slick': _CARRIED,
    'flat': _CARRIED,
    'hand_move': ('pick', 'put', 'stack', 'push'),
}


@dataclass(frozen=True)
class Mishap:
    """Something that goes wrong.

    Attributes:
        kind: one of MISHAP_KINDS.
        seed: of all further choices.
        thing: index of the thing to handle, -1 if it is absent.
        place: index of the place, -1 if there is none.
        at_s: simulated time of a 'hand_move' [s]; it waits until nothing is in its way.
    """

    kind: MishapKind
    seed: int
    thing: int
    place: int
    at_s: float = 0.0

    def rng(self, *words: int) -> Generator:
        """Give a generator of this mishap's choices."""
        return np.random.default_rng(np.random.SeedSequence([self.seed, 47, *words]))


def fits(kind: MishapKind, task: Task) -> bool:
    """Say whether a mishap can happen to a task."""
    return task.kind in _TASKS[kind]


def draw_mishap(seed: int, task: Task, kinds: Sequence[MishapKind] = MISHAPS) -> Mishap:
    """Draw one of the kinds that fit a task; 'none' if none of them does.

    Raises:
        SceneError: an unknown kind.
    """
    for kind in kinds:
        if kind not in MISHAP_KINDS:
            raise SceneError('kind of mishap', kind, MISHAP_KINDS)
    able = [kind for kind in kinds if fits(kind, task)]
    rng = np.random.default_rng(np.random.SeedSequence([seed, 46]))
    kind = able[rng.integers(len(able))] if able else 'none'
    return Mishap(kind, seed, task.a, task.b)


def hand_move(seed: int, task: Task, at_s: float) -> Mishap:
    """Make a mishap in which a hand moves the thing to be handled at a time [s].

    Raises:
        SceneError: the task has no thing that could be moved.
    """
    if not fits('hand_move', task):
        raise SceneError('task of a moving hand', task.kind, _TASKS['hand_move'])
    return Mishap('hand_move', seed, task.a, task.b, at_s)


def prepare(scene: SceneSpec, mishap: Mishap) -> SceneSpec:
    """Return the scene in which a mishap can happen."""
    if mishap.kind == 'flat':
        return _replaced(scene, mishap.thing, flattened(scene.entities[mishap.thing]))
    if mishap.kind == 'blocked':
        return _blocked(scene, mishap)
    return scene


def flattened(entity: Entity) -> Entity:
    """Return an object that is firm up to FIRM_M above its bottom."""
    return replace(entity, firm=FIRM_M / (2 * entity.half_height_m))


def _blocked(scene: SceneSpec, mishap: Mishap) -> SceneSpec:
    """Stand a thing at the place: a spare one of the scene, else a new one, for a spare ball."""
    rng, things = mishap.rng(1), scene.entities
    place = things[mishap.place]
    spare = [
        i for i, thing in enumerate(things)
        if thing.kind != 'bin' and i not in (mishap.thing, mishap.place)
    ]
    steady = [i for i in spare if things[i].kind in STACKABLE_KINDS]
    thing = things[steady[rng.integers(len(steady))]] if steady else _new_thing(rng, things)
    floor = BIN_WALL_M if place.kind == 'bin' else 2 * place.half_height_m
    x, y, turn = rng.normal(0.0, [0.003, 0.003, 0.15]).tolist()
    standing = replace(
        thing, x=place.x + x, y=place.y + y, z=floor + thing.half_height_m,
        yaw=place.yaw + turn, inside=mishap.place,
    )
    if not spare:
        return replace(scene, entities=(*things, standing))
    return _replaced(scene, things.index(thing) if steady else spare[0], standing)


def _new_thing(rng: Generator, things: Sequence[Entity]) -> Entity:
    here = {(thing.colour, thing.kind) for thing in things}
    names = [
        (colour, kind) for colour in OBJECT_COLOURS for kind in STACKABLE_KINDS
        if (colour, kind) not in (*here, *HELD_OUT)
    ]
    colour, kind = names[rng.integers(len(names))]
    return Entity(kind, colour, 0.0, 0.0, HALF_HEIGHT_M[kind], rgb=draw_shade(rng, colour))


def _replaced(scene: SceneSpec, index: int, entity: Entity) -> SceneSpec:
    things = scene.entities
    return replace(scene, entities=(*things[:index], entity, *things[index + 1:]))
