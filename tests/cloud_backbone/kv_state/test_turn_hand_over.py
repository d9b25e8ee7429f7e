# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cloud_backbone.kv_state.errors import LayoutError, MissingImage
from cloud_backbone.kv_state.exactness import Grade, NUMERIC
from cloud_backbone.kv_state.kv_state import KVState
from cloud_backbone.kv_state.segment import count_tokens, Segment, SegmentImage
import pytest
import torch
from torch import Tensor

from tests.fakes.state_models import make_subject, Subject

SUBJECTS = ['llama', 'gemma3', 'qwen-image', 'checkpoint']


@pytest.fixture(params=SUBJECTS)
def subject(request: pytest.FixtureRequest) -> Subject:
    return make_subject(request.param)


def turn(subject: Subject, which: int, entries: int = 1) -> list[Segment]:
    """Return the segments of one question, with what is answered to it."""
    tokens, image = subject.scene(which)
    history = [token for entry in range(entries) for token in subject.words(5, 50 + entry)]
    return [
        Segment('system', tuple(subject.words(9, 0))),
        Segment('goal', tuple(subject.words(7, 1))),
        Segment('lessons', ()),
        Segment('history', tuple(history)),
        Segment('scene', tuple(tokens), 1 + which, image),
        Segment('scratch', tuple(subject.words(6, 70 + which))),
    ]


def ask(subject: Subject, state: KVState, segments: Sequence[Segment]) -> tuple[int, Tensor]:
    """Compute a turn as a server does: its own forward, then ``hold``; say what was reused."""
    reused = state.begin(segments)
    tokens = [token for one in segments for token in one.tokens]
    image = next((one.image for one in segments if one.image is not None), None)
    spots = KVState(subject.model).body
    spots.segments = tuple(one for one in segments if one.tokens)
    spots.catch_up()  # only for the layout of the positions
    positions = spots.rope.of(torch.arange(len(tokens)))
    axes = 3 if subject.name == 'qwen-image' else 1
    logits = subject.model.forward(
        state.cache, tokens[reused:], positions[:, reused:].expand(axes, -1), image, 1
    )
    assert state.hold(segments).tokens_computed == len(tokens) - reused
    return reused, logits[0]


def test_turns(subject: Subject) -> None:
    """What a server reuses says the same as a full computation."""
    state = KVState(subject.model)
    reused, _ = ask(subject, state, turn(subject, 0))
    assert reused == 0
    for which in range(1, 4):
        segments = turn(subject, which, entries=which + 1)
        before = count_tokens(state.segments[:3])
        reused, logits = ask(subject, state, segments)
        # A window can go back to where a turn ended, and no turn goes on from there.
        assert reused == before or (subject.name == 'gemma3' and reused < before)
        exact, _ = subject.prefill(tuple(one for one in segments if one.tokens))
        assert (logits - exact).abs().max() < 1e-4
        assert (state.next_logits() - exact).abs().max() < 1e-4
        certificate = state.certificate()
        assert certificate.exactness == NUMERIC
        assert (certificate.freshest, certificate.stalest) == (1 + which, 1 + which)


def test_same_image_is_reused(subject: Subject) -> None:
    """The same image needs not be seen again, even as a newer observation; another one does."""
    state = KVState(subject.model)
    first = turn(subject, 0)
    ask(subject, state, first)
    newer = [replace(one, epoch=9) if one.epoch is not None else one for one in first[:-1]]
    newer.append(Segment('scratch', tuple(subject.words(6, 99))))
    if subject.name == 'gemma3':
        newer = [*newer[:-1], replace(first[-1], tokens=(*first[-1].tokens, 5, 6))]
    reused = state.begin(newer)
    assert reused >= count_tokens(first[:-1])
    assert state.certificate().freshest == 9
    assert state.certificate().stalest == 9


def test_the_last_token_is_left() -> None:
    """A turn that is held already leaves its last token to compute."""
    subject = make_subject('llama')
    state = KVState(subject.model)
    segments = turn(subject, 0)
    ask(subject, state, segments)
    assert state.begin(segments) == count_tokens(segments) - 1
    assert state.begin([]) == 0
    assert len(state) == state.cache.get_seq_length() == 0


def test_another_image_with_the_same_tokens() -> None:
    """Two images have the same tokens and are never taken for each other, nor cut in two."""
    subject = make_subject('qwen-image')
    state = KVState(subject.model)
    first = turn(subject, 0)
    ask(subject, state, first)
    other = list(first)
    other[4] = replace(first[4], image=SegmentImage('f' * 64, subject.seeds[1]))
    reused = state.begin(other)
    assert count_tokens(first[:4]) <= reused < count_tokens(first[:4]) + 6
    state.close()
    ask(subject, state, first)
    shorter = [*first[:4], replace(first[4], tokens=first[4].tokens[:8]), first[5]]
    assert state.begin(shorter) == count_tokens(first[:4]) + 5


def test_names_matter() -> None:
    """The same tokens in a segment of another name are not reused."""
    subject = make_subject('llama')
    state = KVState(subject.model)
    segments = turn(subject, 0)
    ask(subject, state, segments)
    renamed = [segments[0], replace(segments[1], name='lessons'), *segments[3:]]
    assert state.begin(renamed) == count_tokens(segments[:1])


def test_wrong_count() -> None:
    """What the cache does not hold cannot be recorded."""
    subject = make_subject('llama')
    state = KVState(subject.model)
    segments = turn(subject, 0)
    ask(subject, state, segments)
    with pytest.raises(LayoutError, match='the cache holds'):
        state.hold(segments[:-1])
    assert len(state) == count_tokens(segments)


def test_a_failed_turn() -> None:
    """After a batch that failed and closed its caches, the next turn begins afresh."""
    subject = make_subject('checkpoint')
    state = KVState(subject.model)
    segments = turn(subject, 0)
    ask(subject, state, segments)
    state.body.held.session.close()
    assert state.begin(turn(subject, 1)) == 0
    reused, logits = ask(subject, state, segments)
    exact, _ = subject.prefill(tuple(one for one in segments if one.tokens))
    assert reused == 0
    assert (logits - exact).abs().max() < 1e-4


def test_image_known_by_hash() -> None:
    """Without its pixels an image is reused, but not computed again; nothing is lost by trying."""
    subject = make_subject('checkpoint')
    state = KVState(subject.model)
    segments = turn(subject, 0)
    ask(subject, state, segments)
    state.body.segments = tuple(
        replace(one, image=SegmentImage(one.image.sha256)) if one.image else one
        for one in state.segments
    )
    before = state.mark()
    for edit in (state.rehydrate, lambda: state.replace('goal', [300, 301])):
        with pytest.raises(MissingImage, match='send it again'):
            edit()
        assert state.mark() == before
    exact, _ = subject.prefill(tuple(one for one in segments if one.tokens))
    assert (state.next_logits() - exact).abs().max() < 1e-4


@pytest.mark.parametrize('policy', ['cake', 'int8', 'cake+kivi4'])
def test_lossy(policy: str) -> None:
    """Under a policy that loses something a certificate says so, and turns go on."""
    subject = make_subject('llama')
    state = KVState(subject.model, policy=policy, budget_bytes=60_000)
    for which in range(6):
        segments = turn(subject, which, entries=8)
        reused, _ = ask(subject, state, segments)
        assert reused >= (which > 0) * count_tokens(segments[:1])
    assert state.certificate().exactness.grade is Grade.APPROXIMATE
    assert state.certificate().exactness.kind == policy
