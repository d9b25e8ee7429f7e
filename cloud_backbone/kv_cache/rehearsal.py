# SPDX-License-Identifier: Apache-2.0
"""Reads a context a second time, so that a scorer sees what telling it once more looks at.

Each chunk is read in a fork that is thrown away: the cache itself gains no token, only the state
of its scorer. Costs two to three times the prefill. Knows no model: a function feeds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cloud_backbone.kv_cache.compressed_cache import CompressedCache
from cloud_backbone.kv_cache.errors import CacheError
from cloud_backbone.kv_cache.kv_row import KVRow

CHUNK = 2048
"""Tokens that are read again at once, as in KVzip."""

Feed = Callable[[CompressedCache, Sequence[int]], object]
"""Lets the model read tokens through a cache."""


def rehearse(
    cache: CompressedCache, tokens: Sequence[int], feed: Feed, prompt: Sequence[int] = (),
    chunk: int = CHUNK,
) -> None:
    """Score the newest tokens of a cache by reading them again; then ``commit`` its session.

    What the scorer knew of them from the first reading is forgotten. Older tokens keep their
    state, and what the rehearsal looks at among them counts too.

    Args:
        cache: of one sequence whose session is tentative, so that all these tokens are there.
        tokens: the newest ones, as the model read them.
        feed: reads tokens through a cache.
        prompt: read before each chunk, to ask for the repetition.
        chunk: tokens that are read again at once.

    Raises:
        CacheError: the session may have dropped some of the tokens already.
    """
    session = cache.begin()
    first = len(session) - len(tokens)
    if not session.tentative or first < 0:
        raise CacheError(
            f'cannot rehearse {len(tokens)} tokens of {len(session)}: the session must be '
            'tentative before it reads them'
        )
    for row in session.rows.values():
        _forget(row, first)
    for begin in range(0, len(tokens), chunk):
        twin = cache.fork()
        try:
            feed(twin, [*prompt, *tokens[begin : begin + chunk]])
            _take_over(session.rows, twin.begin().rows)
        finally:
            twin.close()


def _forget(row: KVRow, first: int) -> None:
    """Let the state of the tokens from position ``first`` on begin anew."""
    news = row.open.positions >= first
    for column in row.open.columns.values():
        column.masked_fill_(news[: column.shape[0]], 0)


def _take_over(rows: Mapping[int, KVRow], twins: Mapping[int, KVRow]) -> None:
    """Copy the state of the scorer from rows that have the same slots, and more."""
    for layer, row in rows.items():
        for mine, theirs in zip(
            (*row.tiers, row.open), (*twins[layer].tiers, twins[layer].open), strict=True
        ):
            for name, column in mine.columns.items():
                column.copy_(theirs.columns[name][:, : column.shape[1]])
