# SPDX-License-Identifier: Apache-2.0
"""One command from scene shards to a checkpoint: eyes, student, teacher, distillation, agent.

Every stage is stored; the same command goes on where it stopped. The ablation is built in:
from one common student, equal extra steps with and without the teacher; the better one is taught
to be an agent, and ships. The agent's stage alone can go on from a checkpoint that is there:

    python -m cloud_backbone.distillation.pipeline DATA OUT --only agent --start CHECKPOINT

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
    make_agent,
    make_student,
    make_teacher,
    make_variant,
    measure,
    measure_acts,
    measure_eyes,
    Model,
    ship,
    Workshop,
)
import torch

STAGES = ('eyes', 'student', 'teacher', 'plain', 'distilled', 'agent', 'report')
OTHER_RENDERERS = ('test_gazebo',)
"""Folders beside test with the same scenes in other pictures; measured where they are."""
MEASURED = ('student', 'teacher', 'plain', 'distilled')


@dataclass(frozen=True)
class Report:
    """What came out: figures by model and split, which variant became the agent, and where."""

    figures: dict[str, dict[str, dict[str, float]]]
    taught: str
    checkpoint: Path


def distill(
    data_dir: Path | str,
    out_dir: Path | str,
    seed: int = 0,
    profile: str = 'full',
    device: str | None = None,
    only: str | None = None,
    start: Path | str | None = None,
) -> Report | None:
    """Train, distil, evaluate and store a checkpoint; return the report.

    Args:
        data_dir: holds the splits train, val and test as scene shards.
        out_dir: takes the stages; existing ones are used, not repeated.
        seed: same seed, same machine, same result.
        profile: a name of PROFILES.
        device: of torch; None takes a GPU where there is one.
        only: stop after this stage (one of STAGES) and return None.
        start: a checkpoint that the agent's stage goes on from, with ``only='agent'``.

    Raises:
        ValueError: an unknown profile or stage, or a start for another stage.
        ShardError: the data is missing or damaged.
    """
    if only is not None and only not in STAGES:
        raise ValueError(f'unknown stage {only!r}; known are {", ".join(STAGES)}')
    if start is not None and only != 'agent':
        raise ValueError(f"a start serves the stage 'agent' only, not {only or 'all'!r}")
    out = Path(out_dir)
    out.mkdir(parents=True, exist_ok=True)
    shop = Workshop(
        Path(data_dir), out, profile_named(profile), seed, best_device(device),
        None if start is None else Path(start),
    )
    if only == 'eyes':
        measure_eyes(shop, 'val')
    elif only == 'agent':
        _make_agent(shop)
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


def _make_agent(shop: Workshop) -> dict[str, dict[str, float]]:
    """Teach the start, or the better variant, to be an agent; return its figures by split."""
    make_agent(shop, shop.start or shop.out_dir / _better(shop))
    return {
        split: {**measure(shop, 'agent', split), **measure_acts(shop, 'agent', split)}
        for split in ('val', 'test', *OTHER_RENDERERS)
        if split not in OTHER_RENDERERS or (shop.data_dir / split).is_dir()
    }


def _better(shop: Workshop) -> str:
    """Return which of the variants plans better on the validation split."""
    variants = ('distilled', 'plain')
    for name in variants:
        _make(shop, name)
    return max(variants, key=lambda name: measure(shop, name, 'val')['plans_right'])


def _report(shop: Workshop) -> Report:
    """Make whatever is missing, measure all of it, and ship the agent."""
    for name in MEASURED:
        _make(shop, name)
    figures = {
        name: {split: measure(shop, name, split) for split in ('val', 'test')} for name in MEASURED
    }
    better = _better(shop)
    figures['agent'] = _make_agent(shop)
    report = Report(figures, better, ship(shop, 'agent'))
    eyes = measure_eyes(shop, 'test')
    text = json.dumps({'taught': better, 'eyes': eyes, 'figures': figures}, indent=1)
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
    parser.add_argument('--start', type=Path, default=None)
    options = parser.parse_args()
    torch.set_num_threads(1)
    report = distill(**vars(options))
    if report is not None:
        print(json.dumps({'taught': report.taught, **report.figures['agent']}))


if __name__ == '__main__':
    main()
