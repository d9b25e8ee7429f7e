# SPDX-License-Identifier: Apache-2.0
"""Learns SQuat's gains of a model from turns like those that it will serve.

All turns show their queries to the same codecs, one per layer, whose metric is the mean over all.
Knows a model's interface; where instructions and images come from is the caller's business.
"""

from __future__ import annotations

from collections.abc import Iterable

from cloud_backbone.errors import StartError
from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.codec import Codec
from cloud_backbone.kv_cache.compressed_cache import DEFAULT_POOL_BYTES
from cloud_backbone.kv_cache.policy import Policy
from cloud_backbone.kv_cache.squat import SquatCodec
from cloud_backbone.kv_cache.squat_table import SquatTable
from cloud_backbone.model.backbone import Backbone, Image
from cloud_backbone.plan_generator import PlanGenerator, Question
from cloud_backbone.session_cache import SessionCache
from protos.latency import Stopwatch

BITS = 4
"""Of the codecs that listen; gains do not depend on it."""


def calibrate(backbone: Backbone, turns: Iterable[tuple[str, Image]]) -> SquatTable:
    """Return the gains of a model.

    Args:
        backbone: the model.
        turns: instructions with their images; some tens suffice.

    Raises:
        StartError: the model's caches cannot be compressed, or there were no turns.
    """
    codecs: dict[int, SquatCodec] = {}

    def shared(layer: int, kv_heads: int, head_dim: int, slots: int) -> Codec:
        if layer not in codecs:
            codecs[layer] = SquatCodec(head_dim, kv_heads, BITS, slots)
        return codecs[layer]

    # Nothing is encoded: a block holds more than any turn.
    policy = Policy('calibration', make_codec=shared, block=1 << 15)
    generator, pool = PlanGenerator(backbone), BlockPool(DEFAULT_POOL_BYTES)
    for instruction, image in turns:
        cache = SessionCache(pool, policy)
        generator.generate([Question(instruction, image, cache)], Stopwatch())
        cache.clear()
    if not codecs:
        raise StartError('nothing to calibrate from: no turns, or a model without such caches')
    return SquatTable(
        backbone.fingerprint, tuple(codecs[layer].gains for layer in sorted(codecs))
    )
