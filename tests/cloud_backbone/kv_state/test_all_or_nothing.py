# SPDX-License-Identifier: Apache-2.0
"""Whatever goes wrong in an edit, the state is as it was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.errors import PoolFullError
from cloud_backbone.kv_state.kv_state import KVState
from cloud_backbone.kv_state.replacing import partial, STALE
import pytest
from torch import Tensor

from tests.fakes.started_state import edits, started
from tests.fakes.state_models import make_subject


class ForwardFailed(RuntimeError):
    """What a broken model raises."""


@dataclass
class Failing:
    """A model that fails in the middle of a forward, once its luck is used up."""

    inner: Any
    forwards: int = 1000
    """How many go well."""
    failed: int = 0
    fingerprint: str = ''
    image_token: int | None = field(init=False)

    def __post_init__(self) -> None:
        """Look like the model inside."""
        self.image_token = self.inner.image_token
        self.new_cache, self.spots = self.inner.new_cache, self.inner.spots
        self.rotation = self.inner.rotation

    def forward(self, cache: Any, tokens: Sequence[int], *rest: Any) -> Tensor:
        """Fail after the first layer has taken the tokens in."""
        self.forwards -= 1
        if self.forwards >= 0:
            return self.inner.forward(cache, tokens, *rest)
        self.failed += 1
        layer = next(module for module in self.inner.model.modules() if hasattr(module, 'layers')
                     and hasattr(module, 'rotary_emb')).layers[1]
        hook = layer.register_forward_pre_hook(_fail)
        try:
            return self.inner.forward(cache, tokens, *rest)
        finally:
            hook.remove()


def _fail(*given: Any) -> None:
    raise ForwardFailed


@pytest.mark.parametrize('name', ['llama', 'gemma3', 'qwen-image'])
@pytest.mark.parametrize('edit', list(edits(make_subject('llama'))))
def test_all_or_nothing(name: str, edit: str) -> None:
    """Wherever a model fails within an edit, the state is at the previous mark."""
    subject = make_subject(name)
    if name == 'gemma3' and ('stale' in edit or 'partial' in edit):
        pytest.skip('a sliding window that has moved on refuses this edit')
    model = Failing(subject.model)
    for forwards in range(4):
        state = started(subject, model)
        mark, certificate = state.mark(), state.certificate()
        logits, segments = state.next_logits(), state.segments
        model.forwards, model.failed = forwards, 0
        try:
            edits(subject)[edit](state)
            break
        except ForwardFailed:
            pass
        finally:
            model.forwards = 1000
        if edit != 'greedy':
            assert (state.mark(), state.certificate()) == (mark, certificate)
            assert state.segments == segments
            assert (state.next_logits() - logits).abs().max() < 1e-5
        edits(subject)[edit](state)
        state.repair()
        exact, _ = subject.prefill(state.segments)
        assert (state.next_logits() - exact).abs().max() < 1e-4
    assert forwards > 0


GROWING: dict[str, Callable[[KVState, list[int]], Any]] = {
    'append': lambda state, words: state.append('scratch', words),
    'commit_step': lambda state, words: state.commit_step(words, words),
    'replace': lambda state, words: state.replace('goal', words),
    'replace stale': lambda state, words: state.replace('goal', words, STALE),
    'replace partial': lambda state, words: state.replace('goal', words, partial(3)),
}


@pytest.mark.parametrize('edit', list(GROWING))
def test_full_pool(edit: str) -> None:
    """Without a page left an edit fails and changes nothing; with pages it can be repeated."""
    subject = make_subject('llama')
    pool = BlockPool(1 << 26)
    state = started(subject, pool=pool)
    mark, logits = state.mark(), state.next_logits()
    hoard = KVState(subject.model, pool)
    hoard.append('system', subject.words(40, 5))
    free = pool.free_bytes
    pool.capacity_bytes = pool.used_bytes
    with pytest.raises(PoolFullError):
        GROWING[edit](state, subject.words(80, 6))
    assert state.mark() == mark
    assert (state.next_logits() - logits).abs().max() < 1e-5
    pool.capacity_bytes += free
    GROWING[edit](state, subject.words(80, 6))
    state.repair()
    exact, _ = subject.prefill(state.segments)
    assert (state.next_logits() - exact).abs().max() < 1e-4
