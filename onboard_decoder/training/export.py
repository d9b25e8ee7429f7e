# SPDX-License-Identifier: Apache-2.0
"""From a trained network to the ONNX file that the robot runs, with what it says of itself.

Compares both on random inputs before it is content. Knows no data.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from onboard_decoder.manifest import Manifest
from onboard_decoder.training.decoder_model import DecoderModel, SKILLS
from onboard_decoder.training.onnx_writer import greatest_difference, note, ParityError, write
import torch
from torch import Tensor

OUTPUTS = ('chunk', 'remaining')
TOLERANCE = 1e-4        # [rad], [m] or [s] between torch and onnxruntime
_CHECKED = 64           # random inputs


def export(model: DecoderModel, manifest: Manifest, path: Path) -> float:
    """Write the file and return the greatest difference to torch.

    Raises:
        ParityError: the difference is too large.
    """
    model = model.eval()
    inputs = [random_inputs(model, manifest, 1, seed) for seed in range(_CHECKED)]
    write(model, inputs[0], OUTPUTS, path)
    note(path, _facts(model, manifest))
    difference = greatest_difference(model, path, OUTPUTS, inputs)
    if not difference <= TOLERANCE:
        raise ParityError(path, difference, TOLERANCE)
    return difference


def random_inputs(
    model: DecoderModel, manifest: Manifest, count: int, seed: int
) -> dict[str, Tensor]:
    """Inputs within the limits of the manifest, each (count, ...)."""
    rng = np.random.default_rng(seed)
    joints = len(manifest.joints)
    low, high = np.array(manifest.workspace.lower_m), np.array(manifest.workspace.upper_m)
    pose = np.append(rng.uniform(low, high, (count, 3)), rng.uniform(-3, 3, (count, 1)), axis=1)
    arrays = {
        'skill': np.eye(len(SKILLS))[rng.integers(0, len(SKILLS), count)],
        'target': pose,
        'gripper': rng.random((count, 1)),
        'speed': rng.uniform(0.1, 1.0, (count, 1)),
        'joints': rng.uniform(manifest.column('lower'), manifest.column('upper'),
                              (count, joints)),
        'velocities': rng.uniform(-1, 1, (count, joints)) * manifest.column('max_velocity'),
        'accelerations': rng.uniform(-1, 1, (count, joints - 1))
        * manifest.column('max_acceleration')[:-1],
        'known': rng.integers(0, 2, (count, 1)),
        'delay': rng.uniform(0, 0.5, (count, 1)),
        'latent': rng.normal(size=(count, model.config.latent_size)) * (seed % 2),
        'draft': rng.uniform(manifest.column('lower'), manifest.column('upper'),
                             (count, model.config.horizon, joints)),
        'tau': rng.random((count, 1)),
    }
    if seed % 4 == 0:   # what a step without target looks like, at rest
        arrays['target'], arrays['velocities'] = 0 * pose, 0 * arrays['joints']
        arrays['skill'] = np.tile(np.eye(len(SKILLS))[SKILLS.index('home')], (count, 1))
    if seed % 8 == 0:
        arrays['joints'] = np.tile(manifest.home, (count, 1))
    return {name: torch.tensor(value, dtype=torch.float32) for name, value in arrays.items()}


def _facts(model: DecoderModel, manifest: Manifest) -> dict[str, str]:
    """Say whose decoder it is."""
    return {
        'robot': manifest.name,
        'joints': json.dumps(list(manifest.joint_names)),
        'skills': json.dumps(list(SKILLS)),
        'period_s': str(manifest.control_period_s),
        'spread': json.dumps(model.spread.tolist()),
        'longest_delay_s': str(model.config.longest_delay_s),
        'horizon': str(model.config.horizon),
        'latent_size': str(model.config.latent_size),
    }
