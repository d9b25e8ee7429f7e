# SPDX-License-Identifier: Apache-2.0
"""Which steps a session has taken, with what content, and what was answered.

A step is taken once, however often it is sent. Steps are numbered one after another. Knows no
disk and no cache: a journal carries it over a crash.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
import hashlib
import json
from typing import Any

from cloud_backbone.kv_state.errors import StepConflict, StepGap

REPLIES = 64
"""Answers that are kept by default, the newest ones."""
ENTRIES = 1024
"""Steps that are known at all, the newest ones; nobody sends an older one again in earnest."""


@dataclass(frozen=True)
class Entry:
    """One step that was taken."""

    step_id: int
    digest: str
    """Of its content (``digest_of``)."""
    reply: str | None = None
    """What was answered; None: nothing yet, or it is no longer kept."""


class Ledger:
    """The steps of one session.

    Args:
        expected: id of the first step.
        replies: how many answers are kept.
    """

    def __init__(self, expected: int = 0, replies: int = REPLIES) -> None:
        self.expected = expected
        """Id of the next step."""
        self._replies = replies
        self._entries: dict[int, Entry] = {}

    def __len__(self) -> int:
        """Count the steps that are known."""
        return len(self._entries)

    def look_up(self, step_id: int, digest: str) -> Entry | None:
        """Return the entry of a step that was taken; None if it is the next one.

        Raises:
            StepConflict: it was taken with another content, or is older than the ledger.
            StepGap: steps before it are missing.
        """
        if step_id > self.expected:
            raise StepGap(step_id, self.expected)
        if step_id == self.expected:
            return None
        entry = self._entries.get(step_id)
        if entry is None or entry.digest != digest:
            raise StepConflict(step_id)
        return entry

    def take(self, step_id: int, digest: str) -> None:
        """Note that the next step is taken; its answer follows.

        Raises:
            StepConflict: it is not the next one; StepGap likewise.
        """
        if self.look_up(step_id, digest) is not None:
            raise StepConflict(step_id)
        self._entries[step_id] = Entry(step_id, digest)
        self._entries.pop(step_id - ENTRIES, None)
        self.expected = step_id + 1

    def answer(self, step_id: int, reply: str) -> None:
        """Keep the answer to a step that was taken."""
        self._entries[step_id] = replace(self._entries[step_id], reply=reply)
        old = self._entries.get(step_id - self._replies)
        if old is not None:
            self._entries[old.step_id] = replace(old, reply=None)

    def state(self) -> dict[str, Any]:
        """Return all of it, as JSON knows it."""
        entries = [[one.step_id, one.digest, one.reply] for one in self._entries.values()]
        return {'expected': self.expected, 'replies': self._replies, 'entries': entries}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Ledger:
        """Return the ledger that ``state`` was called of."""
        ledger = cls(state['expected'], state['replies'])
        ledger._entries = {one[0]: Entry(*one) for one in state['entries']}
        return ledger


def digest_of(content: Any) -> str:
    """Return the SHA-256 of some content, as JSON knows it; the order of keys does not count."""
    text = json.dumps(content, separators=(',', ':'), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
