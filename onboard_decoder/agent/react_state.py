# SPDX-License-Identifier: Apache-2.0
"""The states of the react loop and which may follow which."""

from enum import Enum

from onboard_decoder.agent.turn_asker import Log


class State(Enum):
    """What the agent is doing. PROPOSE, CHECK and ABORT are passed through at once."""

    IDLE = 'idle'
    GOAL = 'goal'  # an instruction is taken, a trial begins
    OBSERVE = 'observe'  # a new image of a resting arm is wanted
    THINK = 'think'  # the backbone chooses a tool call
    PROPOSE = 'propose'  # its answer is read
    CHECK = 'check'  # the interlocks decide whether it is carried out
    ACT = 'act'  # the arm carries it out
    ASK = 'ask'  # a person is asked
    VERIFY = 'verify'  # its effect is measured, or a claim is judged by a second look
    HOLD = 'hold'  # the arm comes to rest, or waits for the link
    RESET = 'reset'  # the arm gets out of the way by itself, and puts down what it holds
    REFLECT = 'reflect'  # the backbone draws a lesson from a failed trial
    ABORT = 'abort'  # the task is ended by a person or a limit


_END = {State.ABORT, State.IDLE}
NEXT = {
    State.IDLE: {State.GOAL},
    State.GOAL: {State.OBSERVE, *_END},
    State.OBSERVE: {State.THINK, State.PROPOSE, *_END},
    State.THINK: {State.OBSERVE, State.PROPOSE, *_END},
    State.PROPOSE: {State.CHECK, State.VERIFY, State.OBSERVE, State.RESET, *_END},
    State.CHECK: {State.ACT, State.ASK, State.VERIFY, State.OBSERVE, *_END},
    State.ACT: {State.VERIFY, State.HOLD, *_END},
    State.ASK: {State.VERIFY, *_END},
    State.VERIFY: {State.OBSERVE, State.RESET, State.CHECK, *_END},
    State.HOLD: {State.PROPOSE, State.OBSERVE, State.RESET, *_END},
    State.RESET: {State.OBSERVE, State.PROPOSE, State.REFLECT, State.GOAL, *_END},
    State.REFLECT: {State.GOAL, *_END},
    State.ABORT: {State.IDLE},
}
"""Which states may follow a state."""


class States:
    """The state of the loop; each change is an event."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.now = State.IDLE

    def enter(self, state: State) -> None:
        """Go to a state; nothing happens where it is already."""
        if state is not self.now:
            self.now = state
            self._log('state', state=state.value)
