# SPDX-License-Identifier: Apache-2.0
"""Batches of rows of unlike length."""

from typing import Literal

import torch
from torch import Tensor


def padded(rows: list[Tensor], side: Literal['left', 'right']) -> tuple[Tensor, Tensor]:
    """Return tokens and mask (rows, tokens) of rows (1, tokens) of unlike length."""
    longest = max(row.shape[1] for row in rows)
    ids, mask = torch.zeros(2, len(rows), longest, dtype=torch.long)
    for index, row in enumerate(rows):
        count = row.shape[1]
        place = slice(longest - count, None) if side == 'left' else slice(count)
        ids[index, place], mask[index, place] = row[0], 1
    return ids, mask
