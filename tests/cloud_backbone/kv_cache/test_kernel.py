# SPDX-License-Identifier: Apache-2.0
from concurrent.futures import ThreadPoolExecutor

from cloud_backbone.kv_cache import compiled_kernel, kernel
from cloud_backbone.kv_cache.errors import CacheError, CalibrationError
from cloud_backbone.kv_cache.int8 import Int8Codec
from cloud_backbone.kv_cache.kivi import KiviCodec
from cloud_backbone.kv_cache.oaken import OakenCodec
from cloud_backbone.kv_cache.raw import RawCodec
import pytest
import torch

CODECS = {
    'float32': lambda head_dim, slots: RawCodec(head_dim, torch.float32, slots),
    'float16': lambda head_dim, slots: RawCodec(head_dim, torch.float16, slots),
    'bfloat16': lambda head_dim, slots: RawCodec(head_dim, torch.bfloat16, slots),
    'int8': Int8Codec,
    'grouped4': lambda head_dim, slots: KiviCodec(head_dim, 4, slots),
    'grouped2': lambda head_dim, slots: KiviCodec(head_dim, 2, slots),
    'oaken': OakenCodec,
}
HEAD_DIMS = (16, 24, 80, 128)
HEADS = 2
EMPTY = 5
"""Pages of an arena that belong to nobody."""
each_codec = pytest.mark.parametrize('name', CODECS)
needs_library = pytest.mark.skipif(
    compiled_kernel.library() is None, reason='no compiler was there when Tendon was installed'
)


@pytest.fixture(autouse=True)
def forget_choice(monkeypatch):
    """Each test chooses its loops anew, whatever the environment says."""
    monkeypatch.delenv(kernel.VARIABLE, raising=False)
    kernel.is_compiled.cache_clear()
    yield
    kernel.is_compiled.cache_clear()


@pytest.fixture
def use_torch(monkeypatch):
    """No compiled loops."""
    monkeypatch.setenv(kernel.VARIABLE, 'torch')


class Pages:
    """Random keys and values in pages that lie anywhere in arenas full of garbage."""

    def __init__(self, name, head_dim=64, slots=32, blocks=3, seed=0):
        self.generator = torch.Generator().manual_seed(seed)
        self.codec = CODECS[name](head_dim, slots)
        shape = (HEADS, blocks * slots, head_dim)
        offsets = 3 * self.random(HEADS, 1, head_dim)  # channels that are not centred
        key, value = self.codec.encode_key(self.random(*shape) + offsets), \
            self.codec.encode_value(self.random(*shape) + offsets)
        self.key, self.value = self.codec.decode_key(key), self.codec.decode_value(value)
        self.table = torch.randperm(HEADS * blocks + EMPTY, generator=self.generator)
        self.table = self.table[:HEADS * blocks].view(HEADS, blocks)
        self.key_arena, self.value_arena = self.arena(key), self.arena(value)

    def random(self, *shape):
        return torch.randn(*shape, generator=self.generator)

    def arena(self, pages):
        """Put pages where the table says; bytes of 255 everywhere else are NaN in any format."""
        arena = torch.full((self.table.numel() + EMPTY, pages.shape[2]), 255, dtype=torch.uint8)
        arena[self.table] = pages
        return arena

    def query(self, rows):
        return self.random(HEADS, rows, self.key.shape[2])

    def weights(self, rows):
        return self.random(HEADS, rows, self.key.shape[1]).softmax(-1)

    def scores(self, query):
        return kernel.key_scores(self.codec, self.key_arena, self.table, query)

    def mixture(self, weights):
        return kernel.value_mix(self.codec, self.value_arena, self.table, weights)


def assert_near(found, expected):
    """Differences are those of the order of float32 sums."""
    assert found.shape == expected.shape and found.dtype == torch.float32
    assert (found - expected).abs().max() <= 1e-5 * expected.abs().max()


@needs_library
@each_codec
@pytest.mark.parametrize('slots', [8, 24, 32, 64])
def test_compiled_equals_decode_and_multiply(name, slots):
    """All formats, vectors of all processors, and sizes that do not fill a vector."""
    for head_dim in HEAD_DIMS:
        pages = Pages(name, head_dim, slots, blocks=2)
        keys = pages.codec, pages.key_arena, pages.table
        values = pages.codec, pages.value_arena, pages.table
        for rows in (1, 3, 32):
            query, weights = pages.query(rows), pages.weights(rows)
            scores, mixture = query @ pages.key.mT, weights @ pages.value
            for lanes in (4, 8, 16):
                assert_near(compiled_kernel.key_scores(*keys, query, lanes), scores)
                assert_near(compiled_kernel.value_mix(*values, weights, lanes), mixture)


@each_codec
def test_torch_equals_decode_and_multiply(name, use_torch):
    """Without compiled loops the result is the same, over several chunks, too."""
    pages = Pages(name, blocks=2 * kernel.CHUNK // 32 + 1)
    query, weights = pages.query(3), pages.weights(3)

    assert not kernel.is_compiled()
    assert_near(pages.scores(query), query @ pages.key.mT)
    assert_near(pages.mixture(weights), weights @ pages.value)


@each_codec
@pytest.mark.parametrize('way', ['', 'torch'])
@pytest.mark.parametrize('rows', [3, kernel.ROWS + 1])
def test_dead_slots_do_not_count(name, way, rows, monkeypatch):
    """Garbage without weight changes nothing, not even as NaN, be it a slot or a whole page."""
    monkeypatch.setenv(kernel.VARIABLE, way)
    pages, generator = Pages(name), torch.Generator().manual_seed(1)
    dead = torch.rand(HEADS, pages.key.shape[1], generator=generator) < 0.3
    dead[:, 32:64] = True
    weights = pages.weights(rows).masked_fill(dead[:, None], 0)
    expected = weights @ pages.value
    pages.value_arena[pages.table[:, 1]] = 255
    if name not in ('grouped4', 'grouped2'):  # there the slots of a block hold numbers together
        whole = pages.codec.decode_value(pages.value_arena[pages.table])
        pages.value_arena[pages.table] = pages.codec.write_value(
            pages.value_arena[pages.table], dead.view(HEADS, -1, 32),
            torch.full_like(whole, 1e4).view(HEADS, -1, 32, whole.shape[2]))

    assert_near(pages.mixture(weights), expected)


@pytest.mark.parametrize('way', ['', 'torch'])
def test_a_page_that_does_not_exist_is_refused(way, monkeypatch):
    """A wrong page number is an error, never memory of somebody else."""
    monkeypatch.setenv(kernel.VARIABLE, way)
    for stray in (-1, 10 ** 12, 3 * HEADS + EMPTY):
        pages = Pages('int8')
        pages.table[1, 1] = stray

        with pytest.raises(CacheError, match='pages? that an arena of 11'):
            pages.scores(pages.query(1))
        with pytest.raises(CacheError, match='pages? that an arena of 11'):
            pages.mixture(pages.weights(1))


@needs_library
def test_garbage_of_oaken_stays_within_its_page():
    """Counts of sparse elements that were never written lead to no memory of others."""
    pages = Pages('oaken', head_dim=80)
    for last in (True, False):
        garbage = torch.randint(256, pages.key_arena.shape, generator=pages.generator)
        arena = torch.full_like(garbage, 255) if last else garbage
        pages.key_arena = pages.value_arena = arena.to(torch.uint8)

        assert pages.scores(pages.query(2)).isfinite().all()
        assert pages.mixture(pages.weights(2)).isfinite().all()


@pytest.mark.parametrize('way', ['', 'torch'])
def test_oaken_without_thresholds_is_refused(way, monkeypatch):
    """Pages cannot be read before it is known what their codes mean."""
    monkeypatch.setenv(kernel.VARIABLE, way)
    pages = Pages('oaken')
    pages.codec = OakenCodec(64)

    with pytest.raises(CalibrationError):
        pages.scores(pages.query(1))


@pytest.mark.parametrize('way', ['', 'torch'])
def test_views_are_read_as_they_are(way, monkeypatch):
    """Tables, queries and weights may be parts of larger tensors."""
    monkeypatch.setenv(kernel.VARIABLE, way)
    pages = Pages('grouped4')
    query, weights = pages.query(4)[:, ::2], pages.weights(4)[:, 1:3]
    expected = query @ pages.key.mT, weights @ pages.value
    wide = torch.full((HEADS, 7), -1)
    wide[:, 2:5] = pages.table

    for table in (wide[:, 2:5], pages.table.mT.contiguous().mT):
        pages.table = table
        assert_near(pages.scores(query), expected[0])
        assert_near(pages.mixture(weights), expected[1])


@pytest.mark.parametrize('way', ['', 'torch'])
def test_no_blocks_are_no_slots(way, monkeypatch):
    """An empty shelf has no scores, and its mixture is zero."""
    monkeypatch.setenv(kernel.VARIABLE, way)
    for name in CODECS:
        pages = Pages(name)
        pages.table = pages.table[:, :0]

        assert pages.scores(pages.query(2)).shape == (HEADS, 2, 0)
        assert torch.equal(pages.mixture(torch.zeros(HEADS, 2, 0)), torch.zeros(HEADS, 2, 64))


def test_torch_decodes_a_chunk_at_a_time(use_torch, monkeypatch):
    """However long the context is, no more than a chunk of it exists as floats."""
    pages, most = Pages('int8', slots=64, blocks=40), []
    decode = Int8Codec.decode_key
    monkeypatch.setattr(
        Int8Codec, 'decode_key',
        lambda codec, part: most.append(part.shape[1] * 64) or decode(codec, part))

    pages.scores(pages.query(1))

    assert sum(most) == 40 * 64 and max(most) <= kernel.CHUNK


@needs_library
def test_few_rows_are_compiled_and_many_are_not(monkeypatch):
    """Decoding takes the compiled loops; a prefill takes torch's matrix product."""
    taken = []
    compiled = compiled_kernel.key_scores
    monkeypatch.setattr(
        compiled_kernel, 'key_scores', lambda *told: taken.append(told) or compiled(*told))
    pages = Pages('grouped4')

    for rows, calls in ((kernel.ROWS, 1), (kernel.ROWS + 1, 1)):
        query = pages.query(rows)
        assert_near(pages.scores(query), query @ pages.key.mT)
        assert len(taken) == calls


def test_a_format_without_compiled_loops_is_read_by_torch():
    """A codec that the library does not know works all the same."""
    pages = Pages('int8')
    pages.codec.layout = 'of tomorrow'
    query = pages.query(1)

    assert_near(pages.scores(query), query @ pages.key.mT)


def test_an_unknown_choice_is_refused(monkeypatch):
    """A misspelt environment variable does not pass in silence."""
    monkeypatch.setenv(kernel.VARIABLE, 'fast')

    with pytest.raises(CacheError, match="'fast'.*torch"):
        kernel.is_compiled()


@needs_library
def test_a_library_of_another_version_is_not_called(monkeypatch, caplog):
    """What was built from older sources is reported, and torch serves."""
    compiled_kernel.library.cache_clear()
    monkeypatch.setattr(compiled_kernel, 'REVISION', -1)
    try:
        assert compiled_kernel.library() is None
        assert 'build again' in caplog.text
    finally:
        compiled_kernel.library.cache_clear()


def test_a_broken_library_is_not_called(monkeypatch, caplog, tmp_path):
    """A file that is no library is reported, and torch serves."""
    compiled_kernel.library.cache_clear()
    (tmp_path / '_kernel.so').write_bytes(b'no library')
    monkeypatch.setattr(compiled_kernel, 'LIBRARY', tmp_path / '_kernel.so')
    try:
        assert compiled_kernel.library() is None
        assert 'torch serves' in caplog.text
    finally:
        compiled_kernel.library.cache_clear()


def test_threads_do_not_disturb_each_other():
    """Two sessions on two threads get what each would get alone."""
    sessions = [Pages('grouped4', blocks=40, seed=seed) for seed in range(4)]
    given = [(pages, pages.query(3), pages.weights(3)) for pages in sessions]

    def both(one):
        pages, query, weights = one
        return pages.scores(query), pages.mixture(weights)

    alone = [both(one) for one in given]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(both, given * 8))

    for index, (scores, mixture) in enumerate(together):
        assert torch.equal(scores, alone[index % 4][0])
        assert torch.equal(mixture, alone[index % 4][1])
