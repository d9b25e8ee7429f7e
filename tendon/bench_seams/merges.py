# SPDX-License-Identifier: Apache-2.0
"""How others join chunks, each from its published formula: no code of theirs is run here.

A rule gets the stream and returns what it would have commanded, (ticks, joints); before the first
chunk the joints stay at zero. Knows ticks and rows; no limits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from tendon.bench_seams.stream import HORIZON, JOINTS, Stream

Array = NDArray[np.float64]
Merge = Callable[[Stream], Array]

ACT_M = 0.01
SYNC_ROWS = 50  # that are played before the next chunk is asked for
LEROBOT = {'latest_only': 1.0, 'weighted_average': 0.7, 'average': 0.5, 'conservative': 0.3}


def sync(stream: Stream) -> Array:
    """Play a whole chunk, stand still until the next one is there."""
    out: list[Array] = []
    last = np.zeros(JOINTS)
    while len(out) < len(stream.wanted):
        rows = stream.policy(len(out))[:SYNC_ROWS]
        out += [last] * stream.delay_ticks + list(rows)
        last = out[-1]
    return np.array(out[:len(stream.wanted)])


def lerobot(share_of_new: float) -> Merge:
    """Return lerobot's merge: per tick a constant share of the new where both have a row."""
    def merge(stream: Stream) -> Array:
        queue: dict[int, Array] = {}
        last, out = np.zeros(JOINTS), []
        for tick in range(len(stream.wanted)):
            for chunk in stream.coming(tick):
                rows = {chunk.asked + i: row for i, row in enumerate(chunk.rows)}
                queue = {
                    due: (1 - share_of_new) * queue.get(due, row) + share_of_new * row
                    for due, row in rows.items() if due >= tick
                }
            last = queue.get(tick, last)
            out.append(last)
        return np.array(out)

    return merge


def act(stream: Stream) -> Array:
    """Temporal ensembling of ACT: all rows for a tick, weighted by exp(-m i), i = 0 the oldest."""
    last, out = np.zeros(JOINTS), []
    for tick in range(len(stream.wanted)):
        rows = [
            entry.rows[tick - entry.asked] for entry in stream.arrivals
            if entry.came <= tick < entry.asked + HORIZON
        ]
        if rows:
            weights = np.exp(-ACT_M * np.arange(len(rows)))
            last = weights @ np.array(rows) / weights.sum()
        out.append(last)
    return np.array(out)


def rtc_mask(stream: Stream) -> Array:
    """Join by the soft mask of real-time chunking, as a rule for joining alone.

    Real-time chunking uses the mask to guide the policy while it makes the chunk; a policy that
    is guided disagrees less. This shows what the mask alone does.
    """
    delay = executed = stream.delay_ticks
    old: tuple[int, Array] | None = None
    last, out = np.zeros(JOINTS), []
    for tick in range(len(stream.wanted)):
        for chunk in stream.coming(tick):
            rows = chunk.rows
            if old is not None:
                tail = old[1][chunk.asked - old[0]:]
                tail = np.concatenate([tail, np.repeat(tail[-1:], HORIZON - len(tail), axis=0)])
                weights = soft_mask(delay, executed)[:, None]
                rows = weights * tail + (1 - weights) * rows
            old = chunk.asked, rows
        if old is not None:
            last = old[1][min(tick - old[0], HORIZON - 1)]
        out.append(last)
    return np.array(out)


def soft_mask(delay: int, executed: int) -> Array:
    """Return the weights of the old chunk, (horizon,): 1, then falling, then 0."""
    index = np.arange(HORIZON)
    c = (HORIZON - executed - index) / (HORIZON - executed - delay + 1)
    falling = c * np.expm1(c) / (np.e - 1)
    return np.where(index < delay, 1.0, np.where(index < HORIZON - executed, falling, 0.0))
