# SPDX-License-Identifier: Apache-2.0
"""Lets a model answer many turns at once, greedily, along the moves of the plan grammar.

Prompts are padded on the left, so that all answers start together. Knows the grammar, not how
good an answer is.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedTokenizerFast

from cloud_backbone.distillation.turns import Turn
from cloud_backbone.model.configuration import LOCATION_TOKENS
from cloud_backbone.model.distilled_vlm import TendonVlmForConditionalGeneration
from cloud_backbone.model.prompt import image_ids
from cloud_backbone.model.tokenizer import PAD
from cloud_backbone.plan_grammar import Choice, moves, PlanDraft, value_of
from cloud_backbone.plan_vocabulary import Vocabulary

WINDOW_BINS = 4


class Writer:
    """Writes one answer token by token; `draft` is there when it is finished."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerFast,
        vocabulary: Vocabulary,
        location_start: int,
        texts: dict[str, tuple[int, ...]],
    ) -> None:
        self.draft: PlanDraft | None = None
        self._tokenizer = tokenizer
        self._first = location_start
        self._texts = texts
        self._moves = moves(vocabulary, strict=True)
        self._begin(next(self._moves))

    def write(self, logits: Tensor) -> int:
        """Choose the next token from logits (vocabulary,) and return it."""
        if self._options is None:
            return self._locate(logits)
        allowed = sorted({ids[len(self._written)] for ids in self._options})
        token = allowed[int(logits[allowed].argmax())] if len(allowed) > 1 else allowed[0]
        self._written.append(token)
        self._options = {
            ids: text
            for ids, text in self._options.items()
            if ids[: len(self._written)] == tuple(self._written)
        }
        complete = self._options.get(tuple(self._written))
        if complete is not None:
            self._reply(complete)
        return token

    def _begin(self, move: object) -> None:
        self._written: list[int] = []
        self._options: dict[tuple[int, ...], str] | None = None
        if isinstance(move, Choice):
            self._options = {self._spell(text): text for text in move.texts}

    def _spell(self, text: str) -> tuple[int, ...]:
        if text not in self._texts:
            self._texts[text] = tuple(self._tokenizer.encode(text, add_special_tokens=False))
        return self._texts[text]

    def _locate(self, logits: Tensor) -> int:
        bins = logits[self._first : self._first + LOCATION_TOKENS].softmax(dim=-1)
        best = int(bins.argmax())
        self._reply(expected_location(bins))
        return self._first + best

    def _reply(self, reply: str | float) -> None:
        try:
            self._begin(self._moves.send(reply))
        except StopIteration as end:
            self.draft = end.value


def expected_location(bins: Tensor) -> float:
    """Return the location (0 to 1) that a distribution over bins means, around its peak."""
    order = torch.arange(len(bins), device=bins.device)
    near = bins * ((order - bins.argmax()).abs() <= WINDOW_BINS)
    return value_of(float((near * order).sum() / near.sum()))


@torch.no_grad()
def answer(
    model: TendonVlmForConditionalGeneration,
    tokenizer: PreTrainedTokenizerFast,
    turns: Sequence[Turn],
    pixels: Tensor,
) -> list[PlanDraft]:
    """Return a draft per turn; pixels (turns, 3, side, side), 0 to 1, one image per turn."""
    vocabulary, texts = Vocabulary(), dict[str, tuple[int, ...]]()
    first = model.config.location_token_start
    writers = [Writer(tokenizer, vocabulary, first, texts) for _ in turns]
    ids, mask = _pad_left([turn.before + image_ids(model.config) for turn in turns])
    ids, mask = ids.to(pixels.device), mask.to(pixels.device)
    cache = DynamicCache()
    features: Tensor | None = model.get_image_features(pixels)
    while any(writer.draft is None for writer in writers):
        position = (mask.cumsum(dim=1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        output = model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=position,
            past_key_values=cache,
            image_features=features,
            use_cache=True,
            logits_to_keep=1,
        )
        logits = output.logits[:, -1].float().cpu()
        step = [w.write(row) if w.draft is None else PAD for w, row in zip(writers, logits)]
        ids, features = torch.tensor(step, device=mask.device)[:, None], None
        mask = torch.cat([mask, torch.ones_like(ids)], dim=1)
    return [writer.draft for writer in writers if writer.draft is not None]


def _pad_left(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    length = max(len(row) for row in rows)
    ids = torch.full((len(rows), length), PAD)
    mask = torch.zeros(len(rows), length, dtype=torch.long)
    for index, row in enumerate(rows):
        ids[index, length - len(row) :] = torch.tensor(row)
        mask[index, length - len(row) :] = 1
    return ids, mask
