# SPDX-License-Identifier: Apache-2.0
"""Promises about who does the work: the shipped model solves tasks, nothing does without it."""

from collections.abc import Iterator
import os
from pathlib import Path
import shutil

from cloud_backbone.config import SHIPPED_CHECKPOINT
import numpy as np
from onboard_decoder.config import RobotSettings
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.planner_client import PlannerClient
from onboard_decoder.robot_factory import load_decoder
import pytest
from safetensors.torch import load_file, save_file
from sim.tasks import draw_task
from tendon.backbone_process import backbone
from tendon.episode import Episode, EpisodeResult, Spoiler
import torch

pytestmark = pytest.mark.slow
MANIFEST = load_manifest('tendon_arm')
SEEDS = (1, 2, 3, 4)
ONE_TRY = RobotSettings().changed({'limits.max_attempts': 1})


def run(address: str, spoiler: Spoiler | None = None, kind: str = 'put') -> list[EpisodeResult]:
    """Run a few tasks, one try each."""
    episode = Episode(
        MANIFEST, load_decoder(MANIFEST),
        lambda: PlannerClient(address, f'test-{os.getpid()}', MANIFEST),
        settings=ONE_TRY, spoiler=spoiler,
    )
    try:
        return [
            episode.run(seed, 'known', *draw_task(seed, 'train', 'known', kind))
            for seed in SEEDS
        ]
    finally:
        episode.close()


def successes(results: list[EpisodeResult]) -> int:
    """Count the fulfilled tasks."""
    return sum(result.is_success for result in results)


@pytest.fixture(scope='module')
def address() -> Iterator[str]:
    """A backbone with the shipped checkpoint."""
    with backbone(None) as served:
        yield served


def test_the_shipped_model_solves_tasks(address: str) -> None:
    """With image, words and weights as they are, most tasks are fulfilled at the first try."""
    results = run(address)
    assert successes(results) >= len(SEEDS) - 1, results


def test_a_blank_image_loses_the_task(address: str) -> None:
    """A robot that sees a grey wall fulfils nothing."""
    assert successes(run(address, Spoiler(see=lambda image: np.full_like(image, 128)))) == 0


def test_a_wrong_instruction_loses_the_task(address: str) -> None:
    """A robot that hears of something else does something else."""
    wrong = Spoiler(hear=lambda text: 'pick up the orange ball')
    assert successes(run(address, wrong)) == 0


def test_shuffled_weights_lose_the_task(tmp_path: Path) -> None:
    """The same architecture with its weights in another order fulfils nothing."""
    with backbone(None, shuffled(tmp_path / 'shuffled')) as served:
        assert successes(run(served)) == 0


def shuffled(folder: Path) -> Path:
    """Copy the shipped checkpoint with each weight matrix permuted."""
    # What is calibrated for the shipped weights is refused with any others.
    shutil.copytree(SHIPPED_CHECKPOINT, folder, ignore=shutil.ignore_patterns('kv_cache'))
    generator = torch.Generator().manual_seed(0)
    for path in folder.glob('*.safetensors'):
        weights = {
            name: value.flatten()[torch.randperm(value.numel(), generator=generator)]
            .reshape(value.shape) if value.dim() > 1 else value
            for name, value in load_file(path).items()
        }
        save_file(weights, path, metadata={'format': 'pt'})
    return folder
