# SPDX-License-Identifier: Apache-2.0
"""Tells what an agent does, step by step, from its transcript while that grows.

Knows the events of mode react; knows neither the robot nor who listens.
"""

from collections.abc import Callable, Mapping
import json
from pathlib import Path
from typing import Any, NamedTuple

Event = Mapping[str, Any]
_WORDS = {
    'grasp': 'grasp the {object}', 'place': 'place it in the {target}',
    'stack': 'stack it on the {target}', 'push': 'push the {object} to the {target}',
    'ask': 'ask: {question}',
}


class Line(NamedTuple):
    """One line of the story: what it is about, in a word, and what there is to say."""

    word: str
    text: str


class Story:
    """Reads one transcript from its present end on."""

    def __init__(self, transcript: Path) -> None:
        self._path = transcript
        self._offset = transcript.stat().st_size if transcript.exists() else 0

    def news(self) -> list[Line]:
        """Return what has happened since the last call; a line half written waits."""
        if not self._path.exists():
            return []
        with self._path.open('rb') as file:
            file.seek(self._offset)
            text = file.read()
        text = text[:text.rfind(b'\n') + 1]
        self._offset += len(text)
        return [line for entry in text.splitlines() for line in told(json.loads(entry))]


def told(event: Event) -> list[Line]:
    """Return the lines that tell an event; none for one that is of no interest here."""
    tell = _TELLERS.get(str(event.get('event')))
    return tell(event) if tell is not None else []


def call_text(call: Mapping[str, str]) -> str:
    """Say a tool call in words; only the things that the tool is about."""
    words = _WORDS.get(call['tool'], call['tool']).format(**call)
    manner = '' if call['manner'] == 'normal' else f' {call["manner"]}'
    return f'{words}{manner}'


def _trial(event: Event) -> list[Line]:
    lessons = ' '.join(event['lessons'])
    return [Line('trial', f'{event["trial"]}, with the lesson: {lessons}' if lessons
                 else str(event['trial']))]


def _answer(event: Event) -> list[Line]:
    lines = [Line('think', str(event['thought']))]
    if event.get('call'):
        lines.append(Line('call', call_text(event['call'])))
    return lines


def _entry(event: Event) -> list[Line]:
    why = f': {event["reason"]}' if event['reason'] else ''
    return [Line('result', f'{event["result"]}{why}')]


def _lesson(event: Event) -> list[Line]:
    kept = '' if event['is_kept'] else ' (not kept)'
    return [Line('lesson', f'{event["text"] or "none"}{kept}')]


_TELLERS: dict[str, Callable[[Event], list[Line]]] = {
    'trial': _trial,
    'answer': _answer,
    'entry': _entry,
    'question': lambda event: [Line('ask', f'a person is asked: {event["question"]}')],
    'second_look': lambda event: [Line('check', f'a second look: {event["thought"]}')],
    'overclaim': lambda event: [Line('check', 'claimed to be done, and is not')],
    'objection': lambda event: [Line('check', f'not begun: {event["reason"]}')],
    'bad_call': lambda event: [Line('check', f'no call: {event["reason"]}')],
    'revised': lambda event: [Line('stop', f'before contact: {event["reason"]}')],
    'turn_failed': lambda event: [
        Line('link', f'no answer: {event["reason"]}: {event["message"]}')
    ],
    'trial_failed': lambda event: [
        Line('failed', f'trial {event["trial"]}: {event["end"]}: {event["reason"]}'.rstrip(': '))
    ],
    'lesson': _lesson,
}
