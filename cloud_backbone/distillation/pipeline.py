# SPDX-License-Identifier: Apache-2.0
"""One command from scene shards to a checkpoint: eyes, student, teacher, distillation, report.

Every stage is stored; the same command goes on where it stopped. The ablation is built in:
from one common student, equal extra steps with and without the teacher; the better one ships.

    python -m cloud_backbone.distillation.pipeline DATA_DIR OUT_DIR --profile full
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
import json
from pathlib import Path

from cloud_backbone.distillation.profile import profile_named, PROFILES
from cloud_backbone.distillation.stages import (
    best_device,
    make_student,
    make_teacher,
    make_variant,
    measure,
    measure_eyes,
    Model,
    ship,
    Workshop,
)
import torch

STAGES = ('eyes', 'student', 'teacher', 'plain', 'distilled', 'report')
MEASURED = ('student', 'teacher', 'plain', 'distilled')


@dataclass(frozen=True)
class Report:
    """What came out: figures by model and split, which variant ships, and where it lies."""

    figures: dict[str, dict[str, dict[str, float]]]
    shipped: str
    checkpoint: Path


def distill(
    data_dir: Path | str,
    out_dir: Path | str,
    seed: int = 0,
    profile: str = 'full',
    device: str | None = None,
    only: str | None = None,
) -> Report | None:
    """Train, distil, evaluate and store a checkpoint; return the report.

    Args:
        data_dir: holds the splits train, val and test as scene shards.
        out_dir: takes the stages; existing ones are used, not repeated.
        seed: same seed, same machine, same result.
        profile: a name of PROFILES.
        device: of torch; None takes a GPU where there is one.
        only: stop after this stage (one of STAGES) and return None.

    Raises:
        ValueError: an unknown profile or stage.
        ShardError: the data is missing or damaged.
    """
    if only is not None and only not in STAGES:
        raise ValueError(f'unknown stage {only!r}; known are {", ".join(STAGES)}')
    out = Path(out_dir)
    out.mkdir(parents=True, exist_ok=True)
    shop = Workshop(Path(data_dir), out, profile_named(profile), seed, best_device(device))
    if only == 'eyes':
        measure_eyes(shop, 'val')
    elif only in MEASURED:
        _make(shop, only)
        measure(shop, only, 'val')
    else:
        return _report(shop)
    return None


def _make(shop: Workshop, name: str) -> Model:
    """Make one planner and what it needs."""
    student = make_student(shop)
    if name == 'student':
        return student
    if name == 'plain':
        return make_variant(shop, name, student, None)
    teacher = make_teacher(shop, student)
    return teacher if name == 'teacher' else make_variant(shop, name, student, teacher)


def _report(shop: Workshop) -> Report:
    """Make whatever is missing, measure all of it, and ship the better variant."""
    for name in MEASURED:
        _make(shop, name)
    figures = {
        name: {split: measure(shop, name, split) for split in ('val', 'test')} for name in MEASURED
    }
    better = max(('distilled', 'plain'), key=lambda name: figures[name]['val']['plans_right'])
    report = Report(figures, better, ship(shop, better))
    eyes = measure_eyes(shop, 'test')
    text = json.dumps({'shipped': better, 'eyes': eyes, 'figures': figures}, indent=1)
    (shop.out_dir / 'report.json').write_text(text + '\n', encoding='utf-8')
    return report


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument('data_dir', type=Path)
    parser.add_argument('out_dir', type=Path)
    parser.add_argument('--profile', choices=sorted(PROFILES), default='full')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--device', default=None)
    parser.add_argument('--only', choices=STAGES, default=None)
    options = parser.parse_args()
    torch.set_num_threads(1)
    report = distill(**vars(options))
    if report is not None:
        print(json.dumps({'shipped': report.shipped, **report.figures[report.shipped]}))


if __name__ == '__main__':
    main()
