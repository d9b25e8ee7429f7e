# SPDX-License-Identifier: Apache-2.0
"""Promises of the comparison between what a plan says and what the eyes see."""

from cloud_backbone.plan_grammar import PlanDraft
from cloud_backbone.plan_vocabulary import Thing
from cloud_backbone.sighting import is_seen, missing_from, Sighting

CUBE, BIN, BALL = Thing('red', 'cube'), Thing('blue', 'bin'), Thing('green', 'ball')


def sighting(thing: Thing, x: float, y: float, presence: float = 0.99) -> Sighting:
    """Return a clear sighting."""
    return Sighting((x, y), presence, {thing.kind: 0.98}, {thing.colour: 0.98})


SEEN = (sighting(CUBE, 0.3, 0.4), sighting(BIN, 0.7, 0.5))


def test_a_plan_that_agrees_with_the_eyes_is_believed() -> None:
    """Named things that are seen where the plan says are not missing."""
    draft = PlanDraft('steps', CUBE, BIN, (0.31, 0.4), (0.7, 0.51), 'put')
    assert missing_from(draft, SEEN) is None


def test_a_thing_that_is_not_seen_at_its_point_is_missing() -> None:
    """Neither another thing at the point nor the thing elsewhere makes the plan right."""
    assert missing_from(PlanDraft('steps', BALL, None, (0.3, 0.4), None, 'pick'), SEEN) == BALL
    assert missing_from(PlanDraft('steps', CUBE, None, (0.6, 0.9), None, 'pick'), SEEN) == CUBE


def test_place_counts_as_much_as_thing() -> None:
    """A place that is not there is named."""
    draft = PlanDraft('steps', CUBE, BIN, (0.3, 0.4), (0.1, 0.1), 'put')
    assert missing_from(draft, SEEN) == BIN


def test_a_model_without_eyes_is_believed() -> None:
    """Foreign checkpoints say nothing about what they see."""
    assert missing_from(PlanDraft('steps', BALL, None, (0.3, 0.4), None, 'pick'), ()) is None
    assert not is_seen(CUBE, ())


def test_only_a_clear_sighting_contradicts_a_refusal() -> None:
    """A faint sighting does not force a plan."""
    assert is_seen(CUBE, SEEN)
    assert not is_seen(CUBE, (sighting(CUBE, 0.3, 0.4, presence=0.3),))
