# SPDX-License-Identifier: Apache-2.0
"""The cache of a robot's memory: named segments that grow by what is new in each turn.

A turn crops scene and scratch, and computes the new entries, the new scene, and what is written.
Knows prompts and states; what a policy drops or encodes is the state's business.
"""

from __future__ import annotations

from collections.abc import Sequence

from cloud_backbone.action_plan import Certificate, Exactness
from cloud_backbone.backbone_model import BackboneModel
from cloud_backbone.cache_policies import FULL
from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.compressed_cache import DEFAULT_POOL_BYTES
from cloud_backbone.kv_cache.policy import Policy
from cloud_backbone.kv_state.kv_state import KVState
from cloud_backbone.kv_state.segment import chain_hash, Segment, SegmentImage
from cloud_backbone.model.backbone import Backbone, Prompt
from cloud_backbone.turn_cache import Sight
import torch
from torch import Tensor
from transformers.cache_utils import Cache

SCENE, SCRATCH = 'scene', 'scratch'


class MemoryCache:
    """Keys and values of one session's task.

    Args:
        pool: where memory comes from; None: a pool of its own.
        policy: how tokens are kept; by default as they are.
        budget_bytes: the most that is kept between turns [B]; None: no limit.
    """

    def __init__(
        self, pool: BlockPool | None = None, policy: Policy | None = None,
        budget_bytes: int | None = None,
    ) -> None:
        self.pool = pool or BlockPool(DEFAULT_POOL_BYTES)
        self.policy, self.budget_bytes = policy or FULL, budget_bytes
        self.state: KVState | None = None
        self.byte_count = 0
        """Bytes that are kept since the last turn [B]."""
        self.last_text = ''

    def open(self, backbone: Backbone) -> Cache:
        """Return the cache; its first use makes it."""
        if self.state is None:
            model = BackboneModel(backbone)
            self.state = KVState(model, self.pool, self.policy, self.budget_bytes)
        return self.state.cache

    def reuse(self, prompt: Prompt, sight: Sight) -> int:
        """Crop to what the prompt begins with; return how many of its tokens are held.

        An image is held on to only if it is the very same.
        """
        if self.state is None:
            return 0
        reused = self.state.begin(segments_of(prompt, prompt.tokens, sight))
        goal = sum(size for name, size in prompt.parts if name in ('system', 'goal'))
        if reused < goal:
            self.last_text = ''
        return reused

    def hold(self, prompt: Prompt, tokens: Sequence[int], sight: Sight, text: str) -> None:
        """Keep what the cache holds now: exactly these tokens, the prompt's first."""
        assert self.state is not None, 'hold before open'
        self.state.hold(segments_of(prompt, tokens, sight), _spots(prompt, len(tokens)))
        self.last_text = text
        self.byte_count = self.state.stats().byte_count

    def certificate(self, sight: Sight) -> Certificate:
        """Say what an answer that was just held rests on."""
        assert self.state is not None, 'certificate before hold'
        found = self.state.certificate()
        return Certificate(
            stalest_observation_epoch=sight.epoch if found.stalest is None else found.stalest,
            freshest_observation_epoch=sight.epoch if found.freshest is None else found.freshest,
            exactness=Exactness[found.exactness.grade.name],
            prefix_hash=found.prefix_hash,
        )

    def clear(self) -> None:
        """Forget keys and values; the next turn computes them from the tokens."""
        if self.state is not None:
            self.state.close()
        self.state, self.byte_count, self.last_text = None, 0, ''

    def __len__(self) -> int:
        """Count the tokens held."""
        return 0 if self.state is None else len(self.state)


def segments_of(prompt: Prompt, tokens: Sequence[int], sight: Sight) -> list[Segment]:
    """Return the named parts of a prompt and of what was written after it."""
    sizes = prompt.parts or (
        ('goal', prompt.stable), (SCENE, len(prompt.tokens) - prompt.stable)
    )
    segments, first = [], 0
    for name, size in (*sizes, (SCRATCH, len(tokens) - len(prompt.tokens))):
        shown = (sight.epoch, SegmentImage(sight.sha256)) if name == SCENE else (None, None)
        segments.append(Segment(name, tuple(tokens[first : first + size]), *shown))
        first += size
    return segments


def hash_of(prompt: Prompt, tokens: Sequence[int], sight: Sight) -> str:
    """Return the digest over tokens and image of a sequence."""
    return chain_hash(segments_of(prompt, tokens, sight))


def _spots(prompt: Prompt, tokens: int) -> Tensor | None:
    """Return rotary positions (axes, tokens) where the prompt has several axes."""
    rope = prompt.rope_positions
    if rope is None:
        return None
    after = torch.arange(tokens - rope.shape[1]) + int(rope.max()) + 1
    return torch.cat([rope, after.expand(rope.shape[0], -1)], 1)
