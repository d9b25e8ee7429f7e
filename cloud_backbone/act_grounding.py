# SPDX-License-Identifier: Apache-2.0
"""From one act of the agent to what the arm does: a call becomes steps in the base frame.

Knows which steps a call takes; knows no model. A target that the arm may not go to makes the
answer a refusal, never another target. To release what is held takes no steps from here: only the
robot knows where its gripper is.
"""

from __future__ import annotations

from cloud_backbone.act import Act, thought_of_act
from cloud_backbone.action_plan import Outcome, Plan, Skill, Step
from cloud_backbone.embodiment import Embodiment
from cloud_backbone.plan_vocabulary import Thing, Vocabulary
from cloud_backbone.step_geometry import slowly, StepGeometry, UnreachableError
from cloud_backbone.task_memory import Manner, Tool, ToolCall

HOME = Step(Skill.HOME, speed=1.0)


class ActGrounder:
    """Turns acts into plans for one embodiment."""

    def __init__(self, embodiment: Embodiment, vocabulary: Vocabulary) -> None:
        self._geometry = StepGeometry(embodiment, vocabulary)

    def ground(self, act: Act) -> Plan:
        """Return the plan that an act means; its call says which tool the steps carry out."""
        thought, call = thought_of_act(act), call_of(act)
        if act.tool is Tool.DONE:
            return Plan(Outcome.DONE, thought, f'It is done: {thought}', call=call)
        if act.tool is Tool.STOP:
            return Plan(Outcome.REFUSED, thought, _why_stop(act), call=call)
        if act.tool is Tool.ASK:
            return Plan(Outcome.ASK, thought, call.question, call=call)
        try:
            steps = self._steps(act)
            self._geometry.check_reach(steps)
        except UnreachableError as error:
            stop = ToolCall(Tool.STOP, str(act.a), _name(act.b))
            return Plan(Outcome.REFUSED, thought, str(error), call=stop)
        if act.manner is Manner.SLOWLY:
            steps = slowly(steps)
        return Plan(Outcome.STEPS, thought, steps=tuple(steps), call=call)

    def _steps(self, act: Act) -> list[Step]:
        geometry = self._geometry
        if act.tool in (Tool.LOOK, Tool.RELEASE):
            return [HOME] if act.tool is Tool.LOOK else []
        if act.tool is Tool.GRASP:
            assert act.a_point is not None
            low = act.manner is Manner.LOW
            return geometry.take(geometry.spot(act.a, act.a_point), low)
        assert act.b is not None
        assert act.b_point is not None
        b = geometry.spot(act.b, act.b_point)
        if act.tool is Tool.PUSH:
            assert act.a_point is not None
            return [*geometry.push(geometry.spot(act.a, act.a_point), b), HOME]
        return [*geometry.put_down(act.a, b, stack=act.tool is Tool.STACK), HOME]


def call_of(act: Act) -> ToolCall:
    """Return the call that an act makes."""
    question = f'The {act.b} is taken. Can you clear it?' if act.tool is Tool.ASK else ''
    return ToolCall(act.tool, str(act.a), _name(act.b), act.manner, question)


def _why_stop(act: Act) -> str:
    if act.is_absent:
        return f'There is no {act.a}.'
    return f'The {act.b} is taken, and nobody cleared it.'


def _name(thing: Thing | None) -> str:
    return '' if thing is None else str(thing)
