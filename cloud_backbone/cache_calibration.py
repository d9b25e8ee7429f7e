# SPDX-License-Identifier: Apache-2.0
"""Learns what the caches of a model share, from turns like those that it will serve.

SQuat's gains: all turns show their queries to the same codecs, one per layer, whose metric is the
mean over all. Oaken's thresholds: quantiles of all keys and values, turn by turn. Knows a model's
interface; where instructions and images come from is the caller's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cloud_backbone.errors import StartError
from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.codec import Codec
from cloud_backbone.kv_cache.compressed_cache import CompressedCache, DEFAULT_POOL_BYTES
from cloud_backbone.kv_cache.errors import CalibrationError
from cloud_backbone.kv_cache.oaken_calibration import OakenCalibration
from cloud_backbone.kv_cache.policy import Policy
from cloud_backbone.kv_cache.squat import SquatCodec
from cloud_backbone.kv_cache.squat_table import SquatTable
from cloud_backbone.model.backbone import Backbone, Image
from cloud_backbone.plan_generator import PlanGenerator, Question
from cloud_backbone.session_cache import SessionCache
from protos.latency import Stopwatch
from torch import Tensor
from transformers.cache_utils import Cache

BITS = 4
"""Of the codecs that listen; gains do not depend on it."""


class CacheCalibration:
    """Listens to the turns of one model."""

    def __init__(self, backbone: Backbone) -> None:
        self._backbone = backbone
        self._codecs: dict[int, SquatCodec] = {}
        # Nothing is encoded: a block holds more than any turn.
        self._policy = Policy('calibration', make_codec=self._shared, block=1 << 15)

    def learn(
        self, turns: Iterable[tuple[str, Image]], corpus: str
    ) -> tuple[SquatTable, OakenCalibration]:
        """Return gains and thresholds.

        Args:
            turns: instructions with their images; some tens suffice.
            corpus: what the turns are, for the file.

        Raises:
            StartError: the model's caches cannot be compressed, or there were no turns.
        """
        model = self._backbone.fingerprint
        try:
            thresholds = OakenCalibration.collect(self._play(turns), model=model, corpus=corpus)
        except CalibrationError as error:
            raise StartError('nothing to calibrate from: there were no turns') from error
        gains = tuple(self._codecs[layer].gains for layer in sorted(self._codecs))
        return SquatTable(model, gains), thresholds

    def _play(self, turns: Iterable[tuple[str, Image]]) -> Iterator[list[tuple[Tensor, Tensor]]]:
        generator, pool = PlanGenerator(self._backbone), BlockPool(DEFAULT_POOL_BYTES)
        for instruction, image in turns:
            cache = SessionCache(pool, self._policy)
            generator.generate([Question(instruction, image, cache)], Stopwatch())
            yield _keys_and_values(cache.open(self._backbone))
            cache.clear()

    def _shared(self, layer: int, kv_heads: int, head_dim: int, slots: int) -> Codec:
        if layer not in self._codecs:
            self._codecs[layer] = SquatCodec(head_dim, kv_heads, BITS, slots)
        return self._codecs[layer]


def _keys_and_values(cache: Cache) -> list[tuple[Tensor, Tensor]]:
    """Return what each layer holds (kv_heads, tokens, head_dim)."""
    if not isinstance(cache, CompressedCache):
        raise StartError('nothing to calibrate: the caches of this model cannot be compressed')
    rows = cache.sessions[0].rows
    return [rows[layer].open.in_order() for layer in sorted(rows)]
