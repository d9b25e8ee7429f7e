# SPDX-License-Identifier: Apache-2.0
"""Latency budget: what the turns of a run took, stage by stage, against the two lines.

Knows the stages of the wire and the budget; knows nothing about how the stamps were taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass
import json
from pathlib import Path
from typing import Any

import numpy as np
from onboard_decoder.latency_budget import (
    BACKBONE_BUDGET_MS,
    BACKBONE_STAGES,
    END_TO_END_BUDGET_MS,
)
from protos.latency import STAGES

NETWORK_STAGES = ('uplink', 'downlink')
AFTER_COMMAND = ('motion_onset',)  # reported, but behind the end of the budget


@dataclass(frozen=True)
class TurnTimes:
    """One turn from the image's stamp to the first command of its plan; all durations in [ms]."""

    turn_id: str
    start_ms: float  # on the robot's monotonic clock
    stages_ms: dict[str, float]
    wall_ms: float
    backbone_arrived_ms: float | None = None  # on the backbone's monotonic clock

    @property
    def backbone_ms(self) -> float:
        """What the backbone took on its own clock."""
        return sum(self.stages_ms.get(stage, 0.0) for stage in BACKBONE_STAGES)

    @property
    def network_ms(self) -> float:
        """What the way there and back took: what the backbone leaves of the round trip."""
        return sum(self.stages_ms.get(stage, 0.0) for stage in NETWORK_STAGES)

    @property
    def full_backbone_ms(self) -> float:
        """The whole turn, had the backbone taken all of its budget."""
        return self.wall_ms - self.backbone_ms + BACKBONE_BUDGET_MS

    @property
    def residual_ms(self) -> float:
        """What the stages leave unexplained of the wall clock."""
        return self.wall_ms - sum(
            value for stage, value in self.stages_ms.items() if stage not in AFTER_COMMAND
        )


@dataclass(frozen=True)
class Row:
    """Percentiles of one stage or sum [ms]."""

    name: str
    p50: float
    p95: float
    p99: float
    max: float
    budget: float | None = None


def row(name: str, values: Sequence[float], budget: float | None = None) -> Row:
    """Summarise values [ms]. Raises ValueError where there is none."""
    if not values:
        raise ValueError(f'no turn has a value for {name!r}')
    p50, p95, p99 = (float(np.percentile(values, q)) for q in (50, 95, 99))
    return Row(name, p50, p95, p99, max(values), budget)


def stage_rows(turns: Sequence[TurnTimes]) -> list[Row]:
    """Return one row per stage that any turn has, in the order of the data path."""
    return [
        row(stage, [turn.stages_ms[stage] for turn in turns if stage in turn.stages_ms])
        for stage in STAGES
        if any(stage in turn.stages_ms for turn in turns)
    ]


def total_rows(turns: Sequence[TurnTimes]) -> list[Row]:
    """Return the sums, of which two have a budget, and the residual."""
    return [
        row('backbone', [turn.backbone_ms for turn in turns], BACKBONE_BUDGET_MS),
        row('network', [turn.network_ms for turn in turns]),
        row('end to end', [turn.wall_ms for turn in turns], END_TO_END_BUDGET_MS),
        row('residual', [abs(turn.residual_ms) for turn in turns]),
    ]


def shares_over(turns: Sequence[TurnTimes]) -> tuple[float, float]:
    """Return which share of the turns is over the backbone's line, and over that of the whole."""
    backbone = sum(turn.backbone_ms > BACKBONE_BUDGET_MS for turn in turns)
    whole = sum(turn.wall_ms > END_TO_END_BUDGET_MS for turn in turns)
    return backbone / len(turns), whole / len(turns)


def share_with_full_backbone(turns: Sequence[TurnTimes]) -> float:
    """Return which share would be over the line of the whole, had the backbone taken its budget.

    The backbone of the measurement may be faster than the one that the budget is made for.
    """
    return sum(turn.full_backbone_ms > END_TO_END_BUDGET_MS for turn in turns) / len(turns)


def shares_sentence(turns: Sequence[TurnTimes]) -> str:
    """Say how many turns are over the two lines."""
    backbone, whole = shares_over(turns)
    return (
        f'Over {BACKBONE_BUDGET_MS:.0f} ms in the backbone: {backbone:.1%} of the turns; '
        f'over {END_TO_END_BUDGET_MS:.0f} ms end to end: {whole:.1%}, and '
        f'{share_with_full_backbone(turns):.1%} had the backbone taken all of its '
        f'{BACKBONE_BUDGET_MS:.0f} ms.'
    )


def slowest_stage(turns: Sequence[TurnTimes]) -> Row:
    """Return the stage with the largest median."""
    inside = [entry for entry in stage_rows(turns) if entry.name not in AFTER_COMMAND]
    return max(inside, key=lambda entry: entry.p50)


def summary(turns: Sequence[TurnTimes]) -> dict[str, Any]:
    """Return the figures that scripts read."""
    backbone, network, end_to_end, residual = total_rows(turns)
    over_backbone, over_whole = shares_over(turns)
    return {
        'turns': len(turns),
        'backbone_ms_p50': round(backbone.p50, 2),
        'network_ms_p50': round(network.p50, 2),
        'network_ms_p95': round(network.p95, 2),
        'network_ms_p99': round(network.p99, 2),
        'e2e_ms_p50': round(end_to_end.p50, 2),
        'e2e_ms_p95': round(end_to_end.p95, 2),
        'e2e_ms_p99': round(end_to_end.p99, 2),
        'e2e_ms_max': round(end_to_end.max, 2),
        'over_160_ms_share': round(over_backbone, 4),
        'over_250_ms_share': round(over_whole, 4),
        'over_250_ms_share_at_160': round(share_with_full_backbone(turns), 4),
        'e2e_ms_p50_at_160': round(
            float(np.median([turn.full_backbone_ms for turn in turns])), 2
        ),
        'residual_ms_p50': round(residual.p50, 3),
        'residual_ms_max': round(residual.max, 3),
        'slowest_stage': slowest_stage(turns).name,
        'stages_ms_p50': {entry.name: round(entry.p50, 3) for entry in stage_rows(turns)},
    }


def read_traces(path: Path) -> list[TurnTimes]:
    """Read the robot's JSON lines; turns that led to no command are left out.

    Raises:
      FileNotFoundError: if the robot wrote no file.
    """
    turns = []
    for line in path.read_text().splitlines():
        record = json.loads(line)
        if record.get('wall_ns') is None:
            continue
        stages = {name: value / 1e6 for name, value in record['stages_ns'].items()}
        arrived_ns = record.get('backbone_arrived_ns')
        turns.append(TurnTimes(
            record['turn_id'], record['start_ns'] / 1e6, stages, record['wall_ns'] / 1e6,
            arrived_ns / 1e6 if arrived_ns else None,
        ))
    return turns
