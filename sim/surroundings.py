# SPDX-License-Identifier: Apache-2.0
"""What is around a running arm: something that goes wrong, and a person who may be asked.

Works in simulated time; whoever steps the physics calls `step` and `answer` after each step.
"""

from __future__ import annotations

from typing import get_args

from sim.arm_port import SimulatedArm
from sim.errors import SceneError
from sim.mischief import Mischief
from sim.mishaps import draw_mishap, fits, Mishap, MishapKind, MISHAPS
from sim.person import Person
from sim.tasks import Task, TaskKind

PERIOD_S = 0.02     # mishaps are made for this one
ANSWER_S = 1.0      # until a person has done what was asked
NAMES: tuple[MishapKind, ...] = ('none', *MISHAPS)
ANY_FITS: TaskKind = 'put'
"""A kind of task to which any mishap can happen."""


def named_mishap(name: str, seed: int, task: Task) -> Mishap:
    """Make the mishap of this name for a task.

    Raises:
        SceneError: an unknown name, or a mishap that cannot happen to such a task.
    """
    kind = next((kind for kind in NAMES if kind == name), None)
    if kind is None:
        raise SceneError('mishap', name, NAMES)
    if not fits(kind, task):
        kinds = [one for one in get_args(TaskKind) if _may_meet(kind, one)]
        raise SceneError(f'task with the mishap {name!r}', task.kind, kinds)
    return draw_mishap(seed, task, (kind,))


def _may_meet(kind: MishapKind, task: TaskKind) -> bool:
    return fits(kind, Task(task, 0, 0, ''))


class Surroundings:
    """What is around one arm during one task.

    Attributes:
        mishap: what goes wrong.
        mischief: makes it happen.
        person: answers questions.
    """

    def __init__(self, arm: SimulatedArm, mishap: Mishap) -> None:
        """Begin with the scene that the arm shows."""
        self._arm = arm
        self.mishap, self.mischief, self.person = mishap, Mischief(arm, mishap), Person(mishap)
        self._question, self._answer_s, self._due_s = '', 0.0, arm.time_s + PERIOD_S

    def step(self) -> None:
        """Let happen what is due."""
        if self._arm.time_s >= self._due_s - PERIOD_S / 10:
            self._due_s += PERIOD_S
            self.mischief.step()

    def ask(self, question: str) -> None:
        """Ask the person, who needs a moment; what was asked before is forgotten.

        Args:
            question: in words; none takes the question before back.
        """
        self._question, self._answer_s = question, self._arm.time_s + ANSWER_S

    def answer(self) -> str | None:
        """Return what the person says now; None for nothing."""
        if not self._question or self._arm.time_s < self._answer_s:
            return None
        question, self._question = self._question, ''
        return self.person.answer(question, self._arm)
