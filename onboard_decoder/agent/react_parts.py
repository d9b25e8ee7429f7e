# SPDX-License-Identifier: Apache-2.0
"""What the react loop works with, as one value."""

from collections.abc import Callable
from dataclasses import dataclass

from onboard_decoder.agent.interlocks import Interlocks
from onboard_decoder.agent.motions import Motions
from onboard_decoder.agent.person import Person
from onboard_decoder.agent.plan_ahead import PlanAhead
from onboard_decoder.agent.reflexion import Reflexion
from onboard_decoder.agent.step_runner import StepRunner
from onboard_decoder.agent.tool_runner import ToolRunner
from onboard_decoder.agent.turn_asker import Log, TurnAsker
from onboard_decoder.agent.watch import Watch
from onboard_decoder.observation_intake import ObservationIntake
from onboard_decoder.trace_collector import TraceCollector


@dataclass(frozen=True)
class ReactParts:
    """The loop's hands, eyes and voice.

    Attributes:
      model: returns the fingerprint of the backbone's model, empty without a session.
      say: publishes a question to a person.
    """

    intake: ObservationIntake
    asker: TurnAsker
    ahead: PlanAhead
    interlocks: Interlocks
    tools: ToolRunner
    runner: StepRunner
    motions: Motions
    watch: Watch
    person: Person
    reflexion: Reflexion
    traces: TraceCollector
    log: Log
    model: Callable[[], str]
    say: Callable[[str], None]
