# SPDX-License-Identifier: Apache-2.0
"""Promises of ``tendon ask``, with a scripted robot."""

import os

import pytest

pytest.importorskip('rclpy')

from tendon import ask
from tendon.errors import BadRequest, PartNotReady

SENTENCE = 'pick up the red cube'


def status(outcome=None, duration_s=1.0, step='', tool='', question=''):
    """What a robot says of itself: under way, or ended with an outcome."""
    result = outcome and {
        'instruction': SENTENCE, 'outcome': outcome, 'reason': 'because', 'duration_s': duration_s,
    }
    return {
        'instruction': '' if outcome else SENTENCE, 'step': step, 'step_index': 0,
        'step_count': 2, 'phase': 'asking', 'result': result, 'tool': tool, 'question': question,
    }


class ScriptedRobot:
    """A robot whose statuses come from a list; the first is the old one."""

    script = [status()]
    is_there = True
    said = ()
    heard = ()

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
        type(self).said += (instruction,)

    def answer(self, text):
        type(self).heard += (text,)

    def wait(self, done, timeout_s, each):
        for entry in self._rest:
            self.status = entry
            each()
            if done():
                return True
        return False


@pytest.fixture
def robot(monkeypatch):
    """Let ``ask`` talk to a scripted robot, new for each test."""
    class Robot(ScriptedRobot):
        pass

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


def test_the_tool_in_use_is_shown_with_its_steps(robot, capsys):
    """Of an agent that calls tools one sees which."""
    robot.script = [status(), status(step='reach', tool='grasp'), status('done')]

    assert ask.ask(SENTENCE, 5.0) == 0
    assert 'grasp, step 1 of 2: reach' in capsys.readouterr().out


def typed(monkeypatch, text, is_terminal=True):
    """Let somebody have typed something."""
    reading, writing = os.pipe()
    os.write(writing, text.encode())
    os.close(writing)
    keyboard = os.fdopen(reading)
    monkeypatch.setattr(keyboard, 'isatty', lambda: is_terminal, raising=False)
    monkeypatch.setattr('sys.stdin', keyboard)
    return keyboard


def test_a_typed_line_answers_the_question(robot, capsys, monkeypatch):
    """The question is shown, and the next line goes to the robot, once."""
    robot.script = [
        status(), status(question='Please clear the bin.'),
        status(question='Please clear the bin.'), status('done'),
    ]
    with typed(monkeypatch, 'yes\n'):
        assert ask.ask(SENTENCE, 5.0) == 0

    assert robot.heard == ('yes',)
    assert 'asks a person: Please clear the bin.' in capsys.readouterr().out


@pytest.mark.parametrize(('is_asked', 'is_terminal'), [(False, True), (True, False)])
def test_nothing_else_that_is_typed_goes_to_the_robot(robot, monkeypatch, is_asked, is_terminal):
    """No answer without a question, and none out of a file."""
    asking = status(question='Please clear the bin.' if is_asked else '')
    robot.script = [status(), asking, status('done')]
    with typed(monkeypatch, 'yes\n', is_terminal):
        assert ask.ask(SENTENCE, 5.0) == 0

    assert robot.heard == ()
