# SPDX-License-Identifier: Apache-2.0
"""Snapshots in a Redis or Valkey server, which the backbones of several machines share.

    <prefix>:<key>              JSON: generation, sizes of its parts
    <prefix>:<key>:<gen>:<n>    bytes of part n

A save writes the parts of a new generation, then the one entry that names it; readers see the old
generation or the new one. The server is trusted: checksums find damage, not malice. Needs the
extra ``shared``.
"""

from __future__ import annotations

from collections.abc import Iterable
import json
import re
from typing import Any
import uuid

from cloud_backbone.kv_state.errors import NotStored, StoreError

PART_BYTES = 32 << 20
"""Bytes of one entry; the server allows 512 MiB."""
TIMEOUT_S = 2.0
SCAN = 500


class RedisStore:
    """Keeps snapshots in a server.

    Args:
        url: of the server, as ``redis://host:6379/0`` or ``rediss://`` for TLS.
        prefix: of all its entries; stores of other fleets have others.
        ttl_s: after so long without a save an entry is forgotten [s]; None: never.
        timeout_s: the longest wait for one answer, which is asked for twice [s].

    Raises:
        StoreError: the client library is not installed, or address or prefix is none.
    """

    def __init__(
        self, url: str, prefix: str = 'tendon', *, ttl_s: float | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        if not re.fullmatch(r'[\w.-]+', prefix):
            raise StoreError(f'{prefix!r} is no prefix: letters, digits and "_.-" are')
        try:
            import redis
            from redis.backoff import NoBackoff
            from redis.retry import Retry
        except ModuleNotFoundError as error:
            raise StoreError(
                "a shared store needs redis; run: pip install 'tendon[shared]'"
            ) from error
        self._errors: tuple[type[Exception], ...] = (redis.RedisError, OSError)
        self._ttl_ms = None if ttl_s is None else max(int(ttl_s * 1000), 1)
        self._prefix, self._where = prefix, url.rpartition('@')[2]  # without the password
        try:
            self._client: Any = redis.Redis.from_url(
                url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s,
                retry=Retry(NoBackoff(), 1),
            )
        except ValueError as error:
            raise StoreError(
                f'{self._where!r} is no address of a Redis server: redis://host:6379/0 is'
            ) from error

    def save(self, key: str, parts: Iterable[bytes | memoryview]) -> int:
        """Write a new generation, then let go of the old one."""
        generation, sizes = uuid.uuid4().hex, list[int]()
        try:
            old = self._entry(key)
            for number, piece in enumerate(_pieces(parts)):
                self._client.set(self._part(key, generation, number), piece, px=self._ttl_ms)
                sizes.append(len(piece))
            entry = json.dumps({'generation': generation, 'sizes': sizes})
            self._client.set(self._name(key), entry, px=self._ttl_ms)
            self._forget(key, old)
        except self._errors as error:
            raise self._trouble('save', error) from error
        return sum(sizes)

    def load(self, key: str) -> Any:
        """Read all parts into one buffer."""
        buffer = bytearray()
        try:
            entry = self._entry(key)
            if entry is None:
                raise NotStored(key, self._where)
            for number, size in enumerate(entry['sizes']):
                piece = self._client.get(self._part(key, entry['generation'], number))
                if piece is None or len(piece) != size:  # the server was short of memory
                    raise NotStored(key, self._where)
                buffer += piece
        except self._errors as error:
            raise self._trouble('load', error) from error
        return buffer

    def remove(self, key: str) -> None:
        """Delete the entry, then its parts."""
        try:
            entry = self._entry(key)
            self._client.delete(self._name(key))
            self._forget(key, entry)
        except self._errors as error:
            raise self._trouble('remove', error) from error

    def sizes(self) -> dict[str, int]:
        """Look through the entries."""
        found = dict[str, int]()
        start = len(self._prefix) + 1
        try:
            for name in self._client.scan_iter(match=f'{self._prefix}:*', count=SCAN):
                key = name.decode()[start:]
                if ':' not in key and (entry := self._entry(_unquoted(key))) is not None:
                    found[_unquoted(key)] = sum(entry['sizes'])
        except self._errors as error:
            raise self._trouble('list', error) from error
        return found

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def _entry(self, key: str) -> dict[str, Any] | None:
        text = self._client.get(self._name(key))
        try:
            if text is None:
                return None
            entry = json.loads(text)
            return {'generation': str(entry['generation']), 'sizes': list(entry['sizes'])}
        except (ValueError, TypeError, KeyError) as error:
            raise StoreError(f'{self._name(key)} at {self._where} is no snapshot') from error

    def _forget(self, key: str, entry: dict[str, Any] | None) -> None:
        if entry is not None:
            names = [self._part(key, entry['generation'], number)
                     for number in range(len(entry['sizes']))]
            self._client.delete(*names)

    def _name(self, key: str) -> str:
        return f'{self._prefix}:{key.replace("%", "%25").replace(":", "%3A")}'

    def _part(self, key: str, generation: str, number: int) -> str:
        return f'{self._name(key)}:{generation}:{number}'

    def _trouble(self, what: str, error: Exception) -> StoreError:
        return StoreError(f'cannot {what} at {self._where}: {error}')


def _unquoted(name: str) -> str:
    return name.replace('%3A', ':').replace('%25', '%')


def _pieces(parts: Iterable[bytes | memoryview]) -> Iterable[bytes]:
    """Join and cut parts to pieces of at most ``PART_BYTES``."""
    waiting = bytearray()
    for part in parts:
        view = memoryview(part)
        while len(view):
            room = PART_BYTES - len(waiting)
            waiting += view[:room]
            view = view[room:]
            if len(waiting) == PART_BYTES:
                yield bytes(waiting)
                waiting.clear()
    if waiting:
        yield bytes(waiting)
