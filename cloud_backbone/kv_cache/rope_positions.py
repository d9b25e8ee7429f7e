# SPDX-License-Identifier: Apache-2.0
"""Rotary positions of the tokens of one session, where they are not the logical ones.

The logical position of a token counts the tokens before it; the rotary one is what its key was
rotated by. They differ with images (M-RoPE has three axes: time, height, width) and with position
ids that a caller chose. What is kept are runs, in which every axis moves evenly: text after an
image is one run, each row of an image is one or two. As long as both agree nothing is kept.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


class RopePositions:
    """A map from logical to rotary positions."""

    def __init__(self) -> None:
        self.starts = torch.empty(0, dtype=torch.int32)
        """Logical position of the first token of each run (runs,), ascending."""
        self.anchors = torch.empty(0, 1, dtype=torch.int32)
        """Rotary position of that token (runs, axes)."""
        self.steps = torch.empty(0, 1, dtype=torch.int8)
        """By how much each axis moves from token to token (runs, axes)."""

    @property
    def plain(self) -> bool:
        """Whether all rotary positions are the logical ones."""
        return not len(self.starts)

    def nbytes(self) -> int:
        """Bytes of all runs [B]."""
        return self.starts.nbytes + self.anchors.nbytes + self.steps.nbytes

    def of(self, tokens: Tensor) -> Tensor:
        """Return rotary positions (axes or 1, tokens) of logical ones (tokens,)."""
        if self.plain:
            return tokens[None].long()
        run = torch.searchsorted(self.starts, tokens.int(), right=True)  # 0: before the first run
        steps = F.pad(self.steps.T.long(), (1, 0), value=1)
        zeros = F.pad(self.anchors.T - self.starts * self.steps.T.long(), (1, 0))
        return zeros.index_select(1, run).addcmul_(steps.index_select(1, run), tokens.long())

    def extend(self, first: int, spots: Tensor) -> None:
        """Learn rotary positions (axes, tokens) of the tokens from ``first`` on, the last ones.

        Does nothing when they are known already, as in the second layer of a model.
        """
        count = spots.shape[1]
        tokens = torch.arange(first, first + count)
        if torch.equal(self.of(tokens).expand_as(spots), spots):
            return
        self.cut(first)
        done = 0
        while done < count:
            rest = spots[:, done:]
            wrong = (self.of(tokens[done:]) != rest).any(0).nonzero()
            if not len(wrong):
                return
            done += int(wrong[0])
            self._begin(first + done, spots[:, done : done + 2])

    def cut(self, tokens: int) -> None:
        """Forget all but the first ``tokens`` tokens."""
        runs = int((self.starts < tokens).sum())
        if runs < len(self.starts):
            self.starts = self.starts[:runs].clone()
            self.anchors, self.steps = self.anchors[:runs].clone(), self.steps[:runs].clone()

    def fork(self) -> RopePositions:
        """Return a map with the same content."""
        twin = RopePositions()
        twin.starts, twin.anchors, twin.steps = self.starts, self.anchors, self.steps
        return twin

    def _begin(self, start: int, spots: Tensor) -> None:
        """Begin a run with a token and, if there is one, its successor (axes, 1 or 2)."""
        step = torch.ones_like(spots[:, 0])  # of a last token: as text goes on
        if spots.shape[1] == 2:
            step = spots[:, 1] - spots[:, 0]
            step = torch.where((step.abs() < 100).all(), step, 1)
        axes = spots.shape[0]
        self.starts = torch.cat([self.starts, torch.tensor([start], dtype=torch.int32)])
        self.anchors = torch.cat([self.anchors.expand(-1, axes), spots[:, :1].T.int()])
        self.steps = torch.cat([self.steps.expand(-1, axes), step[None].to(torch.int8)])
