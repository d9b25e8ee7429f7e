# SPDX-License-Identifier: Apache-2.0
"""One stream to a backbone from hello to its end, and the turns that are asked on it.

Reads in the caller's thread; ``submit``, ``cancel`` and ``beat`` may come from others. Never
reconnects.
"""

from collections.abc import Iterator
import queue
import threading

import grpc
from onboard_decoder import wire
from onboard_decoder.clock import Clock, MonotonicClock, to_ns
from onboard_decoder.known_history import KnownHistory, Missing
from onboard_decoder.link_meter import LinkMeter
from onboard_decoder.planner_port import Grant, Remedy, TurnAnswer, TurnFailure, TurnRequest
from onboard_decoder.pulse import Pulse
from protos import planner_pb2, planner_pb2_grpc

Result = TurnAnswer | TurnFailure
MOST_CORRECTIONS = 2
"""How often one turn is sent again because the backbone lacks entries of its history."""

_MOST_PIXELS = 8192  # of an image that a backbone may ask for, to a side


class NoWelcome(Exception):
    """The backbone did not answer the hello in time, or not with a welcome."""


class PlannerStream:
    """A stream; ``grant`` is set by the welcome, ``why_ended`` where this side ended it.

    Of a turn's memory it sends what the backbone lacks, as far as ``history`` knows, and more
    where the backbone says so. The link itself is always measured in real time.
    """

    def __init__(
        self,
        stub: planner_pb2_grpc.PlannerStub,
        hello: planner_pb2.SessionRequest,
        clock: Clock,
        history: KnownHistory,
        meter: LinkMeter,
        ping_period_s: float,
    ) -> None:
        self._clock, self._history = clock, history
        self._real_clock, self._meter = MonotonicClock(), meter
        self._ping_period_s = ping_period_s
        self._pulse: Pulse | None = None
        self._outgoing: queue.SimpleQueue[planner_pb2.SessionRequest | None] = queue.SimpleQueue()
        self._outgoing.put(hello)
        self._asked: dict[str, AskedTurn] = {}
        self._call = stub.Session(iter(self._outgoing.get, None))
        self.grant: Grant | None = None
        self.why_ended = ''

    def welcome(self, timeout_s: float) -> Grant:
        """Wait for the welcome.

        Raises:
          NoWelcome: if it does not come in time.
          grpc.RpcError: if the backbone refused or the link broke.
        """
        timer = threading.Timer(timeout_s, self._call.cancel)
        timer.daemon = True
        timer.start()
        try:
            first = next(self._call)
        except StopIteration as error:
            raise NoWelcome('ended the stream without a welcome') from error
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.CANCELLED:
                raise NoWelcome(f'sent no welcome for {timeout_s:g} s') from error
            raise
        finally:
            timer.cancel()
        if first.WhichOneof('message') != 'welcome':
            raise NoWelcome('sent something else than a welcome')
        grant = wire.from_welcome(first.welcome)
        size = grant.image_width_px, grant.image_height_px
        if not all(0 < pixels <= _MOST_PIXELS for pixels in size):
            raise NoWelcome(f'wants images of {size[0]}x{size[1]} px, at most {_MOST_PIXELS} each')
        self.grant = grant
        if not self.grant.resumed:
            self._history.forget()
        if self.grant.answers_pings:
            self._pulse = Pulse(self._meter, self._ping_period_s, self._real_clock.now_ns())
        return self.grant

    def read(self) -> Iterator[Result]:
        """Hand answers to their turns until the stream ends; yields each one that was taken."""
        for response in self._call:
            if self._pulse is not None:
                self._pulse.sound()
                if response.WhichOneof('message') == 'pong':
                    self._pulse.answered(response.pong.number, self._real_clock.now_ns())
            if response.WhichOneof('message') != 'turn_answer':
                continue
            result = self._taken(response.turn_answer)
            if result is not None:
                yield result

    def beat(self) -> None:
        """Ping if that is due; call it often."""
        now_ns = self._real_clock.now_ns()
        if self._pulse is not None and self._pulse.look(now_ns):
            self._outgoing.put(wire.to_ping(self._pulse.ping(now_ns)))

    @property
    def silent_s(self) -> float:
        """How long the backbone has said nothing [s]; 0 where it answers no pings."""
        return self._pulse.silent_s if self._pulse is not None else 0.0

    def waiting_ns(self) -> int:
        """Return how long the oldest ping has been under way [ns], 0 if none is."""
        return self._pulse.waiting_ns(self._real_clock.now_ns()) if self._pulse else 0

    def submit(self, turn: TurnRequest) -> 'AskedTurn':
        """Send a turn; one that is too large fails at once and is not sent."""
        assert self.grant is not None
        asked = AskedTurn(self, turn, self._clock, self._history.missing(turn))
        asked.began_ns = self._real_clock.now_ns()
        self._asked[turn.turn_id] = asked
        self._send(asked, self.grant)
        if self.why_ended:  # in this moment, perhaps after its turns were failed
            self._break(turn.turn_id)
        return asked

    def _send(self, asked: 'AskedTurn', grant: Grant) -> None:
        turn, missing = asked.turn, asked.missing
        message = wire.to_turn(turn, grant.epoch, missing.task_number, missing.first_entry)
        size, limit = message.ByteSize(), grant.max_message_bytes
        if 0 < limit < size:
            self._asked.pop(turn.turn_id, None)
            asked.settle(TurnFailure(
                turn.turn_id, 'too_large',
                f'turn has {size} bytes, the backbone takes {limit}; send fewer or smaller images',
                Remedy.FIX,
            ))
            return
        now_ns = self._real_clock.now_ns()
        if self._pulse is None or not self._pulse.wants_upload(now_ns):
            self._outgoing.put(message)
            return
        before, after = self._pulse.ping(now_ns), self._pulse.ping(now_ns)
        self._pulse.uploaded(before, size, after)
        for each in (wire.to_ping(before), message, wire.to_ping(after)):
            self._outgoing.put(each)

    def overdue(self, asked: 'AskedTurn') -> None:
        """Withdraw a turn that got no answer in its time, and remember how long that was."""
        now_ns = self._real_clock.now_ns()
        self._meter.answer(now_ns, now_ns - asked.began_ns)
        self.forget(asked.turn.turn_id)

    def forget(self, turn_id: str) -> None:
        """Withdraw a turn; its answer will be dropped."""
        if self._asked.pop(turn_id, None) is not None:
            self._outgoing.put(wire.to_cancel(turn_id))

    def end(self, why: str) -> None:
        """End the stream; turns without an answer fail and may be asked again."""
        self.why_ended = self.why_ended or why
        self._outgoing.put(None)
        self._call.cancel()
        for turn_id in list(self._asked):
            self._break(turn_id)

    def _break(self, turn_id: str) -> None:
        """Let a turn fail that will not be answered any more."""
        asked = self._asked.pop(turn_id, None)
        if asked is not None:
            asked.settle(
                TurnFailure(turn_id, 'link_broken', self.why_ended, Remedy.REOPEN))

    def _taken(self, answer: planner_pb2.TurnAnswer) -> Result | None:
        """Give an answer to its turn; drop what is late or of another epoch."""
        received_ns = self._clock.now_ns()
        asked = self._asked.get(answer.turn_id)
        if asked is None or self.grant is None or answer.epoch != self.grant.epoch:
            return None
        expected = wire.from_gap(answer)
        if expected is not None and asked.corrections < MOST_CORRECTIONS:
            asked.missing = self._history.correct(asked.missing, expected)
            asked.corrections += 1
            self._send(asked, self.grant)
            return None
        now_ns = self._real_clock.now_ns()
        self._meter.answer(now_ns, now_ns - asked.began_ns)
        result = wire.from_answer(answer, asked.sent_ns, received_ns)
        self._asked.pop(answer.turn_id, None)
        if isinstance(result, TurnAnswer):
            self._history.learn(asked.missing, result.known_entries)
        asked.settle(result)
        return result


class AskedTurn:
    """A turn that was asked; see ``planner_port.PendingTurn``."""

    def __init__(
        self, stream: PlannerStream, turn: TurnRequest, clock: Clock, missing: Missing
    ) -> None:
        self._stream, self._clock = stream, clock
        self.turn, self.missing = turn, missing
        self.corrections = 0
        self._result: Result | None = None
        self.sent_ns = clock.now_ns()
        self.began_ns = 0  # the same in real time

    def settle(self, result: Result) -> None:
        """Set the result."""
        self._result = result

    def poll(self) -> Result | None:
        """Return the result, or None while there is none; a turn past its deadline fails."""
        if self._result is None:
            deadline_ns = self.sent_ns + to_ns(self.turn.deadline_s)
            if self._clock.now_ns() > deadline_ns:
                self._stream.overdue(self)
                self._result = TurnFailure(
                    self.turn.turn_id, 'deadline_passed',
                    f'no answer within {self.turn.deadline_s:g} s', Remedy.RETRY,
                )
        return self._result

    def cancel(self) -> None:
        """Withdraw the turn."""
        self._stream.forget(self.turn.turn_id)
