# SPDX-License-Identifier: Apache-2.0
"""Evaluates the whole system over many tasks, faster than real time.

A real backbone process answers over gRPC; the robot's own code runs in lockstep with simulated
time, in several worker processes. Prints a table, writes one JSON line per episode, and ends with
one JSON object.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
import json
import os
from pathlib import Path
import time
from typing import cast, get_args

from onboard_decoder.clock import MonotonicClock
from onboard_decoder.config import RobotSettings
from onboard_decoder.errors import SettingsError
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.planner_client import LinkSettings, PlannerClient
from onboard_decoder.planner_port import PlannerPort
from onboard_decoder.robot_factory import load_decoder, load_planner
from rich.console import Console
from sim.arm_factory import make_arm, SIMULATORS
from sim.instructions import Wording
from sim.scene import Split, SPLITS
from sim.tasks import draw_task, TASK_KINDS, TaskKind
from sim.variation import AXES, Axis
from tendon.backbone_process import backbone
from tendon.cache_wish import CacheWish
from tendon.episode import Episode, EpisodeResult
from tendon.errors import BadRequest
from tendon.provenance import provenance
from tendon.scores import print_scores, scores
from tendon.worker_pool import run_jobs

KINDS: tuple[TaskKind, ...] = (
    'put', 'pick', 'stack', 'absent', 'put', 'push', 'pick', 'stack', 'absent', 'put',
)


@dataclass(frozen=True)
class Job:
    """One episode to run."""

    seed: int
    split: Split
    wording: Wording
    kind: TaskKind
    axis: Axis


def evaluate(
    split: str = 'test', episodes: int = 200, seed: int = 0, backbone_address: str | None = None,
    checkpoint: Path | None = None, out: Path | None = None, workers: int | None = None,
    delay_ms: float = 160.0, axis: str = 'none', manifest: str = 'tendon_arm',
    cache_policy: str = '', cache_budget: str = '', planner: str = 'cloud',
    kinds: str = '', simulator: str = 'mujoco',
) -> int:
    """Run ``episodes`` tasks with known wordings and as many with unseen ones.

    Args:
      split: 'test' has other scenes than the training, and names never trained on.
      episodes: tasks per kind of wording.
      seed: first seed; scene, task and sentence are functions of it.
      backbone_address: a running backbone; None starts one.
      checkpoint: model for the backbone that is started; None takes the shipped one.
      out: folder for ``episodes.jsonl`` and ``scores.json``; None writes nothing.
      workers: processes; None takes one per core.
      delay_ms: simulated time from question to answer [ms].
      axis: what differs from the training scenes; see ``sim.variation``.
      manifest: robot by name or path.
      cache_policy: how the backbone keeps a session's cache; '' leaves it to the backbone.
      cache_budget: bytes of it, or a share such as '1/8' of a usual turn in half precision.
      kinds: kinds of tasks, in turn, with commas between; '' takes a mixture of all.
      simulator: 'mujoco', or 'gazebo' in lockstep.
      planner: who plans; see ``OffloadSettings.mode``. No backbone is started for 'onboard'.

    Returns:
      Exit status 0; what is measured is no verdict.

    Raises:
      BadRequest: for values that nothing can be done with.
    """
    _check(split, episodes, axis, simulator)
    mixture = _mixture(kinds)
    settings = _settings(planner)
    wish = CacheWish.read(cache_policy, cache_budget)
    link = wish.link() if backbone_address else LinkSettings()
    console = Console(stderr=False)
    jobs = [
        Job(seed + number, cast(Split, split), wording, mixture[number % len(mixture)],
            cast(Axis, axis))
        for wording in get_args(Wording) for number in range(episodes)
    ]
    start_s = time.monotonic()
    nobody = '-' if planner == 'onboard' else None
    with backbone(nobody or backbone_address, checkpoint, wish.settings()) as address:
        worker = Worker(manifest, address, delay_ms / 1e3, settings, link, simulator)
        results = run_jobs(jobs, worker, workers, console)
    print_scores(results, console)
    figures = scores(results) | {
        'split': split, 'axis': axis, 'simulator': simulator, 'planner': planner,
        'cache_policy': cache_policy or 'default',
        'cache_budget': cache_budget or 'default', 'wall_s': round(time.monotonic() - start_s, 1),
        **provenance(seed),
    }
    if out is not None:
        _write(results, figures, out)
    print(json.dumps(figures))
    return 0


def _settings(planner: str) -> RobotSettings:
    try:
        return RobotSettings().changed({'offload.mode': planner})
    except SettingsError as error:
        raise BadRequest(str(error)) from error


def _mixture(kinds: str) -> tuple[TaskKind, ...]:
    """Read kinds of tasks; none are all."""
    wanted = [name.strip() for name in kinds.split(',')] if kinds else []
    for name in wanted:
        if name not in TASK_KINDS:
            raise BadRequest(f'kind is {name!r}; allowed: {", ".join(TASK_KINDS)}')
    return tuple(cast(TaskKind, name) for name in wanted) or KINDS


def _check(split: str, episodes: int, axis: str, simulator: str) -> None:
    choices = (('split', split, SPLITS), ('axis', axis, AXES), ('sim', simulator, SIMULATORS))
    for what, value, allowed in choices:
        if value not in allowed:
            raise BadRequest(f'{what} is {value!r}; allowed: {", ".join(allowed)}')
    if episodes < 1:
        raise BadRequest(f'episodes is {episodes}; allowed: 1 and more')


@dataclass
class Worker:
    """Runs episodes in a process of its own; builds its world at the first one."""

    manifest: str
    address: str
    delay_s: float
    settings: RobotSettings = RobotSettings()
    link: LinkSettings = LinkSettings()
    simulator: str = 'mujoco'
    _episode: Episode | None = None

    def __call__(self, job: Job) -> EpisodeResult:
        """Run one episode."""
        if self._episode is None:
            self._episode = self._build()
        scene, task = draw_task(job.seed, job.split, job.wording, job.kind, job.axis)
        return self._episode.run(job.seed, job.wording, scene, task)

    def _build(self) -> Episode:
        manifest = load_manifest(self.manifest)

        def client() -> PlannerClient:
            return PlannerClient(self.address, f'eval-{os.getpid()}', manifest, self.link)

        def connect() -> PlannerPort:
            return load_planner(manifest, self.settings, MonotonicClock(), client)[0]

        return Episode(
            manifest, load_decoder(manifest), connect, self.delay_s, self.settings,
            arm=make_arm(self.simulator, lockstep=True),
        )


def _write(results: Sequence[EpisodeResult], figures: dict[str, object], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(asdict(result)) for result in results]
    (out / 'episodes.jsonl').write_text('\n'.join(lines) + '\n')
    (out / 'scores.json').write_text(json.dumps(figures, indent=2) + '\n')
