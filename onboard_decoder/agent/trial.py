# SPDX-License-Identifier: Apache-2.0
"""One trial: what was called and what came of it, and when enough is enough.

Counts and compares; knows no time, no motion and no image.
"""

from collections import Counter

from onboard_decoder.agent.effects import Effect
from onboard_decoder.agent.lesson import Lesson
from onboard_decoder.agent.task_result import FailureCode, TrialEnd
from onboard_decoder.config import AgentSettings
from onboard_decoder.task_memory import (
    HistoryEntry,
    Purpose,
    StepResult,
    TaskMemory,
    Tool,
    ToolCall,
)

_PROGRESS = (
    StepResult.HELD, StepResult.PLACED, StepResult.PUSHED, StepResult.RELEASED,
    StepResult.CLEARED,
)
_NEUTRAL = (StepResult.SEEN, StepResult.STOPPED)
_TOUCHING = (Tool.GRASP, Tool.PLACE, Tool.STACK, Tool.PUSH, Tool.RELEASE)


class Trial:
    """The state of one trial."""

    def __init__(
        self, number: int, settings: AgentSettings, lessons: tuple[Lesson, ...] = ()
    ) -> None:
        self.number, self.lessons, self._settings = number, lessons, settings
        self.entries: list[HistoryEntry] = []
        self.codes: Counter[FailureCode] = Counter()
        self.bad_calls = self.refusals = self.overclaims = 0
        self._fruitless = self._repeats = 0
        self._failures: Counter[tuple[ToolCall, StepResult]] = Counter()

    @property
    def next_step_id(self) -> int:
        """Id of the step that is called next."""
        return len(self.entries) + 1

    @property
    def has_touched(self) -> bool:
        """True once something was tried on a thing, whatever came of it."""
        return any(
            entry.call.tool in _TOUCHING and entry.result is not StepResult.REFUSED
            for entry in self.entries
        )

    @property
    def has_place(self) -> bool:
        """True if a call has named where something is to go."""
        return any(entry.call.target_name for entry in self.entries)

    @property
    def is_unanswered(self) -> bool:
        """True if nobody answered the last question to a person."""
        asked = [entry.result for entry in self.entries if entry.call.tool is Tool.ASK]
        return bool(asked) and asked[-1] is StepResult.UNANSWERED

    @property
    def stops_in_a_row(self) -> int:
        """How many of the newest calls were stopped before contact."""
        count = 0
        for entry in reversed(self.entries):
            if entry.result is not StepResult.STOPPED:
                break
            count += 1
        return count

    @property
    def last_failure(self) -> HistoryEntry | None:
        """The newest step that failed, None if none did."""
        failed = self._failed()
        return failed[-1] if failed else None

    @property
    def failed_steps(self) -> tuple[int, ...]:
        """Ids of the steps that failed."""
        return tuple(entry.step_id for entry in self._failed())

    def _failed(self) -> list[HistoryEntry]:
        return [
            entry for entry in self.entries
            if entry.call.tool is not Tool.DONE and _has_failed(entry.result)
        ]

    def proposed(self, call: ToolCall, is_unchanged: bool) -> TrialEnd | None:
        """Note a call before it is carried out; the reason where it must not be any more.

        Args:
          call: that the backbone wants.
          is_unchanged: whether the image shows what it showed at the call before.
        """
        if len(self.entries) >= self._settings.max_steps:
            return TrialEnd.STEP_LIMIT
        last = self.entries[-1] if self.entries else None
        is_same = last is not None and last.call == call and last.result not in (
            *_PROGRESS, StepResult.STOPPED)
        self._repeats = self._repeats + 1 if is_same and is_unchanged else 0
        if self._repeats >= self._settings.max_repeats:
            return TrialEnd.EXHAUSTED
        return None

    def add(self, call: ToolCall, effect: Effect) -> HistoryEntry:
        """Write down what came of a call; a claim is no step that could fail."""
        entry = HistoryEntry(self.next_step_id, call, effect.result)
        self.entries.append(entry)
        if effect.code is not None:
            self.codes[effect.code] += 1
        if call.tool is Tool.DONE:
            self.overclaims += 1
            return entry
        if effect.result is StepResult.REFUSED:
            self.refusals += 1
        if effect.result in _PROGRESS:
            self._fruitless = 0
        elif effect.result not in _NEUTRAL:
            self._fruitless += 1
        if _has_failed(effect.result):
            self._failures[call, effect.result] += 1
        return entry

    def over(self) -> TrialEnd | None:
        """Return the limit that has been reached, if one has."""
        settings = self._settings
        same = max(self._failures.values(), default=0)
        reached = {
            TrialEnd.BAD_CALLS: self.bad_calls >= settings.max_bad_calls,
            TrialEnd.REFUSALS: self.refusals >= settings.max_refusals,
            TrialEnd.OVERCLAIM: self.overclaims >= settings.max_overclaims,
            TrialEnd.EXHAUSTED: same >= settings.max_same_failures,
            TrialEnd.NO_PROGRESS: self._fruitless >= settings.max_fruitless,
        }
        return next((end for end, is_there in reached.items() if is_there), None)

    def memory(
        self, purpose: Purpose, hand_holds: bool, expected_resume_s: float = 0.0
    ) -> TaskMemory:
        """Return what a turn rests on."""
        return TaskMemory(
            trial=self.number,
            lessons=tuple(lesson.text for lesson in self.lessons),
            entries=tuple(self.entries),
            purpose=purpose,
            hand_holds=hand_holds,
            expected_resume_s=expected_resume_s,
        )


def _has_failed(result: StepResult) -> bool:
    """True for a result that nobody wanted."""
    return result not in _PROGRESS and result not in _NEUTRAL
