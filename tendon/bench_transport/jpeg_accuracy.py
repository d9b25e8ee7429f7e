# SPDX-License-Identifier: Apache-2.0
"""What the quality of JPEGs costs in plans; ``onboard_decoder.image_quality`` rests on it.

``python -m tendon.bench_transport.jpeg_accuracy DATA`` reads the test scenes below DATA, as
``tendon distill`` makes them, asks the shipped checkpoint about each at several qualities, and
prints a table; the last line is JSON. The scenes have gone through JPEG once before.
"""

from __future__ import annotations

from dataclasses import replace
import json
from pathlib import Path
import sys
from typing import Any

from cloud_backbone.config import SHIPPED_CHECKPOINT
from cloud_backbone.distillation.evaluate import choose, evaluate, summarise
from cloud_backbone.distillation.scene_shards import read_split
from cloud_backbone.model.checkpoint import load_checkpoint
import numpy as np
from onboard_decoder.image_codec import decode_compressed, encode_jpeg
from rich.console import Console
from rich.table import Table
from tendon.provenance import provenance
import torch

QUALITIES = (90, 75, 60, 45)
SCENES, QUESTIONS, SEED = 200, 400, 7
SCORES = ('plans_right', 'grounding_median_px', 'grounding_within_4px')


def measure(data: Path, qualities: tuple[int, ...] = QUALITIES) -> list[dict[str, Any]]:
    """Return quality, mean bytes of an image and scores, for each quality."""
    torch.set_num_threads(1)
    model, tokenizer = load_checkpoint(SHIPPED_CHECKPOINT)
    scenes = read_split(data, 'test', SCENES)
    asked = choose(scenes, QUESTIONS, SEED)
    found = []
    for quality in qualities:
        files = [encode_jpeg(image, 128, 128, quality) for image in scenes.image.numpy()]
        images = torch.from_numpy(np.stack([decode_compressed(file) for file in files]))
        scores = summarise(evaluate(model, tokenizer, replace(scenes, image=images), asked))
        size = round(sum(map(len, files)) / len(files))
        found.append({'quality': quality, 'bytes': size, **{key: scores[key] for key in SCORES}})
        print(found[-1], file=sys.stderr)
    return found


def main() -> None:
    """Measure and print."""
    found = measure(Path(sys.argv[1]))
    table = Table(*found[0], title=f'{QUESTIONS} questions about {SCENES} test scenes')
    for row in found:
        table.add_row(*(f'{value:.3f}' if isinstance(value, float) else str(value)
                        for value in row.values()))
    Console().print(table)
    print(json.dumps({'by_quality': found, 'questions': QUESTIONS, **provenance(SEED)}))


if __name__ == '__main__':
    main()
