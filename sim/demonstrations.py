# SPDX-License-Identifier: Apache-2.0
"""Demonstrations of the motion expert: what the onboard decoder is trained on.

Each sample is a state on, near or off a motion of the expert, and what the expert does from there.
The chunk begins `delay` after the state, because that is when the robot will use it. Shards are
npz files with the arrays of `FIELDS`; existing shards of the same settings are kept, so an
interrupted run goes on where it stopped. Knows no network and no simulator.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
import json
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from rich.progress import Progress
from sim.arm_geometry import ArmGeometry
from sim.arm_limits import ArmLimits
from sim.expert import Expert, Motion, Moves, SKILLS
from sim.move_sampler import MoveSampler
from sim.step_sequences import write_sequences

Array = NDArray[np.float64]
Shard = Mapping[str, NDArray[np.float32]]

FORMAT = 2
HORIZON = 50
LATENT_SIZE = 32
LONGEST_DELAY_S = 0.5
REMAINING_CAP_S = 3.0
FIELDS = {
    'skill': 'one-hot in the order of sim.expert.SKILLS (samples, skills)',
    'target': 'tool x, y, z [m], yaw [rad] in base (samples, 4)',
    'gripper': 'opening wanted at the end (samples, 1)',
    'speed': 'share of the speed limits (samples, 1)',
    'joints': 'measured positions (samples, joints)',
    'velocities': 'measured velocities (samples, joints)',
    'accelerations': 'of the arm at the state (samples, 6)',
    'delay': 'time from the state to the first action [s] (samples, 1)',
    'latent': 'zeros (samples, latent)',
    'chunk': 'absolute joint targets (samples, horizon, joints)',
    'remaining': 'time from the state to the end of the step, capped [s] (samples, 1)',
    'goal': 'arm joints at the target (samples, 6)',
}
_H = 1e-3   # [s] step of numerical derivatives


@dataclass(frozen=True)
class Settings:
    """What demonstrations were made from; shards of other settings are replaced."""

    seed: int
    samples: int
    samples_per_shard: int = 20_000
    format: int = FORMAT

    def counts(self) -> list[int]:
        """Samples in each shard."""
        full, rest = divmod(self.samples, self.samples_per_shard)
        return [self.samples_per_shard] * full + [rest] * (rest > 0)


class Demonstrator:
    """Draws samples for one arm."""

    def __init__(self, geometry: ArmGeometry, limits: ArmLimits) -> None:
        self._expert = Expert(geometry, limits)
        self._sampler = MoveSampler(geometry, limits)
        self._limits = limits
        self._geometry = geometry

    def draw(self, rng: Generator, count: int) -> Shard:
        """Draw samples; see FIELDS. Few of a thousand break the limits and are left out."""
        drawn = self._draw(rng, count + count // 50 + 10)
        rate = np.abs(np.diff(drawn['chunk'], axis=1)) / self._limits.period_s
        change = np.abs(np.diff(drawn['chunk'], n=2, axis=1))[..., :6] / self._limits.period_s**2
        within = (rate < 1.05 * self._limits.velocity).all((1, 2))
        within &= (change < 1.5 * self._limits.acceleration[:6]).all((1, 2))
        kept = np.flatnonzero(within)[:count]
        return {name: value[kept] for name, value in drawn.items()}

    def _draw(self, rng: Generator, count: int) -> Shard:
        moves = self._draw_states(rng, count)
        motion = self._expert.plan(moves)
        # Often none: where a chunk is played, the robot rolls the state forward itself.
        shares = rng.choice([0.0, 0.2, 1.0], count, p=[0.4, 0.25, 0.35])
        delay = shares * rng.uniform(0, LONGEST_DELAY_S, count)
        steps, given = np.arange(1, HORIZON + 1) * self._limits.period_s, moves.accelerations
        home = (moves.skills == SKILLS.index('home'))[:, None]
        columns = {
            'skill': np.eye(len(SKILLS))[moves.skills],
            'target': _shown_targets(rng, moves),
            'gripper': moves.openings[:, None],
            'speed': moves.speeds[:, None],
            'joints': moves.joints,
            'velocities': moves.velocities,
            'accelerations': np.zeros((count, 6)) if given is None else given,
            'delay': delay[:, None],
            'latent': np.zeros((count, LATENT_SIZE)),
            'chunk': motion.positions(delay[:, None] + steps),
            'remaining': np.minimum(motion.remaining_s, REMAINING_CAP_S)[:, None],
            'goal': np.where(home, self._limits.home[:6], self._geometry.joints(moves.targets)),
        }
        return {name: value.astype(np.float32) for name, value in columns.items()}

    def _draw_states(self, rng: Generator, count: int) -> Moves:
        """Moves seen at some moment: at rest, on the way, at the goal, disturbed, re-targeted."""
        begun = self._sampler.draw(rng, count)
        motion = self._expert.plan(begun)
        phase = rng.random(count)
        on_the_way = rng.random(count) * motion.duration_s
        at_goal = motion.duration_s + rng.uniform(0.0, 0.4, count)
        time = np.where(phase < 0.12, 0.0, np.where(phase < 0.72, on_the_way, at_goal))
        moves = _at(begun, motion, time, rng.uniform(0.0, 0.06, count))
        moves = self._disturb(rng, moves)
        other = rng.random(count) < 0.1
        turn = np.roll(np.arange(count), 1)

        return replace(
            moves,
            skills=np.where(other, moves.skills[turn], moves.skills),
            targets=np.where(other[:, None], moves.targets[turn], moves.targets),
            openings=np.where(other, moves.openings[turn], moves.openings),
        )

    def _disturb(self, rng: Generator, moves: Moves) -> Moves:
        """Add what sensors and contacts add: a little often, much at times."""
        count = len(moves.skills)
        far = rng.choice([0.0, 0.002, 0.01, 0.04], count, p=[0.45, 0.27, 0.2, 0.08])
        fast = rng.choice([0.0, 0.01, 0.05, 0.2], count, p=[0.45, 0.27, 0.2, 0.08])
        joints, velocities = moves.joints.copy(), moves.velocities.copy()
        joints[:, :6] += far[:, None] * rng.normal(size=(count, 6))
        velocities[:, :6] += fast[:, None] * rng.normal(size=(count, 6))
        joints[:, 6] += rng.normal(0, 2e-4, count)
        velocities[:, 6] += rng.normal(0, 1e-3, count)
        joints = np.clip(joints, self._limits.lower, self._limits.upper)
        velocities = np.clip(velocities, -self._limits.velocity, self._limits.velocity)
        return replace(moves, joints=joints, velocities=velocities)


def _at(moves: Moves, motion: Motion, time_s: Array, finger_lag_s: Array) -> Moves:
    """The same moves, some time after they began."""
    before, now, after = np.moveaxis(
        motion.positions(np.maximum(time_s[:, None] + [-_H, 0.0, _H], 0.0)), 1, 0)
    moving = time_s >= _H
    accelerations = np.where(moving[:, None], (after - 2 * now + before) / _H**2, 0.0)[:, :6]
    velocities = np.where(moving[:, None], (after - before) / (2 * _H), 0.0)
    joints = now.copy()
    late = np.maximum(time_s - finger_lag_s, 0.0)
    late_steps = np.stack([late, late + _H], axis=1)
    finger, soon = np.moveaxis(motion.positions(late_steps)[..., 6], 1, 0)
    stops = np.zeros_like(finger) if moves.stops is None else moves.stops
    stopped = np.minimum(moves.joints[:, 6], stops)     # already closed further: nothing there
    joints[:, 6] = np.maximum(finger, stopped)
    velocities[:, 6] = np.where(finger > stopped, (soon - finger) / _H, 0.0)
    velocities[late <= 0.0, 6] = 0.0
    return replace(moves, joints=joints, velocities=velocities, accelerations=accelerations)


def _shown_targets(rng: Generator, moves: Moves) -> Array:
    """Targets as the decoder sees them: 'home' has none, which is sent as zeros."""
    hidden = (moves.skills == SKILLS.index('home')) & (rng.random(len(moves.skills)) < 0.6)
    return np.where(hidden[:, None], 0.0, moves.targets)


def write_demonstrations(
    folder: Path, settings: Settings, geometry: ArmGeometry, limits: ArmLimits
) -> list[Path]:
    """Write the shards that are missing and return all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    note = folder / 'settings.json'
    wanted = json.dumps({**asdict(settings), 'robot': limits.robot}, sort_keys=True)
    fresh = not note.exists() or note.read_text(encoding='utf-8') != wanted
    note.write_text(wanted, encoding='utf-8')
    demonstrator = Demonstrator(geometry, limits)
    paths = []
    with Progress() as progress:
        for index, count in enumerate(progress.track(settings.counts(), description='motions')):
            path = folder / f'shard_{index:04d}.npz'
            if fresh or not path.exists():
                rng = np.random.default_rng([settings.seed, index])
                _write(path, demonstrator.draw(rng, count))
            paths.append(path)
    return paths


def _write(path: Path, shard: Shard) -> None:
    """Write a shard so that an interruption leaves either all of it or nothing."""
    part = path.with_suffix('.part')
    with part.open('wb') as file:
        np.savez(file, **shard)  # type: ignore[arg-type]
    part.replace(path)


def main() -> None:
    """Write demonstrations and step sequences to a folder."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument('out', type=Path, help='folder for shards and sequences.npz')
    parser.add_argument('--manifest', type=Path, required=True, help='manifest.yaml of the robot')
    parser.add_argument('--samples', type=int, default=400_000)
    parser.add_argument('--sequences', type=int, default=200)
    parser.add_argument('--seed', type=int, default=1)
    args = parser.parse_args()
    limits = ArmLimits.from_manifest(args.manifest)
    geometry = ArmGeometry.from_urdf(Path(__file__).parent / 'assets' / 'tendon_arm.urdf')
    write_demonstrations(args.out, Settings(args.seed, args.samples), geometry, limits)
    write_sequences(
        args.out / 'sequences.npz', Expert(geometry, limits), args.seed + 1_000, args.sequences)


if __name__ == '__main__':
    main()
