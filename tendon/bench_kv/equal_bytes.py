# SPDX-License-Identifier: Apache-2.0
"""Compares the best of ours with the best of the others at equal bytes; ties are called ties."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tendon.bench_kv.quality import Quality

TOLERANCE = 0.99
"""A cache may weigh one percent more than asked: peers round to whole tokens."""


def compare(entries: Sequence[Quality], share: float) -> dict[str, Any] | None:
    """Return who does best within a share of the bytes; None if one side has nobody."""
    light = [entry for entry in entries if entry.bytes_ratio >= TOLERANCE / share]
    ours = [entry for entry in light if entry.maker == 'tendon']
    peers = [entry for entry in light if entry.maker != 'tendon']
    if not ours or not peers:
        return None
    mine = min(ours, key=lambda entry: entry.nll)
    theirs = min(peers, key=lambda entry: entry.nll)
    return {
        'ours': mine.name, 'peer': theirs.name,
        'nll_rise_ours': round(mine.nll_rise, 4), 'nll_rise_peer': round(theirs.nll_rise, 4),
        'nll': _verdict(mine, theirs),
        'recall_in_window': _best(ours, peers, 'recall_in_window'),
        'recall_outside': _best(ours, peers, 'recall_outside'),
    }


def _verdict(mine: Quality, theirs: Quality) -> str:
    """Judge the likelihoods of the same tokens; within two standard errors it is a tie."""
    gap = np.subtract(mine.losses, theirs.losses)
    error = gap.std(ddof=1) / len(gap) ** 0.5 if len(gap) > 1 else np.inf
    if abs(gap.mean()) <= 2 * error:
        return 'tie'
    return 'better' if gap.mean() < 0 else 'worse'


def _best(ours: Sequence[Quality], peers: Sequence[Quality], figure: str) -> dict[str, float]:
    return {
        'ours': max(getattr(entry, figure) for entry in ours),
        'peer': max(getattr(entry, figure) for entry in peers),
    }
