# SPDX-License-Identifier: Apache-2.0
"""Which entries of a task the backbone has, as far as it has said so; the rest is to be sent.

Knows memories of turns; knows neither messages nor streams. Safe to use from two threads.
"""

from dataclasses import dataclass
import threading

from onboard_decoder.planner_port import TurnRequest
from onboard_decoder.task_memory import HistoryEntry, Purpose, TaskMemory


@dataclass(frozen=True, slots=True)
class Missing:
    """What a turn must carry: the number of its task, and the first entry that is missing."""

    task_number: int = 0
    trial: int = 0
    first_entry: int = 0


class KnownHistory:
    """What the backbone knows of the newest trial of the newest task."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._instruction = ''
        self._entries: tuple[HistoryEntry, ...] = ()
        self._task_number = self._trial = 0
        self._known = 0

    def missing(self, turn: TurnRequest) -> Missing:
        """Return from where on a turn's memory must be sent.

        A memory that does not go on from the one before is of another task.
        """
        memory = turn.memory
        if memory is None:
            return Missing()
        with self._lock:
            if not self._is_part(turn.instruction, memory):
                self._take(turn.instruction, memory)
            first = min(self._known, len(memory.entries))
            return Missing(self._task_number, memory.trial, first)

    def learn(self, of: Missing, known: int) -> None:
        """Note how many entries the backbone has, as an answer to a turn said."""
        with self._lock:
            if self._is_newest(of):
                self._known = max(self._known, known)

    def correct(self, of: Missing, expected: int) -> Missing:
        """Note that the backbone has fewer entries than was thought; return what it lacks."""
        with self._lock:
            if self._is_newest(of):
                self._known = expected
        return Missing(of.task_number, of.trial, expected)

    def forget(self) -> None:
        """Note that there is a new session, which knows nothing."""
        with self._lock:
            self._known = 0

    def _is_part(self, instruction: str, memory: TaskMemory) -> bool:
        """Say whether a check looks at no more of the task than was sent before."""
        return (
            memory.purpose is Purpose.CHECK
            and (instruction, memory.trial) == (self._instruction, self._trial)
            and memory.entries == self._entries[: len(memory.entries)]
        )

    def _take(self, instruction: str, memory: TaskMemory) -> None:
        same_task = instruction == self._instruction and memory.trial >= self._trial > 0
        if same_task and memory.trial == self._trial:
            same_task = memory.entries[: len(self._entries)] == self._entries
        if not same_task:
            self._task_number += 1
        if not same_task or memory.trial != self._trial:
            self._known = 0
        self._instruction, self._entries = instruction, memory.entries
        self._trial = memory.trial

    def _is_newest(self, of: Missing) -> bool:
        return (of.task_number, of.trial) == (self._task_number, self._trial)
