# SPDX-License-Identifier: Apache-2.0
"""Makes all that is learned: data from the simulator, the backbone, the robot's two networks.

Composes what simulator, cloud and robot offer for it; trains nothing itself. Every part keeps
what it finished, so the same command goes on where it was interrupted.
"""

from dataclasses import dataclass, replace
import json
import os
from pathlib import Path

from cloud_backbone.distillation.pipeline import distill
from cloud_backbone.distillation.profile import PROFILES
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.training.__main__ import make_decoder
from onboard_decoder.training.course import TrainSettings
from onboard_decoder.training.planner_pipeline import EARS, EYES, make_planner
from rich.console import Console
import sim
from sim.arm_geometry import ArmGeometry
from sim.arm_limits import ArmLimits
from sim.dataset import generate
from sim.demonstrations import Settings, write_demonstrations
from sim.expert import Expert
from sim.gazebo.install import is_installed
from sim.scene import Split
from sim.step_sequences import write_sequences
from tendon.errors import BadRequest
from tendon.provenance import provenance
import torch

ROBOT = 'tendon_arm'


@dataclass(frozen=True)
class Amounts:
    """How much data a profile learns from: scenes by split, motions, steps of each network."""

    train: int
    val: int
    test: int
    gazebo_train: int
    gazebo_test: int
    samples: int
    sequences: int
    decoder_steps: int
    eyes_steps: int
    ears_steps: int


AMOUNTS = {
    'full': Amounts(14_000, 1_500, 1_000, 1_000, 200, 400_000, 200, TrainSettings.steps,
                    EYES.steps, EARS.steps),
    'smoke': Amounts(64, 64, 64, 0, 0, 4_000, 4, 20, 4, 20),
}


@dataclass(frozen=True)
class Folder:
    """Pictures of one renderer and split."""

    name: str
    amount: str
    """Field of ``Amounts``."""
    split: Split
    first_seed: int
    simulator: str = 'mujoco'
    scenes_per_shard: int = 1000


# No scene is in two of the folders, but those of the second test are the first ones of the first.
FOLDERS = (
    Folder('train', 'train', 'train', 1),
    Folder('train/gazebo', 'gazebo_train', 'train', 700_001, 'gazebo', 100),
    Folder('val', 'val', 'train', 900_001),
    Folder('test', 'test', 'test', 800_001),
    Folder('test_gazebo', 'gazebo_test', 'test', 800_001, 'gazebo', 100),
)


def run(out: Path, profile: str = 'full', seed: int = 0, device: str | None = None) -> int:
    """Make everything in ``out`` and print where it is.

    Args:
      out: folder; the data go to ``data``, the backbone to ``backbone/final``, the decoder to
        ``decoder``, the small planner to ``planner``.
      profile: a name of AMOUNTS.
      seed: of data, weights and order.
      device: of torch, for the backbone; None takes a GPU where there is one.

    Returns:
      Exit status 0.

    Raises:
      BadRequest: for an unknown profile, or where Gazebo is wanted and not installed.
    """
    if profile not in PROFILES or profile not in AMOUNTS:
        raise BadRequest(f'profile is {profile!r}; allowed: {", ".join(AMOUNTS)}')
    amounts, console = AMOUNTS[profile], Console()
    if amounts.gazebo_train and not is_installed():  # said now, not after hours
        raise BadRequest(f'profile {profile} draws scenes in Gazebo: run "tendon gazebo-install"')
    # Two spinning threads on two busy cores are slower than one.
    torch.set_num_threads(1)
    console.rule('scenes')
    make_scenes(out / 'data', amounts, seed)
    console.rule('backbone')
    report = distill(out / 'data', out / 'backbone', seed=seed, profile=profile, device=device)
    assert report is not None
    console.rule('decoder')
    decoder = make_motions_and_decoder(out, amounts, seed)
    console.rule('onboard planner')
    planner = make_small_planner(out, amounts, seed)
    print(json.dumps({
        'checkpoint': str(report.checkpoint), 'taught': report.taught,
        'backbone': report.figures, 'decoder': str(decoder),
        'planner': str(planner), **provenance(seed),
    }))
    return 0


def make_scenes(data: Path, amounts: Amounts, seed: int) -> None:
    """Draw the scenes of all splits; those that are there already stay."""
    for folder in FOLDERS:
        scenes = getattr(amounts, folder.amount)
        if scenes:
            generate(
                data / folder.name, scenes, seed + folder.first_seed, folder.split,
                os.cpu_count() or 1, folder.scenes_per_shard, folder.simulator,
            )


def make_motions_and_decoder(out: Path, amounts: Amounts, seed: int) -> Path:
    """Write demonstrations, train the decoder on them, and return its file."""
    manifest = load_manifest(ROBOT)
    decoder = out / 'decoder' / 'decoder.onnx'
    if (out / 'decoder' / 'MODEL_CARD.md').is_file():
        return decoder
    limits = ArmLimits.from_manifest(manifest.decoder.parent / 'manifest.yaml')
    arm = Path(sim.__file__).parent / 'assets' / f'{ROBOT}.urdf'
    geometry = ArmGeometry.from_urdf(arm)
    motions = out / 'data' / 'motions'
    write_demonstrations(motions, Settings(seed + 1, amounts.samples), geometry, limits)
    if not (motions / 'sequences.npz').is_file():
        expert = Expert(geometry, limits)
        write_sequences(motions / 'sequences.npz', expert, seed + 1_001, amounts.sequences)
    make_decoder(
        out / 'decoder', motions, manifest, TrainSettings(seed=seed, steps=amounts.decoder_steps)
    )
    return decoder


def make_small_planner(out: Path, amounts: Amounts, seed: int) -> Path:
    """Train the robot's small planner on the scenes, and return its file."""
    planner = out / 'planner' / 'planner.onnx'
    if not (out / 'planner' / 'PLANNER_CARD.md').is_file():
        make_planner(
            out / 'data', out / 'planner', load_manifest(ROBOT),
            replace(EYES, steps=amounts.eyes_steps, seed=seed),
            replace(EARS, steps=amounts.ears_steps, seed=seed))
    return planner
