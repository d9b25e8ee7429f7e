# SPDX-License-Identifier: Apache-2.0
"""Tasks that go wrong, done by the whole system in three ways, judged by the simulator's truth.

plain   one plan, carried out once
plan    up to three plans, each after another look
react   one tool call after the other, and up to three trials with what the failed ones taught

All ways meet the same scenes, tasks and mishaps. A real backbone process answers over gRPC; the
robots run in lockstep with simulated time, in several worker processes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
import json
import os
from pathlib import Path
from typing import Any

from onboard_decoder.config import RobotSettings, Setting
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.planner_client import LinkSettings, PlannerClient
from onboard_decoder.planner_port import PlannerPort
from onboard_decoder.robot_factory import load_decoder
from rich.console import Console
from sim.mishaps import draw_mishap, MishapKind
from sim.mujoco_arm import MujocoArm
from sim.tasks import draw_task, TaskKind
from tendon.backbone_process import backbone
from tendon.bench_agent.task_figures import print_tasks, Run, task_figures
from tendon.episode import Episode
from tendon.worker_pool import run_jobs

FULL, QUICK = 200, 6  # seeds
ROBOT = 'tendon_arm'
DELAY_S = 0.16  # simulated time from question to answer
ARMS: dict[str, dict[str, Setting]] = {
    'plain': {'limits.max_attempts': 1},
    'plan': {},
    'react': {
        'agent.mode': 'react', 'agent.max_trials': 3, 'agent.ask_wait_s': 5.0,
        'limits.max_task_s': 360.0,
    },
}
CASES: tuple[tuple[TaskKind, MishapKind], ...] = (
    ('put', 'none'), ('pick', 'moved'), ('stack', 'dropped'), ('put', 'blocked'),
    ('put', 'slick'), ('pick', 'flat'), ('absent', 'none'), ('put', 'moved'),
    ('put', 'dropped'), ('stack', 'blocked'), ('stack', 'slick'), ('put', 'flat'),
    ('push', 'none'), ('stack', 'moved'), ('pick', 'dropped'), ('put', 'blocked'),
    ('pick', 'slick'), ('stack', 'flat'),
)
"""Kinds of task and mishap, in turn."""


@dataclass(frozen=True)
class Job:
    """One episode to run; ``arm`` is a name of ARMS."""

    arm: str
    seed: int
    kind: TaskKind
    mishap: MishapKind


def measure_tasks(
    seed: int = 7, quick: bool = False, checkpoint: Path | None = None,
    workers: int | None = None, out: Path | None = None, console: Console | None = None,
) -> dict[str, Any]:
    """Run every arm over the same seeds, print a table, and return the figures.

    Args:
        seed: the first one; scene, task, sentence and mishap are functions of it.
        quick: QUICK seeds per arm instead of FULL.
        checkpoint: model of the backbone that is started; None: the shipped one.
        workers: processes; None takes one per core.
        out: folder for ``tasks.jsonl``, one line per episode; None writes nothing.
        console: for bar and table.

    Returns:
        See ``task_figures``.

    Raises:
        WorkerFailed: an episode could not be run.
    """
    console = console or Console()
    work = jobs(seed, QUICK if quick else FULL)
    with backbone(None, checkpoint) as where:
        runs = run_jobs(work, Worker(where), workers, console)
    if out is not None:
        lines = ''.join(json.dumps(asdict(run)) + '\n' for run in runs)
        (out / 'tasks.jsonl').write_text(lines, encoding='utf-8')
    print_tasks(runs, console)
    return task_figures(runs)


def jobs(seed: int, episodes: int, arms: Sequence[str] = tuple(ARMS)) -> list[Job]:
    """Return the episodes of all arms; a seed is the same episode for each of them."""
    return [
        Job(arm, seed + number, *CASES[number % len(CASES)])
        for number in range(episodes) for arm in arms
    ]


@dataclass
class Worker:
    """Runs episodes in a process of its own; builds its world at the first one."""

    address: str
    delay_s: float = DELAY_S
    _episodes: Mapping[str, Episode] | None = None

    def __call__(self, job: Job) -> Run:
        """Run one episode."""
        if self._episodes is None:
            self._episodes = self._build()
        scene, task = draw_task(job.seed, 'test', kind=job.kind)
        mishap = draw_mishap(job.seed, task, (job.mishap,))
        result = self._episodes[job.arm].run(job.seed, 'known', scene, task, mishap)
        return Run(job.arm, result)

    def _build(self) -> dict[str, Episode]:
        manifest, arm = load_manifest(ROBOT), MujocoArm()
        decoder, settings = load_decoder(manifest), RobotSettings()

        def connect() -> PlannerPort:
            return PlannerClient(self.address, f'bench-{os.getpid()}', manifest, LinkSettings())

        return {
            name: Episode(
                manifest, decoder, connect, self.delay_s, settings.changed(values), arm=arm
            )
            for name, values in ARMS.items()
        }
