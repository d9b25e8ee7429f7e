# SPDX-License-Identifier: Apache-2.0
"""A moment in the middle of a task, as data. Knows names and words; draws nothing."""

from __future__ import annotations

from dataclasses import dataclass

from sim.instructions import Name

Call = tuple[str, Name | None, str]
"""Tool, the thing or place that it is about, manner."""
Entry = tuple[Call, str]
"""A call and its result."""
Lesson = tuple[str, Name]
"""What is so ('slips', 'low', 'moves') of which thing."""


@dataclass(frozen=True)
class Situation:
    """One moment and the right answer.

    Attributes:
        text: the instruction.
        task: 'pick', 'put', 'stack' or 'push'.
        a: the thing that the answer is about. b: the place, None if there is none.
        a_index, b_index: entities of the scene, -1 for one that is absent or not named.
        template: number of the wording.
        lessons, history: what the agent knows.
        is_over: the trial has failed; a lesson is wanted, not a call.
        hand: whether the gripper holds something.
        holding: whether the answer says that a is held.
        tool, manner: the right call; for a lesson, 'lesson' and what is so.
    """

    text: str
    task: str
    a: Name
    b: Name | None
    a_index: int
    b_index: int
    template: int
    lessons: tuple[Lesson, ...]
    history: tuple[Entry, ...]
    is_over: bool
    hand: bool
    holding: bool
    tool: str
    manner: str
