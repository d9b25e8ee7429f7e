# SPDX-License-Identifier: Apache-2.0
"""Gives the latent a meaning: where A and B are on the table, what A is, and the task.

Layout: A x, y and B x, y in the base frame, relative to MIDDLE_M and in units of SCALE_M;
kind of A, task and outcome as one-hot; the rest is trained to zero and free for later use.
The camera is the nominal one of the data set.
"""

from __future__ import annotations

import math

from cloud_backbone.distillation.turns import Turn
from cloud_backbone.model.configuration import KINDS
from cloud_backbone.plan_grammar import OUTCOMES, Point, TASKS
from cloud_backbone.plan_vocabulary import Thing, Vocabulary
import torch
from torch import Tensor
from torch.nn import functional

CAMERA_IN_BASE_M = (1.10, 0.0, 0.80)
CAMERA_LOOKS_AT_M = (0.47, 0.0, 0.0)
FIELD_OF_VIEW_RAD = math.radians(36.0)
MIDDLE_M = (0.47, 0.0)
SCALE_M = 0.2
PLACES = 4
_VOCABULARY = Vocabulary()


def point_in_base(point: Point, height_m: float) -> tuple[float, float]:
    """Return x and y [m] of an image point (0 to 1) on the plane at `height_m`."""
    x0, _, z0 = CAMERA_IN_BASE_M
    dx, dz = CAMERA_LOOKS_AT_M[0] - x0, CAMERA_LOOKS_AT_M[2] - z0
    length = math.hypot(dx, dz)
    forward = (dx / length, dz / length)  # x and z; the camera has no sideways part
    slope = 2.0 * math.tan(FIELD_OF_VIEW_RAD / 2.0)
    right, down = (point[0] - 0.5) * slope, (point[1] - 0.5) * slope
    # the image's right is +y of the base; its down is forward turned towards the table
    ray_x = forward[0] - down * forward[1]
    ray_z = forward[1] + down * forward[0]
    reach = (height_m - z0) / ray_z
    return x0 + reach * ray_x, reach * right


def latent_target(turn: Turn, size: int) -> tuple[Tensor, Tensor]:
    """Return wanted values and weights, both (latent,); an absent thing has no place."""
    instruction = turn.instruction
    draft = instruction.draft
    value, weight = torch.zeros(size), torch.ones(size)
    for index, (thing, point) in enumerate(((draft.a, draft.a_point), (draft.b, draft.b_point))):
        place = slice(2 * index, 2 * index + 2)
        if point is None or thing is None:
            weight[place] = 0.0
        else:
            value[place] = _scaled(thing, point)
    kinds, tasks = PLACES + len(KINDS), PLACES + len(KINDS) + len(TASKS)
    value[PLACES + KINDS.index(draft.a.kind)] = 1.0
    value[kinds + TASKS.index(instruction.task)] = 1.0
    value[tasks + OUTCOMES.index(draft.outcome)] = 1.0
    return value, weight


def latent_loss(latent: Tensor, turns: tuple[Turn, ...]) -> Tensor:
    """Return the weighted squared error of latents (rows, latent)."""
    pairs = [latent_target(turn, latent.shape[1]) for turn in turns]
    value = torch.stack([pair[0] for pair in pairs]).to(latent.device)
    weight = torch.stack([pair[1] for pair in pairs]).to(latent.device)
    error = functional.mse_loss(latent.float(), value, reduction='none')
    return (error * weight).sum() / weight.sum()


def _scaled(thing: Thing, point: Point) -> Tensor:
    x, y = point_in_base(point, _VOCABULARY.kind_of(thing).label_height_m)
    return torch.tensor([(x - MIDDLE_M[0]) / SCALE_M, (y - MIDDLE_M[1]) / SCALE_M])
