# SPDX-License-Identifier: Apache-2.0
"""The tools: what each needs, what it does, what may come of it.

One table; ``interlocks`` checks a call against it, ``tool_runner`` carries it out, ``effects``
measures what came of it. Knows no image and no joints.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from onboard_decoder.plan import Skill
from onboard_decoder.task_memory import Manner, StepResult, Tool, ToolCall

NAME_CHARS = 60
QUESTION_CHARS = 200
IN_CONTACT = (Skill.GRASP, Skill.PLACE, Skill.PUSH)
"""Skills at which the hand touches something."""


class Hand(Enum):
    """How the gripper must be before a tool is used."""

    ANY = 'any'
    EMPTY = 'empty'
    FULL = 'full'


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool.

    Attributes:
      needs: fields of the call that must not be empty.
      hand: how the gripper must be.
      contact: the skill at which the hand touches something; None for a tool without steps.
      own_steps: whether the robot makes the steps itself, from where its gripper is.
      results: what may come of a call that was begun.
    """

    text: str
    needs: tuple[str, ...] = ()
    hand: Hand = Hand.ANY
    contact: Skill | None = None
    results: tuple[StepResult, ...] = ()
    own_steps: bool = False

    @property
    def moves(self) -> bool:
        """True if the arm carries out steps for it."""
        return self.contact is not None


_MOTION = (StepResult.FAILED, StepResult.STOPPED)
TOOLS = {
    Tool.LOOK: ToolSpec(
        'Go home and take a new image.',
        contact=Skill.HOME, results=(StepResult.SEEN, *_MOTION), own_steps=True,
    ),
    Tool.GRASP: ToolSpec(
        'Close the fingers around a thing and lift it.', ('object_name',), Hand.EMPTY,
        Skill.GRASP, (StepResult.HELD, StepResult.MISSED, StepResult.SLIPPED, *_MOTION),
    ),
    Tool.PLACE: ToolSpec(
        'Bring what is held into a container and let go.', ('target_name',), Hand.FULL,
        Skill.PLACE, (StepResult.PLACED, StepResult.SLIPPED, StepResult.FELL, *_MOTION),
    ),
    Tool.STACK: ToolSpec(
        'Bring what is held onto a thing and let go.', ('target_name',), Hand.FULL,
        Skill.PLACE, (StepResult.PLACED, StepResult.SLIPPED, StepResult.FELL, *_MOTION),
    ),
    Tool.PUSH: ToolSpec(
        'Push a thing along the table to another.', ('target_name',), Hand.EMPTY,
        Skill.PUSH, (StepResult.PUSHED, *_MOTION),
    ),
    Tool.RELEASE: ToolSpec(
        'Put down what is held where it was taken from.', (), Hand.FULL,
        Skill.PLACE, (StepResult.RELEASED, StepResult.FELL, *_MOTION), own_steps=True,
    ),
    Tool.ASK: ToolSpec(
        'Ask a person to do something, and wait.', ('question',),
        results=(StepResult.CLEARED, StepResult.UNANSWERED),
    ),
    Tool.DONE: ToolSpec('Claim that the goal is reached; others decide.'),
    Tool.STOP: ToolSpec('Give up.'),
}


def missing(call: ToolCall) -> str | None:
    """Return what a call lacks or has too much of, in one sentence; None if it is whole."""
    for name in TOOLS[call.tool].needs:
        if not getattr(call, name).strip():
            return f'{call.tool.value} without {name}'
    limits = (('object_name', NAME_CHARS), ('target_name', NAME_CHARS),
              ('question', QUESTION_CHARS))
    for name, limit in limits:
        text = getattr(call, name)
        if len(text) > limit or not (text.isprintable() or not text):
            return f'{name} of {call.tool.value} must be up to {limit} printable characters'
    return None


def schema() -> list[dict[str, Any]]:
    """Return the tools as JSON schemas of their arguments, in the order of ``Tool``."""
    return [_schema(tool, TOOLS[tool]) for tool in Tool]


def _schema(tool: Tool, spec: ToolSpec) -> dict[str, Any]:
    """Return the schema of one tool."""
    name = {'type': 'string', 'maxLength': NAME_CHARS}
    return {
        'name': tool.value,
        'description': spec.text,
        'parameters': {
            'type': 'object',
            'properties': {
                'object_name': name,
                'target_name': name,
                'manner': {'enum': [manner.value for manner in Manner]},
                'question': {'type': 'string', 'maxLength': QUESTION_CHARS},
            },
            'required': list(spec.needs),
            'additionalProperties': False,
        },
    }
