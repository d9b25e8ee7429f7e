# SPDX-License-Identifier: Apache-2.0
"""SQuat's gains of one model, made once and shared by all its sessions.

A session that learns its own gains owns as many bytes of them as hundreds of its tokens need.
Queries of one model on one kind of task are much alike, so their mean serves every session.
One file of safetensors, keyed by the digest of the model.
"""

from __future__ import annotations

from dataclasses import dataclass
import os
from pathlib import Path

from cloud_backbone.kv_cache.errors import CacheError, CalibrationError
from cloud_backbone.kv_cache.squat_gains import SquatGains
from safetensors import safe_open, SafetensorError
from safetensors.torch import save_file
from torch import Tensor

MODEL = 'model'


@dataclass(frozen=True)
class SquatTable:
    """Gains of each layer, and the digest of the model that they are of."""

    model: str
    layers: tuple[SquatGains, ...]

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        named = {
            f'{layer}.{name}': tensor
            for layer, gains in enumerate(self.layers)
            for name, tensor in gains.tensors().items()
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + '.part')
        save_file(named, part, {MODEL: self.model})
        part.chmod(0o644)
        os.replace(part, path)

    @classmethod
    def load(cls, path: Path, *, model: str) -> SquatTable:
        """Read a file that was made for this very model.

        Raises:
            CalibrationError: it is missing, broken, or of another model.
        """
        try:
            with safe_open(path, 'pt') as file:
                made_for = str((file.metadata() or {}).get(MODEL))
                named = {name: file.get_tensor(name) for name in file.keys()}
            layers = _layers(named)
        except (OSError, SafetensorError, CacheError, ValueError) as error:
            raise CalibrationError(f'{path} holds no gains of SQuat: {error}') from error
        if made_for != model:
            raise CalibrationError(
                f'{path} was calibrated for model {made_for}, this is model {model}; '
                'calibrate for this model'
            )
        return cls(made_for, layers)


def _layers(named: dict[str, Tensor]) -> tuple[SquatGains, ...]:
    layers: dict[int, dict[str, Tensor]] = {}
    for name, tensor in named.items():
        layer, _, part = name.partition('.')
        layers.setdefault(int(layer), {})[part] = tensor
    if sorted(layers) != list(range(len(layers))):
        raise CacheError(f'layers are {sorted(layers)}, not 0 and on')
    return tuple(SquatGains.from_tensors(layers[layer]) for layer in sorted(layers))
