# SPDX-License-Identifier: Apache-2.0
"""Promises of the agent in the whole system: real processes, the shipped model, real mishaps."""

from collections.abc import Callable
import json
from pathlib import Path
from typing import Any

from cloud_backbone.agent_words import AGENT_TOKENS
from cloud_backbone.config import SHIPPED_CHECKPOINT
import pytest

pytest.importorskip('rclpy')

from tendon.conversation import result_of, Status  # only after the check above
from tendon.local_robot import local_robot, LocalRobot, Scene

WORDS = (SHIPPED_CHECKPOINT / 'tokenizer.json').read_text(encoding='utf-8')
pytestmark = [
    pytest.mark.slow, pytest.mark.ros,
    pytest.mark.skipif(
        any(json.dumps(word) not in WORDS for word in AGENT_TOKENS),
        reason=f'{SHIPPED_CHECKPOINT} does not have the words of an agent',
    ),
]
REACT: dict[str, str | float | int] = {'agent.mode': 'react', 'status_rate_hz': 50.0}
# Else the small planner would finish the task, and thoughts would be over before one could see.
CLOUD_ONLY: dict[str, str | float | int] = {
    'offload.mode': 'cloud', 'agent.plan_ahead': 'off',
}
SEED = 7
LOW_SEED = 12
TASK_S = 220.0
Event = dict[str, Any]


def begin(robot: LocalRobot) -> str:
    """Give the robot the task of its scene; return the sentence."""
    assert robot.talk.wait(lambda: bool(robot.talk.truth), 30.0)
    sentence = str(robot.talk.truth['instruction'])
    robot.talk.say(sentence)
    return sentence


def finish(robot: LocalRobot, sentence: str) -> Status:
    """Wait for the robot's result."""
    talk = robot.talk
    is_over = talk.wait(
        lambda: result_of(talk.status, sentence) is not None, TASK_S, robot.stack.check
    )
    assert is_over, (talk.status, events(robot, 'entry'))
    result = result_of(talk.status, sentence)
    assert result is not None
    return result


def events(robot: LocalRobot, kind: str) -> list[Event]:
    """Return the events of a kind so far."""
    lines = robot.transcript.read_text(encoding='utf-8').splitlines()
    return [event for event in map(json.loads, lines) if event['event'] == kind]


def is_fulfilled(robot: LocalRobot) -> bool:
    """Ask the simulator."""
    return robot.talk.wait(lambda: bool(robot.talk.truth['success']), 10.0)


def until(robot: LocalRobot, condition: Callable[[], bool]) -> None:
    """Wait for something."""
    assert robot.talk.wait(condition, 90.0, robot.stack.check), robot.talk.status


def test_what_is_moved_under_the_fingers_is_grasped_again(tmp_path: Path) -> None:
    """A missed grasp is noticed, looked at anew and done again, until the task is fulfilled."""
    with local_robot(tmp_path, Scene(SEED, 'put', mishap='moved'), None, REACT) as robot:
        result = finish(robot, begin(robot))
        assert is_fulfilled(robot), (result, events(robot, 'entry'))
        assert robot.talk.truth['mishap_s'] is not None
        assert result['outcome'] == 'done'
        assert 'missed' in [entry['result'] for entry in events(robot, 'entry')]


def test_a_person_is_asked_for_what_the_robot_may_not_clear(tmp_path: Path) -> None:
    """The question reaches the person, the answer reaches the robot, and the task goes on."""
    with local_robot(tmp_path, Scene(SEED, 'put', mishap='blocked'), None, REACT) as robot:
        result = finish(robot, begin(robot))
        assert is_fulfilled(robot), (result, events(robot, 'entry'))
        assert result['outcome'] == 'done'
        assert robot.talk.truth['questions'] >= 1
        assert 'cleared' in [entry['result'] for entry in events(robot, 'entry')]


def test_a_lesson_of_a_failed_trial_lets_the_next_one_succeed(tmp_path: Path) -> None:
    """What is missed at the usual height is held lower, once the robot has learned why."""
    with local_robot(tmp_path, Scene(LOW_SEED, 'put', mishap='flat'), None, REACT) as robot:
        result = finish(robot, begin(robot))
        assert is_fulfilled(robot), (result, events(robot, 'entry'))
        assert result['outcome'] == 'done'
        assert result['attempts'] > 1
        kept = [lesson['text'] for lesson in events(robot, 'lesson') if lesson['is_kept']]
        assert kept
        assert events(robot, 'trial')[-1]['lessons'] == kept[:1]


@pytest.mark.parametrize('is_spoilt', [False, True], ids=['kept', 'spoilt'])
def test_a_backbone_killed_in_a_thought_goes_on_with_the_task(
    tmp_path: Path, is_spoilt: bool
) -> None:
    """The loop does not notice, the status says why; what is on the disk is taken up if whole."""
    folder = tmp_path / 'state'
    with local_robot(
        tmp_path, Scene(SEED, 'put'), None, REACT | CLOUD_ONLY, {'state_dir': folder}
    ) as robot:
        talk, sentence = robot.talk, begin(robot)
        calm = ticks(robot)
        until(robot, lambda: bool(events(robot, 'entry')) and talk.status['phase'] == 'think')
        robot.stack.kill('backbone')
        before = len(events(robot, 'entry'))
        until(robot, lambda: talk.status.get('link') != 'ready')
        assert talk.status['link_reason']
        assert ticks(robot).backbone['link'] == talk.status['link']
        if is_spoilt:
            spoil(folder)
        robot.restart_backbone()
        result, after = finish(robot, sentence), ticks(robot)
        assert len(events(robot, 'entry')) > before, result
        assert result['end'] != 'no_answer', result
        sessions = {turn['session'] for turn in events(robot, 'turn')}
        assert len(sessions) == 1 + is_spoilt, sessions
        steps = [(entry['trial'], entry['step_id']) for entry in events(robot, 'entry')]
        assert len(steps) == len(set(steps))
        assert ('is lost' in robot.stack.log('backbone').read_text()) == is_spoilt
        # What this machine misses anyway it may miss here too.
        assert after.missed - calm.missed <= 5 + 3 * after.count * calm.missed / calm.count


class Ticks:
    """Diagnostics of the robot's node, newer than the moment of asking."""

    def __init__(self, diagnostics: dict[str, dict[str, str]]) -> None:
        self.backbone = diagnostics['backbone']
        self.count = int(diagnostics['command loop']['ticks'])
        self.missed = int(diagnostics['command loop']['missed'])


def ticks(robot: LocalRobot) -> Ticks:
    """Return what the diagnostics say now."""
    talk = robot.talk
    talk.diagnostics.clear()
    assert talk.wait(lambda: {'command loop', 'backbone'} <= set(talk.diagnostics), 20.0)
    return Ticks(dict(talk.diagnostics))


def spoil(folder: Path) -> None:
    """Turn bits in the middle of every file that a session left."""
    files = [path for path in folder.glob('*/*') if path.is_file()]
    assert files
    for path in files:
        data = bytearray(path.read_bytes())
        for position in range(len(data) // 4, len(data) // 2):
            data[position] ^= 0x55
        path.write_bytes(bytes(data))
