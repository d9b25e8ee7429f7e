# SPDX-License-Identifier: Apache-2.0
"""What every store of snapshots promises; a new store joins the fixture."""

from collections.abc import Iterator
from pathlib import Path

from cloud_backbone.kv_state.errors import NotStored, StoreError
from cloud_backbone.kv_state.redis_store import RedisStore
from cloud_backbone.kv_state.state_store import FolderStore, SnapshotStore
import pytest

from tests.fakes.redis_server import program, redis_server

KEYS = ['a', 'robot/7:left', '..', 'ä b%3A', '*', 'x' * 60]


@pytest.fixture(scope='module')
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a real server."""
    pytest.importorskip('redis')
    if program() is None:
        pytest.skip('NOT TESTED: no redis-server or valkey-server here; apt-get install one')
    with redis_server(tmp_path_factory.mktemp('redis')) as found:
        yield found


@pytest.fixture(params=['folder', 'redis'])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SnapshotStore]:
    """Return an empty store."""
    if request.param == 'folder':
        yield FolderStore(tmp_path / 'store')
        return
    shared = RedisStore(request.getfixturevalue('address'), f'test-{tmp_path.name}')
    yield shared
    for key in shared.sizes():
        shared.remove(key)
    shared.close()


@pytest.mark.parametrize('key', KEYS)
def test_bytes_come_back_under_any_key(store: SnapshotStore, key: str) -> None:
    """Whatever a session is called, its newest bytes come back, and the keys are listed."""
    assert store.save(key, [b'old']) == 3
    assert store.save(key, [b'ne', memoryview(b'wer'), b'']) == 5
    store.save('other', [b'x'])
    assert bytes(store.load(key)[:]) == b'newer'
    assert store.sizes() == {key: 5, 'other': 1}
    store.remove(key)
    store.remove(key)
    assert store.sizes() == {'other': 1}
    with pytest.raises(NotStored, match='open it anew'):
        store.load(key)


def test_buffer_is_the_readers_own(store: SnapshotStore) -> None:
    """Writing to what was loaded changes nothing that is kept."""
    store.save('a', [b'abc'])
    buffer = store.load('a')
    buffer[0:1] = b'x'
    assert bytes(store.load('a')[:]) == b'abc'


def test_failure_while_saving_keeps_the_old_bytes(store: SnapshotStore) -> None:
    """Whoever dies in the middle of a save leaves what was there."""
    store.save('a', [b'old'])

    def parts() -> Iterator[bytes]:
        yield b'new'
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.save('a', parts())
    assert bytes(store.load('a')[:]) == b'old'
    assert store.sizes() == {'a': 3}


def test_file_names_have_an_end(tmp_path: Path) -> None:
    """A key that no file system takes is refused with the limit."""
    store = FolderStore(tmp_path)
    for key in ('', 'x' * 300):
        with pytest.raises(StoreError, match='1 to 200 characters'):
            store.save(key, [b'x'])


def test_other_files_of_the_folder_are_no_sessions(tmp_path: Path) -> None:
    """What is not ours is neither listed nor touched; half-written files go."""
    (tmp_path / 'readme.txt').write_text('hello')
    (tmp_path / '_a.safetensors.123.part').write_bytes(b'half')
    assert FolderStore(tmp_path).sizes() == {}
    assert [file.name for file in tmp_path.iterdir()] == ['readme.txt']
