# SPDX-License-Identifier: Apache-2.0
"""A session in the middle of a step, and every edit that computes something in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_state.gate import OPEN
from cloud_backbone.kv_state.kv_state import KVState
from cloud_backbone.kv_state.replacing import partial, STALE
from cloud_backbone.kv_state.state_model import StateModel

from tests.fakes.state_models import Subject


def started(
    subject: Subject, model: StateModel | None = None, pool: BlockPool | None = None
) -> KVState:
    """Return a session in the middle of a step."""
    state = KVState(model or subject.model, pool, gate=OPEN)
    state.append('system', subject.words(9, 0))
    state.append('goal', subject.words(7, 1))
    state.append('history', subject.words(12, 2))
    tokens, image = subject.scene(0)
    state.append('scene', tokens, epoch=1, image=image)
    state.append('scratch', subject.words(8, 3))
    return state


def edits(subject: Subject) -> dict[str, Callable[[KVState], Any]]:
    """Return every edit that computes something."""
    tokens, image = subject.scene(1)
    words = subject.words(7, 4)
    return {
        'append': lambda state: state.append('scratch', words),
        'commit_step': lambda state: state.commit_step(words, tokens, epoch=2, image=image),
        'replace': lambda state: state.replace('goal', words),
        'replace stale': lambda state: state.replace('goal', words, STALE),
        'replace partial': lambda state: state.replace('goal', words, partial(3)),
        'drop': lambda state: state.drop('goal'),
        'drop partial': lambda state: state.drop('goal', partial(3)),
        'move': lambda state: state.move('goal', 0),
        'rehydrate': KVState.rehydrate,
        'greedy': lambda state: state.greedy(3),
    }
