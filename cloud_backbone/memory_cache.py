# SPDX-License-Identifier: Apache-2.0
"""The cache of a robot's memory: named segments that grow by what is new in each turn.

A turn crops scene and scratch, and computes the new entries, the new scene, and what is written.
While its robot does not ask, it may be put down: its pages go back to the pool, and it is brought
back from what was put down, or else the next turn computes it from its tokens. Used on the
model's thread. Knows prompts and states; what a policy drops or encodes is the state's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
import logging

from cloud_backbone.action_plan import Certificate, Exactness
from cloud_backbone.backbone_model import BackboneModel
from cloud_backbone.cache_policies import FULL
from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.compressed_cache import DEFAULT_POOL_BYTES
from cloud_backbone.kv_cache.errors import CacheError, PoolFullError
from cloud_backbone.kv_cache.policy import Policy
from cloud_backbone.kv_state.errors import StateError
from cloud_backbone.kv_state.kv_state import KVState
from cloud_backbone.kv_state.restore import restore, Target
from cloud_backbone.kv_state.snapshot import Snapshot, take_snapshot
from cloud_backbone.messages import SegmentState
from cloud_backbone.model.backbone import Backbone, Prompt
from cloud_backbone.prompt_segments import segments_of, spots_of
from cloud_backbone.state_fingerprint import fingerprint_for
from cloud_backbone.turn_cache import Sight
from transformers.cache_utils import Cache

log = logging.getLogger(__name__)
Source = Callable[[], Snapshot]
"""Returns a snapshot, or raises what ``load_snapshot`` does."""


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
        self.byte_count = 0
        """Bytes that are kept since the last turn [B]."""
        self.last_text = ''
        self.tier = 'tokens'
        """Where keys and values are: pool, memory, disk, or nowhere: tokens."""
        self.note = ''
        """What was not brought back the last time, and why."""
        self._state: KVState | None = None
        self._source: Source | None = None
        self._backbone: Backbone | None = None
        self._rests = 0

    def open(self, backbone: Backbone) -> Cache:
        """Return the cache; its first use makes it, or brings it back.

        Raises:
            PoolFullError: there is no room to bring it back.
        """
        self._backbone = backbone
        self.bring_back()
        if self._state is None:
            model = BackboneModel(backbone)
            self._state = KVState(model, self.pool, self.policy, self.budget_bytes)
        self.tier = 'pool'
        return self._state.cache

    def introduce(self, backbone: Backbone) -> None:
        """Say which model the cache is of; its first turn does so too."""
        self._backbone = backbone

    def bring_back(self) -> None:
        """Take up again what was put down, if it is whole and of this very model.

        Else ``note`` says why, and the next turn computes from the tokens.

        Raises:
            PoolFullError: there is no room.
        """
        if self._state is not None or self._source is None or self._backbone is None:
            return
        try:
            self._state = restore(self._source(), self._target(self._backbone)).state
            self.note, self.tier = '', 'pool'
            self.byte_count = self._state.stats().byte_count
        except PoolFullError:
            raise
        except (StateError, CacheError, FileNotFoundError) as error:
            self.note, self.tier = f'keys and values are computed anew: {error}', 'tokens'
            log.warning('a snapshot is of no use: %s', error)
        self._source = None

    def reuse(self, prompt: Prompt, sight: Sight) -> int:
        """Crop to what the prompt begins with; return how many of its tokens are held.

        An image is held on to only if it is the very same.
        """
        if self._state is None:
            return 0
        reused = self._state.begin(segments_of(prompt, prompt.tokens, sight))
        if reused < sum(size for name, size in prompt.parts if name in ('system', 'goal')):
            self.last_text = ''
        return reused

    def hold(self, prompt: Prompt, tokens: Sequence[int], sight: Sight, text: str) -> None:
        """Keep what the cache holds now: exactly these tokens, the prompt's first."""
        assert self._state is not None, 'hold before open'
        self._state.hold(segments_of(prompt, tokens, sight), spots_of(prompt, len(tokens)))
        self.last_text = text
        self.byte_count = self._state.stats().byte_count

    def certificate(self, sight: Sight) -> Certificate:
        """Say what an answer that was just held rests on."""
        assert self._state is not None, 'certificate before hold'
        found = self._state.certificate()
        return Certificate(
            stalest_observation_epoch=sight.epoch if found.stalest is None else found.stalest,
            freshest_observation_epoch=sight.epoch if found.freshest is None else found.freshest,
            exactness=Exactness[found.exactness.grade.name],
            prefix_hash=found.prefix_hash,
        )

    def clear(self) -> None:
        """Forget keys and values that are held; what was put down stays where it is."""
        if self._state is not None:
            self._state.close()
            self._state, self.byte_count, self.last_text, self.tier = None, 0, '', 'tokens'

    def snapshot(self) -> Snapshot | None:
        """Return what is held now, if anything is."""
        if self._state is None or self._backbone is None or not len(self._state):
            return None
        return take_snapshot(self._state, self._target(self._backbone).fingerprint)

    def put_down(self) -> Snapshot | None:
        """Give all pages back; what was held is in memory until ``offer`` says otherwise."""
        snapshot, text = self.snapshot(), self.last_text
        if self._state is not None:
            self.clear()
        if snapshot is not None:
            self.offer(lambda: snapshot, 'memory')
            self.last_text, self._rests = text, snapshot.nbytes
        return snapshot

    @property
    def resting_bytes(self) -> int:
        """Bytes that were put down and are still in memory [B]."""
        return self._rests if self.tier == 'memory' else 0

    def forget(self) -> None:
        """Drop what was put down; the next turn computes it from its tokens."""
        if self._source is not None:
            self._source, self.tier = None, 'tokens'

    def offer(self, source: Source, tier: str) -> None:
        """Say where the next turn finds what is not held now."""
        if self._state is None:
            self._source, self.tier = source, tier

    def moved_to(self, source: Source, tier: str) -> None:
        """Say where what was put down is now; what was taken up again or lost is not touched."""
        if self._source is not None:
            self.offer(source, tier)

    def segments(self) -> list[SegmentState]:
        """Say what is held, part by part, and which observations fed it."""
        found, first = list[SegmentState](), 0
        for one in () if self._state is None else self._state.segments:
            assert self._state is not None
            parts = self._state.body.taint.parts(first, first + len(one.tokens))
            epochs = [epoch for _, fed in parts for epoch in fed]
            found.append(SegmentState(
                one.name, len(one.tokens), Exactness[one.exactness.grade.name],
                min(epochs, default=0), max(epochs, default=0),
            ))
            first += len(one.tokens)
        return found

    @property
    def prefix_hash(self) -> str:
        """Digest over all tokens and images that are held."""
        return '' if self._state is None else self._state.certificate().prefix_hash

    def __len__(self) -> int:
        """Count the tokens held."""
        return 0 if self._state is None else len(self._state)

    def _target(self, backbone: Backbone) -> Target:
        return Target(
            BackboneModel(backbone), self.pool, self.policy,
            fingerprint_for(backbone, self.policy),
        )
