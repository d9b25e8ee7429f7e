# SPDX-License-Identifier: Apache-2.0
"""Teaches the decoder to plan: answers, gaze and latent, on top of trained eyes.

The eyes stay as they are. Teacher and student are trained by the same code; a teacher, where
given, adds its own opinion to the loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from cloud_backbone.distillation.augment import disturb_light, to_pixels
from cloud_backbone.distillation.grounding_loss import grounding_loss, HeadTap
from cloud_backbone.distillation.latent_loss import latent_loss
from cloud_backbone.distillation.plan_loss import plan_loss
from cloud_backbone.distillation.resume import Resume
from cloud_backbone.distillation.scene_shards import Scenes
from cloud_backbone.distillation.schedule import rate_factor, set_rate
from cloud_backbone.distillation.turns import TurnBatch, Turns
from cloud_backbone.model.dense_head import Candidates
from cloud_backbone.model.distilled_vlm import TendonVlmForConditionalGeneration
from cloud_backbone.model.vision_encoder import VisionFeatures
import torch
from torch import nn, Tensor

Report = Callable[[int, dict[str, float]], None]
GROUNDING_WEIGHT = 0.5
LATENT_WEIGHT = 0.3
GAINS = {'layers': 1.0, 'embed_tokens': 2.0, 'other': 3.0}
RISE = 60


@dataclass(frozen=True)
class Course:
    """Length and pace of one training."""

    steps: int
    rate: float
    images: int
    rows: int
    seed: int
    device: str = 'cpu'


class Thoughts(NamedTuple):
    """What a model makes of a batch.

    logits: (answer_tokens, vocabulary). last: hidden state before the end token, (rows, hidden).
    tap: its middle layer. found: the things that it sees.
    """

    logits: Tensor
    last: Tensor
    tap: HeadTap
    found: Candidates


Opinion = Callable[[TurnBatch, VisionFeatures, Thoughts], Tensor]


def train_planner(
    model: TendonVlmForConditionalGeneration,
    scenes: Scenes,
    turns: Turns,
    decisive: Tensor,
    course: Course,
    report: Report,
    opinion: Opinion | None = None,
    resume: Resume | None = None,
) -> TendonVlmForConditionalGeneration:
    """Train all but the eyes, in place.

    decisive: (vocabulary,), bool, tokens that settle what kind of answer it is. opinion: an
    extra loss, for example a teacher's.
    """
    generator = torch.Generator().manual_seed(course.seed)
    # for short rows the plain form is a quarter faster than the fused one on a CPU
    model.model.language_model.set_attn_implementation('eager')
    model.to(course.device)  # type: ignore[arg-type]
    model.eval()  # eyes keep their batch statistics; the decoder has no dropout
    optimizer = torch.optim.AdamW(_groups(model), course.rate, (0.9, 0.98), weight_decay=0.01)
    decisive, resume = decisive.to(course.device), resume or Resume(None)
    for step in range(resume.load(model, optimizer, generator), course.steps):
        set_rate(optimizer, course.rate, rate_factor(step, course.steps, RISE))
        batch = turns.draw(course.images, course.rows, generator)
        pixels = disturb_light(to_pixels(scenes.image[batch.scene]), generator)
        loss, told = _losses(
            model, _to(batch, course.device), pixels.to(course.device), decisive, opinion
        )
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
        optimizer.step()
        report(step, told)
        resume.save(step + 1, model, optimizer, generator)
    return model


def think(
    model: TendonVlmForConditionalGeneration, batch: TurnBatch, features: VisionFeatures
) -> Thoughts:
    """Run a model over a batch, from features that its eyes computed."""
    inner = model.model
    found = inner.object_tokens.find(features)
    words = inner.words()
    words = words._replace(colours=words.colours[batch.names])  # (rows, colours, hidden)
    tokens = inner.object_tokens.tell(
        VisionFeatures(*(part[batch.image_of] for part in features)),
        found.of_images(batch.image_of),
        words,
    )
    vectors = inner.embed(batch.input_ids, tokens)
    with HeadTap(inner.language_model) as tap:
        hidden = inner.language_model(inputs_embeds=vectors, use_cache=False).last_hidden_state
    rows = torch.arange(len(hidden), device=hidden.device)
    last = _last_answer_token(batch)
    return Thoughts(model.lm_head(hidden[batch.answer]), hidden[rows, last], tap, found)


@torch.no_grad()
def look(model: TendonVlmForConditionalGeneration, pixels: Tensor) -> VisionFeatures:
    """Return what the frozen eyes see, without gradient."""
    features: VisionFeatures = model.model.vision_tower(pixels)
    return features


def decisive_tokens(token_ids: list[int], vocabulary: int) -> Tensor:
    """Return a mask (vocabulary,) of the given tokens."""
    mask = torch.zeros(vocabulary, dtype=torch.bool)
    mask[token_ids] = True
    return mask


def _losses(
    model: TendonVlmForConditionalGeneration,
    batch: TurnBatch,
    pixels: Tensor,
    decisive: Tensor,
    opinion: Opinion | None,
) -> tuple[Tensor, dict[str, float]]:
    with torch.autocast(pixels.device.type, torch.bfloat16):
        features = look(model, pixels)
        thoughts = think(model, batch, features)
        latent = model.latent(thoughts.last)
    plan = plan_loss(thoughts.logits, batch, decisive, model.config.location_token_start)
    ground, gaze = grounding_loss(thoughts.tap, batch, thoughts.found)
    loss = plan.total + GROUNDING_WEIGHT * ground
    loss = loss + LATENT_WEIGHT * latent_loss(latent, batch.turns)
    told = {'words': float(plan.words), 'locations': float(plan.locations), 'gaze': gaze}
    if opinion is not None:
        extra = opinion(batch, features, thoughts)
        told['opinion'] = float(extra.detach())
        loss = loss + extra
    return loss, {'loss': float(loss.detach()), **told}


def _groups(model: TendonVlmForConditionalGeneration) -> list[dict[str, object]]:
    """Freeze the eyes; return the other parameters with the gain of their rate."""
    groups: dict[str, list[nn.Parameter]] = {name: [] for name in GAINS}
    for name, parameter in model.named_parameters():
        eyes = name.startswith(('model.vision_tower.', 'model.object_tokens.head.'))
        parameter.requires_grad_(not eyes)
        if not eyes:
            key = next((key for key in GAINS if f'.{key}.' in name), 'other')
            groups[key].append(parameter)
    return [{'params': groups[name], 'gain': gain} for name, gain in GAINS.items()]


def _last_answer_token(batch: TurnBatch) -> Tensor:
    """Return the position of each row's last plan token, the one before the end token."""
    length = batch.answer.shape[1]
    order = torch.arange(length, device=batch.answer.device)
    return (batch.answer * order).argmax(dim=1)


def _to(batch: TurnBatch, device: str) -> TurnBatch:
    moved = [part.to(device) if isinstance(part, Tensor) else part for part in batch]
    return TurnBatch._make(moved)
