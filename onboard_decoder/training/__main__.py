# SPDX-License-Identifier: Apache-2.0
"""Trains, exports and checks a decoder: one command from demonstrations to the robot's file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from onboard_decoder.manifest import Manifest
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.plan_decoder import PlanDecoder
from onboard_decoder.training.closed_loop import LoopSettings, play_sequences, summary
from onboard_decoder.training.decoder_model import DecoderModel, SKILLS
from onboard_decoder.training.export import export, OPSET
from onboard_decoder.training.model_card import model_card
from onboard_decoder.training.train import train, TrainSettings


def main(arguments: list[str] | None = None) -> None:
    """Train a decoder and write decoder.onnx and MODEL_CARD.md."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument('demonstrations', type=Path, help='folder with shards and sequences.npz')
    parser.add_argument('--out', type=Path, required=True, help='folder for the results')
    parser.add_argument('--robot', default='tendon_arm', help='name, folder or manifest file')
    parser.add_argument('--steps', type=int, default=TrainSettings.steps)
    parser.add_argument('--batch', type=int, default=TrainSettings.batch)
    parser.add_argument('--seed', type=int, default=TrainSettings.seed)
    args = parser.parse_args(arguments)
    settings = TrainSettings(seed=args.seed, steps=args.steps, batch=args.batch)
    make_decoder(args.out, args.demonstrations, load_manifest(args.robot), settings)


def make_decoder(
    out: Path, demonstrations: Path, manifest: Manifest, settings: TrainSettings
) -> dict[str, float]:
    """Train, export, measure, and write the card; return the figures."""
    model = train(out, demonstrations, manifest, settings)
    path = out / 'decoder.onnx'
    difference = export(model, manifest, path)
    loop = LoopSettings()
    results = play_sequences(
        demonstrations / 'sequences.npz', PlanDecoder(manifest, path), manifest, loop)
    figures = summary(results)
    about = {**_facts(model), 'difference': difference, 'every': loop.every_ticks,
             'ahead': loop.ahead_ticks, **json.loads((out / 'training.json').read_text())}
    note = demonstrations / 'settings.json'
    if note.exists():
        about['data_seed'] = json.loads(note.read_text())['seed']
    (out / 'MODEL_CARD.md').write_text(model_card(manifest, about, figures), encoding='utf-8')
    print(json.dumps(figures))
    return figures


def _facts(model: DecoderModel) -> dict[str, Any]:
    return {
        'parameters': sum(value.numel() for value in model.parameters()),
        'horizon': model.config.horizon, 'latent_size': model.config.latent_size,
        'skills': ', '.join(SKILLS), 'opset': OPSET,
    }


if __name__ == '__main__':
    main()
