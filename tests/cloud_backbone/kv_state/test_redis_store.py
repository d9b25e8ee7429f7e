# SPDX-License-Identifier: Apache-2.0
"""Promises of the shared store beyond those of every store; most against a real server."""

from collections.abc import Iterator
from pathlib import Path
import socket
import sys
import time

from cloud_backbone.kv_state import redis_store
from cloud_backbone.kv_state.errors import NotStored, StoreError
from cloud_backbone.kv_state.redis_store import RedisStore
import pytest

from tests.fakes.redis_server import program, redis_server

redis = pytest.importorskip('redis')


@pytest.fixture(scope='module')
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a real server."""
    if program() is None:
        pytest.skip('NOT TESTED: no redis-server or valkey-server here; apt-get install one')
    with redis_server(tmp_path_factory.mktemp('redis')) as found:
        yield found


def entries(address: str, prefix: str) -> list[bytes]:
    """Return the names of all entries of a prefix."""
    with redis.Redis.from_url(address) as client:
        return sorted(client.scan_iter(match=f'{prefix}:*'))


def test_large_snapshots_are_cut_and_joined(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes beyond one entry come back in order, and old generations leave nothing behind."""
    monkeypatch.setattr(redis_store, 'PART_BYTES', 1000)
    store, data = RedisStore(address, 'large'), bytes(range(256)) * 40
    for size in (len(data), 2000, 1):
        store.save('a', [data[: size // 3], memoryview(data)[size // 3 : size]])
        assert bytes(store.load('a')) == data[:size]
        assert store.sizes() == {'a': size}
        assert len(entries(address, 'large')) == 1 + -(-size // 1000)
    store.remove('a')
    assert entries(address, 'large') == []
    store.close()


def test_stores_of_other_prefixes_see_nothing(address: str) -> None:
    """Fleets that share a server do not share sessions."""
    mine, theirs = RedisStore(address, 'mine'), RedisStore(address, 'theirs')
    mine.save('a', [b'mine'])
    assert theirs.sizes() == {}
    with pytest.raises(NotStored):
        theirs.load('a')
    for store in (mine, theirs):
        store.close()


def test_entries_are_forgotten_in_time(address: str) -> None:
    """After its time to live a snapshot is gone, parts and all."""
    store = RedisStore(address, 'short', ttl_s=0.05)
    store.save('a', [b'abc'])
    limit = time.monotonic() + 20
    while entries(address, 'short') and time.monotonic() < limit:
        time.sleep(0.05)
    with pytest.raises(NotStored):
        store.load('a')
    assert store.sizes() == {}
    store.close()


def test_part_that_the_server_dropped_is_not_stored(address: str) -> None:
    """A server that was short of memory gives no half snapshot."""
    store = RedisStore(address, 'dropped')
    store.save('a', [b'abc'])
    with redis.Redis.from_url(address) as client:
        client.delete(*[name for name in entries(address, 'dropped') if name.count(b':') > 1])
    with pytest.raises(NotStored):
        store.load('a')
    store.close()


def test_entry_of_somebody_else_is_an_error(address: str) -> None:
    """What is no snapshot of ours is told, not taken for one."""
    store = RedisStore(address, 'foreign')
    for text in ('hello', '[1]', '{"generation": 1}'):
        with redis.Redis.from_url(address) as client:
            client.set('foreign:a', text)
        for ask in (lambda: store.load('a'), store.sizes, lambda: store.save('a', [b'x'])):
            with pytest.raises(StoreError, match='foreign:a at .* is no snapshot'):
                ask()
    store.close()


def test_server_that_is_gone_is_an_error_without_the_password(tmp_path: Path) -> None:
    """The message names the address, and no secret of it."""
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        port = probe.getsockname()[1]
        store = RedisStore(f'redis://robot:secret@127.0.0.1:{port}/0', timeout_s=0.2)
        for ask in (lambda: store.save('a', [b'x']), lambda: store.load('a'), store.sizes,
                    lambda: store.remove('a')):
            with pytest.raises(StoreError, match=f'127.0.0.1:{port}') as found:
                ask()
            assert 'secret' not in str(found.value)
    store.close()


def test_server_that_never_answers_is_given_up() -> None:
    """A wait for a silent server ends."""
    with socket.socket() as silent:
        silent.bind(('127.0.0.1', 0))
        silent.listen()
        store = RedisStore(f'redis://127.0.0.1:{silent.getsockname()[1]}/0', timeout_s=0.1)
        with pytest.raises(StoreError, match='cannot load'):
            store.load('a')
        store.close()


@pytest.mark.parametrize(('url', 'prefix', 'message'), [
    ('http://host', 'a', 'no address'), ('redis://host', 'a:b', 'no prefix'),
    ('redis://host', 'a*', 'no prefix'),
])
def test_impossible_settings_are_refused(url: str, prefix: str, message: str) -> None:
    """Address and prefix are checked when the store is made."""
    with pytest.raises(StoreError, match=message):
        RedisStore(url, prefix)


def test_missing_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the client library the message names the extra."""
    monkeypatch.setitem(sys.modules, 'redis', None)
    with pytest.raises(StoreError, match=r"pip install 'tendon\[shared\]'"):
        RedisStore('redis://host')
