# SPDX-License-Identifier: Apache-2.0
"""Lessons between trials: which ones a trial is given, what is made of a new one, how they fare.

Knows trials and the store; asks nobody.
"""

from collections.abc import Callable

from onboard_decoder.agent.lesson import Lesson, plain_sentence
from onboard_decoder.agent.lesson_store import LessonStore
from onboard_decoder.agent.task_result import FailureCode
from onboard_decoder.agent.trial import Trial
from onboard_decoder.config import AgentSettings
from onboard_decoder.task_memory import Tool

# What a thing does to the hand is worth a lesson; what the backbone or a person did is not.
_TEACHES = (
    FailureCode.MISS, FailureCode.SLIP, FailureCode.DROP, FailureCode.MOTION, FailureCode.TIMEOUT,
)


class Reflexion:
    """Runs the trials of one task after the other."""

    def __init__(
        self, store: LessonStore, settings: AgentSettings, today: Callable[[], str]
    ) -> None:
        self._store, self._settings, self._today = store, settings, today
        self._things = ''

    def forget(self, instruction: str) -> None:
        """Begin with another task."""
        self._things = instruction

    def trial(self, after: Trial | None = None) -> Trial:
        """Return the next trial, with the lessons that fit best."""
        settings = self._settings
        codes = after.codes if after is not None else ()
        lessons = self._store.choose(self._things, codes, settings.lessons_in_use)
        return Trial(after.number + 1 if after is not None else 1, settings, lessons)

    def is_worth_it(self, trial: Trial) -> bool:
        """True if a failed trial has something to teach."""
        return self._settings.lessons_in_use > 0 and any(code in _TEACHES for code in trial.codes)

    def learn(self, text: str, trial: Trial, model: str) -> Lesson | None:
        """Keep what a failed trial taught; None for a text that is no lesson, or a known one.

        Args:
          text: as the backbone wrote it.
          trial: that failed.
          model: fingerprint of the backbone's model.
        """
        sentence, failure = plain_sentence(text), trial.last_failure
        if sentence is None or failure is None:
            return None
        lesson = Lesson(
            task=failure.call.tool.value,
            object_name=thing_of(trial),
            code=_main_code(trial),
            evidence=trial.failed_steps,
            text=sentence,
            created=self._today(),
            model=model,
        )
        self._things += f' {lesson.object_name}'
        return lesson if self._store.add(lesson) else None

    def refuse(self, trial: Trial, message: str, model: str) -> list[str]:
        """Take from a trial the lessons that the backbone does not know, and retire them.

        Args:
          trial: that was given them.
          message: what the backbone said; lessons whose text or thing it names are meant, or all
            where it names none.
          model: fingerprint of the backbone's model.

        Returns:
          The texts of those that were taken.
        """
        named = tuple(
            lesson for lesson in trial.lessons
            if repr(lesson.text) in message or repr(lesson.object_name) in message
        )
        refused = named or trial.lessons
        trial.lessons = tuple(lesson for lesson in trial.lessons if lesson not in refused)
        self._store.refuse(refused, model or 'unknown')
        return [lesson.text for lesson in refused]

    def credit(self, trial: Trial, has_won: bool) -> None:
        """Note how a trial ended for the lessons that it was given."""
        self._store.credit(trial.lessons, has_won)


def thing_of(trial: Trial) -> str:
    """Return the thing that a trial was about: the one that was grasped for last, or pushed."""
    names = [
        entry.call.object_name for entry in trial.entries
        if entry.call.object_name and entry.call.tool in (Tool.GRASP, Tool.PUSH)
    ]
    return names[-1] if names else ''


def _main_code(trial: Trial) -> FailureCode:
    """Return what went wrong most often, of what is worth a lesson."""
    teaching = {code: count for code, count in trial.codes.items() if code in _TEACHES}
    return max(teaching, key=lambda code: teaching[code], default=FailureCode.MOTION)
