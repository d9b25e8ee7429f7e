# SPDX-License-Identifier: Apache-2.0
"""From the small planner's plan to the next tool call of a trial, where that is plain.

Only what follows of itself: take the thing, put down what was taken, claim, look, stop. Whatever
has failed, or has a lesson, is left to the backbone. Knows no image.
"""

from __future__ import annotations

from dataclasses import replace

from onboard_decoder.fallback.heard_request import Request, TooHard
from onboard_decoder.plan import ActionPlan, Outcome, Skill
from onboard_decoder.task_memory import Purpose, StepResult, TaskMemory, Tool, ToolCall

_EXPECTED = (StepResult.HELD, StepResult.PLACED, StepResult.SEEN)
_TAKE = (Skill.REACH, Skill.GRASP, Skill.LIFT)
_PUT = (Skill.MOVE, Skill.PLACE, Skill.LIFT, Skill.HOME)


def next_call(plan: ActionPlan, request: Request, memory: TaskMemory) -> ActionPlan | TooHard:
    """Return the plan as one call of a trial.

    Args:
      plan: for the whole task, as things are now.
      request: what was asked for.
      memory: of the trial.
    """
    if memory.purpose is Purpose.CHECK:
        return plan
    if memory.purpose is not Purpose.ACT or memory.lessons:
        return TooHard('lessons need the backbone')
    failed = [entry for entry in memory.entries if entry.result not in _EXPECTED]
    if failed:
        entry = failed[-1]
        return TooHard(f'{entry.call.tool.value} came out {entry.result.value}')
    if plan.outcome is Outcome.DONE:
        return replace(plan, call=_named(Tool.DONE, request))
    if plan.outcome is Outcome.REFUSED:
        return _missing(plan, request, memory)
    return _move(plan, request, memory)


def _missing(plan: ActionPlan, request: Request, memory: TaskMemory) -> ActionPlan:
    """Look once more before giving up."""
    has_looked = bool(memory.entries) and memory.entries[-1].call.tool is Tool.LOOK
    if has_looked:
        return replace(plan, call=_named(Tool.STOP, request))
    return replace(plan, outcome=Outcome.STEPS, steps=(), call=ToolCall(Tool.LOOK))


def _move(plan: ActionPlan, request: Request, memory: TaskMemory) -> ActionPlan | TooHard:
    """Return the first call of a plan with steps."""
    skills = tuple(step.skill for step in plan.steps)
    if skills == _PUT and memory.hand_holds:
        return replace(plan, call=_named(Tool.PLACE, request))
    if skills[:3] == _TAKE and not memory.hand_holds:
        call = ToolCall(Tool.GRASP, str(request.a))
        return replace(plan, steps=plan.steps[:3], call=call)
    if request.task == 'home':
        return replace(plan, steps=(), call=ToolCall(Tool.LOOK))
    return TooHard('what the gripper holds needs the backbone')


def _named(tool: Tool, request: Request) -> ToolCall:
    return ToolCall(tool, str(request.a or ''), str(request.b or ''))
