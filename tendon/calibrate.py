# SPDX-License-Identifier: Apache-2.0
"""Calibrates the caches of a checkpoint on scenes like those it was trained on.

Writes the gains of SQuat and the thresholds of Oaken beside the checkpoint, where the backbone
looks for them.
"""

from collections.abc import Iterator
import json
from pathlib import Path

from cloud_backbone.cache_calibration import CacheCalibration
from cloud_backbone.cache_policies import GAINS_FILE, THRESHOLDS_FILE
from cloud_backbone.config import SHIPPED_CHECKPOINT
from cloud_backbone.model.backbone import Image, load_backbone
from rich.progress import track
from sim.dataset import instructions, Painter
from tendon.errors import BadRequest


def run(checkpoint: Path | None = None, scenes: int = 100, seed: int = 0) -> int:
    """Calibrate and write the files.

    Args:
      checkpoint: the model; None takes the shipped one.
      scenes: how many turns to look at.
      seed: draws scenes and instructions.

    Returns:
      Exit status 0.

    Raises:
      BadRequest: for fewer than one scene.
      StartError: for a checkpoint whose caches cannot be compressed.
    """
    if scenes < 1:
        raise BadRequest(f'scenes is {scenes}; allowed: 1 and more')
    directory = checkpoint or SHIPPED_CHECKPOINT
    backbone = load_backbone(directory)
    corpus = f'{scenes} training scenes, seed {seed}'
    gains, thresholds = CacheCalibration(backbone).learn(_turns(scenes, seed), corpus)
    files = [directory / GAINS_FILE, directory / THRESHOLDS_FILE]
    gains.save(files[0])
    thresholds.save(files[1])
    print(json.dumps({
        'files': [str(file) for file in files], 'model': gains.model, 'scenes': scenes,
        'seed': seed,
    }))
    return 0


def _turns(scenes: int, seed: int) -> Iterator[tuple[str, Image]]:
    painter = Painter()
    try:
        for index in track(range(scenes), 'turns'):
            scene = painter.draw_visible(seed, index, 'train')
            yield instructions(scene, (seed, index))[0].text, painter.photograph()
    finally:
        painter.close()
