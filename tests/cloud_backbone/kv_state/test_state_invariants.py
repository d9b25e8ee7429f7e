# SPDX-License-Identifier: Apache-2.0
"""What holds of a state after whatever was done to it."""

from __future__ import annotations

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_state.errors import (
    LayoutError,
    LostHistory,
    StaleMark,
    StateError,
    UnsupportedMove,
)
from cloud_backbone.kv_state.exactness import approximate, BIT, LOST, NUMERIC, worst
from cloud_backbone.kv_state.kv_state import KVState
from cloud_backbone.kv_state.receipt import Mark
from cloud_backbone.kv_state.replacing import STALE
from cloud_backbone.kv_state.segment import chain_hash, Segment, SegmentImage
import pytest
import torch

from tests.fakes.started_state import edits, started
from tests.fakes.state_models import make_subject


@pytest.mark.parametrize('name', ['llama', 'gemma3', 'qwen-image'])
def test_lengths_agree(name: str) -> None:
    """Every layer holds as many tokens as the table has, after every edit."""
    subject = make_subject(name)
    for edit in edits(subject).values():
        state = started(subject)
        try:
            edit(state)
        except UnsupportedMove:
            assert name == 'gemma3'
        session = state.body.held.session
        assert {row.seen for row in session.rows.values()} == {len(state)}
        assert state.cache.get_seq_length() == len(state)


def test_positions_are_ordered() -> None:
    """Positions grow from segment to segment, an image is laid out whole."""
    subject = make_subject('qwen-image')
    for edit in edits(subject).values():
        state = started(subject)
        edit(state)
        spots = state.body.rope.of(torch.arange(len(state))).expand(3, -1)
        for place, segment in enumerate(state.segments):
            first = state.body.start(place)
            if first:
                assert spots[:, first].min() > spots[:, :first].max()
            if segment.image is None:
                mine = spots[:, first : first + len(segment.tokens)]
                assert (mine[:, 1:] - mine[:, :-1] == 1).all()


def test_an_image_is_never_cut() -> None:
    """No mark cuts an image in two."""
    subject = make_subject('qwen-image')
    state = started(subject)
    place = state.body.place('scene')
    inside = state.body.start(place) + 7
    mark = Mark(inside, chain_hash((
        *state.segments[:place], Segment('scene', state.segments[place].tokens[:7], 1,
                                         state.segments[place].image),
    )))
    with pytest.raises(LayoutError, match='image'):
        state.crop(mark)


def test_hash_chain() -> None:
    """The hash says names, tokens and images, whatever pieces they came in."""
    base = (Segment('system', (1, 2, 3)), Segment('goal', (4, 5)))
    image = SegmentImage('aa')
    others = [
        (Segment('system', (1, 2)), Segment('goal', (3, 4, 5))),
        (Segment('system', (1, 2, 3)), Segment('lessons', (4, 5))),
        (Segment('system', (1, 2, 3)), Segment('goal', (4, 5), image=image)),
        (Segment('system', (1, 2, 3)), Segment('goal', (4, 5), image=SegmentImage('ab'))),
        (Segment('system', (1, 2, 3)),), (), (Segment('system', (1, 2, 3, 4, 5)),),
    ]
    assert len({chain_hash(one) for one in [base, *others]}) == 1 + len(others)
    assert chain_hash((base[0], Segment('lessons', ()), base[1])) == chain_hash(base)
    subject = make_subject('llama')
    at_once, pieces = KVState(subject.model), KVState(subject.model)
    words = subject.words(12, 0)
    at_once.append('history', words)
    for token in words:
        pieces.append('history', [token])
    assert at_once.mark() == pieces.mark()


def test_classes_never_improve() -> None:
    """The worst class wins, and what is computed on something approximate is approximate."""
    assert worst() == BIT
    assert worst(NUMERIC, approximate('stale'), BIT) == approximate('stale')
    assert worst(approximate('stale'), LOST).grade > approximate('stale').grade
    subject = make_subject('llama')
    state = started(subject)
    state.drop('goal', STALE)
    for _ in range(3):
        assert not state.append('scratch', subject.words(2, 6)).exactness.exact
    assert not state.fork().certificate().exactness.exact
    before = state.certificate().exactness
    state.verify()
    assert state.certificate().exactness.kind == before.kind
    state.commit_step(subject.words(3, 7), subject.words(3, 8))
    assert not state.certificate().exactness.exact


def test_shared_segments_are_equal_bytes() -> None:
    """Two sessions that begin alike hold the same bytes of what they share."""
    subject = make_subject('llama')
    states = [started(subject), started(subject)]
    states[1].replace('goal', subject.words(7, 9))
    for mine, other in zip(*(one.body.held.lift(0, 9).values() for one in states), strict=True):
        assert torch.equal(mine[0], other[0])
        assert torch.equal(mine[1], other[1])


def test_two_sessions_on_one_model() -> None:
    """What a model remembers of one session (a rope delta) never reaches another."""
    subject = make_subject('qwen-image')
    state = started(subject)
    logits, _ = subject.prefill(state.segments)  # sets the delta of the library
    other = KVState(subject.model)
    other.append('system', subject.words(30, 1))
    subject.model.model.model.rope_deltas = torch.tensor([[1000]])
    state.append('scratch', subject.words(2, 2))
    other.append('system', subject.words(2, 3))
    for one in (state, other):
        expected, _ = subject.prefill(one.segments)
        assert (one.next_logits() - expected).abs().max() < 1e-4


def test_children_never_change_their_parent() -> None:
    """Whatever children do, in whatever order, their parent's bytes stay."""
    subject = make_subject('llama')
    state = started(subject)
    before = state.body.held.lift(0, len(state))
    children = [state.fork() for _ in range(4)]
    children[0].append('scratch', subject.words(40, 1))
    children[1].crop(children[1].mark('goal'))
    children[1].append('goal', subject.words(30, 2))
    children[2].drop('goal', STALE)
    children[3].close()
    grandchild = children[0].fork()
    grandchild.rehydrate()
    for layer, (key, value) in state.body.held.lift(0, len(state)).items():
        assert torch.equal(key, before[layer][0])
        assert torch.equal(value, before[layer][1])
    for child in (*children, grandchild):
        child.close()
    state.append('scratch', subject.words(3, 3))
    logits, _ = subject.prefill(state.segments)
    assert (state.next_logits() - logits).abs().max() < 1e-4


def test_pages_come_back() -> None:
    """A state that is closed leaves nothing in the pool, whatever was done to it."""
    subject = make_subject('llama')
    pool = BlockPool(1 << 26)
    for edit in edits(subject).values():
        state = started(subject, pool=pool)
        edit(state)
        child = state.fork()
        child.append('scratch', [5])
        state.verify()
        state.promote(child)
        state.close()
        assert pool.used_bytes == 0


def test_layout() -> None:
    """A segment that is not the last takes no tokens; the error says what to do."""
    subject = make_subject('llama')
    state = started(subject)
    before = state.mark()
    with pytest.raises(LayoutError, match='scene, scratch.*commit_step'):
        state.append('history', [5])
    with pytest.raises(LayoutError, match='known are system, goal'):
        state.append('thoughts', [5])
    with pytest.raises(LayoutError, match="no segment 'lessons'; there are system"):
        state.replace('lessons', [5])
    with pytest.raises(LayoutError, match='drop'):
        state.replace('goal', [])
    with pytest.raises(LayoutError, match='0 to 4'):
        state.move('goal', 9)
    with pytest.raises(LayoutError, match='append a token'):
        KVState(subject.model).greedy(1)
    with pytest.raises(LayoutError, match='fork'):
        state.promote(KVState(subject.model))
    assert state.append('scratch', []).tokens_computed == 0
    assert state.mark() == before


def test_bad_tokens() -> None:
    """Tokens that no model knows, and images without places, are refused; nothing is changed."""
    subject = make_subject('qwen-image')
    state = started(subject)
    before, (tokens, image) = state.mark(), subject.scene(1)
    for bad in ([64], [-1], [5, 10**9]):
        with pytest.raises(StateError, match='0 to 63'):
            state.append('scratch', bad)
    with pytest.raises(LayoutError, match='no places'):
        state.append('scratch', [5], image=image)
    with pytest.raises(LayoutError, match='but no image'):
        state.commit_step([5], tokens)
    with pytest.raises(LayoutError, match='but no image'):
        state.replace('scene', tokens)
    assert state.mark() == before


def test_stale_marks() -> None:
    """A mark whose past has changed is refused."""
    subject = make_subject('llama')
    state = started(subject)
    mark = state.mark('scene')
    state.replace('goal', subject.words(7, 9))
    with pytest.raises(StaleMark, match='take a new mark'):
        state.crop(mark)
    fresh = state.mark('scene')
    state.crop(state.mark('history'))
    with pytest.raises(StaleMark):
        state.crop(fresh)


def test_windows_lose_history() -> None:
    """Behind a sliding window only checkpoints can be cropped to; the error names where."""
    subject = make_subject('gemma3')
    state = KVState(subject.model)
    state.append('history', subject.words(30, 0))
    marks = [state.mark()]
    state.append('history', subject.words(30, 1))
    inside = Mark(40, chain_hash([Segment('history', state.segments[0].tokens[:40])]))
    with pytest.raises(LostHistory) as lost:
        state.crop(inside)
    assert lost.value.min_pos == state.stats().min_crop_pos == 60
    end = state.mark()
    state.append('scene', subject.words(9, 2))
    assert state.crop(end).tokens_computed == 0
    logits, _ = subject.prefill(state.segments)
    assert (state.next_logits() - logits).abs().max() < 1e-4
    with pytest.raises(LostHistory):
        state.crop(marks[0])
