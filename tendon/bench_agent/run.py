# SPDX-License-Identifier: Apache-2.0
"""Runs ``tendon bench agent`` from the script to the JSON line."""

import json
from pathlib import Path
import tempfile
import time

from rich.console import Console
from rich.progress import Progress
from tendon.bench_agent.contestants import peers, torch_arms
from tendon.bench_agent.edits import measure_edits
from tendon.bench_agent.exactness import distances
from tendon.bench_agent.figures import CACHE_KEYS, CacheFindings, figures, Findings
from tendon.bench_agent.ours import Exact
from tendon.bench_agent.picture import draw_race
from tendon.bench_agent.race import race
from tendon.bench_agent.restoring import restore_over_prefill
from tendon.bench_agent.script import Script
from tendon.bench_agent.size import FULL, QUICK, Size
from tendon.bench_agent.subjects import own
from tendon.bench_agent.table import print_edits, print_figures, print_missing, print_race
from tendon.bench_kv.subject import smollm2, Subject
from tendon.errors import BadRequest
import torch

PARTS = ('cache', 'tasks', 'moves')


def run(
    out: Path = Path('runs/agent'), seed: int = 7, quick: bool = False, part: str = 'all',
    weights: Path | None = None, checkpoint: Path | None = None, workers: int | None = None,
) -> int:
    """Measure what the agent's memory costs and what it is good for, and report.

    Args:
        out: folder for the picture and the JSON.
        seed: of script, scenes and mishaps.
        quick: few turns and tasks, and the checkpoint alone; shows that everything runs.
        part: one of ``PARTS``, or all.
        weights: folder of the converted SmolLM2; None: that of the user's cache.
        checkpoint: Tendon's model; None: the shipped one.
        workers: processes for tasks; None takes one per core.

    Returns:
        Exit status 0; what is measured is no verdict.

    Raises:
        BadRequest: there is no such part, or the weights are not there.
    """
    if part not in (*PARTS, 'all'):
        raise BadRequest(f'no part {part!r}; there are {", ".join(PARTS)}, all')
    start_s = time.monotonic()
    torch.set_num_threads(1)  # all arms compute with one
    console, findings = Console(), Findings()
    out.mkdir(parents=True, exist_ok=True)
    if part in ('cache', 'all'):
        _measure_cache(findings, seed, quick, weights, checkpoint, out, console)
    # Imported here: the environment of the peers has no simulator.
    if part in ('tasks', 'all'):
        from tendon.bench_agent.tasks import measure_tasks

        findings.tasks = measure_tasks(seed, quick, checkpoint, workers, out, console)
    if part in ('moves', 'all'):
        from tendon.bench_agent.moves import measure_moves

        findings.moves = measure_moves(seed, quick, checkpoint, workers, out, console)
    found = figures(findings, seed)
    print_figures(found, CACHE_KEYS, console)
    found['wall_s'] = round(time.monotonic() - start_s, 1)
    (out / 'agent.json').write_text(json.dumps(found, indent=2) + '\n')
    print(json.dumps(found))
    return 0


def _measure_cache(
    findings: Findings, seed: int, quick: bool, weights: Path | None, checkpoint: Path | None,
    out: Path, console: Console,
) -> None:
    """Measure the cache with SmolLM2 and all peers, then with the checkpoint."""
    size = QUICK if quick else FULL
    subjects = [own(checkpoint)] if quick else [smollm2(weights), own(checkpoint)]
    for subject in subjects:
        found, missing = _measure(subject, size, seed, console)
        findings.cache.append(found)
        findings.missing |= missing
        title = f'{found.model}, {size.turns} turns'
        print_race(found.race, size, console, title)
        print_edits(found.edits, console)
        print_missing(missing, found.race, console)
    first = findings.cache[0]
    draw_race(first.race, first.edits, out / 'agent.png', f'{first.model}, {size.turns} turns')


def _measure(
    subject: Subject, size: Size, seed: int, console: Console
) -> tuple[CacheFindings, dict[str, str]]:
    others, missing = peers(subject)
    found = CacheFindings(subject.name, size)
    with Progress(console=console) as progress, tempfile.TemporaryDirectory() as folder:
        bar = progress.add_task(subject.name, total=size.turns + 3)
        turns = Script(subject.encode, size, seed).turns()
        arms = [*torch_arms(subject, size), *others]
        found.race = race(
            arms, turns, size, lambda: progress.advance(bar), Exact(subject.model, size.most)
        )
        found.distances = distances(subject, size, seed, Path(folder))
        progress.advance(bar)
        found.edits = measure_edits(subject, size, seed)
        progress.advance(bar)
        found.restore_over_prefill, found.stored_bytes = restore_over_prefill(
            subject, size, seed, Path(folder)
        )
        progress.advance(bar)
    return found, missing
