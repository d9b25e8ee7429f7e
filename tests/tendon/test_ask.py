# SPDX-License-Identifier: Apache-2.0
"""Promises of ``tendon ask``, with a scripted robot."""

import pytest

pytest.importorskip('rclpy')

from tendon import ask
from tendon.errors import BadRequest, PartNotReady

SENTENCE = 'pick up the red cube'


def status(outcome=None, duration_s=1.0, step=''):
    """What a robot says of itself: under way, or ended with an outcome."""
    result = outcome and {
        'instruction': SENTENCE, 'outcome': outcome, 'reason': 'because', 'duration_s': duration_s,
    }
    return {
        'instruction': '' if outcome else SENTENCE, 'step': step, 'step_index': 0,
        'step_count': 2, 'phase': 'asking', 'result': result,
    }


@pytest.fixture
def robot(monkeypatch):
    """Let ``ask`` talk to a robot whose statuses come from a list; the first is the old one."""
    class Robot:
        script = [status()]
        is_there = True
        said = ()

        def __init__(self, name):
            self.status = self.script[0]
            self._rest = self.script[1:]

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def wait_for_robot(self, timeout_s):
            if not self.is_there:
                raise PartNotReady('robot', timeout_s)

        def say(self, instruction):
            Robot.said += (instruction,)

        def wait(self, done, timeout_s, each):
            for entry in self._rest:
                self.status = entry
                each()
                if done():
                    return True
            return False

    monkeypatch.setattr(ask, 'Conversation', Robot)
    return Robot


@pytest.mark.parametrize(('outcome', 'exit_status'), [('done', 0), ('refused', 1), ('failed', 1)])
def test_exit_status_is_the_outcome(robot, capsys, outcome, exit_status):
    """0 if the robot did it; the reason is shown either way."""
    robot.script = [status(), status(step='reach'), status(outcome)]

    assert ask.ask(f' {SENTENCE} ', 5.0) == exit_status
    assert robot.said == (SENTENCE,)
    assert 'step 1 of 2: reach' in capsys.readouterr().out


def test_an_older_result_of_the_same_sentence_does_not_count(robot):
    """Asking twice waits for the second result."""
    old = status('done', duration_s=1.0)
    robot.script = [old, old, status(), status('failed', duration_s=2.0)]

    assert ask.ask(SENTENCE, 5.0) == 1


def test_a_task_that_takes_too_long_is_left_to_the_robot(robot, capsys):
    """Exit status 1, and what the robot was doing."""
    robot.script = [status(), status(step='grasp')]

    assert ask.ask(SENTENCE, 5.0) == 1
    assert 'grasp' in capsys.readouterr().out


def test_without_a_robot_it_says_how_to_start_one(robot):
    """One sentence with the remedy."""
    robot.is_there = False

    with pytest.raises(BadRequest, match='tendon robot'):
        ask.ask(SENTENCE, 5.0)
