# SPDX-License-Identifier: Apache-2.0
"""What a session knows of its task: each entry once, in order, whatever is sent twice.

Knows memories; knows neither wire, words of the model, nor cache.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cloud_backbone.errors import FixRequestError, HistoryGapError, Reason
from cloud_backbone.task_memory import HistoryEntry, Purpose, TaskMemory


@dataclass(frozen=True)
class TaskHistory:
    """The newest trial of the newest task; trial 0: there was none yet."""

    instruction: str = ''
    task_number: int = 0
    trial: int = 0
    lessons: tuple[str, ...] = ()
    entries: tuple[HistoryEntry, ...] = ()

    def with_memory(self, instruction: str, memory: TaskMemory) -> TaskHistory:
        """Return the history after a turn; itself if the turn brings nothing new.

        Raises:
            HistoryGapError: entries are missing in between.
            FixRequestError: a step id comes with another content, or the turn is of a task or
                trial that is over.
        """
        base = self._of(instruction, memory)
        held = len(base.entries)
        if memory.first_entry > held:
            raise HistoryGapError(memory.first_entry, held)
        overlap = base.entries[memory.first_entry :]
        for known, sent in zip(overlap, memory.entries, strict=False):
            if known != sent:
                raise _conflict(sent, known)
        fresh = memory.entries[len(overlap) :]
        _check_ids(base.entries, fresh)
        lessons = base.lessons if memory.purpose is Purpose.CHECK else memory.lessons
        return replace(base, lessons=lessons, entries=(*base.entries, *fresh))

    def whole(self, memory: TaskMemory) -> TaskMemory:
        """Return a turn's memory with all entries, as the model is to see it."""
        return replace(memory, first_entry=0, entries=self.entries, lessons=self.lessons)

    def _of(self, instruction: str, memory: TaskMemory) -> TaskHistory:
        """Return this history if the turn is of the same trial, else an empty one."""
        place, mine = (memory.task_number, memory.trial), (self.task_number, self.trial)
        if instruction == self.instruction and place == mine:
            return self
        if instruction == self.instruction and place < mine or memory.task_number < mine[0]:
            raise FixRequestError(
                Reason.STEP_CONFLICT,
                f'the turn is of task {place[0]} trial {place[1]}, the session is at task '
                f'{mine[0]} trial {mine[1]}: a new task needs a greater task number',
            )
        return TaskHistory(instruction, memory.task_number, memory.trial)


def _check_ids(known: tuple[HistoryEntry, ...], fresh: tuple[HistoryEntry, ...]) -> None:
    by_id = {entry.step_id: entry for entry in known}
    for entry in fresh:
        if entry.step_id in by_id:
            raise _conflict(entry, by_id[entry.step_id])
        by_id[entry.step_id] = entry


def _conflict(sent: HistoryEntry, known: HistoryEntry) -> FixRequestError:
    return FixRequestError(
        Reason.STEP_CONFLICT,
        f'step {sent.step_id} was {_said(known)} (step {known.step_id}) and now is {_said(sent)}',
    )


def _said(entry: HistoryEntry) -> str:
    call = entry.call
    names = [call.tool.value, call.object_name, call.target_name, call.manner.value]
    return f'"{" ".join(name for name in names if name)}: {entry.result.value}"'
