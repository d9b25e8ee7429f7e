# SPDX-License-Identifier: Apache-2.0
"""Pictures of scenes with labels and instructions, in shards, for training the planner.

Each shard is shard_XXXX.npz (arrays by scene), shard_XXXX.jsonl (instructions by scene) and
shard_XXXX.agent.jsonl (moments in the middle of tasks by scene). Existing shards of the same
settings are kept, so an interrupted run goes on where it stopped. Knows nothing about models or
plan texts. The same seeds give the same scenes, labels and sentences under either renderer.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
import json
import multiprocessing
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from rich.progress import Progress
from sim.agent_situations import draw_situations
from sim.camera import Camera
from sim.entity import COLOURS, KINDS
from sim.errors import SceneError
from sim.gazebo.scene_camera import SceneCamera
from sim.instructions import Instruction, sample
from sim.scene import draw_scene, SceneSpec, Split
from sim.situation import Situation
from sim.world import World

FORMAT = 3
SIMULATORS = ('mujoco', 'gazebo')
MAX_ENTITIES = 8
INSTRUCTIONS_PER_SCENE = 16
SITUATIONS_PER_SCENE = 12
IMAGE_SIZE_PX = 128
JPEG_QUALITY = 90
MIN_VISIBLE_SHARE = 0.55


@dataclass(frozen=True)
class Settings:
    """What a data set was made from; shards of other settings are refused."""

    seed: int
    split: Split
    scenes: int
    scenes_per_shard: int = 1000
    simulator: str = 'mujoco'
    format: int = FORMAT

    def __post_init__(self) -> None:
        """Refuse empty data sets and unknown renderers."""
        if self.simulator not in SIMULATORS:
            raise SceneError('simulator', self.simulator, SIMULATORS)
        for name in ('scenes', 'scenes_per_shard'):
            if getattr(self, name) < 1:
                raise SceneError(f'{name} of a data set', getattr(self, name), '1 or more')

    def shards(self) -> list[tuple[int, int]]:
        """Index range [first, end) of the scenes of each shard."""
        step = self.scenes_per_shard
        return [(i, min(i + step, self.scenes)) for i in range(0, self.scenes, step)]


class Painter:
    """Shows scenes and labels them; holds one world and one camera."""

    def __init__(self, simulator: str = 'mujoco') -> None:
        self.simulator, self.world = simulator, World()
        self._camera = Camera(self.world.model) if simulator == 'mujoco' else SceneCamera()

    def close(self) -> None:
        """Free the camera's display."""
        self._camera.close()

    def draw_visible(self, seed: int, index: int, split: Split) -> SceneSpec:
        """Draw scene number `index` with nothing hidden from the camera, and show it."""
        attempt = 0
        while True:
            scene = draw_scene((seed, index, attempt), split, 'dataset')
            self.world.show(scene)
            shares = (self.world.visible_share(i) for i in range(len(scene.entities)))
            if all(share > MIN_VISIBLE_SHARE for share in shares) and self._inside_picture():
                return scene
            attempt += 1

    def _inside_picture(self) -> bool:
        points = self.world.label_points()
        return bool(((points > 0.03) & (points < 0.97)).all())

    def photograph(self) -> NDArray[np.uint8]:
        """Give the picture as the planner gets it: (128, 128, 3) RGB, through JPEG."""
        scene = self.world.scene
        if isinstance(self._camera, SceneCamera):
            picture = self._camera.render(scene)
        else:
            picture = self._camera.render(self.world.data, scene.appearance.shadows)
        size = (IMAGE_SIZE_PX, IMAGE_SIZE_PX)
        small = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
        quality = [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY]
        _, data = cv2.imencode('.jpg', cv2.cvtColor(small, cv2.COLOR_RGB2BGR), quality)
        decoded = np.asarray(cv2.imdecode(data, cv2.IMREAD_COLOR))
        return np.asarray(cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB), dtype=np.uint8)

    def labels(self) -> dict[str, NDArray[np.generic]]:
        """Give the arrays of one scene, padded to eight entities; yaw in the base frame [rad]."""
        entities = self.world.scene.entities
        count = len(entities)
        rows: dict[str, NDArray[np.generic]] = {
            name: np.full(MAX_ENTITIES, fill, dtype=np.int8)
            for name, fill in (('kind', -1), ('colour', -1), ('inside', -1), ('held', 0))
        }
        rows['kind'][:count] = [KINDS.index(e.kind) for e in entities]
        rows['colour'][:count] = [COLOURS.index(e.colour) for e in entities]
        rows['inside'][:count] = [e.inside for e in entities]
        rows['held'][:count] = [e.held for e in entities]
        point = np.zeros((MAX_ENTITIES, 2), dtype=np.float32)
        point[:count] = self.world.label_points()
        yaw = np.zeros(MAX_ENTITIES, dtype=np.float32)
        yaw[:count] = [e.yaw for e in entities]
        return {**rows, 'point': point, 'yaw': yaw}


def instructions(scene: SceneSpec, seed: tuple[int, ...]) -> list[Instruction]:
    """Draw the instructions about a scene; in the test split half use unseen wordings."""
    rng = np.random.default_rng(np.random.SeedSequence([*seed, 77]))
    test = scene.split == 'test'
    things = scene.entities
    return [
        sample(
            rng, things, wording='unseen' if test and i % 2 else 'known', novel=test
        )
        for i in range(INSTRUCTIONS_PER_SCENE)
    ]


def situations(scene: SceneSpec, seed: tuple[int, ...]) -> list[Situation]:
    """Draw moments in the middle of tasks; in the test split half use unseen wordings."""
    rng = np.random.default_rng(np.random.SeedSequence([*seed, 78]))
    test = scene.split == 'test'
    half = SITUATIONS_PER_SCENE // 2
    return [
        *draw_situations(rng, scene.entities, half, 'known', test),
        *draw_situations(rng, scene.entities, half, 'unseen' if test else 'known', test),
    ]


def _record(instruction: Instruction) -> dict[str, object]:
    record = asdict(instruction)
    return {'instruction': record.pop('text'), **record}


def write_shard(
    job: tuple[str, int, int, int, Settings], painter: Painter | None = None
) -> int:
    """Write one shard; returns its number of scenes.

    Args:
        job: folder, number of the shard, first scene, end scene, settings.
        painter: reused one, else one of this process.
    """
    folder, number, first, end, settings = job
    painter = painter or _painter(settings.simulator)
    rows: list[dict[str, NDArray[np.generic]]] = []
    lines, moments = [], []
    for index in range(first, end):
        scene = painter.draw_visible(settings.seed, index, settings.split)
        rows.append({'image': painter.photograph(), **painter.labels()})
        said = instructions(scene, (settings.seed, index))
        lines.append(json.dumps([_record(instruction) for instruction in said]))
        drawn = situations(scene, (settings.seed, index))
        moments.append(json.dumps([asdict(situation) for situation in drawn]))
    path = Path(folder) / f'shard_{number:04d}'
    path.with_suffix('.jsonl').write_text('\n'.join(lines) + '\n', encoding='utf-8')
    path.with_suffix('.agent.jsonl').write_text('\n'.join(moments) + '\n', encoding='utf-8')
    part = path.with_suffix('.part.npz')
    arrays: dict[str, Any] = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    np.savez(part, **arrays)
    part.rename(path.with_suffix('.npz'))
    return end - first


@lru_cache(1)
def _painter(simulator: str) -> Painter:
    """Give the painter of this process; the display context costs more than a scene."""
    cv2.setNumThreads(1)
    painter = Painter(simulator)
    atexit.register(painter.close)
    return painter


def generate(
    out_dir: Path | str,
    scenes: int,
    seed: int,
    split: Split = 'train',
    workers: int = 2,
    scenes_per_shard: int = 1000,
    simulator: str = 'mujoco',
) -> int:
    """Write a data set, keeping the shards that are already there.

    Returns:
        Number of scenes written now.

    Raises:
        SceneError: the folder holds a data set of other settings.
        GazeboUnavailable: pictures of Gazebo are wanted, and it is not here.
    """
    folder = Path(out_dir)
    folder.mkdir(parents=True, exist_ok=True)
    settings = Settings(seed, split, scenes, scenes_per_shard, simulator)
    _check_settings(folder, settings)
    jobs = [
        (str(folder), number, first, end, settings)
        for number, (first, end) in enumerate(settings.shards())
        if not (folder / f'shard_{number:04d}.npz').exists()
    ]
    written = 0
    with Progress() as progress:
        bar = progress.add_task(f'{split} scenes', total=sum(job[3] - job[2] for job in jobs))
        for count in _run(jobs, workers):
            written += count
            progress.update(bar, advance=count)
    return written


def _run(jobs: list[tuple[str, int, int, int, Settings]], workers: int) -> Iterator[int]:
    if workers <= 1:
        yield from map(write_shard, jobs)
        return
    with multiprocessing.get_context('spawn').Pool(min(workers, len(jobs) or 1)) as pool:
        yield from pool.imap_unordered(write_shard, jobs)


def _check_settings(folder: Path, settings: Settings) -> None:
    path = folder / 'settings.json'
    wanted = asdict(settings)
    if path.exists():
        # Folders from before there were two renderers name none.
        found = {'simulator': 'mujoco', **json.loads(path.read_text(encoding='utf-8'))}
        if {**found, 'scenes': 0} != {**wanted, 'scenes': 0}:
            raise SceneError(f'data set in {folder}', found, [wanted, 'another folder'])
    path.write_text(json.dumps(wanted) + '\n', encoding='utf-8')
