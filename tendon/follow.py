# SPDX-License-Identifier: Apache-2.0
"""Gives a robot an instruction and follows it to its result, step by step.

Knows what a status says; knows neither who shows the steps nor what the result is good for.
"""

from collections.abc import Callable

from tendon.conversation import Conversation, result_of, Status


def follow(
    talk: Conversation, sentence: str, timeout_s: float, show: Callable[[str], None],
    check: Callable[[], None] = lambda: None,
) -> Status | None:
    """Say the sentence and listen until the robot has a result for it.

    Args:
      talk: the way to the robot.
      sentence: the instruction.
      timeout_s: how long to follow.
      show: is told what the robot does, whenever that changes.
      check: is called all the time; may raise.

    Returns:
      The result, or None if there was none in time.
    """
    earlier = talk.status.get('result')  # of the same sentence, perhaps
    shown = ''

    def result() -> Status | None:
        found = result_of(talk.status, sentence) if talk.status else None
        return None if found == earlier else found

    def look() -> None:
        nonlocal shown
        check()
        doing = doing_of(talk.status)
        if doing and doing != shown:
            show(doing)
            shown = doing

    talk.say(sentence)
    talk.wait(lambda: result() is not None, timeout_s, look)
    return result()


def doing_of(status: Status) -> str:
    """Say in words what a robot with this status does; empty if it has nothing to do."""
    if not status or not status['instruction']:
        return ''
    if status.get('question'):
        return f'asks a person: {status["question"]}'
    if status['step']:
        tool = f'{status["tool"]}, ' if status.get('tool') else ''
        step = f'step {status["step_index"] + 1} of {status["step_count"]}: {status["step"]}'
        return f'{tool}{step}'
    return str(status['phase'])
