# SPDX-License-Identifier: Apache-2.0
"""Runs ``tendon bench transport``: contestants take turns, round by round, so load hits all."""

from __future__ import annotations

from contextlib import ExitStack
import json
import os
from pathlib import Path
import time

from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.plan_decoder import PlanDecoder
from rich.console import Console
from rich.progress import Progress
from tendon.bench_transport.byte_counter import ByteCounter
from tendon.bench_transport.contestant import Contestant, Running, this_python
from tendon.bench_transport.peer_environments import find_python
from tendon.bench_transport.report import figures, print_table, Result
from tendon.bench_transport.rounds import SEED
from tendon.errors import BadRequest
from tendon.provenance import provenance

WARM_UP, COUNTED = 20, 20
_HERE = 'tendon.bench_transport'
_SIZES = {'ours': ('128', '128'), 'ours_full_size': ('640', '480')}
_LEROBOT_PAD_S = 1 / 30  # its default inference_latency


def run(
    out: Path = Path('runs/transport'), rounds: int = 5, calls: int = 200,
    openpi_python: Path | None = None, lerobot_python: Path | None = None,
) -> int:
    """Measure, print a table and, as the last line, one JSON object; return 0.

    Args:
      out: folder for logs and the JSON.
      rounds: of each contestant, in turn.
      calls: of a round.
      openpi_python: of an environment with openpi-client; None: that of the user's cache.
      lerobot_python: the same for lerobot.

    Raises:
      BadRequest: for counts below 1 and 2, or an interpreter that lacks its peer.
      PartDied, PartNotReady: if a process does not run.
    """
    if rounds < 1 or calls < 2:
        raise BadRequest(f'rounds is {rounds}, calls {calls}; allowed: from 1 and from 2')
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    console, load_before = Console(), os.getloadavg()[0]
    contestants = _ours() + _peers(openpi_python, lerobot_python)
    results = _race(contestants, rounds, calls, out, console)
    print_table(results, console)
    found = {
        **figures(results), 'rounds': rounds, 'calls': calls, 'cores': os.cpu_count(),
        'load_before': round(load_before, 1), 'load_after': round(os.getloadavg()[0], 1),
        **provenance(SEED),
    }
    (out / 'transport.json').write_text(json.dumps(found, indent=2) + '\n')
    print(json.dumps(found))
    return 0


def _ours() -> list[Contestant]:
    """Return our robot and server, with images of the size that we ship and in full size."""
    latent = str(PlanDecoder(load_manifest('tendon_arm')).latent_size)
    return [
        Contestant(
            name, this_python(), (f'{_HERE}.instant_backbone', *size, latent),
            (f'{_HERE}.our_client',),
        )
        for name, size in _SIZES.items()
    ]


def _peers(openpi_python: Path | None, lerobot_python: Path | None) -> list[Contestant]:
    """Return the peers that are installed."""
    found = []
    openpi, lerobot = find_python('openpi', openpi_python), find_python('lerobot', lerobot_python)
    if openpi is not None:
        found.append(Contestant(
            'openpi', openpi, (f'{_HERE}.peers.openpi_server',), (f'{_HERE}.peers.openpi_client',)
        ))
    if lerobot is not None:
        found += [
            Contestant(
                name, lerobot, (f'{_HERE}.peers.lerobot_server', str(pad_s)),
                (f'{_HERE}.peers.lerobot_client',),
            )
            for name, pad_s in (('lerobot', 0.0), ('lerobot_as_shipped', _LEROBOT_PAD_S))
        ]
    return found


def _race(
    contestants: list[Contestant], rounds: int, calls: int, out: Path, console: Console
) -> dict[str, Result]:
    """Let all of them run, one round each in turn; then count bytes."""
    results = {contestant.name: Result() for contestant in contestants}
    with ExitStack() as stack, Progress(console=console) as progress:
        bar = progress.add_task('starting', total=len(contestants) * (rounds + 2))
        runners = []
        for contestant in contestants:
            runners.append(stack.enter_context(Running(contestant, out)))
            runners[-1].play(WARM_UP)
            progress.advance(bar)
        for number in range(rounds):
            progress.update(bar, description=f'round {number + 1} of {rounds}')
            for runner in runners:
                results[runner.contestant.name].rounds.append(runner.play(calls))
                progress.advance(bar)
        progress.update(bar, description='bytes')
        for runner in runners:
            _count_bytes(runner, results[runner.contestant.name])
            progress.advance(bar)
    return results


def _count_bytes(runner: Running, result: Result) -> None:
    """Ask through a relay with another client."""
    with ByteCounter(runner.port) as counter:
        runner.client(counter.port)
        runner.play(COUNTED)
        up, down = counter.up, counter.down
        runner.play(COUNTED)
        time.sleep(0.05)
        result.bytes_up = (counter.up - up) // COUNTED
        result.bytes_down = (counter.down - down) // COUNTED
