# SPDX-License-Identifier: Apache-2.0
"""Shares one budget by what the layers' tokens are worth: how many of each are among the best.

KVzip (arXiv:2505.23416) and AdaKV (arXiv:2407.11550) rank the tokens of all heads and layers in
one list, so that a head which needs few leaves its slots to one which needs many. Here the heads
of a layer have equally many slots, and the layers share. Scores must mean the same in all layers,
as greatest weights do; mean weights do not.
"""

from __future__ import annotations

from collections.abc import Mapping

from cloud_backbone.kv_cache.kv_row import KVRow
import torch


def merits(rows: Mapping[int, KVRow], slots: int) -> dict[int, float]:
    """Return layer -> how many of its tokens are among the best that have room, in layers' order.

    Args:
        rows: of all layers.
        slots: of all layers together, of one head each.
    """
    worths = {layer: _worths(row) for layer, row in rows.items()}
    everyone = torch.cat(list(worths.values()))
    heads = next(iter(rows.values())).kv_heads
    room = min(slots * heads, len(everyone))
    least = everyone.kthvalue(len(everyone) - room + 1).values
    return {layer: float((worth >= least).sum()) / heads for layer, worth in worths.items()}


def _worths(row: KVRow) -> torch.Tensor:
    """Return what each living token of a row is worth, of all heads together."""
    alive = [row.worth(shelf)[shelf.positions >= 0] for shelf in row.shelves]
    return torch.cat(alive)
