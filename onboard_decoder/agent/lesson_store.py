# SPDX-License-Identifier: Apache-2.0
"""The lessons of a robot: bounded, chosen by thing and failure, retired when they lose.

One file of JSON lines, replaced as a whole at each change; without a path they live as long as
the process. Knows nothing of how a lesson is made or used.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace
import logging
import os
from pathlib import Path

from onboard_decoder.agent.lesson import Lesson
from onboard_decoder.agent.task_result import FailureCode

log = logging.getLogger(__name__)


class LessonStore:
    """Keeps up to so many lessons."""

    def __init__(self, path: Path | str | None = None, most: int = 200) -> None:
        """Read what is there; a line that is no lesson is dropped, and said so."""
        self._path, self._most = Path(path) if path else None, most
        self._lessons: dict[tuple[str, str], Lesson] = {}
        if self._path is not None and self._path.exists():
            self._read(self._path.read_text(encoding='utf-8').splitlines())

    def list(self) -> list[Lesson]:
        """Return all of them, the retired ones too, oldest first."""
        return list(self._lessons.values())

    def add(self, lesson: Lesson) -> bool:
        """Keep a lesson; False for one that is known already, retired or not."""
        key = _key(lesson)
        if key in self._lessons:
            return False
        self._lessons[key] = lesson
        while len(self._lessons) > self._most:
            del self._lessons[_key(min(self._lessons.values(), key=_worth))]
        self._write()
        return key in self._lessons

    def choose(
        self, things: str, codes: Collection[FailureCode] = (), most: int = 3
    ) -> tuple[Lesson, ...]:
        """Return the best lessons about things that a text names.

        Args:
          things: the instruction, with the names of things met since.
          codes: failures that are of interest; they come first.
          most: how many.
        """
        text = things.lower()
        fitting = [
            lesson for lesson in self._lessons.values()
            if not lesson.is_retired() and lesson.object_name.lower() in text
        ]
        fitting.sort(key=lambda lesson: lesson.rank(codes), reverse=True)
        return tuple(fitting[:most])

    def credit(self, lessons: Iterable[Lesson], has_won: bool) -> None:
        """Note how a trial ended that was given these lessons."""
        keys = [_key(lesson) for lesson in lessons]
        for key in keys:
            if key in self._lessons:
                self._lessons[key] = self._lessons[key].credited(has_won)
        if keys:
            self._write()

    def refuse(self, lessons: Iterable[Lesson], model: str) -> None:
        """Retire lessons that a model does not take."""
        for key in map(_key, lessons):
            if key in self._lessons:
                self._lessons[key] = replace(self._lessons[key], refused_by=model)
                log.warning('lesson %r is retired: the backbone does not take it',
                            self._lessons[key].text)
        self._write()

    def _read(self, lines: Iterable[str]) -> None:
        for number, line in enumerate(lines, 1):
            try:
                lesson = Lesson.from_json(line)
            except ValueError as error:
                log.warning('%s, line %d is dropped: %s', self._path, number, error)
                continue
            self._lessons[_key(lesson)] = lesson

    def _write(self) -> None:
        """Replace the file; a crash leaves the old one or the new one."""
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        beside = self._path.with_name(self._path.name + '.new')
        beside.write_text(
            ''.join(lesson.to_json() + '\n' for lesson in self._lessons.values()),
            encoding='utf-8',
        )
        os.replace(beside, self._path)


def _key(lesson: Lesson) -> tuple[str, str]:
    """What makes two lessons the same."""
    return lesson.object_name.lower(), lesson.text.lower()


def _worth(lesson: Lesson) -> tuple[bool, int, int]:
    """Order in which lessons are given up, the least first; of equals the oldest."""
    return not lesson.is_retired(), lesson.wins - lesson.losses, lesson.uses
