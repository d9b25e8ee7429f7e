# SPDX-License-Identifier: Apache-2.0
"""Does a draft make sense, and do the eyes agree with it? The same questions for plans and acts.

Knows drafts and sightings; knows no model and no robot.
"""

from __future__ import annotations

from collections.abc import Sequence

from cloud_backbone.act import Act, compose_act
from cloud_backbone.agent_words import Lesson, lesson_text
from cloud_backbone.plan_grammar import fault_of, PlanDraft, thought_of
from cloud_backbone.plan_vocabulary import Vocabulary
from cloud_backbone.sighting import is_seen, missing_from, Sighting
from cloud_backbone.task_memory import StepResult, TaskMemory, Tool

Draft = PlanDraft | Act | Lesson


def fault_in(draft: Draft, vocabulary: Vocabulary) -> str | None:
    """Return why a draft makes no sense, in one sentence, or None.

    Acts and lessons always make sense: their grammar allows no others.
    """
    return fault_of(draft, vocabulary) if isinstance(draft, PlanDraft) else None


def contradicts(draft: Draft, sightings: Sequence[Sighting]) -> bool:
    """Say whether a draft says that a thing is not there which the eyes clearly see."""
    if isinstance(draft, PlanDraft):
        return draft.outcome == 'refused' and is_seen(draft.a, sightings)
    return isinstance(draft, Act) and draft.is_absent and is_seen(draft.a, sightings)


def as_seen(draft: Draft, sightings: Sequence[Sighting], memory: TaskMemory | None) -> Draft:
    """Return the draft, or another where the eyes see no such thing at the place it names.

    A plan is refused then; an act looks again, and stops if it has just looked.
    """
    missing = None if isinstance(draft, Lesson) else missing_from(draft, sightings)
    if missing is None:
        return draft
    if isinstance(draft, PlanDraft):
        return PlanDraft('refused', missing)
    last = memory.entries[-1] if memory is not None and memory.entries else None
    looked = last is not None and (last.call.tool, last.result) == (Tool.LOOK, StepResult.SEEN)
    return Act(Tool.STOP if looked else Tool.LOOK, missing)


def hint_of(draft: Draft) -> str:
    """Return words of a draft that the next one will probably repeat."""
    if isinstance(draft, PlanDraft):
        return thought_of(draft)
    return compose_act(draft) if isinstance(draft, Act) else lesson_text(draft)
