# SPDX-License-Identifier: Apache-2.0
"""Things that a hand moves while the robot thinks or is on its way: does it touch the wrong place?

exact    a change that is seen stops the arm, and the backbone is asked anew
stale    the arm goes where the thing was when the backbone was asked
repair   the arm goes on while the backbone is asked anew, and stops if the choice changes

An episode ends when the fingers are down for the first time. Where the thing is then, and when the
arm began to move, is read from the simulator's truth.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
import json
import math
import os
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from onboard_decoder.config import RobotSettings, Setting
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.planner_client import LinkSettings, PlannerClient
from onboard_decoder.planner_port import PlannerPort
from onboard_decoder.robot_factory import load_decoder
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from sim.arm_port import SimulatedArm
from sim.free_spots import pose_of, tool_at
from sim.mishaps import hand_move
from sim.mujoco_arm import MujocoArm
from sim.tasks import draw_task, TaskKind
from tendon.backbone_process import backbone
from tendon.bench_agent.rate import Rate
from tendon.episode import Episode
from tendon.worker_pool import run_jobs

FULL, QUICK = 200, 4  # seeds
ROBOT = 'tendon_arm'
DELAY_S = 0.16  # simulated time from question to answer
WATCH = {'exact': 'exact', 'stale': 'off', 'repair': 'repair'}
"""Arms of the bench and the robot's setting."""
KINDS: tuple[TaskKind, ...] = ('pick', 'put', 'stack')
MOVE_S = (0.05, 1.8)    # when the hand moves the thing, from and to
DOWN_M = 0.055          # a tool below this touches what is there
BESIDE_M = 0.03         # a tool farther than this from the thing does not grasp it
MOVING = 0.02           # share of a joint's speed limit


@dataclass(frozen=True)
class Move:
    """One episode.

    Attributes:
      arm: name of WATCH.
      seed: of scene, task and time.
      moved_s: when the hand moved the thing; None if it did not before the end.
      acted_s: when the arm began to move, None if it never did.
      touched_s: when the fingers were down, None if they never were.
      is_beside: whether the thing was not there.
      turns: questions to the backbone.
    """

    arm: str
    seed: int
    moved_s: float | None
    acted_s: float | None
    touched_s: float | None
    is_beside: bool
    turns: int


def measure_moves(
    seed: int = 7, quick: bool = False, checkpoint: Path | None = None,
    workers: int | None = None, out: Path | None = None, console: Console | None = None,
) -> dict[str, Any]:
    """Run every arm over the same seeds, print a table, and return the figures.

    Args:
        seed: the first one; scene, task and the time of the move are functions of it.
        quick: QUICK seeds per arm instead of FULL.
        checkpoint: model of the backbone that is started; None: the shipped one.
        workers: processes; None takes one per core.
        out: folder for ``moves.jsonl``, one line per episode; None writes nothing.
        console: for bar and table.

    Returns:
        See ``move_figures``.

    Raises:
        WorkerFailed: an episode could not be run.
    """
    console = console or Console()
    jobs = [(arm, seed + number) for number in range(QUICK if quick else FULL) for arm in WATCH]
    with backbone(None, checkpoint) as where:
        moves = run_jobs(jobs, MoveWorker(where), workers, console)
    if out is not None:
        lines = ''.join(json.dumps(asdict(move)) + '\n' for move in moves)
        (out / 'moves.jsonl').write_text(lines, encoding='utf-8')
    print_moves(moves, console)
    return move_figures(moves)


@dataclass
class MoveWorker:
    """Runs episodes in a process of its own; builds its world at the first one."""

    address: str
    delay_s: float = DELAY_S
    _episodes: Mapping[str, Episode] | None = None
    _arm: MujocoArm | None = None

    def __call__(self, job: tuple[str, int]) -> Move:
        """Run one episode."""
        if self._arm is None or self._episodes is None:
            self._arm = MujocoArm()
            self._episodes = self._build(self._arm)
        name, seed = job
        return run_move(self._episodes[name], name, seed)

    def _build(self, arm: MujocoArm) -> dict[str, Episode]:
        manifest = load_manifest(ROBOT)
        decoder = load_decoder(manifest)

        def connect() -> PlannerPort:
            return PlannerClient(self.address, f'moves-{os.getpid()}', manifest, LinkSettings())

        return {
            name: Episode(manifest, decoder, connect, self.delay_s, settings(name), arm=arm)
            for name in WATCH
        }


def settings(arm: str) -> RobotSettings:
    """Return the robot's settings in an arm of the bench."""
    values: dict[str, Setting] = {'agent.mode': 'react', 'agent.watch': WATCH[arm]}
    return RobotSettings().changed({**values, 'agent.max_trials': 1})


def run_move(episode: Episode, arm: str, seed: int) -> Move:
    """Run one episode until the fingers are down, and look where the thing is."""
    scene, task = draw_task(seed, 'test', kind=KINDS[seed % len(KINDS)])
    rng = np.random.default_rng(np.random.SeedSequence([seed, 48]))
    watch = FirstTouch(task.a)
    result = episode.run(
        seed, 'known', scene, task, hand_move(seed, task, float(rng.uniform(*MOVE_S))), watch
    )
    return Move(
        arm, seed, result.mishap_s, watch.acted_s, watch.touched_s, watch.is_beside, result.turns
    )


class FirstTouch:
    """Waits for the fingers to be down for the first time.

    Attributes:
      acted_s: simulated time at which the arm began to move.
      touched_s: and at which the fingers were down.
      is_beside: whether the thing was elsewhere then.
    """

    def __init__(self, thing: int) -> None:
        self._thing = thing
        self.acted_s: float | None = None
        self.touched_s: float | None = None
        self.is_beside = False

    def __call__(self, arm: SimulatedArm) -> bool:
        """Look; True once the fingers are down."""
        if self.acted_s is None and np.abs(arm.velocities[:6]).max() > MOVING:
            self.acted_s = arm.time_s
        tool, _ = tool_at(arm)
        if tool[2] > DOWN_M:
            return False
        x, y, _ = pose_of(arm, self._thing)
        self.touched_s = arm.time_s
        self.is_beside = math.hypot(x - tool[0], y - tool[1]) > BESIDE_M
        return True


def move_figures(moves: Sequence[Move]) -> dict[str, Any]:
    """Return errors at the first touch, their intervals, and how soon the arm acts and touches.

    ``contact_errors`` are shares of the episodes in which the hand came before the fingers, which
    then were down; ``untouched`` counts those in which they never were, ``revised`` those in
    which the backbone was asked more than once. Times are medians of simulated time.
    """
    touched = {
        arm: [move for move in _moved(moves, arm) if move.touched_s is not None] for arm in WATCH
    }
    errors = {arm: Rate.of(move.is_beside for move in touched[arm]) for arm in WATCH}
    acted = {arm: _median(move.acted_s for move in _moved(moves, arm)) for arm in WATCH}
    stale = acted['stale']
    return {
        'contact_errors': {arm: rate.share for arm, rate in errors.items()},
        'intervals': {arm: rate.interval for arm, rate in errors.items()},
        'episodes': {arm: rate.cases for arm, rate in errors.items()},
        'untouched': {arm: len(_moved(moves, arm)) - len(touched[arm]) for arm in WATCH},
        'first_action_s': acted,
        'first_action_over_stale': {
            arm: round(value / stale, 3) if value is not None and stale else None
            for arm, value in acted.items()
        },
        'first_touch_s': {arm: _median(move.touched_s for move in touched[arm]) for arm in WATCH},
        'revised': {arm: sum(move.turns > 1 for move in _moved(moves, arm)) for arm in WATCH},
        'turns': {arm: sum(move.turns for move in _moved(moves, arm)) for arm in WATCH},
    }


def print_moves(moves: Sequence[Move], console: Console) -> None:
    """Print one line per arm."""
    found = move_figures(moves)
    table = Table(title='Things moved before they are touched', box=SIMPLE_HEAD)
    for heading in ('arm', 'touched', 'not', 'wrong', '95 %', 'acts, s', 'touches, s', 'revised'):
        table.add_column(heading, justify='left' if heading == 'arm' else 'right')
    for arm in WATCH:
        share, interval, acted, touched = (
            found[key][arm]
            for key in ('contact_errors', 'intervals', 'first_action_s', 'first_touch_s')
        )
        table.add_row(
            arm, str(found['episodes'][arm]), str(found['untouched'][arm]),
            '-' if share is None else f'{share:.3f}',
            '-' if interval is None else f'{interval[0]:.2f}-{interval[1]:.2f}',
            *('-' if time_s is None else f'{time_s:.2f}' for time_s in (acted, touched)),
            str(found['revised'][arm]),
        )
    console.print(table)


def _moved(moves: Sequence[Move], arm: str) -> list[Move]:
    return [move for move in moves if move.arm == arm and move.moved_s is not None]


def _median(times_s: Iterable[float | None]) -> float | None:
    found = [time_s for time_s in times_s if time_s is not None]
    return round(median(found), 3) if found else None
