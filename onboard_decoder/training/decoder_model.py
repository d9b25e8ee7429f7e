# SPDX-License-Identifier: Apache-2.0
"""The onboard decoder: a residual network from one plan step and fresh joints to a chunk.

It is a flow: it sees a noisy chunk as well and says which chunk that is, so that the robot can
lead it to what it is playing (``chunk_guidance``). It predicts where the joints end (a learned
inverse kinematics) and writes the chunk as

    joints + (goal - joints) * profile(t) + distance * bend(t)

with `profile` and `bend` on a smooth basis of time. Near the goal every term vanishes with the
distance, so the arm stands still there. Finger and remaining time have heads of their own. Limits
are clipped inside the graph. Knows the robot by its manifest; knows no data and no training.
"""

from __future__ import annotations

from dataclasses import dataclass
import math

from onboard_decoder.manifest import Manifest
from onboard_decoder.plan import Skill
from onboard_decoder.training.tool_layer import ToolLayer
import torch
from torch import nn, Tensor
from torch.nn import functional as F

SKILLS = tuple(skill.value for skill in Skill)
LOWEST_YAW = -0.9       # [rad] a parallel gripper looks the same after pi: yaw starts here
REMAINING_CAP_S = 3.0
NOISE_RAD = 0.3         # deviation of the noise that chunks are drawn from


@dataclass(frozen=True)
class DecoderConfig:
    """Sizes of a decoder.

    Attributes:
        horizon: actions of a chunk.
        latent_size: numbers that the backbone may add.
        width: of the residual blocks.
        blocks: how many.
        knots: of the basis of time.
        goal_width: of the inverse kinematics.
        longest_delay_s: greatest delay in the demonstrations.
    """

    horizon: int = 50
    latent_size: int = 32
    width: int = 320
    blocks: int = 4
    knots: int = 16
    goal_width: int = 160
    longest_delay_s: float = 0.5


@dataclass(frozen=True)
class Prediction:
    """What the network says.

    Attributes:
        chunk: (batch, horizon, joints).
        remaining: (batch, 1) [s].
        goal: where the arm ends (batch, joints - 1) [rad].
    """

    chunk: Tensor
    remaining: Tensor
    goal: Tensor


class DecoderModel(nn.Module):
    """The network; see the module docstring."""

    lower: Tensor
    upper: Tensor
    home: Tensor
    top_speed: Tensor
    opened: Tensor
    closed: Tensor
    top_bend: Tensor
    spread: Tensor
    basis: Tensor
    to_knots: Tensor

    def __init__(self, manifest: Manifest, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        arm = len(manifest.joints) - 1
        self._constants(manifest)
        self.tool = ToolLayer(manifest.kinematics)
        self.goal = GoalNet(arm, config.goal_width)
        self.latent = nn.Linear(config.latent_size, config.width, bias=False)
        self.draft = nn.Linear((arm + 1) * config.knots + 2, config.width, bias=False)
        for layer in (self.latent, self.draft):
            nn.init.zeros_(layer.weight)
        self.enter = nn.Linear(_feature_count(arm), config.width)
        self.blocks = nn.ModuleList(Block(config.width) for _ in range(config.blocks))
        self.norm = nn.LayerNorm(config.width)
        self.profile = nn.Linear(config.width, config.knots)
        self.bend = nn.Linear(config.width, arm * config.knots)
        self.finger = nn.Linear(config.width, config.knots)
        self.left = nn.Linear(config.width, 1)
        nn.init.zeros_(self.bend.weight)
        nn.init.zeros_(self.bend.bias)
        basis = spline_basis(config.horizon, config.knots)
        self.register_buffer('basis', basis)
        self.register_buffer('to_knots', torch.linalg.pinv(basis))

    def predict(self, skill: Tensor, target: Tensor, gripper: Tensor, speed: Tensor,
                joints: Tensor, velocities: Tensor, accelerations: Tensor, known: Tensor,
                delay: Tensor, latent: Tensor, draft: Tensor, tau: Tensor) -> Prediction:
        """See `forward`."""
        home = skill[:, SKILLS.index('home'):][:, :1]
        target = _canonical(target) * (1 - home)
        goal = self.goal(target)
        goal = home * self.home[:-1] + (1 - home) * goal
        features = self._features(skill, target, home, gripper, speed, joints, velocities, delay,
                                  goal)
        bend = accelerations * known / self.top_bend
        features = torch.cat([features, bend, torch.tanh(3 * bend), known], dim=1)
        # Normalised, so that a latent of any size weighs what it weighed in training.
        hint = F.layer_norm(latent, (self.config.latent_size,))
        hidden = self.enter(features) + self.latent(hint) + self._seen(draft, tau, joints)
        for block in self.blocks:
            hidden = block(hidden)
        hidden = self.norm(hidden)
        q = joints[:, :-1]
        way = goal - q
        size = way.square() + (0.2 * velocities[:, :-1]).square()
        distance = size.sum(1, keepdim=True).clamp(min=1e-10).sqrt()
        profile = torch.sigmoid(self.profile(hidden)) @ self.basis             # (batch, horizon)
        bend = self.bend(hidden).reshape(-1, q.shape[1], self.config.knots) @ self.basis
        arm = q.unsqueeze(1) + way.unsqueeze(1) * profile.unsqueeze(2)
        arm = arm + distance.unsqueeze(2) * bend.transpose(1, 2)
        opening = torch.sigmoid(self.finger(hidden)) @ self.basis              # (batch, horizon)
        fingers = self.closed + opening * (self.opened - self.closed)
        chunk = torch.cat([arm, fingers.unsqueeze(2)], dim=2)
        chunk = torch.minimum(torch.maximum(chunk, self.lower), self.upper)
        remaining = F.softplus(self.left(hidden), beta=8.0).clamp(max=REMAINING_CAP_S)
        return Prediction(chunk, remaining, goal)

    def forward(self, skill: Tensor, target: Tensor, gripper: Tensor, speed: Tensor,
                joints: Tensor, velocities: Tensor, accelerations: Tensor, known: Tensor,
                delay: Tensor, latent: Tensor, draft: Tensor, tau: Tensor
                ) -> tuple[Tensor, Tensor]:
        """Decode.

        Args:
            skill: one-hot in the order of SKILLS (batch, skills).
            target: tool x, y, z [m], yaw [rad] in base (batch, 4); unused by 'home'.
            gripper: opening at the end, 0 to 1 (batch, 1).
            speed: share of the speed limits (batch, 1).
            joints: measured [rad], finger last [m] (batch, joints).
            velocities: measured (batch, joints).
            accelerations: of the arm, where known (batch, joints - 1).
            known: 1 where the accelerations are, else 0 (batch, 1).
            delay: time until the first action is used [s] (batch, 1).
            latent: from the backbone, zeros where there is none (batch, latent).
            draft: noisy chunk (batch, horizon, joints).
            tau: how much of the draft is a chunk, 0 none to 1 all (batch, 1).

        Returns:
            chunk (batch, horizon, joints) and remaining (batch, 1) [s].
        """
        prediction = self.predict(
            skill, target, gripper, speed, joints, velocities, accelerations, known, delay,
            latent, draft, tau)
        return prediction.chunk, prediction.remaining

    def _constants(self, manifest: Manifest) -> None:
        """Keep what the manifest says as constants of the graph."""
        def tensor(field: str) -> Tensor:
            return torch.tensor(manifest.column(field), dtype=torch.float32)

        self.register_buffer('lower', tensor('lower'))
        self.register_buffer('upper', tensor('upper'))
        self.register_buffer('home', tensor('home'))
        self.register_buffer('top_speed', tensor('max_velocity'))
        self.register_buffer('top_bend', tensor('max_acceleration')[:-1])
        spread = torch.full((len(manifest.joints),), NOISE_RAD)
        spread[-1] = abs(manifest.gripper.open_position - manifest.gripper.closed_position) / 2
        self.register_buffer('spread', spread)
        self.register_buffer('opened', torch.tensor(manifest.gripper.open_position))
        self.register_buffer('closed', torch.tensor(manifest.gripper.closed_position))

    def _seen(self, draft: Tensor, tau: Tensor, joints: Tensor) -> Tensor:
        """What a noisy chunk adds to the hidden state (batch, width)."""
        off = (draft - joints.unsqueeze(1)) / self.spread                     # (batch, h, joints)
        knots = (off.transpose(1, 2) @ self.to_knots).flatten(1)
        seen: Tensor = self.draft(torch.cat([knots * tau, tau, tau.square()], dim=1))
        return seen

    def _features(self, skill: Tensor, target: Tensor, home: Tensor, gripper: Tensor,
                  speed: Tensor, joints: Tensor, velocities: Tensor, delay: Tensor, goal: Tensor
                  ) -> Tensor:
        """Everything the network sees, each of order one (batch, features)."""
        q, v, finger = joints[:, :-1], velocities[:, :-1], joints[:, -1:]
        place, pace = self.tool(q, v)
        off = (target[:, :3] - place) * (1 - home)
        gap = off.square().sum(1, keepdim=True).clamp(min=1e-8).sqrt()
        way = goal - q
        opening = (finger - self.closed) / (self.opened - self.closed)
        finger_v = velocities[:, -1:]
        return torch.cat([
            skill, target[:, :3] * 3, gripper, speed, delay * 4, delay.square() * 8,
            q.sin(), q.cos(), v / self.top_speed[:-1], torch.tanh(v * 10),
            way, torch.tanh(way * 8), torch.tanh(way * 60),
            place * 3, off * 5, torch.tanh(off * 15), torch.tanh(off * 120), pace * 3,
            torch.tanh(pace * 20), gap * 5, gap.log() / 4, torch.tanh((gap - 0.006) * 400),
            torch.tanh((gap - 0.02) * 150), opening, torch.tanh((opening - gripper) * 20),
            torch.tanh((finger - 0.036) * 2000), torch.tanh((finger - 0.026) * 2000),
            torch.tanh((finger - 0.0005) * 2000), finger_v * 10, torch.tanh(finger_v * 200),
        ], dim=1)


class GoalNet(nn.Module):
    """Learned inverse kinematics of a tool that points down: target (batch, 4) to arm joints."""

    def __init__(self, arm: int, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(7, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(),
            nn.Linear(width, width), nn.SiLU(), nn.Linear(width, arm))

    def forward(self, target: Tensor) -> Tensor:
        """Return joints (batch, arm) [rad]."""
        x, y, z, yaw = target.split(1, dim=1)
        x = x.clamp(min=0.1)
        radius = (x.square() + y.square()).sqrt()
        bearing = (y / x).atan()
        joints: Tensor = self.layers(torch.cat(
            [(radius - 0.45) * 6, radius.reciprocal() - 2.2, bearing * 2, (z - 0.15) * 8,
             x * 3 - 1.4, y * 3, (radius.square() + z.square()) * 3 - 0.7], dim=1))
        # The bearing turns the whole arm and the yaw turns the last joint: no need to learn that.
        turn = torch.cat([bearing, torch.zeros_like(joints[:, 2:]), bearing - yaw], dim=1)
        return joints + turn


class Block(nn.Module):
    """Two layers beside the identity."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return (batch, width)."""
        change: Tensor = self.second(F.silu(self.first(self.norm(hidden))))
        return hidden + change


def spline_basis(horizon: int, knots: int) -> Tensor:
    """Cubic B-splines over a chunk: smooth weights that sum to one at every action.

    Args:
        horizon: actions.
        knots: splines.

    Returns:
        Shape (knots, horizon).
    """
    spans = knots - 3
    time = torch.linspace(0, spans, horizon, dtype=torch.float64)
    centre = torch.arange(-1, knots - 1, dtype=torch.float64)
    away = (time[None, :] - centre[:, None]).abs()
    inner = 2 / 3 - away.square() + away.pow(3) / 2
    outer = (2 - away).clamp(min=0).pow(3) / 6
    return torch.where(away < 1, inner, outer).float()


def _canonical(target: Tensor) -> Tensor:
    """Take whole half turns out of the yaw; (batch, 4)."""
    yaw = target[:, 3:]
    turns = ((yaw - LOWEST_YAW) / math.pi).floor()
    return torch.cat([target[:, :3], yaw - turns * math.pi], dim=1)


def _feature_count(arm: int) -> int:
    return len(SKILLS) + 3 + 4 + 9 * arm + 6 * 3 + 4 + 7 + 1
