# SPDX-License-Identifier: Apache-2.0
import itertools

import numpy as np
from onboard_decoder.agent.task_result import TaskOutcome, TrialEnd
from onboard_decoder.planner_port import Link
from onboard_decoder.task_memory import Purpose
import pytest

from tests.onboard_decoder.agent.react_world import (
    ASK,
    DONE,
    grasp,
    LOOK,
    NO,
    place,
    PUT,
    ReactWorld,
    STOP,
)
from tests.onboard_decoder.gantry import gantry

ONE = {'agent.max_trials': 1, 'agent.lessons_in_use': 0}


@pytest.fixture
def manifest(tmp_path):
    """The gantry."""
    return gantry(tmp_path)


def changing(world):
    """Let every image be another one."""
    world.image = np.random.default_rng(len(world.arm.commands)).integers(
        0, 256, world.image.shape, np.uint8)


def elsewhere():
    """Grasps that miss at another place each time."""
    return [grasp(y=-0.3 + 0.02 * number) for number in range(40)]


def silent(world):
    """No image comes any more."""
    world.has_images = False


def unlinked(world):
    """No backbone can be reached."""
    world.port.link = Link.LOST


LOOSE = {
    'agent.max_same_failures': 50, 'agent.max_repeats': 20, 'agent.max_fruitless': 50,
    'agent.max_refusals': 20,
}
CASES = {
    TrialEnd.STEP_LIMIT: ([LOOK], {**LOOSE, 'agent.max_steps': 3}, None),
    TrialEnd.EXHAUSTED: ([grasp()], {'agent.max_repeats': 1}, None),
    TrialEnd.NO_PROGRESS: (elsewhere(), {**LOOSE, 'agent.max_fruitless': 2}, changing),
    TrialEnd.BAD_CALLS: ([NO], {}, None),
    TrialEnd.REFUSALS: ([place()], {**LOOSE, 'agent.max_refusals': 2}, changing),
    TrialEnd.OVERCLAIM: ([DONE], {}, None),
    TrialEnd.GAVE_UP: ([grasp(), STOP], {}, None),
    TrialEnd.UNANSWERED: ([ASK, STOP], {'agent.ask_wait_s': 0.5}, None),
    TrialEnd.TURN_LIMIT: (elsewhere(), {**LOOSE, 'agent.max_turns': 2}, changing),
    TrialEnd.TOKEN_LIMIT: ([LOOK], {**LOOSE, 'agent.max_tokens': 100}, None),
    TrialEnd.TIME_LIMIT: ([grasp()], {'limits.max_task_s': 2.0}, None),
    TrialEnd.NO_IMAGE: ([grasp()], {}, silent),
    TrialEnd.NO_ANSWER: ([grasp()], {'limits.planner_wait_s': 1.0}, unlinked),
}


@pytest.mark.parametrize('end', CASES, ids=lambda end: end.value)
def test_each_limit_ends_the_task_with_a_status_of_its_own(manifest, end):
    """A limit is a failure, is named, and leaves the arm at rest."""
    acts, settings, each_step = CASES[end]
    world = ReactWorld(manifest, acts, {**ONE, **settings}, looks=[NO])
    world.port.tokens = 60
    world.each_step = each_step or world.each_step
    world.robot.ask(PUT)

    result = world.run(limit_s=100).result
    for _ in range(50):
        world.step()

    assert (result.outcome, result.end) == (TaskOutcome.FAILED, end)
    assert result.reason
    assert world.robot.is_at_rest
    assert not world.robot.is_busy


def test_the_same_call_is_made_again_while_the_scene_changes(manifest):
    """Only a call that fails in front of an unchanged image counts as a repetition."""
    counts = {}
    for name, each_step in (('still', None), ('changing', changing)):
        world = ReactWorld(manifest, [grasp()], {
            **ONE, 'agent.max_same_failures': 5, 'agent.max_fruitless': 50})
        world.each_step = each_step or world.each_step
        world.robot.ask(PUT)
        result = world.run(limit_s=100).result
        assert result.end is TrialEnd.EXHAUSTED
        counts[name] = len(world.results())

    assert counts == {'still': 2, 'changing': 5}


def test_a_full_memory_of_failures_stays_bounded(manifest):
    """No trial has more entries than the limit, whatever the backbone wants."""
    acts = itertools.cycle([LOOK, grasp(), LOOK, grasp(y=0.2)])
    world = ReactWorld(manifest, [lambda turn: next(acts)], {
        **LOOSE, 'agent.max_steps': 4, 'agent.max_trials': 2, 'limits.max_task_s': 500.0,
        'agent.lessons_in_use': 0})
    world.robot.ask(PUT)
    result = world.run(limit_s=200).result

    assert (result.end, result.steps) == (TrialEnd.STEP_LIMIT, 8)
    assert max(len(turn.memory.entries) for turn in world.port.turns) == 4


def test_each_trial_brings_its_time(manifest):
    """What a trial leaves of it is good for the next one; the sum is bounded."""
    ends_s = {}
    for trials in (1, 2):
        world = ReactWorld(manifest, [grasp()], {
            **LOOSE, 'limits.max_task_s': 8.0, 'agent.max_trials': trials,
            'agent.max_same_failures': 1, 'agent.lessons_in_use': 0})
        world.port.scripts[Purpose.ACT] = [grasp(y=0.3), None][:trials]
        world.robot.ask(PUT)
        ends_s[trials] = world.run(limit_s=60).result.duration_s

    assert ends_s[1] < 8.0 < ends_s[2] <= 16.1
