# SPDX-License-Identifier: Apache-2.0
"""Makes one attention head look at the thing that is being talked about.

Where a location is written, the head must rest on the object token of the named thing; where
the answer begins, one head rests on A and another on B, or on the first token of the sequence
if the thing is not there. Without this loss a small model learns to copy locations, not to
find things. Listens to the decoder's own projections; changes nothing in it.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, NamedTuple

from cloud_backbone.distillation.turns import TurnBatch
from cloud_backbone.model.configuration import BIN, KINDS, PATCH_TOKENS
from cloud_backbone.model.dense_head import Candidates
import torch
from torch import nn, Tensor
from transformers import LlamaModel
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

NEAR = 0.03  # [share of the image side]


class HeadTap:
    """Records queries and keys of the middle layer while the decoder runs."""

    def __init__(self, decoder: LlamaModel) -> None:
        self.decoder = decoder
        self.attention: Any = decoder.layers[len(decoder.layers) // 2].self_attn
        self._seen: dict[str, Tensor] = {}
        self._hooks: list[Any] = []

    def __enter__(self) -> HeadTap:
        """Start to listen."""
        for name in ('q_proj', 'k_proj'):
            module = getattr(self.attention, name)
            self._hooks.append(module.register_forward_hook(self._keep(name)))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop to listen."""
        for hook in self._hooks:
            hook.remove()

    def _keep(self, name: str) -> Any:
        def keep(module: nn.Module, inputs: Any, output: Tensor) -> None:
            self._seen[name] = output

        return keep

    def attend(self, head: int, row: Tensor, position: Tensor) -> Tensor:
        """Return how much `head` looks where, (queries, tokens), from queries (queries,)."""
        size = self.attention.head_dim
        group = head // self.attention.num_key_value_groups
        query = self._seen['q_proj'][..., head * size : (head + 1) * size][:, None].float()
        key = self._seen['k_proj'][..., group * size : (group + 1) * size][:, None].float()
        order = torch.arange(query.shape[2], device=query.device)[None]
        cos, sin = self.decoder.rotary_emb(query, order)
        query, key = apply_rotary_pos_emb(query, key, cos, sin)
        score = torch.einsum('qd,qtd->qt', query[row, 0, position], key[:, 0][row])
        future = order > position[:, None]
        return (score * size**-0.5).masked_fill(future, -1e9).softmax(dim=-1)


class Gaze(NamedTuple):
    """What a head must look at: from token `position` of `row` at `point`; all (queries, ...).

    is_bin: whether the thing is a bin. absent: whether it must rest on the first token.
    """

    row: Tensor
    position: Tensor
    point: Tensor
    is_bin: Tensor
    absent: Tensor


def grounding_loss(tap: HeadTap, batch: TurnBatch, found: Candidates) -> tuple[Tensor, float]:
    """Return the loss and the mean share of attention that is where it should be."""
    heads = tap.attention.config.num_attention_heads
    gazes = [(0, _gaze_at_locations(batch)), (0, _gaze_at_start(batch, 'a'))]
    gazes.append((heads - 1, _gaze_at_start(batch, 'b')))
    device = found.point.device
    shares = [
        _share(tap, head, Gaze(*(part.to(device) for part in gaze)), batch, found)
        for head, gaze in gazes
    ]
    share = torch.cat(shares)
    return -(share + 1e-6).log().mean(), float(share.detach().mean())


def _share(tap: HeadTap, head: int, gaze: Gaze, batch: TurnBatch, found: Candidates) -> Tensor:
    """Return attention on the right tokens; gazes at things without object token are left out."""
    seen = tap.attend(head, gaze.row, gaze.position)  # (queries, tokens)
    image = batch.image_of.to(seen.device)[gaze.row]
    near = (found.point[image] - gaze.point[:, None]).norm(dim=-1) < NEAR
    right = near & (found.is_bin[image] == gaze.is_bin[:, None])  # (queries, object_tokens)
    start = batch.image_start.to(seen.device)[gaze.row] + PATCH_TOKENS
    slots = start[:, None] + torch.arange(right.shape[1], device=seen.device)
    on_thing = (seen.gather(1, slots) * right).sum(dim=-1)
    share = torch.where(gaze.absent, seen[:, 0], on_thing)
    return share[gaze.absent | right.any(dim=-1)]


def _gaze_at_locations(batch: TurnBatch) -> Gaze:
    """One gaze per location token, in the order of `batch.is_location`."""
    row, position = batch.is_location.nonzero(as_tuple=True)
    located = [pair for turn in batch.turns for pair in turn.located for _ in range(2)]
    points = [point for _, point in located]
    bins = [thing.kind == KINDS[BIN] for thing, _ in located]
    point = torch.tensor(points).reshape(-1, 2)
    return Gaze(row, position, point, torch.tensor(bins), torch.zeros(len(row), dtype=torch.bool))


def _gaze_at_start(batch: TurnBatch, which: str) -> Gaze:
    """One gaze per row, from the token that precedes the answer."""
    position = batch.answer.long().argmax(dim=1)
    absent, points, bins = [], [], []
    for turn in batch.turns:
        draft = turn.instruction.draft
        thing = draft.a if which == 'a' else draft.b
        point = draft.a_point if which == 'a' else draft.b_point
        absent.append(point is None)
        points.append(point or (0.0, 0.0))
        bins.append(thing is not None and thing.kind == KINDS[BIN])
    row = torch.arange(len(batch.turns))
    return Gaze(row, position, torch.tensor(points), torch.tensor(bins), torch.tensor(absent))
