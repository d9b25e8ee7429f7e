# SPDX-License-Identifier: Apache-2.0
"""Runs a task with the oracle's plan and the expert's motion on the simulated arm, at 50 Hz.

Says whether scene, physics and motion allow the task at all, with no network in between. Each step
is one open-loop motion from the measured joints; the robot's own loop is not in play here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sim.arm_port import CONTROL_PERIOD_S
from sim.expert import Expert, Moves
from sim.mujoco_arm import MujocoArm
from sim.oracle import Manner, oracle_plan, OracleStep
from sim.scene import SceneSpec
from sim.tasks import Task

Array = NDArray[np.float64]
Observer = Callable[[MujocoArm], None]

SETTLE_S = 0.15     # after each step, for the servos
REST_S = 0.5        # after the last one, for the things


@dataclass(frozen=True)
class Episode:
    """What came of a task.

    Attributes:
        success: by the task's own test.
        duration_s: simulated time.
        steps: of the plan.
    """

    success: bool
    duration_s: float
    steps: int


def run_episode(arm: MujocoArm, scene: SceneSpec, task: Task, expert: Expert,
                observer: Observer | None = None, manner: Manner = 'normal') -> Episode:
    """Reset the arm to a scene and do a task there.

    Args:
        arm: simulated arm.
        scene: where the task was drawn.
        task: what to do.
        expert: moves the arm.
        observer: called after every tick.
        manner: how the oracle does it.
    """
    arm.reset(scene)
    watch = observer or (lambda _: None)
    steps = oracle_plan(task, scene, manner)
    for step in steps:
        for positions in _motion(arm, step, expert):
            arm.command(dict(zip(arm.joint_names, map(float, positions), strict=True)))
            arm.advance(CONTROL_PERIOD_S)
            watch(arm)
    for _ in range(round(REST_S / CONTROL_PERIOD_S)):
        arm.advance(CONTROL_PERIOD_S)
        watch(arm)
    return Episode(task.success(arm), arm.time_s, len(steps))


def _motion(arm: MujocoArm, step: OracleStep, expert: Expert) -> Array:
    """Commands of a step, one per tick; the last one is kept a little. Shape (ticks, joints)."""
    reading = arm.read()
    joints, velocities = (
        np.array([values[name] for name in arm.joint_names])
        for values in (reading.positions, reading.velocities))
    motion = expert.plan(Moves.single(
        step.skill, np.array(step.target), step.opening, step.speed, joints, velocities))
    ticks = int(np.ceil((motion.duration_s[0] + SETTLE_S) / CONTROL_PERIOD_S))
    times: Array = np.arange(1.0, ticks + 1.0) * CONTROL_PERIOD_S
    positions: Array = motion.positions(times[None])[0]
    return positions
