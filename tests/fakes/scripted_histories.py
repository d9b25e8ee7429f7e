# SPDX-License-Identifier: Apache-2.0
"""What a backbone without a model remembers of tasks, in messages of the wire alone."""

from __future__ import annotations

from collections import defaultdict

from protos import planner_pb2

Key = tuple[str, str, int, int]
"""Session, instruction, number of the task, trial."""


class ScriptedHistories(defaultdict[Key, list[planner_pb2.HistoryEntry]]):
    """Entries by task. ``received`` holds how many entries each turn with memory carried."""

    def __init__(self) -> None:
        super().__init__(list)
        self.received: list[int] = []

    def apply(
        self, session_id: str, turn: planner_pb2.Turn, answer: planner_pb2.TurnAnswer
    ) -> bool:
        """Take a turn's entries in; on a gap write the error and return False."""
        if not turn.HasField('memory'):
            return True
        memory = turn.memory
        self.received.append(len(memory.entries))
        held = self[session_id, turn.instruction, memory.task_number, memory.trial]
        if memory.first_entry > len(held):
            answer.error.reason = planner_pb2.ERROR_REASON_HISTORY_GAP
            answer.error.remedy = planner_pb2.REMEDY_FIX_REQUEST
            answer.error.message = f'expected entry {len(held)}'
            answer.error.expected_entry = len(held)
            return False
        held.extend(memory.entries[len(held) - memory.first_entry :])
        answer.known_entry_count = len(held)
        return True
