# SPDX-License-Identifier: Apache-2.0
"""Puts all findings into the one JSON object that the bench ends with."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tendon.bench_kv.bias import FOUR_BITS
from tendon.bench_kv.contestants import missing_peers
from tendon.bench_kv.equal_bytes import compare
from tendon.bench_kv.passage import fingerprint
from tendon.bench_kv.pooled import pool, Sample
from tendon.bench_kv.quality import Quality
from tendon.bench_kv.size import Size
from tendon.bench_kv.table import label
from tendon.bench_kv.workers import Failure
from tendon.provenance import provenance
import torch
import transformers

REFERENCE = 'DynamicCache'
RESERVED = 'full reserved'
FIXED = 'sinks'
"""Policy at fixed slots that the speed-ups are of."""


@dataclass
class Findings:
    """All that was measured."""

    entries: list[Quality] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    """Of the methods that read several passages."""
    entry_ms: dict[tuple[str, float | None], float] = field(default_factory=dict)
    """By name and share."""
    decode_ms: dict[int, dict[str, float]] = field(default_factory=dict)
    """By context and method."""
    prefill_ms: dict[int, dict[str, float]] = field(default_factory=dict)
    """By context and method; of one layer."""
    drift: dict[str, dict[str, Any]] = field(default_factory=dict)
    biased: dict[str, float] = field(default_factory=dict)


def comparisons(findings: Findings, size: Size) -> dict[str, Any]:
    """Return who is best at each share of the bytes."""
    return {
        str(Fraction(share).limit_denominator(64)): compare(findings.entries, share)
        for share in size.shares
    }


def overhead(prefill_ms: dict[int, dict[str, float]]) -> dict[int, dict[str, float]]:
    """Return what each method adds to a prefill, of the reference's time."""
    return {
        length: {name: round(ms / times[REFERENCE] - 1, 3) for name, ms in times.items()}
        for length, times in prefill_ms.items()
    }


def figures(findings: Findings, size: Size, model: str, seed: int) -> dict[str, Any]:
    """Return the JSON object; what could not be measured is None."""
    four_bits = [findings.biased[name] for name in FOUR_BITS if name in findings.biased]
    return {
        'policies': _entries(findings, ours=True),
        'peers': _entries(findings, ours=False),
        'pooled': pool(findings.samples),
        'decode_speedup_8k': _speedup(findings, 8192, FIXED),
        'decode_speedup_16k': _speedup(findings, 16384, FIXED),
        'prealloc_speedup': _speedup(findings, 8192, RESERVED),
        'biased_top1': min(four_bits, default=None),
        'biased': findings.biased,
        'equal_bytes': comparisons(findings, size),
        'decode_ms': _rounded(findings.decode_ms),
        'prefill_overhead': overhead(findings.prefill_ms),
        'drift': findings.drift,
        'missing': missing_peers(),
        'failed': {label(one.name, one.share): one.reason for one in findings.failures},
        'model': model, 'context': size.context, 'recall_context': size.recall,
        'text': fingerprint(),
        'torch': torch.__version__, 'transformers': transformers.__version__,
        **provenance(seed),
    }


def _entries(findings: Findings, ours: bool) -> dict[str, dict[str, Any]]:
    return {
        label(entry.name, entry.share): {
            'bytes_ratio': round(entry.bytes_ratio, 3),
            'bytes_ratio_end': round(entry.bytes_ratio_end, 3),
            'nll_rise': round(entry.nll_rise, 5),
            'nll_rise_error': round(entry.nll_rise_error, 5), 'kl': round(entry.kl, 5),
            'top1': round(entry.top1, 4),
            'recall_in_window': entry.recall_in_window,
            'recall_outside': entry.recall_outside,
            'ms_per_token': _round(findings.entry_ms.get((entry.name, entry.share))),
        }
        for entry in findings.entries if (entry.maker == 'tendon') == ours
    }


def _speedup(findings: Findings, length: int, name: str) -> float | None:
    times = findings.decode_ms.get(length, {})
    return round(times[REFERENCE] / times[name], 2) if name in times else None


def _rounded(times: dict[int, dict[str, float]]) -> dict[int, dict[str, float | None]]:
    return {
        length: {name: _round(ms) for name, ms in row.items()} for length, row in times.items()
    }


def _round(time_ms: float | None) -> float | None:
    return None if time_ms is None else round(time_ms, 2)
