# SPDX-License-Identifier: Apache-2.0
from onboard_decoder.errors import InstructionRefused
from onboard_decoder.inbox import Inbox, Kind, Message
import pytest


def test_messages_come_out_in_the_order_in_which_they_were_said():
    """Each stays until it has been taken."""
    inbox = Inbox()
    inbox.put(Kind.INSTRUCTION, ' pick it ', 100)
    inbox.put(Kind.STOP)
    inbox.put(Kind.ANSWER, 'yes', 100)

    taken = []
    while inbox.oldest is not None:
        taken.append(inbox.oldest)
        inbox.drop()

    assert taken == [
        Message(Kind.INSTRUCTION, 'pick it'), Message(Kind.STOP), Message(Kind.ANSWER, 'yes')]


def test_an_answer_does_not_make_the_robot_busy():
    """It begins nothing."""
    inbox = Inbox()
    inbox.put(Kind.ANSWER, 'yes', 100)
    assert not inbox.is_waiting
    inbox.put(Kind.STOP)
    assert inbox.is_waiting


@pytest.mark.parametrize('text', ['', '  ', 'x' * 11, 'a\x00b'])
@pytest.mark.parametrize('kind', [Kind.INSTRUCTION, Kind.ANSWER])
def test_what_is_no_text_is_refused_by_its_name(text, kind):
    """With the limit, and nothing is kept."""
    inbox = Inbox()

    with pytest.raises(InstructionRefused, match=f'{kind.value} .* 1 to 10 characters'):
        inbox.put(kind, text, 10)
    assert inbox.oldest is None


def test_stops_again_and_again_are_one():
    """An agent that fails at every thought stops the arm each time, and fills no memory."""
    inbox = Inbox()
    for _ in range(1000):
        inbox.put(Kind.STOP)
    inbox.put(Kind.INSTRUCTION, 'go home', 100)
    inbox.put(Kind.STOP)

    kinds = []
    while inbox.oldest is not None:
        kinds.append(inbox.oldest.kind)
        inbox.drop()
    assert kinds == [Kind.STOP, Kind.INSTRUCTION, Kind.STOP]
