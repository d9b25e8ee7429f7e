# SPDX-License-Identifier: Apache-2.0
"""Whole plans with the expert's times, in one file: what a decoder is measured against.

Plans come from the oracle for drawn tasks. The expert goes through each from the home pose, with
ideal tracking. Knows no network and no physics.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sim.entity import RADIUS_M
from sim.expert import Expert, Moves, SKILLS
from sim.oracle import oracle_plan
from sim.scene import SceneSpec
from sim.tasks import draw_task, Task, TASK_KINDS

Array = NDArray[np.float64]
LONGEST = 8     # steps of a plan; shorter ones are filled up with skill -1
FIELDS = {
    'skill': 'index in sim.expert.SKILLS, -1 behind the last step (sequences, steps)',
    'target': 'tool x, y, z [m], yaw [rad] in base (sequences, steps, 4)',
    'gripper': 'opening wanted at the end (sequences, steps)',
    'speed': 'share of the speed limits (sequences, steps)',
    'stop': 'finger position at which a thing stops closing fingers, 0 for none [m] '
            '(sequences, steps)',
    'expert_s': 'how long the expert takes [s] (sequences, steps)',
    'start': 'joints at the beginning (sequences, joints)',
}


def write_sequences(path: Path, expert: Expert, seed: int, count: int) -> None:
    """Write step sequences; see FIELDS."""
    rows = [_sequence(expert, seed + index, index) for index in range(count)]
    arrays = {name: np.stack([row[name] for row in rows]) for name in FIELDS}
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)  # type: ignore[arg-type]


def _sequence(expert: Expert, seed: int, index: int) -> dict[str, Array]:
    """One row of the file."""
    kind = TASK_KINDS[index % (len(TASK_KINDS) - 1)]    # the last kind has no steps
    scene, task = draw_task(seed, kind=kind)
    row = _blank(expert)
    joints, held = expert.limits.home.copy(), 0.0
    for number, step in enumerate(oracle_plan(task, scene)):
        if step.skill == 'grasp':
            held = _half_width(scene, task)
        move = Moves.single(step.skill, np.array(step.target), step.opening, step.speed, joints,
                            np.zeros(len(joints)))
        motion = expert.plan(replace(move, stops=np.array([held])))
        row['skill'][number] = SKILLS.index(step.skill)
        row['target'][number] = step.target
        row['gripper'][number], row['speed'][number] = step.opening, step.speed
        row['stop'][number], row['expert_s'][number] = held, motion.remaining_s[0]
        joints = motion.positions(motion.duration_s[:, None])[0, 0]
        joints[-1] = max(joints[-1], held)
        held = 0.0 if step.opening > 0.5 else held
    return row


def _blank(expert: Expert) -> dict[str, Array]:
    row = {name: np.zeros(LONGEST) for name in FIELDS if name not in ('target', 'start')}
    row['skill'] -= 1
    return {**row, 'target': np.zeros((LONGEST, 4)), 'start': expert.limits.home}


def _half_width(scene: SceneSpec, task: Task) -> float:
    thing = scene.entities[task.a]
    return RADIUS_M[thing.kind] * thing.scale
