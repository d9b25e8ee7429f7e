# SPDX-License-Identifier: Apache-2.0
"""The commands ``tendon bench ...``: names and options, and nothing else."""

from pathlib import Path
from typing import Annotated

from tendon.cli_options import Checkpoint, end, examples, Out, Seed
import typer

bench = typer.Typer(help='Measure.', no_args_is_help=True)


@bench.command(epilog=examples(
    'tendon bench latency', 'tendon bench latency --turns 200',
    'sudo tendon bench latency --link lte',
))
def latency(
    turns: Annotated[int, typer.Option(help='Turns that are counted.')] = 50,
    out: Out = Path('runs/latency'),
    seed: Seed = 7,
    checkpoint: Checkpoint = None,
    link: Annotated[str | None, typer.Option(help=(
        'Emulated link to the backbone: ideal, wifi, 5g, wifi_busy, lte, lte_edge or outage '
        '(docs/links.md); needs root. Default: plain loopback.'
    ))] = None,
    link_file: Annotated[
        Path | None, typer.Option(help='Links of your own; default: config/links.yaml.')
    ] = None,
) -> None:
    """Measure each stage from image to motion in real time; last line is JSON."""
    from tendon.bench_latency import run

    end(run(
        turns=turns, out=out, seed=seed, checkpoint=checkpoint, link=link, link_file=link_file
    ))


@bench.command(epilog=examples('tendon bench rate', 'tendon bench rate --minutes 1'))
def rate(
    minutes: Annotated[float, typer.Option(help='How long.')] = 10.0,
    out: Out = Path('runs/rate'),
    seed: Seed = 7,
) -> None:
    """Watch the 50 Hz loop while cameras and a core are busy; last line is JSON."""
    from tendon.bench_rate.run import run

    end(run(minutes=minutes, out=out, seed=seed))


@bench.command(epilog=examples('tendon bench seams', 'tendon bench seams --quick'))
def seams(
    seed: Annotated[int, typer.Option(help='Draws how chunks disagree.', min=0)] = 7,
    quick: Annotated[
        bool, typer.Option('--quick', help='Few ticks: only shows that it runs.')
    ] = False,
) -> None:
    """Compare how chunks are joined, here and elsewhere; last line is JSON."""
    from tendon.bench_seams.run import run

    end(run(seed=seed, quick=quick))


@bench.command(epilog=examples(
    'tendon bench faults', "tendon bench faults --only 'server frozen' --repetitions 1",
))
def faults(
    repetitions: Annotated[
        int, typer.Option(help='How often each thing is broken.', min=1)
    ] = 5,
    out: Out = Path('runs/faults'),
    seed: Seed = 7,
    only: Annotated[str, typer.Option(help='One fault by name, or all.')] = 'all',
    checkpoint: Checkpoint = None,
) -> None:
    """Break server, network and senses in mid-motion; last line is JSON."""
    from tendon.bench_faults.run import run

    end(run(repetitions=repetitions, out=out, seed=seed, only=only, checkpoint=checkpoint))


@bench.command(epilog=examples('tendon bench kv', 'tendon bench kv --quick --out runs/kv'))
def kv(
    out: Out = Path('runs/kv'),
    seed: Annotated[int, typer.Option(help='Draws text, facts and numbers.', min=0)] = 7,
    quick: Annotated[
        bool, typer.Option('--quick', help='A tiny random model: only shows that it runs.')
    ] = False,
    weights: Annotated[
        Path | None, typer.Option(help='Converted SmolLM2; default: the cache of the user.')
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help='Processes; default: one per core.', min=1)
    ] = None,
) -> None:
    """Compare the cache policies with each other and with peers; last line is JSON."""
    from tendon.bench_kv.run import run

    end(run(out=out, seed=seed, quick=quick, weights=weights, workers=workers))


@bench.command(epilog=examples(
    'tendon bench agent', 'tendon bench agent --part cache --quick',
    'tendon bench agent --part moves --out runs/moves',
))
def agent(
    out: Out = Path('runs/agent'),
    seed: Annotated[int, typer.Option(help='Draws script, scenes and mishaps.', min=0)] = 7,
    quick: Annotated[
        bool, typer.Option('--quick', help='Few turns and tasks: only shows that it runs.')
    ] = False,
    part: Annotated[
        str, typer.Option(help='What to measure: cache, tasks, moves or all.')
    ] = 'all',
    weights: Annotated[
        Path | None, typer.Option(help='Converted SmolLM2; default: the cache of the user.')
    ] = None,
    checkpoint: Checkpoint = None,
    workers: Annotated[
        int | None, typer.Option(help='Processes for tasks; default: one per core.', min=1)
    ] = None,
) -> None:
    """Measure what the agent's memory costs and is good for; last line is JSON."""
    from tendon.bench_agent.run import run

    end(run(
        out=out, seed=seed, quick=quick, part=part, weights=weights, checkpoint=checkpoint,
        workers=workers,
    ))


@bench.command(epilog=examples(
    'tendon bench transport',
    'tendon bench transport --openpi-python ~/openpi/bin/python --rounds 3',
))
def transport(
    out: Out = Path('runs/transport'),
    rounds: Annotated[int, typer.Option(help='Rounds of each, in turn.', min=1)] = 5,
    calls: Annotated[int, typer.Option(help='Calls of a round.', min=2)] = 200,
    openpi_python: Annotated[
        Path | None, typer.Option(help='Python with openpi-client; default: in the user cache.')
    ] = None,
    lerobot_python: Annotated[
        Path | None, typer.Option(help='Python with lerobot; default: in the user cache.')
    ] = None,
) -> None:
    """Compare the round trip on loopback with that of peers; last line is JSON."""
    from tendon.bench_transport.run import run

    end(run(
        out=out, rounds=rounds, calls=calls, openpi_python=openpi_python,
        lerobot_python=lerobot_python,
    ))
