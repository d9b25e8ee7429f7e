# SPDX-License-Identifier: Apache-2.0
"""The wait for the lesson of a failed trial: not longer than is allowed, and none is no harm."""

from onboard_decoder.agent.react_parts import ReactParts
from onboard_decoder.agent.step_runner import Body
from onboard_decoder.agent.trial import Trial
from onboard_decoder.clock import to_ns
from onboard_decoder.planner_port import TurnAnswer


class LessonWait:
    """Waits for one lesson at a time; the question is put by others."""

    def __init__(self, parts: ReactParts, wait_s: float) -> None:
        self._parts, self._wait_ns = parts, to_ns(wait_s)
        self._since_ns = 0

    def begin(self, now_ns: int) -> None:
        """Wait from now on."""
        self._since_ns = now_ns

    def is_over(self, body: Body, rest_since_ns: int | None, trial: Trial) -> bool:
        """Take the lesson about a trial if it is there; True once nothing is waited for."""
        parts = self._parts
        answer = parts.ahead.advance(body, rest_since_ns)
        if answer is None and body.now_ns - self._since_ns <= self._wait_ns:
            return False
        parts.ahead.cancel()
        if isinstance(answer, TurnAnswer):
            text = answer.plan.lesson
            lesson = parts.reflexion.learn(text, trial, parts.model())
            parts.log('lesson', turn_id=answer.turn_id, text=text, is_kept=lesson is not None)
        return True
