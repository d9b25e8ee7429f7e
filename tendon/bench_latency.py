# SPDX-License-Identifier: Apache-2.0
"""Measures the latency budget: many turns of the whole system in real time over ROS.

Each turn starts with a fresh image of the resting arm and ends with the first measured motion;
then the robot is asked anew. Now and then a task is followed to its end, on a link with outages
through one of them. Between robot and backbone is loopback or an emulated link. Prints a table,
writes picture, page, trace and JSON, ends with one JSON object.
"""

from contextlib import ExitStack
import json
import os
from pathlib import Path
import time
from typing import Any

from rich.console import Console
from rich.progress import Progress
from std_srvs.srv import Trigger
from tendon.budget import read_traces, TurnTimes
from tendon.budget_report import report
from tendon.clock_offset import ClockWatch
from tendon.conversation import result_of
from tendon.errors import BadRequest, TaskNotOver
from tendon.latency_link import Between, between
from tendon.local_robot import local_robot, LocalRobot, Scene
from tendon.provenance import provenance

TURN_TIMEOUT_S = 30.0
WARM_UP = 2
# A task is followed to its end after so many turns; more often on a link that is cut meanwhile.
FINISH_EVERY, CUT_EVERY = 15, 3
# Only the backbone plans: an answer of the small planner on board would not cross the link.
PARAMETERS: dict[str, str | float | int] = {'offload.mode': 'cloud'}
BEFORE_SAID_MS = 250.0  # an image that was under way when the instruction came
TASK_TIMEOUT_S = 60.0
RESET_S = 1.5
NOTE = (
    'Turns of `tendon bench latency`: backbone, robot and simulated arm as processes of one '
    'machine; the first two turns are left out.'
)


def run(
    turns: int = 50, out: Path = Path('runs/latency'), seed: int = 7,
    checkpoint: Path | None = None, link: str | None = None, link_file: Path | None = None,
) -> int:
    """Measure and report.

    Args:
      turns: how many are counted.
      out: folder for everything that is written.
      seed: draws the scene, and what the link does.
      checkpoint: model of the backbone; None takes the shipped one.
      link: what is between robot and backbone, by name; None is plain loopback.
      link_file: holds the links; None takes ``config/links.yaml``.

    Returns:
      Exit status 0; a missed budget is reported, not failed.

    Raises:
      BadRequest: for fewer than one turn, and where a link is unknown or cannot be emulated.
      PartDied, PartNotReady, TaskNotOver: if the system does not run.
    """
    if turns < 1:
        raise BadRequest(f'turns is {turns}; allowed: 1 and more')
    if link_file is not None and link is None:
        raise BadRequest(f'{link_file} holds links; say which one: --link NAME')
    console = Console()
    with ExitStack() as stack:
        between_them = stack.enter_context(between(link, seed, link_file))
        robot = stack.enter_context(
            local_robot(
                out, Scene(seed, 'put'), checkpoint, PARAMETERS, place=between_them.place
            )
        )
        address = f'{between_them.place.host}:{robot.backbone_port}'
        clock = stack.enter_context(ClockWatch(address))
        counted, figures = Asker(robot, between_them, console).ask(turns + WARM_UP)
        figures |= between_them.figures()
    counted = counted[WARM_UP:]
    offset = clock.near(round(counted[-1].start_ms * 1e6))
    if offset is not None:
        figures['clock_offset_ms'] = round(offset.offset_ns / 1e6, 3)
        figures['clock_bound_ms'] = round(offset.bound_ns / 1e6, 3)
    note = f'{NOTE} Between robot and backbone: {link or "loopback"}.'
    figures = report(
        counted, out, console, note, {**figures, **provenance(seed)}, clock.near
    )
    print(json.dumps(figures))
    return 0


class Asker:
    """Asks a robot again and again, and watches its command loop meanwhile."""

    def __init__(self, robot: LocalRobot, between_them: Between, console: Console) -> None:
        self._robot, self._between, self._console = robot, between_them, console
        self._reset = robot.talk.node.create_client(Trigger, 'sim_arm/reset')
        self._results: dict[str, int] = {}

    def ask(self, turns: int) -> tuple[list[TurnTimes], dict[str, Any]]:
        """Run the turns; return them, and what the command loop says of itself.

        Raises:
          TaskNotOver: if a turn leads to no motion in time.
        """
        talk, found = self._robot.talk, []
        talk.wait(lambda: bool(talk.truth) and 'command loop' in talk.diagnostics, TURN_TIMEOUT_S)
        first, start_s = talk.diagnostics['command loop'], talk.diagnosed_s
        with Progress(console=self._console) as progress:
            for number in progress.track(range(turns), description='turns'):
                found.append(self._turn())
                if number % (CUT_EVERY if self._between.is_cut else FINISH_EVERY) == 0:
                    self._between.cut(self._robot)
                    self._finish()
        ended_s = talk.diagnosed_s
        talk.wait(lambda: talk.diagnosed_s > ended_s, TURN_TIMEOUT_S)  # what was missed at the end
        last, elapsed_s = talk.diagnostics['command loop'], talk.diagnosed_s - start_s
        ticks = int(last['ticks']) - int(first['ticks'])
        return found, {
            'rate_hz': round(ticks / elapsed_s, 3),
            'missed_ticks': int(last['missed']) - int(first['missed']),
            'starved_ticks': int(last['starved']) - int(first['starved']),
            'tick_lateness_ms_p50': float(last['lateness_ms_p50']),
            'tasks_to_the_end': self._results,
            'ticks': ticks,
            'load_1_min': round(os.getloadavg()[0], 2),
        }

    def _turn(self) -> TurnTimes:
        """Ask once; return the turn when the arm has begun to move."""
        robot, sentence = self._robot, str(self._robot.talk.truth['instruction'])
        before, said_ms = len(self._traces()), time.monotonic() * 1e3
        robot.talk.say(sentence)

        def mine() -> list[TurnTimes]:
            # Turns of the task before may come to their end only now.
            earliest_ms = said_ms - BEFORE_SAID_MS
            return [turn for turn in self._traces()[before:] if turn.start_ms >= earliest_ms]

        def check() -> None:
            robot.stack.check()
            self._between.check()

        if not robot.talk.wait(lambda: bool(mine()), TURN_TIMEOUT_S, check):
            status = robot.talk.status
            last = f'{status.get("phase")} {status.get("trouble")}'
            raise TaskNotOver(sentence, TURN_TIMEOUT_S, last)
        return mine()[0]

    def _finish(self) -> None:
        """Let the task that was under way come to its end, then put the things back."""
        talk, sentence = self._robot.talk, str(self._robot.talk.truth['instruction'])
        talk.wait(
            lambda: result_of(talk.status, sentence) is not None, TASK_TIMEOUT_S,
            self._robot.stack.check,
        )
        result = result_of(talk.status, sentence)
        outcome = str(result['outcome']) if result else 'not over'
        self._results[outcome] = self._results.get(outcome, 0) + 1
        self._reset.call_async(Trigger.Request())
        talk.wait(lambda: False, RESET_S, self._robot.stack.check)

    def _traces(self) -> list[TurnTimes]:
        path = self._robot.traces
        return read_traces(path) if path.exists() else []
