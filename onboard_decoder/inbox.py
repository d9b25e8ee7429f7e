# SPDX-License-Identifier: Apache-2.0
"""What people said to the robot, checked and in order, until the agent takes it.

Any thread may put; the agent's thread alone takes.
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum

from onboard_decoder.errors import InstructionRefused


class Kind(Enum):
    """Kinds of messages."""

    INSTRUCTION = 'instruction'
    ANSWER = 'answer'
    STOP = 'stop'


@dataclass(frozen=True, slots=True)
class Message:
    """One message; ``text`` is empty for a stop."""

    kind: Kind
    text: str = ''


class Inbox:
    """A queue of messages."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()

    def put(self, kind: Kind, text: str = '', limit: int = 0) -> None:
        """Take a message of at most ``limit`` characters. Raises InstructionRefused.

        A stop right behind a stop adds nothing: who stops again and again fills no queue.
        """
        newest = tuple(self._messages)[-1:]
        if kind is Kind.STOP and newest and newest[0].kind is Kind.STOP:
            return
        checked = '' if kind is Kind.STOP else _checked(kind.value, text, limit)
        self._messages.append(Message(kind, checked))

    @property
    def oldest(self) -> Message | None:
        """The message that is due; it stays until ``drop``."""
        return self._messages[0] if self._messages else None

    @property
    def is_waiting(self) -> bool:
        """True while an instruction or a stop has not been taken."""
        return any(message.kind is not Kind.ANSWER for message in tuple(self._messages))

    def drop(self) -> None:
        """Forget the message that was due: it has been taken."""
        self._messages.popleft()


def _checked(what: str, text: str, limit: int) -> str:
    """Return a text that a backbone or a person's log would take."""
    cleaned = text.strip()
    if not cleaned:
        raise InstructionRefused('is empty', limit, what)
    if len(cleaned) > limit:
        raise InstructionRefused(f'has {len(cleaned)} characters', limit, what)
    if not cleaned.isprintable():
        raise InstructionRefused('has control characters', limit, what)
    return cleaned
