# SPDX-License-Identifier: Apache-2.0
"""Promises of tiers: more sessions than the pool holds, each comes back as it was, or says why."""

from pathlib import Path
from typing import Any

from cloud_backbone.kv_cache.errors import PoolFullError
from cloud_backbone.kv_state.errors import Corrupt, NotStored, StoreError
from cloud_backbone.kv_state.redis_store import RedisStore
from cloud_backbone.kv_state.state_store import FolderStore
from cloud_backbone.kv_state.tier import Tier, TierLimits
import pytest
import torch

from tests.fakes.redis_server import program, redis_server
from tests.fakes.tiered_fleet import Fleet


def size(policy: str = 'full') -> int:
    """Return the bytes of one session in the pool [B]."""
    fleet = Fleet(policy=policy)
    fleet.open('a')
    return fleet.tiers.byte_counts()[Tier.POOL]


def limits(
    pool: float, host: float = 100, disk: float = 100, *, policy: str = 'full',
    idle_s: dict[Tier, float] | None = None,
) -> Any:
    """Return limits as multiples of one session."""
    one = size(policy) * 1.2
    return {
        tier: TierLimits(int(count * one), (idle_s or {}).get(tier, float('inf')))
        for tier, count in ((Tier.POOL, pool), (Tier.HOST, host), (Tier.DISK, disk),
                            (Tier.TOKENS, 100))
    }


@pytest.mark.parametrize('policy', ['full', 'kivi4'])
def test_sessions_move_down_tier_by_tier_and_come_back(tmp_path: Path, policy: str) -> None:
    """Pool, host, disk, tokens: the oldest is furthest down; exact ones come back bit for bit."""
    fleet = Fleet(limits(2, 2, 2, policy=policy), FolderStore(tmp_path), policy=policy)
    names = 'abcdefghijkl'
    for name in names:
        fleet.open(name)
    found = fleet.where()
    assert [found[name] for name in names] == sorted(found.values(), reverse=True)
    assert set(found.values()) == set(Tier)
    for name in names:
        tier = fleet.tiers.where(name).tier
        with fleet.used(name) as back:
            assert bool(back.reason) is (tier is Tier.TOKENS)
            assert back.belongings.epoch == names.index(name) + 1
    for tier, count in fleet.tiers.byte_counts().items():
        limit = fleet.limits[tier].byte_limit if fleet.limits else 0
        assert limit is not None and count <= limit, tier


def test_reason_says_why_only_tokens_were_kept(tmp_path: Path) -> None:
    """Whoever waits for a re-prefill reads which limit was too small."""
    fleet = Fleet(limits(1, 0, 0), FolderStore(tmp_path))
    fleet.open('a')
    fleet.open('b')
    assert fleet.where() == {'a': Tier.TOKENS, 'b': Tier.POOL}
    with fleet.used('a') as back:
        assert 'since tier POOL is full with' in back.reason
        assert back.tokens_computed == 20


def test_hint_decides_who_moves(tmp_path: Path) -> None:
    """A robot that moves for a minute makes room for one that is back in a moment."""
    fleet = Fleet(limits(2), FolderStore(tmp_path))
    fleet.open('soon')
    fleet.tiers.rest('soon', 500)
    fleet.open('late')
    fleet.tiers.rest('late', 60_000)
    fleet.open('new')
    assert fleet.where() == {'soon': Tier.POOL, 'late': Tier.HOST, 'new': Tier.POOL}


def test_idle_sessions_move_down_and_are_forgotten_in_the_end(tmp_path: Path) -> None:
    """Each tier has its time; time that the robot announced does not count."""
    idle_s = {Tier.POOL: 10, Tier.HOST: 100, Tier.DISK: 1000, Tier.TOKENS: 10_000}
    fleet = Fleet(limits(9, idle_s=idle_s), FolderStore(tmp_path))
    fleet.open('a')
    fleet.open('hinted')
    fleet.tiers.rest('hinted', 50_000)
    seen = []
    for now in (5, 11, 101, 1001):
        fleet.clock.now = 101 + now
        fleet.tiers.sweep()
        seen.append(fleet.where()['a'])
    assert seen == [Tier.POOL, Tier.HOST, Tier.DISK, Tier.TOKENS]
    fleet.clock.now = 100 + 10_005
    moved = fleet.tiers.sweep()
    assert ('a', None) in moved
    assert fleet.where() == {'hinted': Tier.TOKENS}
    with pytest.raises(NotStored, match="keeps no session 'a': open it anew"), \
            fleet.tiers.use('a'):
        pass


def test_announced_absence_keeps_the_pages() -> None:
    """Within the time that the robot said, idle time does not move it."""
    fleet = Fleet(limits(9, idle_s={Tier.POOL: 10}))
    fleet.open('a')
    fleet.tiers.rest('a', 60_000)
    fleet.clock.now += 50
    fleet.tiers.sweep()
    assert fleet.where() == {'a': Tier.POOL}


def test_full_pool_makes_room_for_who_is_asked_for(tmp_path: Path) -> None:
    """No page is free: others move down until the one that is wanted fits."""
    fleet = Fleet(None, FolderStore(tmp_path), pool_bytes=3 * size())
    for name in 'ab':
        fleet.open(name)
    fleet.tiers._down(fleet.tiers.where('a'), 'a test')
    for name in 'cd':
        try:
            fleet.open(name)
        except PoolFullError:
            break
    with fleet.used('a'):
        assert fleet.where()['a'] is Tier.POOL
    assert Tier.HOST in fleet.where().values()


def test_sessions_in_use_never_move(tmp_path: Path) -> None:
    """Whoever is used stays in the pool, whatever the limits say; then he gives way."""
    fleet = Fleet(limits(1), FolderStore(tmp_path))
    fleet.open('a')
    with fleet.used('a') as back:
        fleet.clock.now += 1e9
        fleet.open('b')
        fleet.tiers.sweep()
        assert fleet.where() == {'a': Tier.POOL, 'b': Tier.HOST}
        assert torch.equal(back.state.next_logits(), fleet.wanted['a'])


def test_state_that_went_on_is_what_comes_back(tmp_path: Path) -> None:
    """An old copy never takes the place of what came after it."""
    fleet = Fleet(limits(1, 0), FolderStore(tmp_path))
    fleet.open('a')
    fleet.open('b')
    assert fleet.where()['a'] is Tier.DISK
    with fleet.tiers.use('a') as back:
        back.state.append('goal', [7, 8])
        wanted = back.state.next_logits().clone()
    assert 'a' not in FolderStore(tmp_path).sizes()
    fleet.clock.now += 1
    fleet.open('c')
    assert fleet.where()['a'] is Tier.DISK
    with fleet.tiers.use('a') as back:
        assert torch.equal(back.state.next_logits(), wanted)


def test_other_process_finds_what_was_stored(tmp_path: Path) -> None:
    """Sessions in the store outlive the process."""
    fleet = Fleet(limits(1, 0), FolderStore(tmp_path))
    fleet.open('a')
    fleet.open('b')
    other = Fleet(limits(1, 0), FolderStore(tmp_path))
    other.wanted = fleet.wanted
    assert 'a' in other.tiers
    with other.used('a') as back:
        assert back.reason == ''


class Refusing(FolderStore):
    """A disk that is full."""

    def save(self, key: str, parts: Any) -> int:
        raise StoreError('no space left')


def test_disk_that_refuses_costs_keys_but_no_tokens(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Tokens stay in memory then, and the operator reads why."""
    fleet = Fleet(limits(1, 0), Refusing(tmp_path))
    fleet.open('a')
    fleet.open('b')
    assert fleet.where() == {'a': Tier.TOKENS, 'b': Tier.POOL}
    assert 'session a is not in the store: no space left' in caplog.text
    with fleet.used('a') as back:
        assert back.tokens_computed == 20


def test_damaged_copy_is_computed_anew_or_refused(tmp_path: Path) -> None:
    """Wrong numbers are computed from the tokens; wrong tokens are Corrupt, and then gone."""
    fleet = Fleet(limits(1, 0), FolderStore(tmp_path))
    fleet.open('a')
    fleet.open('b')
    (file,) = tmp_path.iterdir()
    bad = bytearray(file.read_bytes())
    bad[-100] ^= 1
    file.write_bytes(bad)
    with fleet.used('a') as back:
        assert 'checksum' in back.reason
    (file,) = tmp_path.iterdir()
    bad = bytearray(file.read_bytes())
    bad[40] ^= 1
    file.write_bytes(bad)
    with pytest.raises(Corrupt, match='b: header'), fleet.tiers.use('b'):
        pass
    assert 'b' not in fleet.tiers


def test_without_a_store_there_is_no_disk() -> None:
    """Host memory, then tokens, which are small."""
    fleet = Fleet(limits(1, 1))
    for name in 'abc':
        fleet.open(name)
    assert fleet.where() == {'a': Tier.TOKENS, 'b': Tier.HOST, 'c': Tier.POOL}
    assert fleet.tiers.byte_counts()[Tier.TOKENS] < size() / 10
    with fleet.used('a') as back:
        assert back.tokens_computed == 20


def test_dropped_session_leaves_nothing(tmp_path: Path) -> None:
    """Pages, copies and files go."""
    fleet = Fleet(limits(1, 1), FolderStore(tmp_path))
    for name in 'abc':
        fleet.open(name)
    for name in 'abc':
        fleet.tiers.drop(name)
    assert fleet.target.pool.used_bytes == 0
    assert list(tmp_path.iterdir()) == []
    assert set(fleet.tiers.byte_counts().values()) == {0}


def test_session_moves_between_machines_through_a_shared_store(tmp_path: Path) -> None:
    """What one backbone stored in a real server, another one goes on with, bit for bit."""
    pytest.importorskip('redis')
    if program() is None:
        pytest.skip('NOT TESTED: no redis-server or valkey-server here; apt-get install one')
    with redis_server(tmp_path) as address:
        stores = [RedisStore(address), RedisStore(address)]
        fleet = Fleet(limits(1, 0), stores[0])
        fleet.open('a')
        fleet.open('b')
        other = Fleet(limits(1, 0), stores[1])
        other.wanted = fleet.wanted
        with other.used('a') as back:
            assert back.reason == ''
        for store in stores:
            store.close()
