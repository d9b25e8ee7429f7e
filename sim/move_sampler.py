# SPDX-License-Identifier: Apache-2.0
"""Draws moves for demonstrations: every skill, targets all over the table, likely and odd starts.

Knows what plans usually ask for (heights, openings, where a skill begins) and mixes it with what
they never ask for, so that the decoder has seen both. Knows no motion.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from sim.arm_geometry import ArmGeometry, LOWEST_YAW
from sim.arm_limits import ArmLimits
from sim.expert import Moves, SKILLS

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

LOWER = np.array([0.25, -0.34, 0.008])   # [m] box of the targets in base
UPPER = np.array([0.68, 0.34, 0.36])
HOVER = 0.20
SHARE = {'reach': 0.2, 'grasp': 0.19, 'lift': 0.12, 'move': 0.12, 'place': 0.16, 'push': 0.09,
         'home': 0.07, 'hold': 0.05}


@dataclass(frozen=True)
class Habit:
    """What is usual for a skill.

    Attributes:
        heights: pairs of (share, (lowest, highest)) of target heights [m]; the rest is anywhere.
        opening: usual opening at the end.
        start: where the skill usually begins: 'above', 'below', 'behind', 'there' or 'anywhere'.
    """

    heights: tuple[tuple[float, tuple[float, float]], ...]
    opening: float
    start: str


HABITS = {
    'reach': Habit(((0.55, (HOVER, HOVER)), (0.15, (0.02, 0.03))), 1.0, 'anywhere'),
    'grasp': Habit(((0.7, (0.018, 0.027)), (0.15, (0.055, 0.075))), 0.0, 'above'),
    'lift': Habit(((0.8, (HOVER, HOVER)),), 0.0, 'below'),
    'move': Habit(((0.8, (HOVER, HOVER)),), 0.0, 'anywhere'),
    'place': Habit(((0.35, (0.09, 0.10)), (0.3, (0.06, 0.085)), (0.15, (0.018, 0.03))), 1.0,
                   'above'),
    'push': Habit(((0.8, (0.017, 0.03)),), 0.2, 'behind'),
    'home': Habit((), 1.0, 'anywhere'),
    'hold': Habit(((0.7, (HOVER, HOVER)),), 0.0, 'there'),
}


class MoveSampler:
    """Draws moves that start at rest, for one arm."""

    def __init__(self, geometry: ArmGeometry, limits: ArmLimits) -> None:
        self._geometry = geometry
        self._limits = limits

    def draw(self, rng: Generator, count: int) -> Moves:
        """Draw moves with their start at rest and the width of the thing between the fingers."""
        shares = np.array([SHARE[name] for name in SKILLS])
        skills = rng.choice(len(SKILLS), count, p=shares / shares.sum())
        targets, starts = np.empty((count, 4)), np.empty((count, 4))
        openings = np.empty(count)
        for index, name in enumerate(SKILLS):
            chosen = skills == index
            targets[chosen] = _draw_targets(rng, int(chosen.sum()), HABITS[name])
            starts[chosen] = _draw_starts(rng, targets[chosen], HABITS[name].start)
            openings[chosen] = _draw_openings(rng, int(chosen.sum()), HABITS[name].opening)
        stops = _draw_stops(rng, count)
        joints = np.empty((count, 7))
        joints[:, :6] = self._draw_arm(rng, starts)
        joints[:, 6] = self._draw_fingers(rng, skills, openings, stops)
        speeds = np.where(rng.random(count) < 0.5, rng.choice([0.4, 0.5, 0.7, 0.8, 1.0], count),
                          rng.uniform(0.15, 1.0, count))
        return Moves(skills, targets, openings, speeds, joints, np.zeros((count, 7)), None, stops)

    def _draw_arm(self, rng: Generator, poses: Array) -> Array:
        """Joints of tool-down poses, some tilted, some at home. Shape (moves, 6)."""
        count = len(poses)
        tilt = rng.choice([0.0, 0.02, 0.12], count, p=[0.72, 0.18, 0.10])
        joints = self._geometry.joints(poses) + tilt[:, None] * rng.normal(size=(count, 6))
        home = rng.random(count) < 0.06
        joints[home] = self._limits.home[:6] + joints[home] - self._geometry.joints(poses[home])
        inside: Array = np.clip(joints, self._limits.lower[:6], self._limits.upper[:6])
        return inside

    def _draw_fingers(self, rng: Generator, skills: NDArray[np.int64], openings: Array,
                      stops: Array) -> Array:
        """Finger positions [m] at the start: mostly what the step before leaves."""
        grasping, placing = (skills == SKILLS.index(name) for name in ('grasp', 'place'))
        holding = placing | ((openings < 0.3) & ~grasping)
        usual = np.where(holding, stops, self._limits.open_position)
        pushing = skills == SKILLS.index('push')
        usual = np.where(pushing, self._limits.finger(openings), usual)
        anywhere = rng.uniform(self._limits.closed_position, self._limits.open_position,
                               len(skills))
        odd = rng.random(len(skills)) < 0.25
        # Fingers cannot be further closed than the thing between them lets them.
        fingers: Array = np.where(odd, np.maximum(anywhere, stops), usual)
        return fingers


def _draw_targets(rng: Generator, count: int, habit: Habit) -> Array:
    """Tool poses, (count, 4)."""
    position = rng.uniform(LOWER, UPPER, (count, 3))
    kind = rng.random(count)
    low = 0.0
    for share, (bottom, top) in habit.heights:
        chosen = (kind >= low) & (kind < low + share)
        position[chosen, 2] = rng.uniform(bottom, top, int(chosen.sum()))
        low += share
    yaw = rng.uniform(LOWEST_YAW, LOWEST_YAW + np.pi, count) * (rng.random(count) < 0.4)
    return np.concatenate([position, yaw[:, None]], axis=1)


def _draw_starts(rng: Generator, targets: Array, place: str) -> Array:
    """Tool poses where moves to the targets begin, (count, 4)."""
    count = len(targets)
    anywhere = _draw_targets(rng, count, Habit(((0.5, (HOVER, HOVER)),), 0.0, ''))
    usual = targets + rng.normal(size=(count, 4)) * [0.004, 0.004, 0.003, 0.02]
    if place == 'above':
        usual[:, 2] = HOVER + rng.normal(0, 0.01, count)
    elif place == 'below':
        usual[:, 2] = rng.uniform(0.015, 0.11, count)
    elif place == 'behind':
        heading, run = rng.uniform(-np.pi, np.pi, count), rng.uniform(0.02, 0.35, count)
        usual[:, 0] -= run * np.cos(heading)
        usual[:, 1] -= run * np.sin(heading)
    elif place == 'anywhere':
        usual = anywhere
        over = rng.random(count) < 0.2     # straight down or up: the second part of an approach
        usual[over, :2] = targets[over, :2]
    odd = rng.random(count) < 0.22
    starts = np.where(odd[:, None], anywhere, usual)
    starts[:, :3] = np.clip(starts[:, :3], LOWER, UPPER)
    return starts


def _draw_openings(rng: Generator, count: int, usual: float) -> Array:
    """Openings at the end: the usual one, closed, open, that of a push, or any."""
    rare = rng.choice([0.0, 1.0, HABITS['push'].opening, np.nan], count, p=[0.3, 0.3, 0.2, 0.2])
    rare = np.where(np.isnan(rare), rng.random(count), rare)
    return np.where(rng.random(count) < 0.72, usual, rare)


def _draw_stops(rng: Generator, count: int) -> Array:
    """Half widths [m] of what is between the fingers; 0 for nothing."""
    kind = rng.random(count)
    some = np.where(kind < 0.75, rng.uniform(0.0195, 0.0235, count),
                    rng.uniform(0.006, 0.033, count))
    return np.where(kind < 0.85, some, 0.0)
