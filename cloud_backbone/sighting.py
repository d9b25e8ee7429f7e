# SPDX-License-Identifier: Apache-2.0
"""What the eyes read at a place, held against what a plan says is there.

A model that writes may name a thing by habit; its own vision head has looked at every place. The
two must agree, or the plan is doubted. Knows readings and drafts; no tensors, no tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import math

from cloud_backbone.act import Act
from cloud_backbone.plan_grammar import PlanDraft, Point
from cloud_backbone.plan_vocabulary import Thing

NEAR = 0.06
"""How far a named point may be from a sighting of the thing [share of the image side]."""
UNLIKELY = 0.02
"""Less than this at the named point: the thing is not there."""
LIKELY = 0.6
"""More than this anywhere: the thing is there."""


@dataclass(frozen=True)
class Sighting:
    """One thing that the vision head sees, as probabilities of its kind and its colour."""

    point: Point
    presence: float
    kinds: Mapping[str, float]
    colours: Mapping[str, float]

    def likelihood(self, thing: Thing) -> float:
        """Return how likely this is the named thing, 0 to 1."""
        kind, colour = self.kinds.get(thing.kind, 0.0), self.colours.get(thing.colour, 0.0)
        return self.presence * kind * colour


def missing_from(draft: PlanDraft | Act, sightings: Sequence[Sighting]) -> Thing | None:
    """Return the first named thing that the eyes do not see where the draft says it is.

    A model without sightings is believed.
    """
    named = ((draft.a, draft.a_point), (draft.b, draft.b_point))
    for thing, point in named:
        if thing is None or point is None or not sightings:
            continue
        near = (s for s in sightings if math.dist(s.point, point) < NEAR)
        if max((s.likelihood(thing) for s in near), default=0.0) < UNLIKELY:
            return thing
    return None


def is_seen(thing: Thing, sightings: Sequence[Sighting]) -> bool:
    """Say whether the eyes clearly see the thing somewhere."""
    return any(sighting.likelihood(thing) > LIKELY for sighting in sightings)
