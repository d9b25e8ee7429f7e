# SPDX-License-Identifier: Apache-2.0
"""Attention of one token that its row holds already: the step of decoding.

The same numbers as ``attend``, with less to do: nothing is hidden from the newest token.
"""

from __future__ import annotations

from cloud_backbone.kv_cache.kv_row import KVRow
from cloud_backbone.kv_cache.reading import joined, Reading
import torch
from torch import Tensor


def attend_one(row: KVRow, query: Tensor, scaling: float, softcap: float | None) -> Tensor:
    """Return the output (heads, 1, head_dim) of a query of that shape; the scorer sees its row."""
    reading = Reading(row)
    logits = reading.scores(query.float().view(row.kv_heads, -1, row.head_dim)) * scaling
    if softcap is not None:
        logits = torch.tanh(logits / softcap) * softcap
    reading.hide_dead(logits)
    weights = logits.softmax(-1)  # (kv_heads, group, slots)
    scorer = row.policy.scorer
    if scorer is not None and scorer.reads != 'nothing':
        columns = {name: joined(reading.column(name), 1) for name in scorer.columns}
        positions = joined(reading.positions(), 1)
        newest = torch.tensor([row.seen - 1], dtype=positions.dtype)
        reading.put_columns(scorer.observe(columns, weights[:, :, None], positions, newest))
    return reading.mix(weights).view_as(query).to(query.dtype)
