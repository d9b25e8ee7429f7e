# SPDX-License-Identifier: Apache-2.0
"""Gets the arm out of the way by motions of the robot's own, then goes on with what was meant."""

from collections.abc import Callable

from onboard_decoder.agent.react_state import State, States
from onboard_decoder.agent.step_runner import Body, Progress, StepRunner
from onboard_decoder.agent.turn_asker import Log
from onboard_decoder.plan import PlanStep

Next = Callable[[Body], None]


class Away:
    """One such motion at a time; the state is RESET while it lasts."""

    def __init__(self, runner: StepRunner, states: States, log: Log) -> None:
        self._runner, self._states, self._log = runner, states, log
        self._after: Next = lambda body: None
        self.asks_then = False

    def begin(
        self, steps: tuple[PlanStep, ...], after: Next, asks_then: bool = False
    ) -> None:
        """Move at the next ``advance``; ``after`` is called once, when the motion is over.

        ``asks_then`` says that it asks for the next call.
        """
        self._after, self.asks_then = after, asks_then
        self._runner.start(steps, is_retreat=True)
        self._log('retreat', skills=[step.skill.value for step in steps])
        self._states.enter(State.RESET)

    def advance(self, body: Body) -> None:
        """Move; a motion that fails is not tried again."""
        progress = self._runner.advance(body)
        if progress in (Progress.ALL_DONE, Progress.FAILED):
            self._log('away', progress=progress.value, failure=self._runner.failure)
            self._runner.stop()
            self._after(body)
