# SPDX-License-Identifier: Apache-2.0
"""Many sessions' states, more than the pool has room for: pool, host memory, store, tokens only.

Each tier has a limit of bytes and of idle time. Who is probably not used for the longest time
moves down; who is asked for comes back from wherever it is, bit for bit, or from its tokens and
then says why. Not thread-safe: the thread of the model calls it. Knows no wire.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
import logging
import time

from cloud_backbone.kv_cache.errors import PoolFullError
from cloud_backbone.kv_state.errors import Corrupt, NotStored, StoreError
from cloud_backbone.kv_state.kv_state import KVState
from cloud_backbone.kv_state.restore import Fallback, restore, Restored, Target
from cloud_backbone.kv_state.snapshot import Belongings, Snapshot, take_snapshot, tokens_only
from cloud_backbone.kv_state.state_store import SnapshotStore
from cloud_backbone.kv_state.tier import first_to_go, Place, Tier, TierLimits

NO_LIMITS = TierLimits()
TOKEN_BYTES = 8
"""What a token id counts in host memory and store [B]."""
LOG = logging.getLogger(__name__)


class StateTiers:
    """Holds states by key.

    Args:
        target: what states are restored into.
        limits: of each tier; those that are left out have none.
        store: where snapshots go; None: there is no tier DISK, and TOKENS are in host memory.
        clock: seconds that never go back.
    """

    def __init__(
        self, target: Target, limits: Mapping[Tier, TierLimits] | None = None,
        store: SnapshotStore | None = None, clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._target, self._store, self._clock = target, store, clock
        self._limits = dict(limits or {})
        if store is None:
            self._limits[Tier.DISK] = TierLimits(0)
        self._places: dict[str, Place] = {}
        self._live: dict[str, tuple[KVState, Belongings]] = {}
        self._kept: dict[str, Snapshot] = {}
        """Snapshots in host memory; of tokens only where there is no store."""
        self._busy: set[str] = set()
        if store is not None:
            now = clock()
            self._places = {key: Place(key, Tier.DISK, size, now)
                            for key, size in store.sizes().items()}

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def where(self, key: str) -> Place:
        """Return where a session is.

        Raises:
            NotStored: nowhere.
        """
        if key not in self._places:
            raise NotStored(key, 'the backbone')
        return self._places[key]

    def byte_counts(self) -> dict[Tier, int]:
        """Return the bytes of all sessions in each tier [B]."""
        return {tier: sum(one.byte_count for one in self._in(tier)) for tier in Tier}

    def put(self, key: str, state: KVState, belongings: Belongings | None = None) -> None:
        """Take a state in, or note that it was used; its pages may move down from now on."""
        if key in self._live and self._live[key][0] is not state:
            self._live[key][0].close()
        self._live[key] = (state, belongings or Belongings())
        old = self._places.get(key)
        if old is not None and old.tier is not Tier.POOL:
            self._forget_copies(key)
        self._places[key] = Place(key, Tier.POOL, state.stats().byte_count, self._clock())
        self.sweep()

    def rest(self, key: str, expected_resume_ms: float | None) -> None:
        """Note when a robot will be back; it knows how long its motion takes [ms]."""
        place, now = self.where(key), self._clock()
        place.resume_s = None if expected_resume_ms is None else now + expected_resume_ms / 1e3

    @contextmanager
    def use(self, key: str) -> Iterator[Restored]:
        """Bring a session to the pool, from wherever it is, and keep it there for this long.

        Raises:
            NotStored: there is none.
            PoolFullError: all other sessions are in use, and the pool has no room.
            StateError: what is kept cannot be used; see ``restore``.
        """
        restored = self._revive(key)
        self._busy.add(key)
        try:
            yield restored
        finally:
            self._busy.discard(key)
            place = self._places.get(key)
            if place is not None:
                place.used_s, place.resume_s = self._clock(), None
                place.byte_count = restored.state.stats().byte_count
            self.sweep()

    def drop(self, key: str) -> None:
        """Forget a session."""
        self._places.pop(key, None)
        if key in self._live:
            self._live.pop(key)[0].close()
        self._forget_copies(key)

    def sweep(self) -> list[tuple[str, Tier | None]]:
        """Move down who was idle for too long and who no longer fits.

        Returns:
            Who moved, and where to; None: it is forgotten.
        """
        moved, now = list[tuple[str, Tier | None]](), self._clock()
        for tier in Tier:
            limits = self._limits.get(tier, NO_LIMITS)
            for place in self._in(tier):
                if place.idle(now) > limits.idle_s and place.key not in self._busy:
                    why = f'since it was not used for {limits.idle_s:g} s'
                    moved.append((place.key, self._down(place, why)))
            while limits.byte_limit is not None and self.byte_counts()[tier] > limits.byte_limit:
                victim = self._victim(tier)
                if victim is None:
                    break
                why = f'since tier {tier.name} is full with {limits.byte_limit} bytes'
                moved.append((victim.key, self._down(victim, why)))
        return moved

    def _in(self, tier: Tier) -> list[Place]:
        return [place for place in self._places.values() if place.tier is tier]

    def _victim(self, tier: Tier, but: str = '') -> Place | None:
        free = [place for place in self._in(tier) if place.key not in {*self._busy, but}]
        return first_to_go(free, self._clock())

    def _down(self, place: Place, why: str) -> Tier | None:
        """Move a session to the next tier that takes it; return which, or None: it is gone."""
        below = [tier for tier in Tier if tier > place.tier
                 and self._limits.get(tier, NO_LIMITS).byte_limit != 0]
        try:
            snapshot = self._snapshot(place) if below else None
        except (Corrupt, NotStored, StoreError) as error:
            LOG.warning('session %s is lost: %s', place.key, error)
            snapshot = None
        if snapshot is not None:
            for tier in below:
                if self._settle(place, tier, snapshot, why):
                    return tier
        self.drop(place.key)
        return None

    def _settle(self, place: Place, tier: Tier, snapshot: Snapshot, why: str) -> bool:
        """Put a session into a tier, and out of the one that it was in, if the tier takes it."""
        key, keeps = place.key, snapshot
        if tier is Tier.TOKENS:
            keeps = tokens_only(snapshot, why)
        size = keeps.nbytes + TOKEN_BYTES * keeps.tokens
        if tier is Tier.HOST or self._store is None:
            self._kept[key] = keeps
        elif not self._saved(key, keeps, self._store):
            if tier is Tier.DISK:
                return False
            self._kept[key] = keeps  # few bytes: better in memory than nowhere
        if key in self._live:
            self._live.pop(key)[0].close()
        place.tier, place.byte_count = tier, size
        return True

    def _saved(self, key: str, snapshot: Snapshot, store: SnapshotStore) -> bool:
        """Give a snapshot to the store, and say whether it took it."""
        try:
            store.save(key, snapshot.parts())
        except StoreError as error:
            LOG.warning('session %s is not in the store: %s', key, error)
            return False
        self._kept.pop(key, None)
        return True

    def _snapshot(self, place: Place) -> Snapshot:
        """Return what is kept of a session, wherever it is."""
        key = place.key
        if key in self._live:
            state, belongings = self._live[key]
            return take_snapshot(state, self._target.fingerprint, belongings)
        if key in self._kept:
            return self._kept[key]
        if self._store is None:
            raise NotStored(key, 'the backbone')
        return Snapshot.from_bytes(self._store.load(key), key)

    def _revive(self, key: str) -> Restored:
        place = self.where(key)
        if key in self._live:
            state, belongings = self._live[key]
            return Restored(state, belongings)
        try:
            restored = self._with_room(key, self._snapshot(place))
        except (Corrupt, NotStored):
            self.drop(key)
            raise
        self._live[key] = (restored.state, restored.belongings)
        self._forget_copies(key)
        byte_count = restored.state.stats().byte_count
        self._places[key] = Place(key, Tier.POOL, byte_count, self._clock())
        return restored

    def _with_room(self, key: str, snapshot: Snapshot) -> Restored:
        """Restore a state; others make room where the pool has none."""
        while True:
            try:
                return restore(snapshot, self._target, Fallback.REPREFILL)
            except PoolFullError:
                victim = self._victim(Tier.POOL, key)
                if victim is None:
                    raise
                self._down(victim, f'since the pool had no room beside session {key}')

    def _forget_copies(self, key: str) -> None:
        self._kept.pop(key, None)
        if self._store is not None:
            try:
                self._store.remove(key)
            except StoreError as error:
                LOG.warning('an old copy of session %s stays: %s', key, error)
