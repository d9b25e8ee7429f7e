# SPDX-License-Identifier: Apache-2.0
"""Runs ``tendon bench kv`` from the passages to the JSON line."""

from collections.abc import Collection, Sequence
import json
import os
from pathlib import Path
import time

from rich.console import Console
from rich.progress import Progress
from tendon.bench_kv.bias import agreement_with_bias, FOUR_BITS
from tendon.bench_kv.contestants import draw_jobs, known_methods, missing_peers
from tendon.bench_kv.drift import watch_drift
from tendon.bench_kv.entry_speed import entry_times
from tendon.bench_kv.figures import comparisons, figures, Findings, FIXED, overhead, REFERENCE
from tendon.bench_kv.picture import draw_entries
from tendon.bench_kv.pooled import pool
from tendon.bench_kv.size import FULL, QUICK, Size
from tendon.bench_kv.smollm2 import convert
from tendon.bench_kv.speed import decode_times, prefill_times
from tendon.bench_kv.subject import default_folder, shape, SMOLLM2
from tendon.bench_kv.table import print_by_length, print_entries, print_notes, print_pooled
from tendon.bench_kv.workers import Failure, judge_all, PassageWorker, Worker

DRIFTERS = ('full', 'kivi4', 'cake+squat4', 'quanto4', 'SnapKV')
BIASED = ('int8', *FOUR_BITS, 'kivi2', 'squat2', 'quanto4', 'hqq4', 'quanto2', 'hqq2')
RACERS = (FIXED, 'cake', 'cake+squat4')
"""Timed at fixed slots."""
PREFILLS = (REFERENCE, 'cake+squat4', 'veda+oaken', 'quanto4', 'SnapKV')
PREFILL_SHARE = 1 / 4
ENTRY_ROUNDS = 3
"""Repetitions where dozens of entries are timed."""


def run(
    out: Path = Path('runs/kv'), seed: int = 7, quick: bool = False,
    weights: Path | None = None, workers: int | None = None,
) -> int:
    """Measure every policy and every peer that is installed, and report.

    Args:
        out: folder for the picture and the JSON.
        seed: draws text, facts and random numbers.
        quick: a tiny random model instead of SmolLM2; shows that everything runs.
        weights: folder of the converted weights; None: that of the user's cache.
        workers: processes that judge; None takes one per core.

    Returns:
        Exit status 0; what is measured is no verdict.

    Raises:
        BadRequest: the weights are not there; the text says how to get them.
    """
    start_s = time.monotonic()
    console = Console()
    size = QUICK if quick else FULL
    worker = Worker(size, seed, None if quick else convert(weights or default_folder()))
    processes = 1 if quick else workers or os.cpu_count() or 1
    findings = Findings()
    _judge(findings, worker, processes, console)
    _pool(findings, worker, processes, console)
    _measure(findings, worker, console)
    model = 'tiny random' if quick else SMOLLM2
    _report(findings, size, out, console, f'{model}, {size.context} tokens')
    found = figures(findings, size, model, seed)
    found['wall_s'] = round(time.monotonic() - start_s, 1)
    (out / 'kv.json').write_text(json.dumps(found, indent=2) + '\n')
    print(json.dumps(found))
    return 0


def _judge(findings: Findings, worker: Worker, processes: int, console: Console) -> None:
    jobs = draw_jobs(worker.size, with_tokenizer=worker.weights is not None)
    with Progress(console=console) as progress:
        found = judge_all(worker, jobs, processes)
        for batch in progress.track(found, len(jobs), description='quality'):
            for one in batch:
                if isinstance(one, Failure):
                    findings.failures.append(one)
                else:
                    findings.entries.append(one)
    order = {job.method: number for number, job in enumerate(jobs)}
    findings.entries.sort(key=lambda entry: (order[entry.name], -(entry.share or 1)))


def _pool(findings: Findings, worker: Worker, processes: int, console: Console) -> None:
    """Let some methods read several passages at the middle share."""
    size = worker.size
    share = size.shares[len(size.shares) // 2]
    reader = PassageWorker(worker, _known(size.pooled, known_methods()), share)
    seeds = [worker.seed + 1 + number for number in range(size.passages)]
    with Progress(console=console) as progress:
        found = judge_all(reader, seeds, processes)
        for samples in progress.track(found, len(seeds), description='passages'):
            findings.samples += samples
    findings.samples.sort(key=lambda sample: sample.seed)


def _measure(findings: Findings, worker: Worker, console: Console) -> None:
    """Measure what must have the machine for itself."""
    size, seed, subject = worker.size, worker.seed, worker.subject()
    names = known_methods()
    with Progress(console=console) as progress:
        for length in progress.track(size.lengths, description='decode'):
            findings.decode_ms[length] = decode_times(
                subject, length, size.slots, size.rounds, _known(RACERS, names)
            )
        layer = shape(seed, layers=1, small=worker.weights is None)
        for length in progress.track(size.lengths, description='prefill'):
            # The longest takes as long as all others together.
            rounds = 1 if length > size.context * 2 else size.rounds
            findings.prefill_ms[length] = prefill_times(
                layer, length, rounds, _known(PREFILLS, names), PREFILL_SHARE
            )
        rest = progress.add_task('time per token, drift, bias', total=3)
        findings.entry_ms = entry_times(subject, findings.entries, size.context, ENTRY_ROUNDS)
        progress.advance(rest)
        findings.drift = watch_drift(subject, size, seed, _known(DRIFTERS, names))
        progress.advance(rest)
        findings.biased = agreement_with_bias(subject, size, seed, _known(BIASED, names))
        progress.advance(rest)


def _known(wanted: Sequence[str], names: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in wanted if name in names)


def _report(
    findings: Findings, size: Size, out: Path, console: Console, title: str
) -> None:
    print_entries(findings.entries, findings.entry_ms, console, title)
    print_pooled(pool(findings.samples), console)
    print_by_length(findings.decode_ms, console, 'Decoding step by context [ms]', '.1f')
    print_by_length(
        overhead(findings.prefill_ms), console, 'Added to the prefill by context', '+.0%'
    )
    print_notes(comparisons(findings, size), missing_peers(), findings.failures, console)
    draw_entries(findings.entries, out / 'kv.png', title)
