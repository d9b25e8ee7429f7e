# SPDX-License-Identifier: Apache-2.0
"""Puts all findings into the one JSON object that the bench ends with."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tendon.bench_agent.exactness import Distance
from tendon.bench_agent.race import EXACT, Race, REPREFILL, typical
from tendon.bench_agent.script import Event
from tendon.bench_agent.size import Size
from tendon.bench_agent.table import by_event
from tendon.provenance import provenance
import torch
import transformers

CACHE_KEYS = (
    'max_abs_logit_diff', 'tokens_slope_per_turn', 'ttft_ratio_late_early',
    'restore_over_prefill', 'speedup_vs_reprefill',
)
TASK_KEYS = (
    'success_plain', 'success_react', 'success_trial1', 'success_trial3', 'overclaim_rate',
)
ARMS = ('exact', 'stale', 'repair')


@dataclass
class CacheFindings:
    """What was measured of the cache with one model."""

    model: str
    size: Size
    race: Race = field(default_factory=Race)
    distances: dict[str, Distance] = field(default_factory=dict)
    """By operation."""
    edits: dict[str, dict[str, float]] = field(default_factory=dict)
    """By approximate edit."""
    restore_over_prefill: float | None = None
    stored_bytes: int | None = None


@dataclass
class Findings:
    """All that was measured."""

    cache: list[CacheFindings] = field(default_factory=list)
    """By model; the first one gives the figures of the top level."""
    tasks: dict[str, Any] = field(default_factory=dict)
    moves: dict[str, Any] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    """Peers that do not run here, with a remedy for each."""


def figures(findings: Findings, seed: int) -> dict[str, Any]:
    """Return the JSON object; what was not measured is None."""
    by_model = {one.model: cache_figures(one) for one in findings.cache}
    first = next(iter(by_model.values()), {})
    errors = findings.moves.get('contact_errors', {})
    return {
        **{name: first.get(name) for name in CACHE_KEYS},
        **{name: findings.tasks.get(name) for name in TASK_KEYS},
        'contact_errors': {arm: errors.get(arm) for arm in ARMS},
        'cache': by_model, 'tasks': findings.tasks, 'moves': findings.moves,
        'missing': findings.missing,
        'torch': torch.__version__, 'transformers': transformers.__version__,
        **provenance(seed),
    }


def cache_figures(found: CacheFindings) -> dict[str, Any]:
    """Return the figures of one model."""
    race, size = found.race, found.size
    worst = max((one.logits for one in found.distances.values()), default=None)
    return {
        'max_abs_logit_diff': worst,
        'greedy_differences': sum(one.tokens for one in found.distances.values()),
        'distances': {
            name: {'max_abs_logit_diff': one.logits, 'greedy_differences': one.tokens}
            for name, one in found.distances.items()
        },
        'tokens_slope_per_turn': slope(race.computed(EXACT, Event.APPEND)),
        'tokens_slope_all_turns': slope(race.computed(EXACT)),
        'ttft_ratio_late_early': late_over_early(race, size),
        'ttft_ratio_late_early_wall': late_over_early(race, size, wall=True),
        'restore_over_prefill': found.restore_over_prefill,
        'stored_bytes': found.stored_bytes,
        'speedup_vs_reprefill': speedup(race, size),
        'speedup_vs_reprefill_wall': speedup(race, size, wall=True),
        'edits': found.edits,
        'arms': {
            log.name: {
                'maker': log.maker, 'events': by_event(race, log, size),
                'ttft_ms_last': _ms(race.typical(log.name, _last(size.race, size))),
                'same_first_token': race.agreement(log.name) if log.steps else None,
                'bytes': next(reversed(log.steps.values())).nbytes if log.steps else None,
                'failure': log.failure or None,
            }
            for log in race.logs.values()
        },
        'prompt_tokens': [race.lengths[0], max(race.lengths)] if race.lengths else None,
        'turns': size.turns, 'race': size.race,
    }


def slope(points: Sequence[tuple[int, int]]) -> float | None:
    """Return the slope of the least squares line through (turn, tokens), the first turn left out.

    The first turn reads all there is; it is no step.
    """
    points = [point for point in points if point[0]]
    if len(points) < 2:
        return None
    middle = sum(turn for turn, _ in points) / len(points)
    spread = sum((turn - middle) ** 2 for turn, _ in points)
    return round(sum((turn - middle) * tokens for turn, tokens in points) / spread, 4)


def late_over_early(race: Race, size: Size, wall: bool = False) -> float | None:
    """Return the time to the first token of the last turns over that of the early ones.

    The early ones are those of a young session that were taken at the same time, if there is one.
    """
    late = race.typical(EXACT, _last(size.turns, size), wall)
    if race.young is not None:
        early = typical(race.young, range(*size.early), wall)
    else:
        early = race.typical(EXACT, range(*size.early), wall)
    return None if early is None or late is None else round(late / early, 3)


def speedup(race: Race, size: Size, wall: bool = False) -> float | None:
    """Return the time of a full prefill over ours in the last turns."""
    ours = race.typical(EXACT, _last(size.turns, size), wall)
    theirs = race.typical(REPREFILL, _last(size.turns, size), wall)
    return None if ours is None or theirs is None else round(theirs / ours, 2)


def _last(end: int, size: Size) -> range:
    return range(end - size.late, end)


def _ms(time_s: float | None) -> float | None:
    return None if time_s is None else round(time_s * 1e3, 2)
