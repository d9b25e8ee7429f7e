# SPDX-License-Identifier: Apache-2.0
"""Options, examples and ends that commands of ``tendon`` share."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

Seed = Annotated[int, typer.Option(help='Draws scene and task.', min=0)]
Checkpoint = Annotated[
    Path | None, typer.Option(help='Model of the backbone; default: the shipped one.')
]
Out = Annotated[Path, typer.Option(help='Folder for everything that is written.')]
MODE_HELP = 'Of the agent: whole plans, or one tool call after the other.'


class Mode(Enum):
    """Values of the robot's setting ``agent.mode``."""

    PLAN = 'plan'
    REACT = 'react'


class Mishap(Enum):
    """Values of the simulated arm's parameter ``mishap``."""

    NONE = 'none'
    MOVED = 'moved'
    DROPPED = 'dropped'
    BLOCKED = 'blocked'
    SLICK = 'slick'
    FLAT = 'flat'


class Simulator(Enum):
    """Values of the simulated arm's parameter ``simulator``."""

    MUJOCO = 'mujoco'
    GAZEBO = 'gazebo'


GoesWrong = Annotated[Mishap, typer.Option(help='What goes wrong in the simulation.')]


Sim = Annotated[
    Simulator, typer.Option('--sim', help='Whose physics and pictures; see gazebo-install.')
]


def examples(*lines: str) -> str:
    """Return the closing paragraph of a help text."""
    return 'Examples:\n\n' + '\n\n'.join(lines)


def end(status: int | None) -> None:
    """End the command with an exit status."""
    raise typer.Exit(status or 0)
