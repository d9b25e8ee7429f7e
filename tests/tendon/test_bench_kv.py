# SPDX-License-Identifier: Apache-2.0
"""Promises of the bench of the key-value cache, on a tiny random model."""

from dataclasses import replace
import json

import pytest

torch = pytest.importorskip('torch')
pytest.importorskip('transformers')
pytest.importorskip('matplotlib')

from tendon.bench_kv import workers  # noqa: E402
from tendon.bench_kv.bias import agreement_with_bias  # noqa: E402
from tendon.bench_kv.contestants import find_method, Job  # noqa: E402
from tendon.bench_kv.drift import watch_drift  # noqa: E402
from tendon.bench_kv.model_calls import rows  # noqa: E402
from tendon.bench_kv.ours import Ours  # noqa: E402
from tendon.bench_kv.passage import draw_passage, EVEN, Needle, TAIL  # noqa: E402
from tendon.bench_kv.presses import has_kvpress  # noqa: E402
from tendon.bench_kv.quality import Examination  # noqa: E402
from tendon.bench_kv.recording import record, replay  # noqa: E402
from tendon.bench_kv.resident import resident_bytes  # noqa: E402
from tendon.bench_kv.run import run  # noqa: E402
from tendon.bench_kv.size import QUICK  # noqa: E402
from tendon.bench_kv.stock_caches import Dynamic, missing_backends  # noqa: E402
from tendon.bench_kv.subject import biased, tiny  # noqa: E402
from transformers import DynamicCache  # noqa: E402

SEED = 3
METHODS = {'DynamicCache': Dynamic(), 'full': Ours('full'), 'pair': Ours('cake+squat4')}
KEYS = {
    'policies', 'peers', 'decode_speedup_8k', 'decode_speedup_16k', 'prealloc_speedup',
    'biased_top1', 'pooled', 'equal_bytes', 'missing', 'failed', 'machine', 'seed', 'commit',
}


@pytest.fixture(scope='module')
def subject():
    """The tiny model."""
    return tiny(SEED)


@pytest.fixture(scope='module')
def passage(subject):
    """A passage with two facts."""
    return draw_passage(subject.encode, 320, 16, 2, SEED)


@pytest.fixture(scope='module')
def recording(subject, passage):
    """The passage, read."""
    return record(subject.model, torch.tensor(passage.context))


@pytest.fixture(scope='module')
def examination(subject, passage):
    """Questions about the passage."""
    return Examination(subject, passage, passage, inside=1, step=4)


def test_passage_has_the_length_asked_for_and_every_fact(subject, passage):
    """Exactly so many tokens, each answer in the text, none near the end."""
    text = bytes(passage.context).decode()

    assert (len(passage.context), len(passage.continuation)) == (320, 16)
    for needle in passage.needles:
        assert f'is{bytes(needle.answer).decode()}.' in text
        assert needle.depth < 1 - TAIL / 2 / 320
        assert (320 + len(needle.question) - 1) % EVEN == 0


def test_passage_is_a_function_of_the_seed(subject, passage):
    """The same again with the same seed, another one with another."""
    assert draw_passage(subject.encode, 320, 16, 2, SEED) == passage
    assert draw_passage(subject.encode, 320, 16, 2, SEED + 1).context != passage.context


def test_replay_fills_a_cache_as_a_prefill_does(subject, recording):
    """Bit for bit, and the model is left as it was."""
    cache = DynamicCache()
    before = subject.model.model.layers[0].mlp

    replay(subject.model, recording, cache, silent=True)

    for found, true in zip(cache.layers, recording.cache.layers, strict=True):
        assert torch.equal(found.keys, true.keys)
        assert torch.equal(found.values, true.values)
    assert subject.model.model.layers[0].mlp is before
    assert subject.model.config._attn_implementation == 'sdpa'


def test_reading_on_is_reading_at_once(subject, passage, recording):
    """A recording that goes on equals one of the whole."""
    model, tokens = subject.model, torch.tensor(passage.context)
    parts = record(model, tokens[300:], record(model, tokens[:300]))

    for found, true in zip(parts.inputs, recording.inputs, strict=True):
        torch.testing.assert_close(found, true, atol=1e-5, rtol=1e-5)
    assert torch.equal(parts.tokens, tokens)


@pytest.mark.parametrize('name', METHODS)
def test_replayed_cache_answers_like_a_prefilled_one(subject, passage, recording, name):
    """The short cut changes no prediction and no byte."""
    method, model = METHODS[name], subject.model
    share = 1 / 2 if method.takes_share else None
    said, weighed = [], []
    for heard in (recording, replace(recording, inputs=())):
        cache = method.prefill(model, heard, share)
        weighed.append(method.nbytes(cache))
        with method.reading(model, cache):
            said.append(rows(model, cache, passage.continuation, 320))

    torch.testing.assert_close(*said, atol=1e-5, rtol=1e-5)
    assert weighed[0] == weighed[1]


def test_bytes_of_others_are_counted_once_at_16_bits():
    """Floats at two bytes, codes as they are, shared tensors once, nested ones too."""
    floats, codes = torch.zeros(8), torch.zeros(8, dtype=torch.uint8)

    assert resident_bytes([floats, {'scale': (floats, codes)}], codes) == 8 * 2 + 8
    assert resident_bytes([torch.zeros(8, dtype=torch.float16)]) == 16


def test_full_cache_loses_nothing(examination):
    """The policy that keeps everything predicts what the reference predicts."""
    found = examination.judge(Ours('full'), None)

    assert found.top1 == 1
    assert abs(found.nll_rise) < 1e-6
    assert found.kl < 1e-6
    assert 0.9 < found.bytes_ratio <= 1


def test_dropping_shows_in_the_likelihood(examination):
    """A policy at a quarter of the bytes keeps to them and differs from the full cache."""
    found = examination.judge(Ours('snapkv'), 1 / 4)

    assert found.bytes_ratio >= 4
    assert found.bytes_ratio_end >= 4
    assert found.kl > 1e-6
    assert len(found.losses) == 15


def test_fact_is_found_exactly_when_greedy_decoding_says_it(subject, passage, recording):
    """The answer that the model gives counts, any other does not."""
    model, question, said = subject.model, [5, 9], []
    cache = Dynamic().prefill(model, recording, None)
    logits = rows(model, cache, question, len(passage.context))
    for step in range(3):
        said.append(int(logits[-1].argmax()))
        logits = rows(model, cache, said[-1:], len(passage.context) + 2 + step)
    wrong = [*said[:2], (said[2] + 1) % 128]

    for answer, recall in ((said, 1.0), (wrong, 0.0)):
        asked = replace(passage, needles=(Needle(0.5, question, answer),))
        exam = Examination(subject, passage, asked, inside=1, step=4)
        assert exam.judge(Dynamic(), None).recall_outside == recall


def test_bias_makes_keys_long_only_where_it_lies(recording):
    """First and last layer, slowest channels; the layer between is untouched."""
    subject = biased(tiny(SEED))
    again = record(subject.model, recording.tokens)
    length = [float(layer.keys.norm(dim=-1).mean()) for layer in again.cache.layers]
    before = [float(layer.keys.norm(dim=-1).mean()) for layer in recording.cache.layers]

    assert length[0] > 50 * before[0]
    assert length[2] > 50 * before[2]
    assert length[1] < 2 * before[1]


def test_agreement_with_bias_is_a_share():
    """The full policy agrees always."""
    found = agreement_with_bias(tiny(SEED), QUICK, SEED, ('full', 'kivi4'))

    assert found['full'] == 1
    assert 0 <= found['kivi4'] <= 1


def test_drift_of_the_full_policy_is_none(subject):
    """No rise in any turn, and the positions are known."""
    found = watch_drift(subject, QUICK, SEED, ('full',))['full']

    assert all(abs(rise) < 1e-4 for rise in found['nll_rise'])
    assert len(found['nll_rise']) == QUICK.turns - 1
    assert found['positions_exact']


def test_method_that_fails_is_named_and_the_others_go_on():
    """A failure is a result with its reason."""
    worker = workers.Worker(QUICK, SEED, None)

    (failed,) = worker(Job('no such policy', (None,)))
    (good,) = worker(Job('DynamicCache', (None,)))

    assert 'no such policy' in failed.reason
    assert good.top1 == 1


@pytest.mark.filterwarnings('ignore::DeprecationWarning')  # of what kvpress imports
@pytest.mark.skipif(not has_kvpress(), reason='needs kvpress')
@pytest.mark.parametrize('name', ['SnapKV', 'TOVA', 'ExpectedAttention'])
def test_press_keeps_exactly_what_it_is_told(subject, recording, name):
    """A quarter of the tokens, in every layer."""
    cache = find_method(name, False).prefill(subject.model, recording, 1 / 4)

    assert {layer.keys.shape[2] for layer in cache.layers} == {80}


@pytest.mark.skipif('quanto' in missing_backends(), reason='needs optimum-quanto')
def test_quantized_cache_is_weighed_with_its_scales(subject, recording):
    """4 bits and a 16-bit scale and shift for each 64 numbers."""
    method = find_method('quanto4', False)
    cache = method.prefill(subject.model, recording, None)

    assert method.nbytes(cache) == pytest.approx(320 * subject.bytes_per_token * 4.5 / 16)


@pytest.mark.filterwarnings('ignore::DeprecationWarning')  # of what kvpress imports
def test_quick_bench_ends_with_one_json_line(tmp_path, capsys):
    """Table, picture and JSON; every policy of the quick size is in it."""
    assert run(out=tmp_path, seed=SEED, quick=True) == 0

    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(found) >= KEYS
    assert {'full', 'kivi4', 'cake+squat4 1/2', 'snapkv 1/4'} <= set(found['policies'])
    assert set(found['policies']['full']) >= {
        'bytes_ratio', 'nll_rise', 'recall_in_window', 'recall_outside', 'ms_per_token',
    }
    assert not found['failed']
    assert (tmp_path / 'kv.png').stat().st_size > 10_000
    assert json.loads((tmp_path / 'kv.json').read_text())['seed'] == SEED
