# SPDX-License-Identifier: Apache-2.0
"""Trains, exports and measures an onboard planner: one command from shards to the robot's file."""

from __future__ import annotations

import argparse
from dataclasses import replace
import json
from pathlib import Path
from typing import Any

from onboard_decoder.config import OffloadSettings
from onboard_decoder.fallback.onboard_model import OnboardModel
from onboard_decoder.fallback.simple_planner import SimplePlanner
from onboard_decoder.manifest import Manifest
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.training.course import TrainSettings
from onboard_decoder.training.onnx_writer import OPSET
from onboard_decoder.training.planner_card import planner_card
from onboard_decoder.training.planner_data import Pictures, read_pictures
from onboard_decoder.training.planner_export import describe, export, SmallPlanner
from onboard_decoder.training.planner_scores import ask_all, curves_of, scores
from onboard_decoder.training.planner_sentences import SentenceSource, vocabulary_of
from onboard_decoder.training.planner_train import train_ears, train_eyes
import torch

EYES = TrainSettings(steps=4000, batch=32, rate=1.5e-3, decay=0.02, warm_steps=100)
EARS = TrainSettings(steps=4000, batch=128, rate=2e-3, decay=0.02, warm_steps=100)
MOST_SCENES = 400


def main(arguments: list[str] | None = None) -> None:
    """Train an onboard planner and write planner.onnx and PLANNER_CARD.md."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument('data', type=Path, help='folder with the shards of train, val and test')
    parser.add_argument('--out', type=Path, required=True, help='folder for the results')
    parser.add_argument('--robot', default='tendon_arm', help='name, folder or manifest file')
    parser.add_argument('--eyes-steps', type=int, default=EYES.steps)
    parser.add_argument('--ears-steps', type=int, default=EARS.steps)
    parser.add_argument('--seed', type=int, default=0)
    args = parser.parse_args(arguments)
    make_planner(
        args.data, args.out, load_manifest(args.robot),
        replace(EYES, steps=args.eyes_steps, seed=args.seed),
        replace(EARS, steps=args.ears_steps, seed=args.seed))


def make_planner(
    data: Path, out: Path, manifest: Manifest, for_eyes: TrainSettings, for_ears: TrainSettings,
) -> dict[str, float]:
    """Train, export, calibrate, measure, and write the card; return the figures.

    Calibrates and measures on at most ``MOST_SCENES`` scenes each.
    """
    torch.set_num_threads(1)
    pictures = read_pictures(data / 'train')
    words = vocabulary_of(pictures.sentences)
    ears, ears_s = train_ears(
        out, SentenceSource(pictures.sentences, words), len(words), for_ears)
    eyes, eyes_s = train_eyes(out, pictures, for_eyes)
    model, path = SmallPlanner(eyes, ears), out / 'planner.onnx'
    difference = export(model, manifest, words, path)
    val = read_pictures(data / 'val', MOST_SCENES)
    curves = curves_of(ask_all(_planner(manifest, path), val, manifest))
    describe(path, manifest, words, curves)
    test = read_pictures(data / 'test', MOST_SCENES)
    least = OffloadSettings().min_confidence
    figures = scores(ask_all(_planner(manifest, path), test, manifest), least)
    about: dict[str, Any] = {
        **_facts(model, manifest, path), **_seeds(data), 'difference': difference, 'least': least,
        'seed': for_eyes.seed, 'eyes_steps': for_eyes.steps, 'eyes_batch': for_eyes.batch,
        'ears_steps': for_ears.steps, 'ears_batch': for_ears.batch, 'eyes_cpu_s': eyes_s,
        'ears_cpu_s': ears_s, **_sizes(train=pictures, val=val, test=test),
    }
    (out / 'PLANNER_CARD.md').write_text(planner_card(manifest, about, figures), encoding='utf-8')
    print(json.dumps({name: round(value, 4) for name, value in figures.items()}))
    return figures


def _planner(manifest: Manifest, path: Path) -> SimplePlanner:
    return SimplePlanner(manifest, OnboardModel(manifest, path))


def _facts(model: SmallPlanner, manifest: Manifest, path: Path) -> dict[str, Any]:
    about = OnboardModel(manifest, path).about
    return {
        'eyes_parameters': sum(value.numel() for value in model.eyes.parameters()),
        'ears_parameters': sum(value.numel() for value in model.ears.parameters()),
        'ears_layers': len(model.ears.layers), 'opset': OPSET, 'bytes': path.stat().st_size,
        'words': len(about.words), 'most_words': about.most_words, 'image_px': about.image_px,
        'digest': about.digest,
    }


def _sizes(**splits: Pictures) -> dict[str, int]:
    return {f'{name}_scenes': len(pictures) for name, pictures in splits.items()}


def _seeds(data: Path) -> dict[str, int | str]:
    """Return the seeds that the data sets were drawn from, as far as they say."""
    found: dict[str, int | str] = {}
    for split in ('train', 'val', 'test'):
        note = data / split / 'settings.json'
        found[f'{split}_seed'] = json.loads(note.read_text())['seed'] if note.exists() else '?'
    return found


if __name__ == '__main__':
    main()
