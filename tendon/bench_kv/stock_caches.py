# SPDX-License-Identifier: Apache-2.0
"""The caches of transformers: DynamicCache, and QuantizedCache with quanto or HQQ."""

from contextlib import AbstractContextManager, nullcontext
import copy
from dataclasses import dataclass
import importlib.util
from typing import Any

from tendon.bench_kv.recording import Recording, replay
from tendon.bench_kv.resident import resident_bytes
from transformers import DynamicCache, QuantizedCache

LIBRARIES = {'quanto': 'optimum.quanto', 'hqq': 'hqq'}


@dataclass(frozen=True)
class Dynamic:
    """Everything, exact: the reference."""

    name: str = 'DynamicCache'
    maker: str = 'transformers'
    takes_share: bool = False

    def prefill(self, model: Any, recording: Recording, share: float | None) -> Any:
        cache = DynamicCache()
        if not recording.inputs:
            replay(model, recording, cache, silent=False)
            return cache
        for number, layer in enumerate(recording.cache.layers):
            cache.update(layer.keys, layer.values, number)
        return cache

    def reading(self, model: Any, cache: Any) -> AbstractContextManager[None]:
        return nullcontext()

    def fork(self, cache: Any) -> Any:
        return fork_layers(cache)

    def nbytes(self, cache: Any) -> int:
        return resident_bytes(cache.layers)


@dataclass(frozen=True)
class Quantized(Dynamic):
    """Everything, at 4 or 2 bits, with the defaults of transformers."""

    backend: str = 'quanto'
    bits: int = 4

    def prefill(self, model: Any, recording: Recording, share: float | None) -> Any:
        cache = self.empty(model)
        replay(model, recording, cache, silent=True)
        return cache

    def empty(self, model: Any) -> Any:
        """Return a cache that holds nothing yet."""
        axis = 1 if self.backend == 'hqq' else 0
        return QuantizedCache(
            self.backend, model.config, nbits=self.bits, axis_key=axis, axis_value=axis
        )


def fork_layers(cache: Any) -> Any:
    """Copy a cache of transformers; its layers replace their tensors and never write into them."""
    twin = copy.copy(cache)
    twin.layers = [copy.copy(layer) for layer in cache.layers]
    return twin


def missing_backends() -> list[str]:
    """Return the quantizers that are not installed."""
    return [name for name, module in LIBRARIES.items() if not _is_there(module)]


def stock_methods() -> list[Dynamic]:
    """Return every cache of transformers that works here."""
    gone = missing_backends()
    return [Dynamic(), *(
        Quantized(f'{backend}{bits}', backend=backend, bits=bits)
        for backend in LIBRARIES if backend not in gone for bits in (4, 2)
    )]


def _is_there(module: str) -> bool:
    top = module.partition('.')[0]
    return importlib.util.find_spec(top) is not None and (
        importlib.util.find_spec(module) is not None
    )
