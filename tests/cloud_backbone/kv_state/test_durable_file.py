# SPDX-License-Identifier: Apache-2.0
"""Promises of files that are there whole or not at all."""

from collections.abc import Iterator
import os
from pathlib import Path

from cloud_backbone.kv_state.durable_file import map_file, PART, remove_leftovers, write_whole
from cloud_backbone.kv_state.errors import Corrupt, StoreError
import pytest


def test_new_content_takes_the_place_of_the_old(tmp_path: Path) -> None:
    """A file is replaced as a whole, and nothing else is left beside it."""
    path = tmp_path / 'a'
    assert write_whole(path, [b'old']) == 3
    assert write_whole(path, [b'new', memoryview(b'er')]) == 5
    assert path.read_bytes() == b'newer'
    assert list(tmp_path.iterdir()) == [path]


def test_failure_on_the_way_leaves_the_old_file(tmp_path: Path) -> None:
    """Whoever fails while writing changes nothing and leaves nothing behind."""
    path = tmp_path / 'a'
    write_whole(path, [b'old'])

    def parts() -> Iterator[bytes]:
        yield b'new'
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(path, parts())
    assert path.read_bytes() == b'old'
    assert list(tmp_path.iterdir()) == [path]


def test_content_is_synced_before_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File, then name, then folder: a power cut finds the old file or the new one."""
    calls = []
    for name in ('fsync', 'replace'):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *given, name=name, real=real: (
            calls.append(name), real(*given)
        ))
    write_whole(tmp_path / 'a', [b'new'])
    assert calls == ['fsync', 'replace', 'fsync']


def test_disk_that_refuses_is_named(tmp_path: Path) -> None:
    """The error says which file, and is of this package."""
    with pytest.raises(StoreError, match='nowhere'):
        write_whole(tmp_path / 'nowhere' / 'a', [b'new'])


def test_map_can_be_written_without_the_file(tmp_path: Path) -> None:
    """Writing into a map changes no file; an empty file is Corrupt."""
    path = tmp_path / 'a'
    path.write_bytes(b'abc')
    with map_file(path) as view:
        view[0:1] = b'x'
        assert view[:] == b'xbc'
    assert path.read_bytes() == b'abc'
    path.write_bytes(b'')
    with pytest.raises(Corrupt, match='empty'):
        map_file(path)


def test_leftovers_are_removed(tmp_path: Path) -> None:
    """What somebody was writing when he was killed goes; whole files stay."""
    (tmp_path / f'a.xyz{PART}').write_bytes(b'half')
    write_whole(tmp_path / 'a', [b'whole'])
    remove_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ['a']
