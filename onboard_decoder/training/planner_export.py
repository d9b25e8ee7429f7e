# SPDX-License-Identifier: Apache-2.0
"""From trained eyes and ears to the ONNX file of the onboard planner, with what it says of itself.

Compares both on random inputs before it is content. Knows no data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
import hashlib
import json
from pathlib import Path
from typing import Any

from onboard_decoder.fallback.onboard_model import Curve, FORMAT, Kind, OUTPUTS, TASKS
from onboard_decoder.manifest import Manifest
from onboard_decoder.training.onnx_writer import greatest_difference, note, ParityError, write
from onboard_decoder.training.planner_ears import Ears, MOST_WORDS
from onboard_decoder.training.planner_eyes import COLOURS, Eyes, IMAGE_PX
import onnx
import torch
from torch import nn, Tensor

KINDS = (
    Kind('cube', 0.022, 0.030), Kind('ball', 0.022, 0.028), Kind('cylinder', 0.025, 0.035),
    Kind('bin', 0.025, 0.025, is_container=True),
)
NO_CURVES: Mapping[str, Curve] = {name: Curve(1.0, 0.0) for name in ('steps', 'done', 'refused')}
TOLERANCE = 1e-3  # between torch and onnxruntime, as share of 1 and the value
_CHECKED = 32  # random inputs


class SmallPlanner(nn.Module):
    """Eyes and ears in one graph, for images as they come."""

    def __init__(self, eyes: Eyes, ears: Ears) -> None:
        super().__init__()
        self.eyes, self.ears = eyes, ears

    def forward(self, image: Tensor, words: Tensor) -> tuple[Tensor, ...]:
        """Read (1, side, side, 3) uint8 RGB and (1, words) numbers; see ``Reading``."""
        heard = self.ears(words)
        cells = self.eyes(image.permute(0, 3, 1, 2).float() / 255.0)
        return (*(part.softmax(-1) for part in heard), *cells)


def export(model: SmallPlanner, manifest: Manifest, words: Sequence[str], path: Path) -> float:
    """Write the file, without curves, and return the greatest difference to torch.

    Raises:
        ParityError: the difference is too large.
    """
    model = model.eval()
    path.parent.mkdir(parents=True, exist_ok=True)
    inputs = [_inputs(len(words), seed) for seed in range(_CHECKED)]
    write(model, inputs[0], OUTPUTS, path)
    describe(path, manifest, words, NO_CURVES)
    difference = greatest_difference(model, path, OUTPUTS, inputs, is_relative=True)
    if not difference <= TOLERANCE:
        raise ParityError(path, difference, TOLERANCE)
    return difference


def describe(path: Path, manifest: Manifest, words: Sequence[str],
             curves: Mapping[str, Curve]) -> None:
    """Write into the file whose planner it is and how to read it; it names no folder."""
    weights = hashlib.sha256()
    for tensor in sorted(onnx.load(path).graph.initializer, key=lambda entry: entry.name):
        weights.update(tensor.name.encode() + tensor.raw_data)
    about: dict[str, Any] = {
        'format': FORMAT, 'robot': manifest.name, 'image_px': IMAGE_PX, 'words': list(words),
        'most_words': MOST_WORDS, 'tasks': list(TASKS), 'kinds': [asdict(kind) for kind in KINDS],
        'colours': list(COLOURS), 'digest': weights.hexdigest()[:16],
        'curves': {name: [curve.slope, curve.offset] for name, curve in curves.items()},
    }
    note(path, {name: json.dumps(value) for name, value in about.items()})


def _inputs(words: int, seed: int) -> dict[str, Tensor]:
    """Random inputs; the image is a smooth one, as noise alone would say little."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand((1, 3, 16, 16), generator=generator)
    smooth = nn.functional.interpolate(coarse, size=(IMAGE_PX, IMAGE_PX), mode='bilinear')
    image = (smooth.permute(0, 2, 3, 1) * 255).to(torch.uint8).contiguous()
    numbers = torch.randint(1, words + 1, (1, MOST_WORDS), generator=generator)
    numbers[:, int(torch.randint(1, MOST_WORDS, (1,), generator=generator)):] = 0
    return {'image': image, 'words': numbers}
