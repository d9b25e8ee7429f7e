# SPDX-License-Identifier: Apache-2.0
"""What the history of a trial says of the next act: what is held, where it goes, what is barred.

The first thought of a trial names things with an empty hand and a free view; later ones keep to
those names. Knows the agent's memory; knows no tokens and no model.
"""

from __future__ import annotations

from collections.abc import Sequence

from cloud_backbone.act import Bounds
from cloud_backbone.plan_vocabulary import Thing, Vocabulary
from cloud_backbone.task_memory import HistoryEntry, StepResult, TaskMemory, Tool

_ACTING = (Tool.GRASP, Tool.PLACE, Tool.STACK, Tool.PUSH, Tool.RELEASE)


def bounds_of(memory: TaskMemory, vocabulary: Vocabulary, refusable: bool = True) -> Bounds:
    """Return what the next act may be.

    Nobody is asked twice for help that was given, and what was denied is claimed again only after
    something was done about it.
    """
    entries = memory.entries
    grasped = _last(entries, StepResult.HELD)
    barred = {Tool.ASK} if _last(entries, StepResult.CLEARED) else set[Tool]()
    if _is_denied(entries):
        barred.add(Tool.DONE)
    return Bounds(
        hand_holds=memory.hand_holds,
        held=None if grasped is None else _named(grasped.call.object_name, vocabulary),
        place=None if grasped is None else _named(grasped.call.target_name, vocabulary),
        barred=frozenset(barred),
        refusable=refusable,
    )


def tried_thing(entries: Sequence[HistoryEntry], vocabulary: Vocabulary) -> Thing | None:
    """Return what was grasped for last, which a lesson is about; None without a grasp."""
    names = [entry.call.object_name for entry in entries if entry.call.tool is Tool.GRASP]
    return _named(names[-1], vocabulary) if names else None


def _is_denied(entries: Sequence[HistoryEntry]) -> bool:
    """Say whether nothing was done since a claim to be done was denied."""
    for entry in reversed(entries):
        if entry.call.tool in _ACTING and entry.result is not StepResult.REFUSED:
            return False
        if entry.call.tool is Tool.DONE:
            return True
    return False


def _last(entries: Sequence[HistoryEntry], result: StepResult) -> HistoryEntry | None:
    return next((entry for entry in reversed(entries) if entry.result is result), None)


def _named(name: str, vocabulary: Vocabulary) -> Thing | None:
    return vocabulary.thing(name) if name in map(str, vocabulary.things) else None
