# SPDX-License-Identifier: Apache-2.0
from collections import Counter
from dataclasses import replace
import random

from hypothesis import given, HealthCheck, Phase, settings
from hypothesis import strategies as st
import numpy as np
from onboard_decoder.agent.react_state import NEXT, State
from onboard_decoder.agent.task_result import TaskOutcome, TrialEnd
from onboard_decoder.clock import to_ns
from onboard_decoder.planner_port import Link, Remedy, TurnAnswer, TurnFailure
from onboard_decoder.task_memory import Purpose, StepResult, Tool
import pytest

from tests.onboard_decoder.agent.react_world import (
    ASK,
    DONE,
    grasp,
    LOOK,
    NO,
    place,
    push,
    PUT,
    ReactWorld,
    release,
    STOP,
    YES,
)
from tests.onboard_decoder.gantry import gantry

SHORT = {
    'agent.max_trials': 2, 'agent.ask_wait_s': 1.0, 'agent.reflect_wait_s': 1.0,
    'agent.max_turns': 30, 'limits.max_task_s': 30.0, 'limits.turn_deadline_s': 1.0,
    'limits.planner_wait_s': 5.0,
}
ACTS = (
    grasp(), grasp(y=0.2), place(), push(), release(), LOOK, ASK, DONE, STOP, NO, None,
    'overloaded',
)


@pytest.fixture(scope='module')
def manifest(tmp_path_factory):
    """The gantry."""
    return gantry(tmp_path_factory.mktemp('gantry'))


def check_states(world):
    """Every change of state is one that the table allows."""
    before = State.IDLE
    for event in world.events('state'):
        state = State(event['state'])
        assert state in NEXT[before], f'{before.value} -> {state.value}'
        before = state


def check_memories(world):
    """Entries are numbered without gaps, none changes, and no step is executed twice."""
    known = {}
    number = 0
    for event in world.robot.events:
        number += event['event'] == 'task'
        if event['event'] == 'entry':
            key = (number, event['trial'], event['step_id'])
            assert key not in known
            known[key] = event['result']
    for turn in world.port.turns:
        ids = [entry.step_id for entry in turn.memory.entries]
        assert ids == list(range(1, len(ids) + 1))
        assert len(ids) <= world.robot.settings.agent.max_steps
        assert len(turn.memory.lessons) <= 3


def check_motion(world):
    """Every period has its command, within the limits of the joints."""
    commands = np.array(world.arm.commands)
    assert len(commands) == (world.clock.now_ns() - to_ns(100.0)) // world.period_ns
    speed = np.abs(np.diff(commands, axis=0)) / world.robot.manifest.control_period_s
    assert (speed <= world.robot.manifest.column('max_velocity') + 1e-6).all()


@settings(
    max_examples=30, deadline=None, suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(
    acts=st.lists(st.sampled_from(ACTS), min_size=1, max_size=8),
    looks=st.lists(st.sampled_from([YES, NO, STOP, 'overloaded']), min_size=1, max_size=3),
    watch=st.sampled_from(['off', 'repair', 'exact']),
    seed=st.integers(0, 10_000),
)
def test_whatever_the_backbone_and_people_do_the_task_ends_in_order(
    manifest, acts, looks, watch, seed
):
    """Bounded time, allowed states, no step twice, no done that nobody confirmed."""
    rng = random.Random(seed)
    world = ReactWorld(manifest, acts, {**SHORT, 'agent.watch': watch}, looks)
    world.with_thing()

    def people(world):
        roll = rng.random()
        if roll < 0.002:
            world.robot.answer('done')
        elif roll < 0.003:
            world.arm.thing_m = rng.choice([0.0, 0.02])
        elif roll < 0.006:
            world.image = (world.image + rng.randrange(256)).astype(np.uint8)

    world.each_step = people
    world.robot.ask(PUT)
    result = world.run(limit_s=70).result
    for _ in range(60):
        world.step()

    assert result.end is not None
    if result.outcome is TaskOutcome.DONE:
        confirmed = any(event['outcome'] == 'done' for event in world.events('second_look'))
        assert confirmed or result.end is TrialEnd.HELD
    assert world.robot.is_at_rest
    check_states(world)
    check_memories(world)
    check_motion(world)


@pytest.mark.parametrize('state', [
    'observe', 'think', 'act', 'ask', 'verify', 'hold', 'reset', 'reflect',
])
@pytest.mark.parametrize('how', ['stop', 'replace'])
def test_a_cancel_in_any_state_ends_the_task_and_stops_the_arm(manifest, state, how):
    """And the robot is good for the next task."""
    acts = {
        'ask': [ASK], 'verify': [DONE], 'reset': [grasp(y=0.3)], 'hold': [grasp()],
        'reflect': [grasp(y=0.3)],
    }.get(state, [grasp()])
    world = ReactWorld(manifest, acts, {
        'agent.watch': 'repair', 'agent.max_refusals': 1, 'agent.max_same_failures': 1})
    world.port.revisions = [place()]
    if state not in ('reset', 'reflect'):
        world.with_thing()
    world.robot.ask(PUT)
    if state == 'hold':
        world.run(lambda robot: robot.status().step == 'reach' and not robot.is_at_rest)
        world.image = world.image // 2
    world.until_state(state)
    if state in ('act', 'reset'):
        world.run(lambda robot: not robot.is_at_rest)
        assert world.robot.status().phase == state
    world.port.scripts[Purpose.ACT] = [STOP]
    pending = [turn.turn_id for turn in world.port.turns[-1:]]
    if how == 'stop':
        world.robot.stop()
    else:
        world.robot.ask('pick the red cube')
    world.step()
    stopped = world.events('result')[0]
    assert (stopped['outcome'], stopped['end']) == ('stopped', 'stopped')
    if state == 'think':
        assert world.port.cancelled == pending
    for _ in range(60):
        world.step()

    assert world.robot.is_at_rest
    assert world.robot.question == ''
    if how == 'stop':
        world.robot.ask('pick the red cube')
    assert world.run().result.outcome is TaskOutcome.REFUSED
    check_states(world)
    check_memories(world)


def test_duplicate_and_late_answers_are_executed_once_or_never(manifest):
    """An answer is to one turn; what comes for another turn moves nothing."""
    foreign = TurnAnswer('turn-77', place(), 0, 0)
    answer = TurnAnswer('turn-2', grasp(), 0, 0)
    stale = TurnFailure('turn-99', 'late', 'an old failure', Remedy.FIX)
    world = ReactWorld(manifest, [foreign, answer, foreign, stale, LOOK, DONE], {
        'limits.turn_deadline_s': 0.5}, looks=[NO])
    world.with_thing().robot.ask(PUT)
    world.run(lambda robot: len(world.results()) == 2)

    assert world.results() == [('grasp', 'held'), ('look', 'seen')]
    failures = Counter(event['reason'] for event in world.events('turn_failed'))
    assert failures == {'deadline': 3}


def test_a_tool_that_never_ends_is_stopped_and_measured(manifest):
    """Its deadline ends it, the arm stops, and the fingers say what came of it."""
    far = replace(grasp(), steps=grasp().steps[:2] + (
        replace(grasp().steps[2], target_in_base_m=(0.5, 0.1, 0.89)),))
    world = ReactWorld(manifest, [far, STOP], {
        'agent.tool_deadline_s': 3.0, 'agent.max_trials': 1, 'limits.step_timeout_s': 600.0})
    world.decoder.decode = slowed(world.decoder.decode)
    world.with_thing().robot.ask(PUT)
    world.run(lambda robot: world.results())

    assert world.results() == [('grasp', 'held')]
    assert world.events('entry')[0]['result'] == 'held'
    assert world.robot.status().is_carrying


def slowed(decode):
    """Let lifts creep."""
    def slow(step, joints, *rest):
        chunk = decode(step, joints, *rest)
        if step.skill.value == 'lift' and step.gripper_opening == 0.0:
            chunk.positions = joints + 0.02 * (chunk.positions - joints)
            chunk.positions[:, 3] = 0.0
        return chunk
    return slow


def test_a_link_lost_during_an_act_is_reconciled_by_the_robot(manifest):
    """The step is finished, the call cut off in time, its effect read, nothing repeated."""
    world = ReactWorld(manifest, [grasp(), place(), DONE], {'agent.tool_deadline_s': 4.0})
    world.with_thing().robot.ask(PUT)
    world.run(lambda robot: robot.status().step == 'grasp' and world.arm.positions[2] < 0.05)
    world.port.link = Link.DEGRADED
    world.run(lambda robot: world.results())
    assert world.results() == [('grasp', 'held')]
    assert world.robot.status().phase in ('hold', 'reset', 'observe')
    for _ in range(int(1e9 // to_ns(0.02))):
        world.step()
    asked = len(world.port.turns)
    world.port.link = Link.READY

    assert world.run().result.outcome is TaskOutcome.DONE
    assert world.port.turns[asked].memory.entries[0].result is StepResult.HELD
    assert [tool for tool, _ in world.results()].count(Tool.GRASP.value) == 1
