# SPDX-License-Identifier: Apache-2.0
"""Promises of the story of an agent: what happened, in order, as it happens."""

import json

from onboard_decoder.agent.effects import Effect
from onboard_decoder.agent.records import answer_record, call_record, entry_record
from onboard_decoder.agent.task_result import FailureCode
from onboard_decoder.plan import ActionPlan, Outcome
from onboard_decoder.task_memory import HistoryEntry, Manner, StepResult, Tool, ToolCall
import pytest
from tendon.story import call_text, Line, Story, told

GRASP = ToolCall(Tool.GRASP, 'red cube', 'blue bin', Manner.SLOWLY)


@pytest.fixture
def transcript(tmp_path):
    """A transcript that grows by events."""
    path = tmp_path / 'transcript.jsonl'

    def write(kind, **values):
        with path.open('a') as file:
            file.write(json.dumps({'event': kind, **values}) + '\n')

    write.path = path
    return write


@pytest.mark.parametrize(('call', 'text'), [
    (GRASP, 'grasp the red cube slowly'),
    (ToolCall(Tool.PLACE, 'red cube', 'blue bin'), 'place it in the blue bin'),
    (ToolCall(Tool.STACK, 'red cube', 'green cube'), 'stack it on the green cube'),
    (ToolCall(Tool.PUSH, 'red cube', 'blue bin'), 'push the red cube to the blue bin'),
    (ToolCall(Tool.LOOK), 'look'),
    (ToolCall(Tool.DONE, 'red cube', 'blue bin'), 'done'),
    (ToolCall(Tool.ASK, question='Please clear it.'), 'ask: Please clear it.'),
], ids=lambda value: getattr(getattr(value, 'tool', None), 'value', None))
def test_a_call_is_said_with_what_it_is_about(call, text):
    """Tool, things and manner; nothing that the tool has no use for."""
    assert call_text(call_record(call)) == text


def test_a_step_is_told_as_thought_call_and_result():
    """What the robot itself writes down can be told."""
    plan = ActionPlan(Outcome.STEPS, thought='It is there.', call=GRASP)
    entry = HistoryEntry(1, GRASP, StepResult.MISSED)
    effect = Effect(StepResult.MISSED, FailureCode.MISS, 'the gripper holds nothing')

    assert told({'event': 'answer', **answer_record('turn-1', plan)}) == [
        Line('think', 'It is there.'), Line('call', 'grasp the red cube slowly'),
    ]
    assert told({'event': 'entry', **entry_record(1, entry, effect)}) == [
        Line('result', 'missed: the gripper holds nothing'),
    ]


def test_trials_lessons_and_questions_are_told(transcript):
    """In order, each once, and only from where the story begins."""
    transcript('trial', trial=1, lessons=[])
    story = Story(transcript.path)
    assert story.news() == []
    transcript('question', question='Please clear it.')
    transcript('trial_failed', trial=1, end='exhausted', reason='')
    transcript('lesson', text='It slips. Go slowly.', is_kept=True)
    transcript('state', state='observe')
    transcript('trial', trial=2, lessons=['It slips. Go slowly.'])

    assert story.news() == [
        Line('ask', 'a person is asked: Please clear it.'),
        Line('failed', 'trial 1: exhausted'),
        Line('lesson', 'It slips. Go slowly.'),
        Line('trial', '2, with the lesson: It slips. Go slowly.'),
    ]
    assert story.news() == []


def test_a_line_half_written_waits_for_its_rest(transcript):
    """What the robot is just writing is told once it is whole."""
    story = Story(transcript.path)
    assert story.news() == []
    line = json.dumps({'event': 'question', 'question': 'Grüße?'}, ensure_ascii=False) + '\n'
    with transcript.path.open('ab') as file:
        for byte in line.encode():
            assert story.news() == []
            file.write(bytes([byte]))
            file.flush()

    assert story.news() == [Line('ask', 'a person is asked: Grüße?')]
