# SPDX-License-Identifier: Apache-2.0
"""Moments in the middle of tasks."""

from collections import Counter
from itertools import chain

import numpy as np
import pytest
from sim.agent_situations import draw_situations
from sim.entity import HELD_OUT
from sim.scene import draw_scene, SceneSpec
from sim.situation import Situation

SCENES = [draw_scene((3, number), 'train', 'dataset') for number in range(150)]


def drawn(scene: SceneSpec, seed: int) -> list[Situation]:
    """Draw moments about a scene."""
    return draw_situations(np.random.default_rng(seed), scene.entities, 8)


MOMENTS = [(scene, moment) for i, scene in enumerate(SCENES) for moment in drawn(scene, i)]


def test_the_same_seed_gives_the_same_moments() -> None:
    """Everything is drawn from the generator."""
    assert drawn(SCENES[0], 1) == drawn(SCENES[0], 1)


def test_every_call_is_drawn() -> None:
    """No tool, manner or lesson is missing in a data set of some size."""
    seen = Counter((moment.tool, moment.manner) for _, moment in MOMENTS)
    tools = {'grasp', 'place', 'stack', 'push', 'release', 'ask', 'look', 'done', 'stop'}
    assert tools <= {tool for tool, _ in seen}
    assert {('grasp', 'slowly'), ('grasp', 'low'), ('place', 'slowly')} <= set(seen)
    assert {('lesson', fact) for fact in ('slips', 'low', 'moves')} <= set(seen)


@pytest.mark.parametrize(('tool', 'hand'), [
    ('grasp', False), ('push', False), ('place', True), ('stack', True), ('release', True),
])
def test_calls_fit_the_hand(tool: str, hand: bool) -> None:
    """Nothing is grasped with a full hand, nothing placed with an empty one."""
    assert all(m.hand == hand for _, m in MOMENTS if m.tool == tool)
    assert all(m.holding <= m.hand for _, m in MOMENTS)


def test_a_lesson_about_the_thing_decides_the_manner() -> None:
    """What slips is grasped slowly, what is low low; lessons about others do not count."""
    for _, moment in MOMENTS:
        facts = {fact for fact, name in moment.lessons if name == moment.a}
        if moment.tool == 'grasp':
            wanted = 'low' if 'low' in facts else 'slowly' if 'slips' in facts else ''
            assert moment.manner == wanted


def test_a_person_is_asked_only_where_the_place_is_taken() -> None:
    """The place of an ask carries something else in the scene."""
    for scene, moment in MOMENTS:
        if moment.tool == 'ask':
            assert any(entity.inside == moment.b_index for entity in scene.entities)


def test_what_is_absent_is_looked_for_once() -> None:
    """The first answer is to look again, the second to stop."""
    for _, moment in MOMENTS:
        if moment.a_index < 0:
            looked = (('look', None, ''), 'seen') in moment.history
            assert moment.tool == ('stop' if looked else 'look')


def test_held_out_pairs_are_never_named() -> None:
    """Training moments and their lessons keep to pairs of the training."""
    for _, moment in MOMENTS:
        names = chain([moment.a, moment.b], (name for _, name in moment.lessons))
        assert not set(names) & set(HELD_OUT)
