# SPDX-License-Identifier: Apache-2.0
"""What every codec promises; a new codec joins CODECS."""

from collections.abc import Callable

from cloud_backbone.kv_cache.codec import Codec
from cloud_backbone.kv_cache.errors import CacheError
from cloud_backbone.kv_cache.int8 import Int8Codec
from cloud_backbone.kv_cache.kivi import KiviCodec
from cloud_backbone.kv_cache.raw import RawCodec
from cloud_backbone.kv_cache.squat import SquatCodec
import pytest
import torch
from torch import Tensor

HEADS, BLOCKS = 2, 3
Make = Callable[[int, int], Codec]


def taught_squat(head_dim: int, slots: int, bits: int) -> Codec:
    codec = SquatCodec(head_dim, HEADS, bits, slots)
    codec.learn(normal(HEADS, 48, head_dim, seed=9))
    return codec


# Name -> (make of head_dim and slots, largest relative error on normal values).
CODECS: dict[str, tuple[Make, float]] = {
    'raw': (lambda head_dim, slots: RawCodec(head_dim, slots=slots), 0.0),
    'raw16': (lambda head_dim, slots: RawCodec(head_dim, torch.float16, slots), 0.0005),
    'bfloat16': (lambda head_dim, slots: RawCodec(head_dim, torch.bfloat16, slots), 0.003),
    'int8': (Int8Codec, 0.01),
    'kivi4': (lambda head_dim, slots: KiviCodec(head_dim, 4, slots), 0.12),
    'kivi2': (lambda head_dim, slots: KiviCodec(head_dim, 2, slots), 0.55),
    'squat4': (lambda head_dim, slots: taught_squat(head_dim, slots, 4), 0.3),
    'squat2': (lambda head_dim, slots: taught_squat(head_dim, slots, 2), 1.5),
}
SHAPES = [(16, 8), (64, 16), (64, 32), (80, 32), (128, 64)]


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(params=CODECS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def codec(name: str) -> Codec:
    return CODECS[name][0](64, 32)


@pytest.mark.parametrize(('head_dim', 'slots'), SHAPES)
def test_pages_have_the_size_the_codec_states(name: str, head_dim: int, slots: int) -> None:
    """Pages are bytes (kv_heads, blocks, bytes), and come back float32 in the shape given."""
    codec = CODECS[name][0](head_dim, slots)
    given = normal(HEADS, BLOCKS * slots, head_dim)
    keys, values = codec.encode_key(given), codec.encode_value(given)
    assert keys.shape == (HEADS, BLOCKS, codec.key_bytes) and codec.key_bytes % 4 == 0
    assert values.shape == (HEADS, BLOCKS, codec.value_bytes) and codec.value_bytes % 4 == 0
    assert keys.dtype == values.dtype == torch.uint8
    for back in (codec.decode_key(keys), codec.decode_value(values)):
        assert back.shape == given.shape and back.dtype == torch.float32


@pytest.mark.parametrize(('head_dim', 'slots'), SHAPES)
def test_what_comes_back_is_close(name: str, head_dim: int, slots: int) -> None:
    """The relative error of normal values stays below the codec's own bound."""
    make, bound = CODECS[name]
    codec = make(head_dim, slots)
    given = normal(HEADS, BLOCKS * slots, head_dim)
    for back in (
        codec.decode_key(codec.encode_key(given)), codec.decode_value(codec.encode_value(given))
    ):
        assert (back - given).norm() <= bound * given.norm()


def test_each_block_and_head_is_encoded_for_itself(codec: Codec) -> None:
    """A block's pages are the same alone and among others."""
    given = normal(HEADS, BLOCKS * codec.slots, 64)
    alone = given[:, codec.slots:2 * codec.slots]
    assert torch.equal(codec.encode_key(given)[:, 1:2], codec.encode_key(alone))
    assert torch.equal(codec.encode_value(given)[:, 1:2], codec.encode_value(alone))
    assert torch.equal(
        codec.decode_key(codec.encode_key(given))[:, codec.slots:2 * codec.slots],
        codec.decode_key(codec.encode_key(alone)),
    )


def test_no_block_gives_no_page(codec: Codec) -> None:
    """Nothing in, nothing out."""
    empty = torch.zeros(HEADS, 0, 64)
    assert codec.encode_key(empty).shape == (HEADS, 0, codec.key_bytes)
    assert codec.decode_value(codec.encode_value(empty)).shape == (HEADS, 0, 64)


@pytest.mark.parametrize('value', [0.0, 5.0, -3e-9, 1e-40])
def test_constant_groups_are_kept(codec: Codec, value: float) -> None:
    """Values without any spread come back, not as NaN."""
    given = torch.full((HEADS, codec.slots, 64), value)
    for back in (
        codec.decode_key(codec.encode_key(given)), codec.decode_value(codec.encode_value(given))
    ):
        torch.testing.assert_close(back, given, rtol=1e-2, atol=1e-6)


@pytest.mark.parametrize('value', [7e4, 1e30, 3e38])
def test_values_beyond_float16_stay_finite(codec: Codec, value: float) -> None:
    """A scale or minimum that float16 cannot hold is clamped, not infinite."""
    given = normal(HEADS, codec.slots, 64)
    given[:, ::5, ::3], given[:, ::7, ::3] = value, -value
    assert codec.decode_key(codec.encode_key(given)).isfinite().all()
    assert codec.decode_value(codec.encode_value(given)).isfinite().all()


def test_half_precision_input_is_welcome(codec: Codec) -> None:
    """Keys of any float dtype are encoded as their float32 values are."""
    given = normal(HEADS, codec.slots, 64).bfloat16()
    assert torch.equal(codec.encode_key(given), codec.encode_key(given.float()))
    assert torch.equal(codec.encode_value(given), codec.encode_value(given.float()))


def test_what_is_given_is_not_written_to(codec: Codec) -> None:
    """Encoding leaves the keys alone."""
    given = normal(HEADS, codec.slots, 64)
    before = given.clone()
    codec.encode_key(given)
    codec.encode_value(given)
    assert torch.equal(given, before)


def test_a_slot_is_overwritten_alone_or_not_at_all(codec: Codec) -> None:
    """Slots outside the mask keep their values bit for bit; a codec of whole blocks refuses."""
    given, fresh = normal(HEADS, BLOCKS * 32, 64), normal(HEADS, BLOCKS, 32, 64, seed=1)
    mask = normal(HEADS, BLOCKS, 32, seed=2) > 1
    fresh[~mask] = float('nan')
    if codec.group != 1:
        with pytest.raises(CacheError, match='32 slots at a time'):
            codec.write_key(codec.encode_key(given), mask, fresh)
        return
    for encode, decode, write in (
        (codec.encode_key, codec.decode_key, codec.write_key),
        (codec.encode_value, codec.decode_value, codec.write_value),
    ):
        pages = encode(given)
        before, written = pages.clone(), write(pages, mask, fresh)
        expected = torch.where(mask.flatten(1)[..., None], fresh.flatten(1, 2), given)
        assert torch.equal(written, encode(torch.where(expected.isnan(), given, expected)))
        assert torch.equal(decode(written)[~mask.flatten(1)], decode(pages)[~mask.flatten(1)])
        assert torch.equal(pages, before)


@pytest.mark.parametrize(('head_dim', 'slots'), [(12, 32), (64, 12), (0, 32), (64, 0)])
def test_shapes_that_cannot_be_packed_are_refused(name: str, head_dim: int, slots: int) -> None:
    """The message names the number that does not fit."""
    with pytest.raises(CacheError, match='a multiple of 8'):
        CODECS[name][0](head_dim, slots)
