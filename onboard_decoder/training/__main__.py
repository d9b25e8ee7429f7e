# SPDX-License-Identifier: Apache-2.0
"""Trains, exports and checks a decoder: one command from demonstrations to the robot's file."""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

from onboard_decoder.manifest import Manifest
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.plan_decoder import PlanDecoder
from onboard_decoder.training.closed_loop import LoopSettings, play_sequences, summary
from onboard_decoder.training.course import TrainSettings
from onboard_decoder.training.decoder_model import DecoderModel, SKILLS
from onboard_decoder.training.export import export
from onboard_decoder.training.model_card import model_card
from onboard_decoder.training.onnx_writer import OPSET
from onboard_decoder.training.train import train

# As the robot does it, more often, at every third tick, and with a decoder that takes 180 ms.
RHYTHMS = (LoopSettings(15, 1), LoopSettings(8, 3), LoopSettings(3, 1), LoopSettings(15, 9))


def main(arguments: list[str] | None = None) -> None:
    """Train a decoder and write decoder.onnx and MODEL_CARD.md."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument('demonstrations', type=Path, help='folder with shards and sequences.npz')
    parser.add_argument('--out', type=Path, required=True, help='folder for the results')
    parser.add_argument('--robot', default='tendon_arm', help='name, folder or manifest file')
    parser.add_argument('--steps', type=int, default=TrainSettings.steps)
    parser.add_argument('--batch', type=int, default=TrainSettings.batch)
    parser.add_argument('--rate', type=float, default=TrainSettings.rate)
    parser.add_argument('--seed', type=int, default=TrainSettings.seed)
    parser.add_argument('--start', type=Path, help='decoder.onnx whose weights to begin with')
    args = parser.parse_args(arguments)
    settings = TrainSettings(
        seed=args.seed, steps=args.steps, batch=args.batch, rate=args.rate)
    make_decoder(args.out, args.demonstrations, load_manifest(args.robot), settings, args.start)


def make_decoder(
    out: Path, demonstrations: Path, manifest: Manifest, settings: TrainSettings,
    earlier: Path | None = None,
) -> dict[str, dict[str, float]]:
    """Train, export, measure, and write the card; return the figures of each rhythm.

    Args:
      out: folder for the results.
      demonstrations: folder with shards and sequences.npz.
      manifest: of the robot.
      settings: how to train.
      earlier: decoder file whose weights to begin with.
    """
    model = train(out, demonstrations, manifest, settings, earlier=earlier)
    path = out / 'decoder.onnx'
    difference = export(model, manifest, path)
    decoder, sequences = PlanDecoder(manifest, path), demonstrations / 'sequences.npz'
    figures = {
        rhythm.name: summary(play_sequences(sequences, decoder, manifest, rhythm))
        for rhythm in RHYTHMS
    }
    about = {**_facts(model), 'difference': difference, **_beginning(earlier),
             **json.loads((out / 'training.json').read_text())}
    note = demonstrations / 'settings.json'
    if note.exists():
        about['data_seed'] = json.loads(note.read_text())['seed']
    (out / 'MODEL_CARD.md').write_text(model_card(manifest, about, figures), encoding='utf-8')
    print(json.dumps(figures))
    return figures


def _beginning(earlier: Path | None) -> dict[str, str]:
    """Say what a training began with."""
    if earlier is None:
        return {}
    digest = hashlib.sha256(earlier.read_bytes()).hexdigest()[:16]
    return {
        'start': f' --start {earlier.name}',
        'began': f', begun with the weights of {earlier.name} (SHA-256 {digest}...)',
    }


def _facts(model: DecoderModel) -> dict[str, Any]:
    return {
        'parameters': sum(value.numel() for value in model.parameters()),
        'horizon': model.config.horizon, 'latent_size': model.config.latent_size,
        'skills': ', '.join(SKILLS), 'opset': OPSET,
    }


if __name__ == '__main__':
    main()
