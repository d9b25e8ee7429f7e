# SPDX-License-Identifier: Apache-2.0
"""One edit of a state as plain words, so that it can be kept, compared and done again.

The same operation on the same state gives the same state. Knows the edits of ``KVState``; knows
no journal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cloud_backbone.kv_state.errors import LayoutError
from cloud_backbone.kv_state.kv_state import KVState
from cloud_backbone.kv_state.receipt import Mark, Receipt
from cloud_backbone.kv_state.replacing import Edit, Mode
from cloud_backbone.kv_state.segment import SegmentImage

Words = Mapping[str, Any]


@dataclass(frozen=True)
class Operation:
    """An edit and its arguments.

    Args:
        do: one of ``OPERATIONS``.
        words: arguments as JSON knows them; a mode is the name of its edit and its parameter.
        image: what the tokens show, if they show anything.
    """

    do: str
    words: Words = field(default_factory=dict)
    image: SegmentImage | None = None

    def __post_init__(self) -> None:
        if self.do not in OPERATIONS:
            raise LayoutError(f'no operation {self.do!r}; known are {", ".join(OPERATIONS)}')

    def record(self) -> dict[str, Any]:
        """Return it as JSON knows it, the image by its hash."""
        image = None if self.image is None else self.image.sha256
        return {'do': self.do, 'words': dict(self.words), 'image': image}

    def apply(self, state: KVState) -> Receipt:
        """Do it.

        Raises:
            Whatever the edit raises; the state is as it was then.
        """
        return OPERATIONS[self.do](state, self.words, self.image)


def _append(state: KVState, words: Words, image: SegmentImage | None) -> Receipt:
    return state.append(words['name'], words['tokens'], epoch=words.get('epoch'), image=image)


def _crop(state: KVState, words: Words, image: SegmentImage | None) -> Receipt:
    return state.crop(Mark(words['tokens'], words['prefix_hash']))


def _commit_step(state: KVState, words: Words, image: SegmentImage | None) -> Receipt:
    return state.commit_step(
        words['history'], words['scene'], epoch=words.get('epoch'), image=image
    )


def _replace(state: KVState, words: Words, image: SegmentImage | None) -> Receipt:
    return state.replace(
        words['name'], words['tokens'], _mode(words), epoch=words.get('epoch'), image=image
    )


def _drop(state: KVState, words: Words, image: SegmentImage | None) -> Receipt:
    return state.drop(words['name'], _mode(words))


def _move(state: KVState, words: Words, image: SegmentImage | None) -> Receipt:
    return state.move(words['name'], words['index'], _mode(words))


def _repair(state: KVState, words: Words, image: SegmentImage | None) -> Receipt:
    return state.repair()


def _rehydrate(state: KVState, words: Words, image: SegmentImage | None) -> Receipt:
    return state.rehydrate()


def _mode(words: Words) -> Mode:
    edit, fresh = words.get('mode', ('recompute', 0))
    return Mode(Edit(edit), fresh)


OPERATIONS: dict[str, Callable[[KVState, Words, SegmentImage | None], Receipt]] = {
    'append': _append, 'crop': _crop, 'commit_step': _commit_step, 'replace': _replace,
    'drop': _drop, 'move': _move, 'repair': _repair, 'rehydrate': _rehydrate,
}
