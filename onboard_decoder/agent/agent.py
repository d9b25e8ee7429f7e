# SPDX-License-Identifier: Apache-2.0
"""What the robot needs of an agent, and how one is built for either mode."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from typing import Protocol

from onboard_decoder.agent.interlocks import Interlocks
from onboard_decoder.agent.lesson_store import LessonStore
from onboard_decoder.agent.motions import Motions
from onboard_decoder.agent.person import Person
from onboard_decoder.agent.plan_ahead import PlanAhead
from onboard_decoder.agent.react_loop import ReactLoop
from onboard_decoder.agent.react_parts import ReactParts
from onboard_decoder.agent.reflexion import Reflexion
from onboard_decoder.agent.sight import Sight
from onboard_decoder.agent.step_runner import Body, StepRunner
from onboard_decoder.agent.success import SuccessJudge
from onboard_decoder.agent.task_loop import TaskLoop
from onboard_decoder.agent.task_result import TaskResult
from onboard_decoder.agent.tool_runner import ToolRunner
from onboard_decoder.agent.turn_asker import Log, TurnAsker
from onboard_decoder.agent.turn_maker import TurnMaker
from onboard_decoder.agent.watch import Watch
from onboard_decoder.chunk_maker import ChunkMaker
from onboard_decoder.clock import Clock
from onboard_decoder.config import RobotSettings
from onboard_decoder.kinematics import ForwardKinematics
from onboard_decoder.manifest import Manifest
from onboard_decoder.observation_intake import ObservationIntake
from onboard_decoder.planner_port import PlannerPort
from onboard_decoder.trace_collector import TraceCollector


class Agent(Protocol):
    """Carries out one instruction at a time; no method waits."""

    result: TaskResult | None

    @property
    def instruction(self) -> str:
        """The task under way, empty if there is none."""
        ...

    @property
    def phase(self) -> Enum:
        """What the agent is doing."""
        ...

    @property
    def is_moving(self) -> bool:
        """True while steps are run."""
        ...

    @property
    def attempts(self) -> int:
        """Number of the attempt or trial."""
        ...

    @property
    def tool(self) -> str:
        """The tool in use, empty if there is none."""
        ...

    @property
    def question(self) -> str:
        """What a person is asked, empty if nothing is."""
        ...

    def wants_image(self, now_ns: int) -> bool:
        """True when a new image is of use, besides those that a question waits for."""
        ...

    def begin(self, instruction: str, now_ns: int) -> None:
        """Take an instruction; one that is under way is stopped."""
        ...

    def stop(self, reason: str, now_ns: int) -> None:
        """End the task, if there is one."""
        ...

    def answer(self, text: str) -> bool:
        """Take a person's answer; False if nothing is asked."""
        ...

    def expire(self, body: Body) -> bool:
        """End a task whose time is over, and say so; for while the arm brakes and none thinks."""
        ...

    def think(self, body: Body, rest_since_ns: int | None) -> None:
        """Do what is due now."""
        ...


@dataclass(frozen=True)
class AgentNeeds:
    """What an agent is built from; ``say`` publishes a question to a person."""

    manifest: Manifest
    kinematics: ForwardKinematics
    intake: ObservationIntake
    planner: PlannerPort
    clock: Clock
    chunks: ChunkMaker
    judge: SuccessJudge
    traces: TraceCollector
    log: Log
    lessons: LessonStore
    say: Callable[[str], None]


@dataclass(frozen=True)
class MadeAgent:
    """An agent, with the parts of it that the robot reports on."""

    agent: Agent
    asker: TurnAsker
    runner: StepRunner


def make_agent(needs: AgentNeeds, settings: RobotSettings) -> MadeAgent:
    """Build the agent of the mode that the settings name."""
    maker = TurnMaker(
        settings.limits.turn_deadline_s, lambda: needs.planner.state().quality
    )
    asker = TurnAsker(
        needs.intake, needs.planner, needs.clock, settings.limits, settings.watchdog, needs.log,
        maker,
    )
    runner = StepRunner(needs.chunks, needs.judge, settings)
    motions = Motions(
        needs.manifest, needs.kinematics, needs.judge, settings.limits.retreat_m
    )
    sight = Sight(needs.manifest, needs.kinematics, settings.agent.watch_radius)
    ahead = PlanAhead(
        asker, needs.intake, sight, settings.agent, settings.success.settle_s, needs.log
    )
    interlocks = Interlocks(needs.manifest, settings.agent.scene_max_age_s)
    if settings.agent.mode == 'plan':
        loop = TaskLoop(
            motions, interlocks, asker, ahead, runner, needs.judge, settings.limits, needs.traces,
            needs.log,
        )
        return MadeAgent(loop, asker, runner)
    parts = ReactParts(
        needs.intake, asker, ahead, interlocks, ToolRunner(runner, needs.judge, settings), runner,
        motions, _watch(needs, settings, maker, sight), Person(settings.agent.ask_wait_s),
        Reflexion(needs.lessons, settings.agent, _today), needs.traces, needs.log,
        lambda: _model(needs.planner), needs.say,
    )
    return MadeAgent(ReactLoop(parts, settings), asker, runner)


def _watch(
    needs: AgentNeeds, settings: RobotSettings, maker: TurnMaker, sight: Sight
) -> Watch:
    return Watch(sight, needs.intake, needs.planner, maker, settings.agent, needs.log)


def _model(planner: PlannerPort) -> str:
    """Return which model answers now."""
    grant = planner.state().grant
    return grant.model_fingerprint if grant is not None else ''


def _today() -> str:
    """Return date and time, UTC, for people who read the lessons."""
    return datetime.now(timezone.utc).isoformat(timespec='seconds')
