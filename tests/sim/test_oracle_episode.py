# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sim.arm_geometry import ArmGeometry
from sim.arm_limits import ArmLimits
from sim.episode import run_episode
from sim.expert import Expert, SKILLS
from sim.mujoco_arm import MujocoArm
from sim.oracle import oracle_plan
from sim.step_sequences import FIELDS, write_sequences
from sim.tasks import draw_task, TASK_KINDS, TaskKind

ROOT = Path(__file__).parents[2]
EXPERT = Expert(
    ArmGeometry.from_urdf(ROOT / 'sim' / 'assets' / 'tendon_arm.urdf'),
    ArmLimits.from_manifest(
        ROOT / 'onboard_decoder' / 'robots' / 'tendon_arm' / 'manifest.yaml'))


@pytest.fixture(scope='module')
def arm() -> Iterator[MujocoArm]:
    made = MujocoArm()
    yield made
    made.close()


@pytest.mark.parametrize('kind', TASK_KINDS)
def test_tasks_can_be_done(arm: MujocoArm, kind: TaskKind) -> None:
    """With the plan of the oracle and the motion of the expert every kind of task succeeds."""
    for seed in range(3):
        scene, task = draw_task(seed, 'test', kind=kind)

        episode = run_episode(arm, scene, task, EXPERT)

        assert episode.success, (kind, seed)
        assert episode.duration_s < 15


@pytest.mark.slow
def test_nearly_all_tasks_succeed(arm: MujocoArm) -> None:
    """Of 60 drawn tasks of all kinds at least 58 succeed."""
    wins = 0
    for seed in range(100, 160):
        scene, task = draw_task(seed)
        wins += run_episode(arm, scene, task, EXPERT).success

    assert wins >= 58


def test_the_oracle_uses_known_skills_within_reach() -> None:
    """Every step of every plan is one of the expert's skills, with a target over the table."""
    for seed in range(40):
        scene, task = draw_task(seed)
        steps = oracle_plan(task, scene)
        assert bool(steps) == (task.kind != 'absent')
        for step in steps:
            assert step.skill in SKILLS
            assert 0.0 <= step.opening <= 1.0
            assert 0.0 < step.speed <= 1.0
            if step.skill != 'home':
                assert 0.2 < step.target[0] < 0.7
                assert 0.015 < step.target[2] < 0.25


def test_sequences_hold_whole_plans(tmp_path: Path) -> None:
    """The file has every field; times are positive where there are steps."""
    path = tmp_path / 'sequences.npz'
    write_sequences(path, EXPERT, seed=3, count=8)

    with np.load(path, allow_pickle=False) as file:
        assert set(file) == set(FIELDS)
        used = file['skill'] >= 0
        assert used.sum() > 8 * 4
        assert np.all(file['expert_s'][used] >= 0)
        assert np.all(file['expert_s'][:, 0] > 0.3)
        assert not np.any(file['expert_s'][~used])
