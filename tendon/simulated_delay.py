# SPDX-License-Identifier: Apache-2.0
"""A backbone whose answers take a chosen time on a simulated clock.

Asks the real one and waits for it in real time, while the simulation stands still; then keeps the
answer back until the simulated delay is over. So a slow machine changes how long an evaluation
takes, not what comes out of it.
"""

from dataclasses import replace
import time

from onboard_decoder.clock import Clock
from onboard_decoder.planner_port import (
    PendingTurn,
    PlannerPort,
    PlannerState,
    TurnAnswer,
    TurnFailure,
    TurnRequest,
)
from tendon.errors import PartNotReady

POLL_S = 0.0005
PATIENCE_S = 60.0


class SimulatedDelay:
    """Wraps a planner; keeps all its answers for whoever evaluates them."""

    def __init__(self, inner: PlannerPort, clock: Clock, delay_s: float) -> None:
        self._inner, self._clock = inner, clock
        self._delay_ns = round(delay_s * 1e9)
        self.answers: list[TurnAnswer] = []

    def state(self) -> PlannerState:
        """Return the real link's state."""
        return self._inner.state()

    def submit(self, turn: TurnRequest) -> 'DelayedTurn':
        """Ask, and wait in real time until there is an answer.

        Raises:
          PartNotReady: if the backbone does not answer at all.
        """
        sent_ns = self._clock.now_ns()
        result = _wait(self._inner.submit(turn))
        due_ns = sent_ns + self._delay_ns
        if isinstance(result, TurnAnswer):
            result = replace(result, sent_ns=sent_ns, received_ns=due_ns)
            self.answers.append(result)
        return DelayedTurn(result, self._clock, due_ns)

    def close(self) -> None:
        """Close the real one."""
        self._inner.close()


class DelayedTurn:
    """An answer that is there but not due."""

    def __init__(self, result: TurnAnswer | TurnFailure, clock: Clock, due_ns: int) -> None:
        self._result: TurnAnswer | TurnFailure | None = result
        self._clock, self._due_ns = clock, due_ns

    def poll(self) -> TurnAnswer | TurnFailure | None:
        """Return the answer once it is due on the simulated clock."""
        return self._result if self._clock.now_ns() >= self._due_ns else None

    def cancel(self) -> None:
        """Drop the answer."""
        self._result = None


def _wait(pending: PendingTurn) -> TurnAnswer | TurnFailure:
    deadline_s = time.monotonic() + PATIENCE_S
    while (result := pending.poll()) is None:
        if time.monotonic() > deadline_s:
            raise PartNotReady('backbone', PATIENCE_S)
        time.sleep(POLL_S)
    return result


def wait_for_session(planner: PlannerPort, timeout_s: float = PATIENCE_S) -> None:
    """Wait in real time until turns can be asked. Raises PartNotReady if that does not come."""
    deadline_s = time.monotonic() + timeout_s
    while (state := planner.state()).grant is None:
        if time.monotonic() > deadline_s:
            raise PartNotReady(f'backbone ({state.reason or state.link.value})', timeout_s)
        time.sleep(POLL_S)
