# SPDX-License-Identifier: Apache-2.0
"""An agent's backbone that knows the truth: right calls, right lessons, right second looks.

Reads the simulator; grounds its acts as the backbone would. Learns nothing and is no part of the
product. Like the backbone it never changes its manner without a lesson.
"""

from cloud_backbone.act import Act
from cloud_backbone.act_grounding import ActGrounder
from cloud_backbone.plan_vocabulary import Thing, Vocabulary
from cloud_backbone.task_memory import Manner, Tool
from fakes.oracle import Answered, embodiment_of, robot_step
from onboard_decoder.manifest import Manifest
from onboard_decoder.plan import ActionPlan, Outcome
from onboard_decoder.planner_port import Grant, Link, PlannerState, TurnAnswer, TurnRequest
import onboard_decoder.task_memory as robot
from onboard_decoder.task_memory import Purpose, StepResult, TaskMemory
from sim.camera import label_point
from sim.mujoco_arm import MujocoArm
from sim.tasks import Task

LESSONS = {
    StepResult.SLIPPED: 'The {} slips: grasp and carry it slowly.',
    StepResult.MISSED: 'The {} is low: grasp it lower.',
}
OTHER_LESSON = 'The {} moves: look before each step.'


class AgentOracle:
    """A planner port for turns with and without memory.

    Attributes:
      turns: what was asked.
      lies: says at once that it is done, whatever is true.
    """

    def __init__(
        self, manifest: Manifest, arm: MujocoArm, task: Task, lies: bool = False
    ) -> None:
        self._grounder = ActGrounder(embodiment_of(manifest), Vocabulary())
        self._arm, self._task, self.lies = arm, task, lies
        self.turns: list[TurnRequest] = []

    def state(self) -> PlannerState:
        """Return a session that is always there."""
        return PlannerState(
            Link.READY, '', Grant('oracle', 1, False, 'truth', 128, 128, 0, 1 << 20, 500)
        )

    def submit(self, turn: TurnRequest) -> Answered:
        """Answer at once."""
        self.turns.append(turn)
        return Answered(TurnAnswer(turn.turn_id, self._answer(turn.memory), 0, 0))

    def close(self) -> None:
        """Nothing to end."""

    def _answer(self, memory: TaskMemory | None) -> ActionPlan:
        if memory is None or memory.purpose is Purpose.CHECK:
            done = self._task.success(self._arm)
            return ActionPlan(Outcome.DONE if done else Outcome.REFUSED, reason='as it is')
        if memory.purpose is Purpose.REFLECT:
            return ActionPlan(Outcome.REFUSED, lesson=self._lesson(memory))
        plan = self._grounder.ground(self._act(memory))
        assert plan.call is not None
        call = robot.ToolCall(
            robot.Tool(plan.call.tool.value), plan.call.object_name, plan.call.target_name,
            robot.Manner(plan.call.manner.value), plan.call.question,
        )
        return ActionPlan(
            Outcome[plan.outcome.name], tuple(map(robot_step, plan.steps)), plan.thought,
            plan.reason, call=call,
        )

    def _lesson(self, memory: TaskMemory) -> str:
        codes = [e.result for e in memory.entries if e.result in LESSONS]
        name = self._arm.world.scene.entities[self._task.a].name
        return (LESSONS[codes[-1]] if codes else OTHER_LESSON).format(name)

    def _act(self, memory: TaskMemory) -> Act:
        task, last = self._task, [entry.result for entry in memory.entries][-1:]
        if task.kind == 'absent':
            gone = Thing('orange', 'ball')
            return Act(Tool.STOP if StepResult.SEEN in last else Tool.LOOK, gone)
        a, a_point = self._thing(task.a)
        b, b_point = self._thing(task.b) if task.b >= 0 else (None, None)

        def act(tool: Tool, manner: Manner = Manner.NORMAL) -> Act:
            held = memory.hand_holds
            return Act(tool, a, b, None if held else a_point, b_point, held, manner)

        if self.lies or task.success(self._arm):
            return act(Tool.DONE)
        if b is not None and task.kind != 'push' and self._is_taken():
            return act(Tool.STOP if StepResult.UNANSWERED in last else Tool.ASK)
        slow = any(f'{a} slips' in lesson for lesson in memory.lessons)
        low = any(f'{a} is low' in lesson for lesson in memory.lessons)
        if memory.hand_holds:
            tool = {'pick': Tool.DONE, 'put': Tool.PLACE, 'stack': Tool.STACK}[task.kind]
            return act(tool, Manner.SLOWLY if slow else Manner.NORMAL)
        if task.kind == 'push':
            return act(Tool.PUSH)
        return act(Tool.GRASP, Manner.LOW if low else Manner.SLOWLY if slow else Manner.NORMAL)

    def _is_taken(self) -> bool:
        """Say whether anything else is where the thing should go."""
        world, task = self._arm.world, self._task
        place = world.scene.entities[task.b]
        return any(
            abs((world.centre(i) - world.centre(task.b))[:2]).max() < place.radius_m
            for i in range(len(world.scene.entities)) if i not in (task.a, task.b)
        )

    def _thing(self, index: int) -> tuple[Thing, tuple[float, float]]:
        entity = self._arm.world.scene.entities[index]
        x, y = label_point(self._arm.world.centre(index))
        return Thing(entity.colour, entity.kind), (float(x), float(y))
