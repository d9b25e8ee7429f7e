# SPDX-License-Identifier: Apache-2.0
"""Lets the whole system work for a while, and reads what the command loop says of its ticks.

Backbone, simulated arm, robot, two further cameras and a process that takes a core share the
machine; the robot is given its task again and again, so that chunks are decoded and played.
"""

import json
from pathlib import Path
from statistics import median
import time
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from std_srvs.srv import Trigger
from tendon.bench_rate.three_cameras import FURTHER, write_manifest
from tendon.conversation import result_of
from tendon.errors import BadRequest, PartNotReady
from tendon.local_robot import local_robot, LocalRobot, Scene
from tendon.provenance import provenance

READY_TIMEOUT_S = 30.0
SLICE_S = 1.0  # diagnostics come once a second and look back on ten
NEEDED = ('ticks', 'rate_hz')


def run(minutes: float = 10.0, out: Path = Path('runs/rate'), seed: int = 7) -> int:
    """Measure, print a table and, as the last line, one JSON object; return 0.

    Args:
      minutes: how long.
      out: folder for everything that is written.
      seed: draws the scene.

    Raises:
      BadRequest: for a time of 0 or less.
      PartDied, PartNotReady: if the system does not run.
    """
    if minutes <= 0:
        raise BadRequest(f'minutes is {minutes:g}; allowed: above 0')
    console = Console()
    out = out.resolve()
    manifest = write_manifest(out / 'robot')
    with local_robot(
        out, Scene(seed, 'put'), parameters={'robot': str(manifest), 'record_path': ''},
        remaps={'front/image_raw': 'camera/image_raw'},
    ) as robot:
        topics = [f'{name}/image_raw' for name in FURTHER]
        robot.stack.start('cameras', 'tendon.bench_rate.cameras', *topics)
        robot.stack.start('burner', 'tendon.bench_rate.burner')
        figures = _watch(robot, minutes * 60.0, console)
    table = Table('figure', 'value', title='The command loop while everything is busy')
    for name, value in figures.items():
        table.add_row(name, str(value))
    console.print(table)
    print(json.dumps({**figures, 'cameras': 1 + len(FURTHER), **provenance(seed)}))
    return 0


def _watch(robot: LocalRobot, duration_s: float, console: Console) -> dict[str, Any]:
    """Give the task again whenever it is over; gather what the loop says once a second."""
    talk, sentence = robot.talk, ''
    if not talk.wait(lambda: bool(talk.truth) and _loop(robot) != {}, READY_TIMEOUT_S):
        raise PartNotReady('command loop', READY_TIMEOUT_S)
    sentence, tasks = str(talk.truth['instruction']), 0
    seen: list[dict[str, str]] = []
    reset = talk.node.create_client(Trigger, 'sim_arm/reset')
    start_s = time.monotonic()
    with Progress(console=console) as progress:
        bar = progress.add_task('seconds', total=duration_s)
        while (spent_s := time.monotonic() - start_s) < duration_s:
            if tasks == 0 or result_of(talk.status, sentence) is not None:
                reset.call_async(Trigger.Request())  # the things go back, so there is work again
                talk.wait(lambda: False, SLICE_S, robot.stack.check)
                talk.say(sentence)
                tasks += 1
            talk.wait(lambda: False, SLICE_S, robot.stack.check)
            seen.append(_loop(robot))
            progress.update(bar, completed=spent_s)
    return _summary(seen, time.monotonic() - start_s, tasks)


def _loop(robot: LocalRobot) -> dict[str, str]:
    values = robot.talk.diagnostics.get('command loop', {})
    return values if all(name in values for name in NEEDED) else {}


def _summary(seen: list[dict[str, str]], duration_s: float, tasks: int) -> dict[str, Any]:
    """Return the figures over all looks."""
    def column(name: str) -> list[float]:
        return [float(values[name]) for values in seen]

    return {
        'duration_s': round(duration_s, 1),
        'rate_hz': column('rate_hz')[-1],
        'ticks': int(seen[-1]['ticks']),
        'missed_ticks': int(seen[-1]['missed']),
        'period_error_ms_p50': median(column('period_error_ms_p50')),
        'period_ms_min': min(column('period_ms_min')),
        'period_ms_max': max(column('period_ms_max')),
        'scheduling': seen[-1]['scheduling_loop'],
        'tasks': tasks,
    }
