# SPDX-License-Identifier: Apache-2.0
"""The main job on one machine: an instruction, a picture, a plan, an arm that moves.

Starts backbone, simulated arm and robot as processes, gives the robot one instruction over ROS,
follows it to the end, asks the simulator whether the task is fulfilled, and writes the reports.
"""

from collections.abc import Iterator
import json
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from tendon.budget import read_traces
from tendon.budget_report import report
from tendon.conversation import Status
from tendon.errors import TaskNotOver
from tendon.follow import doing_of, follow
from tendon.local_robot import local_robot, LocalRobot, Scene
from tendon.story import Story

TASK_TIMEOUT_S = {'plan': 120.0, 'react': 240.0}
TRUTH_TIMEOUT_S = 5.0
NOTE = 'One task of `tendon demo`: backbone, robot and simulated arm on one machine over loopback.'


def run(
    seed: int = 7, instruction: str | None = None, out: Path = Path('runs/demo'),
    checkpoint: Path | None = None, mode: str = 'plan', mishap: str = 'none',
    simulator: str = 'mujoco',
) -> int:
    """Do one task and report.

    Args:
      seed: draws scene and task.
      instruction: what to say instead of the drawn task's sentence; then nobody but the robot
        itself says whether it was done.
      out: folder for everything that is written.
      checkpoint: model of the backbone; None takes the shipped one.
      mode: of the agent; see the setting ``agent.mode`` of the robot.
      mishap: what goes wrong; see the parameter of the simulated arm.
      simulator: 'mujoco' or 'gazebo'.

    Returns:
      0 if the task was fulfilled, 1 if not.

    Raises:
      PartDied, PartNotReady, TaskNotOver: if it does not come to an end.
    """
    console = Console()
    console.print('Starting backbone, simulated arm and robot, each a process of its own ...')
    scene = Scene(seed, 'put', mishap=mishap, simulator=simulator)
    with local_robot(out, scene, checkpoint, {'agent.mode': mode}) as robot:
        robot.talk.wait(lambda: bool(robot.talk.truth), TRUTH_TIMEOUT_S)
        sentence = instruction or str(robot.talk.truth['instruction'])
        console.print(f'Telling the robot: [bold]{escape(sentence)}[/bold]', highlight=False)
        if mishap != 'none':
            console.print(f'What goes wrong: {mishap}; the robot is not told.', highlight=False)
        result = _carry_out(robot, sentence, mode, console)
        is_fulfilled = _verdict(robot, instruction is None, result)
    for line in _thoughts(robot.transcript) if mode == 'plan' else ():
        console.print(line, highlight=False)
    report(read_traces(robot.traces), out, console, NOTE)
    console.print(f'Recording of the run: {robot.recording}', highlight=False, soft_wrap=True)
    return _close(console, is_fulfilled, result)


def _carry_out(robot: LocalRobot, sentence: str, mode: str, console: Console) -> Status:
    """Say it, show what is done while it is done, and return the robot's result."""
    story, timeout_s = Story(robot.transcript), TASK_TIMEOUT_S[mode]

    def show(doing: str) -> None:
        if mode == 'plan':
            console.print(f'  {doing}', highlight=False, markup=False)

    def look() -> None:
        if mode == 'react':
            _tell(story, console)
        robot.stack.check()

    result = follow(robot.talk, sentence, timeout_s, show, look)
    look()
    if result is None:
        raise TaskNotOver(sentence, timeout_s, doing_of(robot.talk.status))
    return result


def _tell(story: Story, console: Console) -> None:
    """Print what has happened."""
    for word, text in story.news():
        style = 'bold' if word == 'trial' else 'dim' if word == 'think' else ''
        line = f'  {word:<7} {escape(text)}'
        console.print(line, style=style, highlight=False, soft_wrap=True)


def _verdict(robot: LocalRobot, has_truth: bool, result: Status) -> bool:
    """Ask the simulator where it knows the task, else believe the robot."""
    if not has_truth:
        return bool(result['outcome'] == 'done')
    return robot.talk.wait(lambda: bool(robot.talk.truth.get('success')), TRUTH_TIMEOUT_S)


def _thoughts(transcript: Path) -> Iterator[str]:
    """Yield what the backbone thought, turn by turn."""
    for line in transcript.read_text().splitlines():
        event = json.loads(line)
        if event.get('thought'):
            yield f'[dim]thought:[/dim] {escape(event["thought"])}'


def _close(console: Console, is_fulfilled: bool, result: Status) -> int:
    """Print the last line and return the exit status."""
    words = (
        f'{result["attempts"]} attempt(s), {result["turns"]} turns, {result["duration_s"]:.1f} s'
    )
    if is_fulfilled:
        success = f'[bold green]SUCCESS[/bold green]: the task is fulfilled ({words}).'
        console.print(success, soft_wrap=True)
        return 0
    reason = escape(result['reason'])
    failure = f'[bold red]NOT DONE[/bold red]: {result["outcome"]}: {reason} ({words}).'
    console.print(failure, soft_wrap=True)
    return 1
