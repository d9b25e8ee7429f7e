# SPDX-License-Identifier: Apache-2.0
"""Whatever edits come in whatever order, a state that calls itself exact is exact."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.errors import PoolFullError
from cloud_backbone.kv_cache.policy import find_policy
from cloud_backbone.kv_state.errors import LayoutError, StateError
from cloud_backbone.kv_state.fingerprint import fingerprint_of
from cloud_backbone.kv_state.gate import OPEN
from cloud_backbone.kv_state.kv_state import KVState
from cloud_backbone.kv_state.replacing import ERRATUM, Mode, partial, RECOMPUTE, STALE
from cloud_backbone.kv_state.restore import restore, Target
from cloud_backbone.kv_state.segment import LAYOUT
from cloud_backbone.kv_state.snapshot import Snapshot, take_snapshot
from hypothesis import given, settings
from hypothesis import strategies as st
import pytest
import torch

from tests.fakes.started_state import started
from tests.fakes.state_models import make_subject, Subject

MODES = (RECOMPUTE, STALE, ERRATUM, partial(1), partial(3), partial(30))
NAMES = st.sampled_from(LAYOUT)
SEEDS = st.integers(1, 9)
EDIT = st.one_of(
    st.tuples(st.just('append'), NAMES, SEEDS),
    st.tuples(st.just('replace'), NAMES, SEEDS, st.sampled_from(MODES)),
    st.tuples(st.just('drop'), NAMES, st.sampled_from(MODES)),
    st.tuples(st.just('move'), NAMES, st.integers(0, 5), st.sampled_from(MODES)),
    st.tuples(st.just('commit_step'), SEEDS),
    st.tuples(st.just('crop'), NAMES),
    st.tuples(st.just('turn'), SEEDS),
    st.tuples(st.just('shift'), st.integers(-9, 9)),
    *(st.tuples(st.just(name)) for name in ('repair', 'rehydrate', 'verify', 'greedy',
                                            'promote', 'restore', 'fork', 'close')),
)
COMPOSED = ('turn', 'greedy', 'restore')
"""Several edits in one: an error may come after the first of them."""


class Run:
    """One state under edits, and the forks that it left behind."""

    def __init__(self, subject: Subject, capacity_bytes: int) -> None:
        self.subject, self.pool = subject, BlockPool(capacity_bytes)
        self.state = started(subject, pool=self.pool)
        self.left: list[tuple[KVState, str, torch.Tensor]] = []
        self.epoch = 1

    def do(self, kind: str, *given: Any) -> None:
        """Carry one edit out."""
        edit: Callable[..., Any] = getattr(self, f'_{kind}', None) or getattr(self.state, kind)
        edit(*given)

    def check(self) -> None:
        """Compare what is called exact with what the library says, in every prefix."""
        state, before = self.state, self.state.certificate().exactness
        for name in [None, *(one.name for one in state.segments)]:
            child = state.fork(state.mark(name))
            with closing(child), suppress(PoolFullError):
                if child.certificate().exactness.exact and len(child):
                    expected, _ = self.subject.prefill(child.segments)
                    assert (child.next_logits() - expected).abs().max() < 1e-4, name
        shown = {one.epoch for one in state.segments} - {None}
        assert shown <= state.body.taint.all_of(len(state))
        assert state.certificate().exactness == before
        for other, chain, logits in self.left:
            assert other.mark().prefix_hash == chain
            with suppress(PoolFullError):
                assert (other.next_logits() - logits).abs().max() < 1e-4

    def end(self) -> None:
        """Close everything; no page stays out."""
        for state in (self.state, *(one for one, _, _ in self.left)):
            state.close()
        assert self.pool.used_bytes == 0

    def _append(self, name: str, seed: int) -> None:
        self.state.append(name, **self._content(name, seed))

    def _replace(self, name: str, seed: int, mode: Mode) -> None:
        self.state.replace(name, mode=mode, **self._content(name, seed))

    def _commit_step(self, seed: int) -> None:
        scene = self._content('scene', seed)
        self.state.commit_step(self.subject.words(seed, seed), scene.pop('tokens'), **scene)

    def _crop(self, name: str) -> None:
        self.state.crop(self.state.mark(name))

    def _greedy(self) -> None:
        if len(self.state) and self.state.segments[-1].name != 'scratch':
            self.state.greedy(2)

    def _turn(self, seed: int) -> None:
        """Let somebody else compute, as the server does."""
        state = self.state
        changed = list(state.segments)[: 1 + seed % 6]
        if not changed:
            return
        begun = state.begin(changed)
        assert begun < sum(len(one.tokens) for one in changed)
        state.body.segments = tuple(changed)
        try:
            state.body.catch_up()
        except PoolFullError:
            state.body.cut(begun)
            raise
        state.hold(changed)

    def _fork(self) -> None:
        if len(self.state):
            with closing(self.state.fork()) as twin:
                logits = twin.next_logits().clone()
            self.left.append((self.state, self.state.mark().prefix_hash, logits))
            self.state = self.state.fork()

    def _promote(self) -> None:
        with closing(self.state.fork()) as child:
            child.append('scratch', self.subject.words(3, 5))
            self.state.promote(child)

    def _restore(self) -> None:
        policy = find_policy('full')
        print_of = fingerprint_of(self.subject.model.model, policy)
        taken = take_snapshot(self.state, print_of)
        read = Snapshot.from_bytes(bytearray(b''.join(taken.parts())))
        back = restore(read, Target(self.subject.model, self.pool, policy, print_of, OPEN)).state
        assert back.segments == self.state.segments
        assert back.certificate() == self.state.certificate()
        self.state.close()
        self.state = back

    def _content(self, name: str, seed: int) -> dict[str, Any]:
        self.epoch += 1
        if name == 'scene':
            tokens, image = self.subject.scene(seed)
            return {'tokens': tokens, 'image': image, 'epoch': self.epoch}
        return {'tokens': self.subject.words(seed, seed)}


@pytest.mark.parametrize(('name', 'capacity_bytes'), [
    ('llama', 1 << 26), ('llama', 60_000), ('gemma3', 1 << 26), ('qwen-image', 1 << 26),
])
@settings(max_examples=12, deadline=None)
@given(edits=st.lists(EDIT, min_size=4, max_size=9))
def test_what_is_called_exact_is_exact(
    name: str, capacity_bytes: int, edits: list[tuple[Any, ...]]
) -> None:
    """After every edit, refused ones too: exact prefixes are, forks stay, pages come back."""
    run = Run(make_subject(name), capacity_bytes)
    for edit in edits:
        before = run.state.certificate()
        try:
            run.do(*edit)
        except (StateError, PoolFullError):
            assert edit[0] in COMPOSED or run.state.certificate() == before
        run.check()
    run.end()


def test_an_empty_state_says_so() -> None:
    """There is nothing to go on from, and nothing to compare."""
    subject = make_subject('llama')
    state = started(subject)
    state.close()
    for ask in (state.next_logits, state.verify, lambda: state.greedy(1)):
        with pytest.raises(LayoutError, match='append a token first'):
            ask()
    state.append('goal', [5])
    assert state.verify().agrees


@pytest.mark.parametrize('name', ['llama', 'gemma3'])
def test_an_empty_state_is_forked_and_shifted_like_others(name: str) -> None:
    """A fork of it goes on with its pages, and gives them back."""
    pool = BlockPool(1 << 26)
    state = started(make_subject(name), pool=pool)
    state.crop(state.mark('system'))
    assert state.shift(5).tokens_computed == 0
    child = state.fork()
    assert child.stats().byte_count == state.stats().byte_count
    child.close()
    state.close()
    assert pool.used_bytes == 0
