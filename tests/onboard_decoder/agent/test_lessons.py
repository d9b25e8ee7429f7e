# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
import logging

from onboard_decoder.agent.lesson import Lesson, plain_sentence
from onboard_decoder.agent.lesson_store import LessonStore
from onboard_decoder.agent.task_result import FailureCode
import pytest

LOW = Lesson('grasp', 'red cube', FailureCode.MISS, (1, 2), 'The red cube is low.')
SLIPS = Lesson('place', 'red cube', FailureCode.SLIP, (3,), 'The red cube slips.')
BALL = Lesson('grasp', 'green ball', FailureCode.SLIP, (1,), 'The green ball slips.')


def test_lessons_are_on_disk_at_once_and_read_back_whole(tmp_path):
    """Text, evidence and how they fared, over a new start."""
    path = tmp_path / 'lessons' / 'robot.jsonl'
    store = LessonStore(path)
    for lesson in (LOW, SLIPS, BALL):
        assert store.add(lesson)
    store.credit([LOW, SLIPS], has_won=True)
    store.credit([SLIPS], has_won=False)

    again = LessonStore(path).list()

    assert again == store.list()
    assert [(entry.uses, entry.wins, entry.losses) for entry in again] == [
        (1, 1, 0), (2, 1, 1), (0, 0, 0)]
    assert again[0].evidence == (1, 2)


def test_lessons_are_chosen_by_thing_then_failure_then_success():
    """And not more than asked for."""
    store = LessonStore()
    for lesson in (LOW, SLIPS, BALL):
        store.add(lesson)

    assert store.choose('put the red cube away') == (LOW, SLIPS)
    assert store.choose('put the RED CUBE away', [FailureCode.SLIP]) == (SLIPS, LOW)
    assert store.choose('pick the yellow cube') == ()
    store.credit([LOW], has_won=False)
    assert [lesson.text for lesson in store.choose('the red cube')] == [SLIPS.text, LOW.text]
    assert store.choose('the red cube and the green ball', most=2)[0] in (SLIPS, BALL)


def test_a_lesson_is_retired_after_two_losses_and_not_learned_again():
    """Unless it has won more often."""
    store = LessonStore()
    store.add(LOW)
    store.credit([LOW], has_won=False)
    assert store.choose('red cube')
    store.credit([LOW], has_won=False)

    assert store.choose('red cube') == ()
    assert not store.add(replace(LOW, evidence=(9,)))
    assert not replace(LOW, uses=5, wins=3, losses=2).is_retired()


def test_the_store_is_bounded_and_gives_up_the_worst():
    """Retired ones first, then those that won least."""
    store = LessonStore(most=3)
    many = [replace(LOW, object_name=f'cube {number}') for number in range(3)]
    for lesson in many:
        store.add(lesson)
    store.credit([many[0]], has_won=True)
    for _ in range(2):
        store.credit([many[1]], has_won=False)
    store.add(BALL)

    names = [lesson.object_name for lesson in store.list()]
    assert names == ['cube 0', 'cube 2', 'green ball']
    store.add(SLIPS)
    assert [lesson.object_name for lesson in store.list()] == ['cube 0', 'green ball', 'red cube']


@pytest.mark.parametrize('text', [
    '', '   ', 'x' * 300, '<|im_start|>system', 'a\x00b', 'Set {"max_steps": 9}', 'grasp(cube)',
])
def test_what_is_no_plain_sentence_is_no_lesson(text):
    """Nothing that a model or a file could take for more than words."""
    assert plain_sentence(text) is None


def test_a_damaged_file_loses_only_its_damaged_lines(tmp_path, caplog):
    """Each is said in the log; the rest is used."""
    path = tmp_path / 'lessons.jsonl'
    LessonStore(path).add(LOW)
    bad = LOW.to_json().replace('is low', '<low>')
    path.write_text(f'no json\n[]\n{path.read_text()}{bad}\n{{"task": "grasp"}}\n')

    with caplog.at_level(logging.WARNING):
        assert LessonStore(path).list() == [LOW]
    assert len(caplog.records) == 4
    assert plain_sentence(' The  red cube\nslips. ') == 'The red cube slips.'
