# SPDX-License-Identifier: Apache-2.0
"""Gives a running robot one instruction, follows it to the end, and hands on answers to it.

Knows the robot's topics through ``conversation`` only; starts nothing.
"""

from collections.abc import Callable
import select
import sys

from protos.protocol import MAX_INSTRUCTION_CHARS
from rich.console import Console
from tendon.conversation import Conversation
from tendon.errors import BadRequest, PartNotReady
from tendon.follow import doing_of, follow

FIND_TIMEOUT_S = 10.0


def ask(instruction: str, timeout_s: float) -> int:
    """Ask and follow.

    Args:
      instruction: what the robot is to do.
      timeout_s: how long to follow.

    Returns:
      0 if the robot did it, 1 if it refused, gave up or is not done within the time.

    Raises:
      BadRequest: if the instruction cannot be sent, or no robot listens.
    """
    sentence = checked(instruction)
    console = Console(markup=False)  # a reason may have brackets
    with Conversation('tendon_ask') as talk:
        try:
            talk.wait_for_robot(FIND_TIMEOUT_S)
        except PartNotReady as error:
            raise BadRequest(
                'no robot listens: start one with "tendon robot" on the same ROS_DOMAIN_ID'
            ) from error
        return _follow(talk, sentence, timeout_s, console)


def checked(instruction: str) -> str:
    """Return the instruction without space around it. Raises BadRequest."""
    sentence = instruction.strip()
    if not 1 <= len(sentence) <= MAX_INSTRUCTION_CHARS:
        raise BadRequest(
            f'the instruction has {len(sentence)} characters; allowed: '
            f'1 to {MAX_INSTRUCTION_CHARS}'
        )
    return sentence


def _follow(talk: Conversation, sentence: str, timeout_s: float, console: Console) -> int:
    """Say it, show each new step, and return the exit status."""
    ended = follow(
        talk, sentence, timeout_s, lambda doing: console.print(f'  {doing}', highlight=False),
        _answering(talk, console) if sys.stdin.isatty() else lambda: None,
    )
    if ended is None:
        doing = doing_of(talk.status) or 'no sign of life'
        console.print(f'not done within {timeout_s:.0f} s; the robot goes on: {doing}')
        return 1
    console.print(f'{ended["outcome"]}: {ended["reason"]}'.rstrip(': '), highlight=False)
    return 0 if ended['outcome'] == 'done' else 1


def _answering(talk: Conversation, console: Console) -> Callable[[], None]:
    """Return what hands a typed line on while the robot asks something; it never waits."""
    asked = ''

    def look() -> None:
        nonlocal asked
        question = talk.status.get('question', '')
        if question and question != asked:
            console.print('  Type the answer, then Enter:', highlight=False)
        asked = question
        if question and select.select([sys.stdin], [], [], 0)[0]:
            line = sys.stdin.readline().strip()
            if line:
                talk.answer(line)

    return look
