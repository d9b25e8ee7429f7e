# SPDX-License-Identifier: Apache-2.0
"""Answers, steps and the memory of a task in the transcript: written as events, read back whole.

A session that the backbone lost, and a robot that was started anew, continue from these lines.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from onboard_decoder.agent.effects import Effect
from onboard_decoder.plan import ActionPlan, PlanStep
from onboard_decoder.task_memory import (
    HistoryEntry,
    Manner,
    Purpose,
    StepResult,
    TaskMemory,
    Tool,
    ToolCall,
)


@dataclass(frozen=True, slots=True)
class Remembered:
    """A task as its transcript tells it; ``is_over`` once it has a result."""

    instruction: str
    memory: TaskMemory
    is_over: bool


def answer_record(turn_id: str, plan: ActionPlan) -> dict[str, object]:
    """Return an answer as it stands in the transcript."""
    record: dict[str, object] = {
        'turn_id': turn_id,
        'outcome': plan.outcome.value,
        'thought': plan.thought,
        'reason': plan.reason,
        'confidence': plan.confidence,
        'steps': [_step_record(step) for step in plan.steps],
    }
    if plan.call is not None:
        record['call'] = call_record(plan.call)
    if plan.lesson:
        record['lesson'] = plan.lesson
    if plan.certificate is not None:
        record['certificate'] = {
            'stalest_epoch': plan.certificate.stalest_epoch,
            'freshest_epoch': plan.certificate.freshest_epoch,
            'exactness': plan.certificate.exactness.value,
        }
    return record


def _step_record(step: PlanStep) -> dict[str, object]:
    return {
        'skill': step.skill.value,
        'object': step.object_name,
        'point': step.point,
        'target_in_base_m': step.target_in_base_m,
        'tool_yaw_rad': step.tool_yaw_rad,
        'gripper_opening': step.gripper_opening,
        'speed': step.speed,
        'success': step.success.value,
    }


def call_record(call: ToolCall) -> dict[str, object]:
    """Return a call as it stands in the transcript."""
    return {
        'tool': call.tool.value,
        'object': call.object_name,
        'target': call.target_name,
        'manner': call.manner.value,
        'question': call.question,
    }


def entry_record(trial: int, entry: HistoryEntry, effect: Effect) -> dict[str, object]:
    """Return one step with what came of it."""
    return {
        'trial': trial,
        'step_id': entry.step_id,
        'call': call_record(entry.call),
        'result': entry.result.value,
        'code': effect.code.value if effect.code else '',
        'reason': effect.reason,
    }


def remembered(
    events: Iterable[Mapping[str, Any]], purpose: Purpose = Purpose.ACT
) -> Remembered | None:
    """Rebuild the last task of a transcript; None if there is no task in it.

    Args:
      events: the transcript's lines in order.
      purpose: of the turn that the memory is for.

    Raises:
      ValueError: a step is missing or in another's place.
    """
    found: Remembered | None = None
    for event in events:
        kind = event.get('event')
        if kind == 'task':
            found = Remembered(str(event['instruction']), TaskMemory(purpose=purpose), False)
        elif found is not None and kind in _READERS:
            found = _READERS[kind](found, event)
    return found


def _trial(found: Remembered, event: Mapping[str, Any]) -> Remembered:
    memory = TaskMemory(
        int(event['trial']), tuple(map(str, event['lessons'])), (), found.memory.purpose
    )
    return Remembered(found.instruction, memory, found.is_over)


def _step(found: Remembered, event: Mapping[str, Any]) -> Remembered:
    memory = found.memory
    entry = HistoryEntry(
        int(event['step_id']), _call(event['call']), StepResult(event['result'])
    )
    expected = len(memory.entries) + 1
    if entry.step_id != expected or event['trial'] != memory.trial:
        raise ValueError(
            f'step {entry.step_id} of trial {event["trial"]} where step {expected} of trial '
            f'{memory.trial} must be'
        )
    holds = _HANDS.get(entry.result, memory.hand_holds)
    return Remembered(
        found.instruction,
        TaskMemory(
            memory.trial, memory.lessons, (*memory.entries, entry), memory.purpose, holds
        ),
        found.is_over,
    )


def _result(found: Remembered, event: Mapping[str, Any]) -> Remembered:
    return Remembered(found.instruction, found.memory, True)


def _call(record: Mapping[str, Any]) -> ToolCall:
    return ToolCall(
        Tool(record['tool']), record['object'], record['target'], Manner(record['manner']),
        record['question'],
    )


_READERS = {'trial': _trial, 'entry': _step, 'result': _result}
_HANDS = {
    StepResult.HELD: True,
    StepResult.MISSED: False,
    StepResult.SLIPPED: False,
    StepResult.PLACED: False,
    StepResult.FELL: False,
    StepResult.RELEASED: False,
}
