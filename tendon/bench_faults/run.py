# SPDX-License-Identifier: Apache-2.0
"""Breaks everything that can break under a whole system in real time, several times each.

Backbone, simulated arm and robot are processes of their own; a cable and a relay that can be cut
stand between them. Prints a table and, as the last line, one JSON object.
"""

from collections.abc import Iterator
from contextlib import contextmanager
import json
import os
from pathlib import Path
from statistics import median
from typing import Any

from onboard_decoder.config import WatchdogLimits
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.planner_client import LinkSettings
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from tendon.bench_faults.cable import Cable, PRIORITY
from tendon.bench_faults.scenarios import Bench, Figures, OF_THE_SERVER, SCENARIOS
from tendon.bench_faults.senses import RELAYED, Senses
from tendon.bench_faults.witness import Witness
from tendon.errors import BadRequest, PartNotReady
from tendon.local_robot import local_robot, Scene
from tendon.provenance import provenance

TRUTH_S = 30.0


def run(
    repetitions: int = 5, out: Path = Path('runs/faults'), seed: int = 7,
    only: str = 'all', checkpoint: Path | None = None,
) -> int:
    """Measure; return 0.

    Args:
      repetitions: how often each thing is broken.
      out: folder for everything that is written.
      seed: draws the scene.
      only: name of one fault, or 'all'.
      checkpoint: model of the backbone; None takes the shipped one.

    Raises:
      BadRequest: for a fault that does not exist, or fewer than one repetition.
      PartDied, PartNotReady: if the system does not run, or the robot does not find a fault.
    """
    names = list(SCENARIOS) if only == 'all' else [only]
    if names[0] not in SCENARIOS:
        raise BadRequest(f'fault is {only!r}; allowed: all, {", ".join(SCENARIOS)}')
    if repetitions < 1:
        raise BadRequest(f'repetitions is {repetitions}; allowed: 1 or more')
    console, found = Console(), dict[str, list[Figures]]()
    manifest = load_manifest('tendon_arm')
    with Cable() as cable, local_robot(
        out, Scene(seed, 'put'), checkpoint,
        # What the robot does without a backbone is measured, not what another planner does.
        parameters={'backbone_address': cable.address, 'offload.mode': 'cloud'}, remaps=RELAYED,
    ) as robot, Progress(console=console) as progress:
        cable.target = ('127.0.0.1', robot.backbone_port)
        with Senses(manifest) as senses, undisturbed():
            bench = Bench(robot, senses, cable, Witness(robot))
            if not robot.talk.wait(lambda: bool(robot.talk.truth), TRUTH_S):
                raise PartNotReady('simulated arm', TRUTH_S)
            bar = progress.add_task('faults', total=len(names) * repetitions)
            for _ in range(repetitions):
                for name in names:
                    progress.update(bar, description=name)
                    figures = SCENARIOS[name](bench)
                    found.setdefault(name, []).append(figures)
                    progress.console.print(f'{name}: {figures.line}')
                    progress.advance(bar)
    console.print(_table(found))
    print(json.dumps({**summary(found), 'repetitions': repetitions, **provenance(seed)}))
    return 0


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let this thread wait for no busy processor, where the system allows it.

    Cable and relay are threads of this process, and would wait with it. What is started meanwhile
    does not inherit it.
    """
    try:
        fifo = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, fifo, os.sched_param(PRIORITY))
    except OSError:
        yield
        return
    try:
        yield
    finally:
        usual = os.SCHED_OTHER | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, usual, os.sched_param(0))


def summary(found: dict[str, list[Figures]]) -> dict[str, Any]:
    """Return the figures over all repetitions; None where nothing was measured."""
    settings = LinkSettings()
    killed, frozen, cut = (found.get(name, []) for name in OF_THE_SERVER)
    back_s = [figures.back_ms / 1000 for figures in killed]
    servers = [*killed, *frozen, *cut]
    return {
        'recover_s': _middle(back_s, 3),
        'recover_s_worst': _worst(back_s, 3),
        'frozen_detect_ms': _middle([figures.detect_ms for figures in frozen]),
        'frozen_detect_ms_worst': _worst([figures.detect_ms for figures in frozen]),
        'half_open_hold_ms': _middle([figures.detect_ms for figures in cut]),
        'half_open_hold_ms_worst': _worst([figures.detect_ms for figures in cut]),
        'half_open_rest_ms': _middle([figures.rest_ms for figures in cut]),
        'watchdog_period_ms': round(
            1000 * (WatchdogLimits().silence_s + settings.silence_check_s)),
        'missed_ticks': sum(figures.missed for figures in servers) if servers else None,
        'steps_begun_meanwhile': sum(max(0, figures.steps - 1) for figures in servers),
        'faults': {
            name: {
                'detect_ms': _middle([one.detect_ms for one in each]),
                'rest_ms': _middle([one.rest_ms for one in each]),
                'back_ms': _middle([one.back_ms for one in each]),
                'missed_ticks': sum(one.missed for one in each),
                'done': sum(one.done for one in each),
            }
            for name, each in found.items()
        },
    }


def _table(found: dict[str, list[Figures]]) -> Table:
    table = Table(
        'fault', 'found after [ms]', 'arm at rest after [ms]', 'over after [ms]', 'missed ticks',
        'tasks done', title='What was broken in mid-motion: median (worst)',
    )
    for name, each in found.items():
        columns = (
            [one.detect_ms for one in each], [one.rest_ms for one in each],
            [one.back_ms for one in each],
        )
        table.add_row(
            name, *(f'{median(values):.0f} ({max(values):.0f})' for values in columns),
            str(sum(one.missed for one in each)),
            f'{sum(one.done for one in each)}/{len(each)}',
        )
    return table


def _middle(values: list[float], digits: int = 1) -> float | None:
    return round(median(values), digits) if values else None


def _worst(values: list[float], digits: int = 1) -> float | None:
    return round(max(values), digits) if values else None
