# SPDX-License-Identifier: Apache-2.0
"""Promises of snapshots: a state comes back bit for bit, or from its tokens with the reason."""

from dataclasses import fields, replace
from pathlib import Path
import random
from typing import Any

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.errors import PoolFullError
from cloud_backbone.kv_state.errors import Corrupt, FingerprintMismatch
from cloud_backbone.kv_state.exactness import Grade
from cloud_backbone.kv_state.fingerprint import Fingerprint, fingerprint_of, MEANING
from cloud_backbone.kv_state.kv_state import KVState
from cloud_backbone.kv_state.ledger import Ledger
from cloud_backbone.kv_state.restore import Fallback, restore, Restored, Target
from cloud_backbone.kv_state.segment import SegmentImage
from cloud_backbone.kv_state.snapshot import (
    Belongings,
    load_snapshot,
    save_snapshot,
    Snapshot,
    take_snapshot,
)
from cloud_backbone.kv_state.transformers_model import TransformersModel
import pytest
import torch

from tests.fakes.small_policies import small_policy
from tests.fakes.tiny_models import make_family, text

GOAL, HISTORY, NEXT = (text(count, seed)[0].tolist() for seed, count in enumerate((14, 30, 9)))
SHAPES = ['llama/full', 'llama/cake', 'llama/kivi4', 'llama/cake+squat4', 'llama/h2o+int8',
          'gemma3/full', 'gemma3/cake', 'qwen-image/full', 'qwen-image/kivi4', 'tendon/full']
BUDGET = 40_000


class Session:
    """A state with history, and all that it takes to restore it."""

    def __init__(self, shape: str = 'llama/full') -> None:
        name, _, policy = shape.partition('/')
        family = make_family(name)
        self.policy = small_policy(policy)
        self.model = TransformersModel(family.model)
        self.pool = BlockPool(1 << 24)
        self.fingerprint = fingerprint_of(family.model, self.policy)
        budget = None if self.policy.scorer is None else BUDGET
        self.state = KVState(self.model, self.pool, self.policy, budget)
        self.state.append('goal', GOAL)
        self.state.append('history', HISTORY)
        start = dict(family.start)
        places = start.pop('input_ids')[0].tolist() if start else []
        start.pop('mm_token_type_ids', None)
        self.image = SegmentImage('ab' * 32, start) if start else None
        self.state.append('scene', [*places, *text(5, 7)[0].tolist()], epoch=3, image=self.image)
        self.state.greedy(4)

    def target(self, **changes: Any) -> Target:
        """Return where it is restored to: another pool."""
        return replace(
            Target(self.model, BlockPool(1 << 24), self.policy, self.fingerprint), **changes
        )

    def snapshot(self, belongings: Belongings | None = None) -> Snapshot:
        """Return what a file would hold."""
        taken = take_snapshot(self.state, self.fingerprint, belongings)
        return Snapshot.from_bytes(bytearray(b''.join(taken.parts())))

    def restored(
        self, fallback: Fallback = Fallback.REFUSE, snapshot: Snapshot | None = None,
        **changes: Any,
    ) -> Restored:
        """Return the state that came back."""
        return restore(snapshot or self.snapshot(), self.target(**changes), fallback)


def assert_same(one: KVState, other: KVState) -> None:
    """Compare all that can be seen of two states, and what they do next, bit for bit."""
    for _ in range(2):
        assert other.segments == one.segments
        assert other.certificate() == one.certificate()
        assert replace(other.stats(), tokens_computed=0) == replace(
            one.stats(), tokens_computed=0
        )
        assert torch.equal(other.next_logits(), one.next_logits())
        assert other.greedy(3) == one.greedy(3)
        for each in (one, other):
            each.crop(each.mark('scene'))
            each.append('history', NEXT)
            each.append('scene', NEXT, epoch=4)


@pytest.mark.parametrize('shape', SHAPES)
def test_state_goes_on_bit_for_bit(shape: str) -> None:
    """Of every kind of model and policy: same logits, segments, epochs, classes and bytes."""
    session = Session(shape)
    back = session.restored()
    assert (back.reason, back.tokens_computed, back.lost) == ('', 0, ())
    assert_same(session.state, back.state)


def test_file_is_mapped_checked_and_replaced(tmp_path: Path) -> None:
    """Through a file it is the same; a second snapshot takes the place of the first."""
    session, path = Session(), tmp_path / 'state.safetensors'
    first = save_snapshot(path, take_snapshot(session.state, session.fingerprint))
    assert first == path.stat().st_size
    session.state.append('scratch', NEXT)
    save_snapshot(path, take_snapshot(session.state, session.fingerprint))
    back = session.restored(snapshot=load_snapshot(path))
    assert list(tmp_path.iterdir()) == [path]
    assert_same(session.state, back.state)


def test_restored_state_does_not_hang_on_its_file(tmp_path: Path) -> None:
    """What was restored goes on when its file is overwritten and removed."""
    session, path = Session('gemma3/full'), tmp_path / 'state.safetensors'
    save_snapshot(path, take_snapshot(session.state, session.fingerprint))
    back = session.restored(snapshot=load_snapshot(path))
    with path.open('r+b') as stream:
        stream.write(bytes(path.stat().st_size))
    path.unlink()
    assert_same(session.state, back.state)


def test_belongings_come_back() -> None:
    """Epoch, ledger, random numbers and the owner's words are part of the file."""
    generator = torch.Generator().manual_seed(4)
    torch.rand(3, generator=generator)
    ledger = Ledger()
    ledger.take(0, 'a')
    ledger.answer(0, 'yes')
    words = {'grammar': [1, 2], 'ä': None}
    mine = Belongings(7, ledger, generator.get_state(), words)
    session = Session()
    back = session.restored(snapshot=session.snapshot(mine)).belongings
    assert (back.epoch, back.ledger.state(), back.words) == (7, ledger.state(), words)
    other = torch.Generator()
    assert back.rng is not None
    other.set_state(back.rng)
    assert torch.equal(torch.rand(5, generator=other), torch.rand(5, generator=generator))


def test_empty_state_comes_back() -> None:
    """A state before its first token is one too."""
    session = Session()
    session.state.close()
    back = session.restored().state
    assert len(back) == 0
    for each in (back, session.state):
        each.append('goal', GOAL)
    assert torch.equal(back.next_logits(), session.state.next_logits())


def test_state_whose_cache_lags_behind_comes_back_so() -> None:
    """Tokens that the cache lacks are computed when they are needed, as without a snapshot."""
    session = Session()
    session.state.body.cut_cache(20)
    back = session.restored()
    assert (back.tokens_computed, len(back.state.body.held)) == (0, 20)
    assert_same(session.state, back.state)


@pytest.mark.parametrize('field', [field.name for field in fields(Fingerprint)])
def test_anything_else_that_is_served_is_refused(field: str) -> None:
    """The refusal names the field and both values, and takes not one page."""
    session, pool = Session(), BlockPool(1 << 24)
    other = replace(session.fingerprint, **{field: 'another'})
    refused = pytest.raises(FingerprintMismatch, match=f'{field} .* served is {field} another')
    with refused as found:
        session.restored(fingerprint=other, pool=pool)
    assert (found.value.field, found.value.got) == (field, 'another')
    assert pool.used_bytes == 0


@pytest.mark.parametrize('field', [field.name for field in fields(Fingerprint)])
def test_tokens_are_computed_anew_only_where_they_mean_the_same(field: str) -> None:
    """Under REPREFILL other weights are a reason to compute; another tokenizer is a refusal."""
    session = Session()
    other = replace(session.fingerprint, **{field: 'another'})
    if field in MEANING:
        with pytest.raises(FingerprintMismatch, match=field):
            session.restored(Fallback.REPREFILL, fingerprint=other)
        return
    back = session.restored(Fallback.REPREFILL, fingerprint=other)
    assert back.tokens_computed == len(session.state)
    assert f'made with {field}' in back.reason
    assert all(one.exactness.grade is Grade.NUMERIC for one in back.state.segments)
    logits = back.state.next_logits()
    torch.testing.assert_close(logits, session.state.next_logits(), rtol=1e-4, atol=1e-4)
    assert back.state.certificate().prefix_hash == session.state.certificate().prefix_hash


def test_another_policy_computes_anew_under_its_own_rules() -> None:
    """A snapshot of one policy serves another one by its tokens."""
    session, policy = Session(), small_policy('kivi4')
    other = fingerprint_of(make_family('llama').model, policy)
    back = session.restored(Fallback.REPREFILL, policy=policy, fingerprint=other)
    assert 'made with cache_policy full' in back.reason
    assert back.state.certificate().exactness.grade is Grade.APPROXIMATE


@pytest.mark.parametrize('shape', ['llama/full', 'qwen-image/kivi4', 'gemma3/full'])
def test_wrong_bytes_never_become_a_state(shape: str) -> None:
    """Whichever byte is flipped, it is Corrupt, and under REPREFILL the state of the tokens."""
    session = Session(shape)
    good = bytearray(b''.join(take_snapshot(session.state, session.fingerprint).parts()))
    wanted = session.restored(
        Fallback.REPREFILL, fingerprint=replace(session.fingerprint, weights='other')
    ).state.next_logits()
    places = random.Random(1).sample(range(len(good)), 40)
    for number, place in enumerate([0, 7, 8, 100, len(good) - 1, *places]):
        bad = bytearray(good)
        bad[place] ^= 1 << place % 8
        try:
            snapshot = Snapshot.from_bytes(bad)
        except Corrupt:
            continue
        with pytest.raises(Corrupt, match='tensor'):
            session.restored(snapshot=snapshot)
        if number % 8 == 4 and not any('image' in name for name in snapshot.damaged):
            back = session.restored(Fallback.REPREFILL, snapshot=snapshot)
            assert 'checksum' in back.reason
            assert torch.equal(back.state.next_logits(), wanted)


def test_file_that_lost_its_end_is_computed_anew(tmp_path: Path) -> None:
    """Tokens stand at the beginning: a file cut in two still says what to compute."""
    session, path = Session(), tmp_path / 'state.safetensors'
    size = save_snapshot(path, take_snapshot(session.state, session.fingerprint))
    path.write_bytes(path.read_bytes()[: size - 5000])
    with pytest.raises(Corrupt, match='state.safetensors: tensor'):
        session.restored(snapshot=load_snapshot(path))
    back = session.restored(Fallback.REPREFILL, snapshot=load_snapshot(path))
    assert back.tokens_computed == len(session.state)


def test_damaged_random_numbers_are_not_made_up() -> None:
    """What tokens do not give back is refused, whatever the fallback."""
    session = Session()
    taken = take_snapshot(
        session.state, session.fingerprint,
        Belongings(rng=torch.Generator().get_state()),
    )
    bad = bytearray(b''.join(taken.parts()))
    bad[bad.index(bytes(taken.tensors['rng'].tolist()))] ^= 1
    with pytest.raises(Corrupt, match='rng'):
        session.restored(Fallback.REPREFILL, snapshot=Snapshot.from_bytes(bad))


def test_image_known_by_its_hash_alone_is_reported_lost() -> None:
    """Computing anew ends before an image that is not at hand, and names what is missing."""
    session = Session('qwen-image/full')
    other = replace(session.fingerprint, weights='other')
    whole = session.restored(Fallback.REPREFILL, fingerprint=other)
    assert whole.lost == ()
    assert whole.tokens_computed == len(session.state)
    snapshot = session.snapshot()
    blind = replace(snapshot, tensors={
        name: tensor for name, tensor in snapshot.tensors.items() if not name.startswith('image.')
    })
    back = session.restored(Fallback.REPREFILL, snapshot=blind, fingerprint=other)
    assert back.lost == ('scene', 'scratch')
    assert [one.name for one in back.state.segments] == ['goal', 'history']


def test_image_of_which_a_part_is_damaged_is_no_image() -> None:
    """A model never sees the half of an image."""
    session = Session('qwen-image/full')
    taken = take_snapshot(session.state, session.fingerprint)
    pixels = next(name for name in taken.tensors if name.endswith('pixel_values'))
    bad = bytearray(b''.join(taken.parts()))
    bad[bad.index(taken.tensors[pixels].numpy().tobytes()[:400])] ^= 1
    back = session.restored(Fallback.REPREFILL, snapshot=Snapshot.from_bytes(bad))
    assert f'tensor {pixels} is damaged' in back.reason
    assert back.lost == ('scene', 'scratch')


def test_full_pool_is_a_typed_error_and_takes_nothing() -> None:
    """No room is no reason to compute: the caller frees some and tries again."""
    session, pool = Session(), BlockPool(10_000)
    with pytest.raises(PoolFullError):
        session.restored(Fallback.REPREFILL, pool=pool)
    assert pool.used_bytes == 0


def test_later_format_is_refused() -> None:
    """A file of a later version is not guessed at."""
    session = Session()
    taken = take_snapshot(session.state, session.fingerprint)
    later = replace(taken, meta={**taken.meta, 'format': 9})
    with pytest.raises(Corrupt, match='format 9 is not known, 1 is'):
        Snapshot.from_bytes(bytearray(b''.join(later.parts())))
