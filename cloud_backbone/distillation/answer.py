# SPDX-License-Identifier: Apache-2.0
"""Lets a model answer many turns at once, greedily, as the service would.

Prompts are padded on the left, so that all answers start together. Knows the writer of plans,
not how good a plan is.
"""

from __future__ import annotations

from collections.abc import Sequence

from cloud_backbone.answer_writer import AnswerWriter
from cloud_backbone.constrained_decoding import PlanLanguage, PlanWriter
from cloud_backbone.distillation.turns import Turn
from cloud_backbone.model.distilled_vlm import TendonVlmForConditionalGeneration
from cloud_backbone.model.prompt import image_ids
from cloud_backbone.model.text_codec import TokenizerCodec
from cloud_backbone.model.tokenizer import PAD
from cloud_backbone.plan_grammar import PlanDraft
from cloud_backbone.plan_vocabulary import Vocabulary
import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedTokenizerFast


class Scribe:
    """One answer that is written one token per step."""

    def __init__(self, writer: AnswerWriter) -> None:
        self.writer = writer
        self._pending = list(self.writer.opening)

    @property
    def busy(self) -> bool:
        """Whether the answer is not finished yet."""
        return self.writer.draft is None

    def next_token(self, logits: Tensor) -> int:
        """Return the token that follows, chosen from logits (vocabulary,) where free."""
        if not self.busy:
            return PAD
        if not self._pending:
            self._pending = self.writer.choose(logits)
        return self._pending.pop(0) if self._pending else PAD


def answer(
    model: TendonVlmForConditionalGeneration,
    tokenizer: PreTrainedTokenizerFast,
    turns: Sequence[Turn],
    pixels: Tensor,
) -> list[PlanDraft]:
    """Return a plan per turn; pixels (turns, 3, side, side), 0 to 1, one image per turn."""
    language = PlanLanguage(Vocabulary(), TokenizerCodec(tokenizer))
    writers = [PlanWriter(language) for _ in turns]
    write(model, turns, writers, pixels)
    return [writer.draft for writer in writers if writer.draft is not None]


@torch.no_grad()
def write(
    model: TendonVlmForConditionalGeneration,
    turns: Sequence[Turn],
    writers: Sequence[AnswerWriter],
    pixels: Tensor,
) -> None:
    """Let each writer finish its turn; pixels (turns, 3, side, side), 0 to 1."""
    scribes = [Scribe(writer) for writer in writers]
    ids, mask = _pad_left([turn.prompt + image_ids(model.config) for turn in turns])
    ids, mask = ids.to(pixels.device), mask.to(pixels.device)
    cache = DynamicCache()
    features: Tensor | None = model.get_image_features(pixels)
    while any(scribe.busy for scribe in scribes):
        output = model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=(mask.cumsum(dim=1) - 1).clamp(min=0)[:, -ids.shape[1] :],
            past_key_values=cache,
            image_features=features,
            use_cache=True,
            logits_to_keep=1,
        )
        logits = output.logits[:, -1].float().cpu()
        step = [scribe.next_token(row) for scribe, row in zip(scribes, logits, strict=True)]
        ids, features = torch.tensor(step, device=mask.device)[:, None], None
        mask = torch.cat([mask, torch.ones_like(ids)], dim=1)


def _pad_left(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    length = max(len(row) for row in rows)
    ids = torch.full((len(rows), length), PAD)
    mask = torch.zeros(len(rows), length, dtype=torch.long)
    for index, row in enumerate(rows):
        ids[index, length - len(row) :] = torch.tensor(row)
        mask[index, length - len(row) :] = 1
    return ids, mask
