# SPDX-License-Identifier: Apache-2.0
"""Measures the latency budget: many turns of the whole system in real time over ROS.

Each turn starts with a fresh image of the resting arm and ends with the first measured motion;
then the robot is asked anew. Prints a table, writes picture, page, trace and JSON, ends with one
JSON object.
"""

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from tendon.budget import read_traces
from tendon.budget_report import report
from tendon.errors import BadRequest, TaskNotOver
from tendon.local_robot import local_robot, LocalRobot, Scene
from tendon.provenance import provenance

TURN_TIMEOUT_S = 30.0
WARM_UP = 2
NOTE = (
    'Turns of `tendon bench latency`: backbone, robot and simulated arm as processes of one '
    'machine over loopback; the first two turns are left out.'
)


def run(
    turns: int = 50, out: Path = Path('runs/latency'), seed: int = 7,
    checkpoint: Path | None = None,
) -> int:
    """Measure and report.

    Args:
      turns: how many are counted.
      out: folder for everything that is written.
      seed: draws the scene.
      checkpoint: model of the backbone; None takes the shipped one.

    Returns:
      Exit status 0; a missed budget is reported, not failed.

    Raises:
      BadRequest: for fewer than one turn.
      PartDied, PartNotReady, TaskNotOver: if the system does not run.
    """
    if turns < 1:
        raise BadRequest(f'turns is {turns}; allowed: 1 and more')
    console = Console()
    with local_robot(out, Scene(seed, 'put'), checkpoint) as robot:
        figures = _ask_again_and_again(robot, turns + WARM_UP, console)
    counted = read_traces(robot.traces)[WARM_UP:]
    figures = report(counted, out, console, NOTE, {**figures, **provenance(seed)})
    print(json.dumps(figures))
    return 0


def _ask_again_and_again(robot: LocalRobot, turns: int, console: Console) -> dict[str, Any]:
    """Run the turns; return what the command loop says of itself."""
    talk = robot.talk
    talk.wait(lambda: bool(talk.truth) and 'command loop' in talk.diagnostics, TURN_TIMEOUT_S)
    sentence = str(talk.truth['instruction'])
    first, start_s = talk.diagnostics['command loop'], talk.diagnosed_s
    with Progress(console=console) as progress:
        for number in progress.track(range(turns), description='turns'):
            talk.say(sentence)
            _wait_for_trace(robot, number + 1, sentence)
    last, elapsed_s = talk.diagnostics['command loop'], talk.diagnosed_s - start_s
    ticks = int(last['ticks']) - int(first['ticks'])
    return {
        'rate_hz': round(ticks / elapsed_s, 3),
        'missed_ticks': int(last['missed']) - int(first['missed']),
        'tick_lateness_ms_p50': float(last['lateness_ms_p50']),
    }


def _wait_for_trace(robot: LocalRobot, count: int, sentence: str) -> None:
    def is_there() -> bool:
        return robot.traces.exists() and len(read_traces(robot.traces)) >= count

    if not robot.talk.wait(is_there, TURN_TIMEOUT_S, robot.stack.check):
        status = robot.talk.status
        last = f'{status.get("phase")} {status.get("trouble")}'
        raise TaskNotOver(sentence, TURN_TIMEOUT_S, last)
