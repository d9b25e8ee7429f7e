# SPDX-License-Identifier: Apache-2.0
"""The gantry with a scripted backbone that chooses one tool call per turn, in simulated time."""

from dataclasses import replace

import numpy as np
from onboard_decoder.agent.task_result import TaskOutcome
from onboard_decoder.clock import to_ns, to_s
from onboard_decoder.config import RobotSettings
from onboard_decoder.plan import (
    ActionPlan,
    Certificate,
    Exactness,
    Outcome,
    PlanStep,
    Skill,
    SuccessCondition,
)
from onboard_decoder.planner_port import Remedy, TurnAnswer, TurnFailure
from onboard_decoder.robot import Robot
from onboard_decoder.task_memory import Manner, Purpose, Tool, ToolCall

from tests.onboard_decoder.gantry import Lockstep, ScriptedPort

HELD, FREE = SuccessCondition.HOLDING, SuccessCondition.RELEASED
PUT = 'put the red cube in the blue bin'
LESSON = 'The red cube is low: grasp it lower.'
EXACT = Certificate(1, 1, Exactness.NUMERIC)


def grasp(x=0.5, y=0.1, manner=Manner.NORMAL, point=(0.5, 0.5)):
    """Reach, grasp, lift."""
    return ActionPlan(Outcome.STEPS, (
        PlanStep(Skill.REACH, (x, y, 0.2), point=point),
        PlanStep(Skill.GRASP, (x, y, 0.02), gripper_opening=0.0, success=HELD, point=point),
        PlanStep(Skill.LIFT, (x, y, 0.2), gripper_opening=0.0, success=HELD, point=point),
    ), call=ToolCall(Tool.GRASP, 'red cube', '', manner), certificate=EXACT)


def place(x=0.4, y=-0.2, tool=Tool.PLACE, manner=Manner.NORMAL):
    """Move, place, lift, home."""
    return ActionPlan(Outcome.STEPS, (
        PlanStep(Skill.MOVE, (x, y, 0.2), gripper_opening=0.0, success=HELD, point=(0.2, 0.2)),
        PlanStep(Skill.PLACE, (x, y, 0.1), gripper_opening=1.0, success=FREE),
        PlanStep(Skill.LIFT, (x, y, 0.2)),
        PlanStep(Skill.HOME),
    ), call=ToolCall(tool, 'red cube', 'blue bin', manner))


def push():
    """Reach, reach down, push, lift, home."""
    return ActionPlan(Outcome.STEPS, (
        PlanStep(Skill.REACH, (0.3, 0.1, 0.2), gripper_opening=0.0, point=(0.3, 0.3)),
        PlanStep(Skill.REACH, (0.3, 0.1, 0.03), gripper_opening=0.0, point=(0.3, 0.3)),
        PlanStep(Skill.PUSH, (0.5, 0.1, 0.03), gripper_opening=0.0, point=(0.3, 0.3)),
        PlanStep(Skill.LIFT, (0.5, 0.1, 0.2), gripper_opening=0.0),
        PlanStep(Skill.HOME),
    ), call=ToolCall(Tool.PUSH, 'red cube', 'blue ball'))


def release():
    """Put down where it was taken; the robot makes the steps."""
    return ActionPlan(Outcome.STEPS, call=ToolCall(Tool.RELEASE, 'red cube'))


LOOK = ActionPlan(Outcome.STEPS, (PlanStep(Skill.HOME),), call=ToolCall(Tool.LOOK))
ASK = ActionPlan(
    Outcome.ASK, call=ToolCall(Tool.ASK, question='Please clear the blue bin.'),
)
DONE = ActionPlan(Outcome.DONE, reason='It is there.', call=ToolCall(Tool.DONE))
STOP = ActionPlan(Outcome.REFUSED, reason='There is no red cube.', call=ToolCall(Tool.STOP))
YES = ActionPlan(Outcome.DONE, reason='The red cube is in the blue bin.')
NO = replace(place(), call=None)
LESSON_PLAN = ActionPlan(Outcome.DONE, lesson=LESSON)


class AgentPort(ScriptedPort):
    """Answers by purpose: acts in order, the last for ever; second looks; lessons.

    An act may be a function of the turn. None never answers; a text is a failure with that reason.
    """

    def __init__(self, clock, acts, looks=(YES,), lessons=(LESSON_PLAN,), delay_s=0.1):
        super().__init__(clock, acts, delay_s)
        self.scripts = {
            Purpose.ACT: list(acts), Purpose.CHECK: list(looks), Purpose.REFLECT: list(lessons),
        }
        self.revisions = None  # answers to turns that check another; acts where None
        self.tokens = 0  # computed per turn

    def submit(self, turn):
        """Take the next answer for the turn's purpose."""
        self.turns.append(turn)
        script = self.scripts[turn.memory.purpose if turn.memory else Purpose.CHECK]
        if turn.revises and self.revisions is not None:
            script = self.revisions
        answer = script.pop(0) if len(script) > 1 else script[0]
        answer = answer(turn) if callable(answer) else answer
        return _Pending(self, turn, answer, self._clock.now_ns())


class _Pending:
    def __init__(self, port, turn, answer, sent_ns):
        self._port, self._turn, self._answer, self._sent_ns = port, turn, answer, sent_ns

    def poll(self):
        due_ns = self._sent_ns + to_ns(self._port._delay_s)
        if self._answer is None or self._port._clock.now_ns() < due_ns:
            return None
        if isinstance(self._answer, (TurnAnswer, TurnFailure)):
            return self._answer
        if isinstance(self._answer, ActionPlan):
            return TurnAnswer(
                self._turn.turn_id, self._answer, self._sent_ns, due_ns,
                computed_token_count=self._port.tokens,
            )
        return TurnFailure(self._turn.turn_id, self._answer, 'scripted', Remedy.RETRY)

    def cancel(self):
        self._port.cancelled.append(self._turn.turn_id)


class ReactWorld(Lockstep):
    """The gantry in mode react; ``image`` is what the camera sees."""

    def __init__(
        self, manifest, acts, settings=None, looks=(YES,), lessons=(LESSON_PLAN,), store=None,
        sinks=(), delay_s=0.1,
    ):
        told = RobotSettings().changed({'agent.mode': 'react', **(settings or {})})
        super().__init__(manifest, acts, told)
        self.port = AgentPort(self.clock, acts, looks, lessons, delay_s)
        self.questions = []
        self.robot = Robot(
            manifest, self.port, self.decoder, self.clock, told, sinks=sinks, lessons=store,
            publish=lambda command: self.arm.command(command.positions),
            say=self.questions.append,
        )
        self.robot.activate()
        self.image = np.full((24, 32, 3), 128, np.uint8)
        self.each_step = lambda world: None

    def with_thing(self):
        """Lay a thing where the gripper closes."""
        self.arm.thing_m, self.arm.thing_below_m = 0.02, 0.05
        return self

    def step(self):
        """One period."""
        self.each_step(self)
        now_s = to_s(self.clock.now_ns())
        if self.has_joints:
            self.robot.observe_joints(now_s, self.arm.names, self.arm.positions)
        if self.has_images and self.robot.wants_image:
            self.robot.observe_image('front', now_s, self.image)
        self.robot.think()
        command = self.robot.tick()
        self.clock.advance(self.period_ns)
        return command

    def until_state(self, state, limit_s=60.0):
        """Go on until the agent is in a state."""
        return self.run(lambda robot: robot.status().phase == state, limit_s)

    def events(self, kind):
        """The events of a kind."""
        return [event for event in self.robot.events if event['event'] == kind]

    def results(self):
        """What came of the calls, in order."""
        return [(event['call']['tool'], event['result']) for event in self.events('entry')]

    @property
    def is_done(self):
        """True if the robot says that it has done its task."""
        result = self.robot.result
        return result is not None and result.outcome is TaskOutcome.DONE
