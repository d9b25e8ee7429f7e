# SPDX-License-Identifier: Apache-2.0
"""Oaken's thresholds of a whole model: collected from prompts, kept in a JSON file.

The file names the model it was made for, by fingerprint, and what it was made from. Its own
digest tells whether two sessions read pages alike, and whether the file is whole.

Knows no model: keys and values come in as tensors, as they would be cached.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from cloud_backbone.kv_cache.errors import CalibrationError
from cloud_backbone.kv_cache.oaken_edges import GroupEdges, OakenShares, OakenThresholds
from cloud_backbone.kv_cache.streaming_quantile import QuantileSketch
import torch
from torch import Tensor

FORMAT = 'oaken-thresholds-1'


@dataclass(frozen=True)
class OakenCalibration:
    """Thresholds of all layers."""

    model: str
    """Fingerprint of the model."""
    corpus: str
    """Hash or name of what it was calibrated on."""
    shares: OakenShares
    layers: tuple[OakenThresholds, ...]

    @classmethod
    def collect(
        cls,
        prompts: Iterable[Sequence[tuple[Tensor, Tensor]]],
        *,
        model: str,
        corpus: str,
        shares: OakenShares | None = None,
    ) -> OakenCalibration:
        """Learn from prompts one after another; only one need be in memory.

        Args:
            prompts: for each its layers, each (key, value) of (kv_heads, tokens, head_dim).
            model: the model's fingerprint.
            corpus: hash or name of the prompts.
            shares: what the groups shall hold.
        """
        shares = shares or OakenShares()
        sketches: list[tuple[QuantileSketch, QuantileSketch]] = []
        for layers in prompts:
            sketches = sketches or [(QuantileSketch(len(k)), QuantileSketch(len(v)))
                                    for k, v in layers]
            for pair, kept in zip(layers, sketches, strict=True):
                for tensor, sketch in zip(pair, kept, strict=True):
                    sketch.update(tensor.flatten(1))
        if not sketches:
            raise CalibrationError('no prompts were given for calibration')
        edges = [[GroupEdges(s.quantiles(shares.points)) for s in pair] for pair in sketches]
        return cls(model, corpus, shares, tuple(OakenThresholds(*pair) for pair in edges))

    def __getitem__(self, layer: int) -> OakenThresholds:
        return self.layers[layer]

    def _content(self) -> dict[str, Any]:
        return {
            'format': FORMAT,
            'model': self.model,
            'corpus': self.corpus,
            'outer': self.shares.outer,
            'inner': self.shares.inner,
            'key': [layer.key.edges.tolist() for layer in self.layers],
            'value': [layer.value.edges.tolist() for layer in self.layers],
        }

    @cached_property
    def digest(self) -> str:
        """Hash of everything the file says."""
        text = json.dumps(self._content(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        text = json.dumps({**self._content(), 'digest': self.digest}, indent=1)
        part = path.with_name(path.name + '.part')
        part.write_text(text + '\n', encoding='utf-8')
        os.replace(part, path)

    @classmethod
    def load(cls, path: Path, *, model: str) -> OakenCalibration:
        """Read a file that was made for this very model."""
        try:
            said = json.loads(path.read_text(encoding='utf-8'))
            if said['format'] != FORMAT:
                raise CalibrationError(f'{path} is of format {said["format"]!r}, not {FORMAT!r}')
            found = cls._from(said)
            digest = str(said['digest'])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CalibrationError(f'{path} is no calibration of Oaken: {error!r}') from error
        if found.digest != digest:
            raise CalibrationError(f'{path} has been changed: digest {found.digest}, not {digest}')
        if found.model != model:
            raise CalibrationError(
                f'{path} was calibrated for model {found.model}, this is model {model}; '
                'calibrate for this model'
            )
        return found

    @classmethod
    def _from(cls, said: dict[str, Any]) -> OakenCalibration:
        layers = tuple(
            OakenThresholds(GroupEdges(torch.tensor(key)), GroupEdges(torch.tensor(value)))
            for key, value in zip(said['key'], said['value'], strict=True)
        )
        shares = OakenShares(float(said['outer']), float(said['inner']))
        return cls(str(said['model']), str(said['corpus']), shares, layers)
