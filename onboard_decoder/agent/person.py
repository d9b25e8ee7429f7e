# SPDX-License-Identifier: Apache-2.0
"""A question to a person, and the wait for the answer, which has a deadline.

Knows words and time; what is done with them is with the caller.
"""

import re

from onboard_decoder.agent.effects import Effect
from onboard_decoder.agent.task_result import FailureCode
from onboard_decoder.clock import to_ns
from onboard_decoder.task_memory import StepResult

_NO = {'no', 'nope', 'never', 'cannot', 'impossible', 'later', 'not', 'stop', 'wait', 'unable'}
_FIRST = 3  # words that may say no: 'sorry, I cannot'
_CHARS = 200  # of an answer that are repeated


class Person:
    """Asks one question at a time."""

    def __init__(self, wait_s: float) -> None:
        self._wait_ns = to_ns(wait_s)
        self._asked_ns = 0
        self._answer: str | None = None
        self.question = ''

    def ask(self, question: str, now_ns: int) -> None:
        """Pose a question; the wait begins now."""
        self.question, self._asked_ns, self._answer = question, now_ns, None

    def answer(self, text: str) -> bool:
        """Take an answer; False if it has no word, nothing was asked, or it was answered."""
        if not self.question or self._answer is not None or not re.search(r'\w', text):
            return False
        self._answer = text.strip()
        return True

    def poll(self, now_ns: int) -> Effect | None:
        """Return what came of it, None while the person may still answer."""
        if not self.question:
            return None
        if self._answer is not None:
            effect = _meant(self._answer)
        elif now_ns - self._asked_ns > self._wait_ns:
            effect = Effect(StepResult.UNANSWERED, FailureCode.PERSON, 'no person answered')
        else:
            return None
        self.withdraw()
        return effect

    def withdraw(self) -> None:
        """Ask no more; a late answer is dropped."""
        self.question, self._answer = '', None


def _meant(answer: str) -> Effect:
    """Read an answer: whoever does not decline has done what was asked."""
    words = re.findall(r"[\w']+", answer.lower().replace('\u2019', "'"))[:_FIRST]
    said = 'a person said: ' + (answer if len(answer) <= _CHARS else f'{answer[:_CHARS]}...')
    if _NO.intersection(words) or any(word.endswith("n't") for word in words):
        return Effect(StepResult.UNANSWERED, FailureCode.PERSON, said)
    return Effect(StepResult.CLEARED, None, said)
