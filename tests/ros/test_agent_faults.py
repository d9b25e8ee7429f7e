# SPDX-License-Identifier: Apache-2.0
"""Promises of the agent when what it relies on fails: real rclpy, real gRPC, a scripted model.

In each case the command loop does not notice, and people read why the agent waits or gave up.
"""

import itertools
from pathlib import Path
import threading
from typing import NamedTuple

from cloud_backbone.config import BackboneConfig, CacheConfig, LimitsConfig
from protos import plan_pb2, planner_pb2
import pytest

from tests.fakes.backbone_server import BackboneServer
from tests.fakes.raw_client import RawClient
from tests.fakes.scripted_backbone import ScriptedBackbone
from tests.fakes.scripted_planner import plan_of, step
from tests.ros.onboard_world import World

pytestmark = [
    pytest.mark.ros,
    # What rclpy imports to know its messages uses modules that Python has deprecated.
    pytest.mark.filterwarnings("ignore:module 'sre_:DeprecationWarning"),
]
REACT = {'agent.mode': 'react', 'agent.max_trials': 1, 'agent.lessons_in_use': 0}
QUESTION = 'The blue bin is taken. Can you clear it?'
ASK = plan_pb2.ActionPlan(
    outcome=plan_pb2.PLAN_OUTCOME_ASK,
    call=plan_pb2.ToolCall(tool=plan_pb2.TOOL_ASK, question=QUESTION),
)
STOP = plan_pb2.ActionPlan(
    outcome=plan_pb2.PLAN_OUTCOME_REFUSED, reason='The bin is taken.',
    call=plan_pb2.ToolCall(tool=plan_pb2.TOOL_STOP),
)
NOISE = 0.25
"""Share of the ticks that a test of many threads may miss on a busy machine."""


def grasp():
    """Reach, grasp, lift."""
    plan = plan_of(
        step('reach', (0.5, 0.1, 0.2)),
        step('grasp', (0.5, 0.1, 0.02), gripper_opening=0.0, success='HOLDING'),
        step('lift', (0.5, 0.1, 0.2), gripper_opening=0.0, success='HOLDING'),
    )
    plan.call.tool, plan.call.object = plan_pb2.TOOL_GRASP, 'red cube'
    return plan


def asks_once(prompt):
    """Ask a person; give up after that."""
    if '<did>' in prompt:
        return ' There is no red cube.<stop>'
    return ' The red cube is at <064><064>, the blue bin at <040><064>.<ask>'


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Make a world in mode react; end it after the test."""
    worlds = []

    def made(**changes):
        worlds.append(World(tmp_path, monkeypatch, **{**REACT, **changes}))
        return worlds[-1]

    yield made
    for world in worlds:
        world.close()


class Ticks:
    """Watches the command loop for a while, against a second in which nothing happens."""

    def __init__(self, world):
        self._loop = world.node._runtime.loop
        begun = self._loop.statistics()
        world.arm.spin_until(lambda: self._loop.statistics().tick_count > begun.tick_count + 50)
        self._calm = self._share(begun)
        self._begun = self._loop.statistics()

    def assert_steady(self):
        """No more was missed than this machine misses anyway, and nothing failed."""
        assert self._share(self._begun) <= self._calm + NOISE
        assert self._loop.statistics().error_count == 0

    def _share(self, since):
        now = self._loop.statistics()
        missed, ticks = now.missed_count - since.missed_count, now.tick_count - since.tick_count
        assert ticks > 0
        return missed / (missed + ticks)


def test_a_person_who_never_answers_ends_the_task_with_that_reason(make):
    """The question is in the status while it waits; the loop commands all the time."""
    world = make(answers=[ASK, STOP], **{'agent.ask_wait_s': 4.0})
    ticks = Ticks(world)
    world.arm.say('put it there')

    world.arm.spin_until(
        lambda: world.arm.statuses and world.arm.statuses[-1]['question'] == QUESTION)
    assert told(world, 'task').values['question'] == QUESTION
    result = world.arm.result()

    ticks.assert_steady()
    assert (result['outcome'], result['end']) == ('failed', 'unanswered')
    entry = world.planner.turns[-1].memory.entries[-1]
    assert entry.result == planner_pb2.STEP_RESULT_UNANSWERED


def test_a_tool_that_never_ends_is_cut_off(make):
    """An arm that is jammed, its encoders alive: the deadline of the tool ends it, and says so."""
    world = make(answers=[grasp()], **{
        'agent.tool_deadline_s': 1.0, 'limits.step_timeout_s': 2.0,
        'agent.max_same_failures': 1,
    })
    mirror, home = world.arm.mirror, world.arm.mirror.positions.copy()
    flicker = itertools.cycle((0.0, 1e-5))
    mirror.command = lambda positions: setattr(mirror, 'positions', home + next(flicker))
    ticks = Ticks(world)
    world.arm.say('put it there')

    result = world.arm.result()

    ticks.assert_steady()
    assert result['outcome'] == 'failed'
    assert 'did not come to its end in time' in result['reason']
    assert result['steps'] == 1


def test_a_dead_arm_ends_the_task_in_its_time(make):
    """Joints that never change again: the arm brakes, and the task is over when its time is."""
    world = make(answers=[grasp()], **{'limits.max_task_s': 2.0})
    world.arm.mirror.command = lambda positions: None
    world.arm.say('put it there')

    result = world.arm.result()

    assert (result['outcome'], result['end']) == ('failed', 'time_limit')
    assert 'joints_frozen' in world.arm.statuses[-1]['faults']


def test_a_full_pool_is_read_in_the_status_and_waited_for(make, tmp_path):
    """While others have all the memory the robot says so; it goes on when they leave."""
    small = BackboneConfig(cache=CacheConfig(pool_bytes=90_000))
    one = LimitsConfig(max_batch=1)
    model = ScriptedBackbone(lambda prompt: ' There is no red cube.<stop>')
    with BackboneServer(model, one, small) as server:
        with RawClient(server.address) as other:
            other.hello()
            world = make(planner=server)
            ticks = Ticks(world)
            world.arm.say('put it there')
            world.arm.spin_until(lambda: world.arm.statuses and (
                'bytes of cache' in world.arm.statuses[-1]['link_reason']))
            assert 'bytes of cache' in told(world, 'backbone').text
            assert not world.arm.statuses[-1]['result']
            close(other)
        result = world.arm.result()
        ticks.assert_steady()
    assert (result['outcome'], result['reason']) == ('refused', 'There is no red cube.')


def test_a_turn_without_room_is_asked_again(make):
    """A pool that is full for a while: the status says so, and the task goes on after that."""
    room = threading.Event()
    full = planner_pb2.TurnError(
        reason=planner_pb2.ERROR_REASON_OVERLOADED, remedy=planner_pb2.REMEDY_RETRY_CALL,
        message='4096 bytes of cache are wanted, 0 are free')
    world = make(answers=lambda turn: STOP if room.is_set() else full)
    ticks = Ticks(world)
    world.arm.say('put it there')
    world.arm.spin_until(lambda: world.arm.statuses and (
        '4096 bytes' in world.arm.statuses[-1]['trouble']))
    assert '4096 bytes' in told(world, 'backbone').values['trouble']
    room.set()

    result = world.arm.result()

    ticks.assert_steady()
    assert (result['outcome'], result['reason']) == ('refused', 'The bin is taken.')
    assert len({turn.turn_id for turn in world.planner.turns}) == len(world.planner.turns)


def test_a_corrupt_snapshot_costs_time_and_nothing_else(make, tmp_path, caplog):
    """A cache that was put away and spoilt there is computed anew; the log says why."""
    folder = tmp_path / 'state'
    model, limits = ScriptedBackbone(asks_once), LimitsConfig(spill_after_s=0.1)
    with BackboneServer(model, limits, BackboneConfig(state_dir=str(folder))) as server:
        world = make(planner=server)
        ticks = Ticks(world)
        world.arm.say('put it there')
        world.arm.spin_until(lambda: world.arm.statuses and world.arm.statuses[-1]['question'])
        with RawClient(server.address) as other:
            other.hello()
            world.arm.spin_until(lambda: tier_after_a_turn_of(other, world) == 'disk')
        spoil(folder)
        world.node._runtime.robot.answer('yes')
        result = world.arm.result()
        ticks.assert_steady()
    assert (result['outcome'], result['steps']) == ('refused', 1)
    assert 'is damaged' in caplog.text


class Entry(NamedTuple):
    """What /diagnostics says of one thing."""

    text: str
    values: dict[str, str]


def told(world, name):
    """Return the newest entry of a name in /diagnostics."""
    world.arm.diagnostics.clear()
    world.arm.spin_until(lambda: world.arm.diagnostics)
    (entry,) = [
        entry for entry in world.arm.diagnostics[-1].status
        if entry.name == f'onboard_node: {name}'
    ]
    return Entry(entry.message, {pair.key: pair.value for pair in entry.values})


def session_of(world):
    """Return the id of the robot's session."""
    return world.node._runtime.robot._planner.state().grant.session_id


def tier_after_a_turn_of(client, world):
    """Return where the robot's cache is once another robot has been answered."""
    assert client.ask(client.turn()).WhichOneof('result') == 'plan'
    request = planner_pb2.GetSessionStateRequest(session_id=session_of(world))
    return client.stub.GetSessionState(request, timeout=10).tier


def close(client):
    """End a session for good."""
    request = planner_pb2.CloseSessionRequest(session_id=client.welcome.session_id)
    client.stub.CloseSession(request, timeout=10)


def spoil(folder: Path):
    """Turn a bit of the cache that lies there."""
    (file,) = folder.glob('*/cache.safetensors')
    data = bytearray(file.read_bytes())
    data[-100] ^= 1
    file.write_bytes(data)
