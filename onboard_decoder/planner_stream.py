# SPDX-License-Identifier: Apache-2.0
"""One stream to a backbone from hello to its end, and the turns that are asked on it.

Reads in the caller's thread; ``submit`` and ``cancel`` may come from another. Never reconnects.
"""

from collections.abc import Iterator
import queue
import threading

import grpc
from onboard_decoder import wire
from onboard_decoder.clock import Clock, to_ns
from onboard_decoder.known_history import KnownHistory, Missing
from onboard_decoder.planner_port import Grant, Remedy, TurnAnswer, TurnFailure, TurnRequest
from protos import planner_pb2, planner_pb2_grpc

Result = TurnAnswer | TurnFailure
MOST_CORRECTIONS = 2
"""How often one turn is sent again because the backbone lacks entries of its history."""


class NoWelcome(Exception):
    """The backbone did not answer the hello in time, or not with a welcome."""


class PlannerStream:
    """A stream; ``grant`` is set by the welcome.

    Of a turn's memory it sends what the backbone lacks, as far as ``history`` knows, and more
    where the backbone says so.
    """

    def __init__(
        self,
        stub: planner_pb2_grpc.PlannerStub,
        hello: planner_pb2.SessionRequest,
        clock: Clock,
        history: KnownHistory | None = None,
    ) -> None:
        self._clock, self._history = clock, history or KnownHistory()
        self._outgoing: queue.SimpleQueue[planner_pb2.SessionRequest | None] = queue.SimpleQueue()
        self._outgoing.put(hello)
        self._asked: dict[str, AskedTurn] = {}
        self._call = stub.Session(iter(self._outgoing.get, None))
        self.grant: Grant | None = None
        self.dropped_count = 0

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
        self.grant = wire.from_welcome(first.welcome)
        if not self.grant.resumed:
            self._history.forget()
        return self.grant

    def read(self) -> Iterator[Result]:
        """Hand answers to their turns until the stream ends; yields each one that was taken."""
        for response in self._call:
            if response.WhichOneof('message') != 'turn_answer':
                continue
            result = self._taken(response.turn_answer)
            if result is not None:
                yield result

    def submit(self, turn: TurnRequest) -> 'AskedTurn':
        """Send a turn; one that is too large fails at once and is not sent."""
        assert self.grant is not None
        asked = AskedTurn(self, turn, self._clock, self._history.missing(turn))
        self._asked[turn.turn_id] = asked
        self._send(asked, self.grant)
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
        else:
            self._outgoing.put(message)

    def forget(self, turn_id: str) -> None:
        """Withdraw a turn; its answer will be dropped."""
        if self._asked.pop(turn_id, None) is not None:
            self._outgoing.put(wire.to_cancel(turn_id))

    def end(self, why: str) -> None:
        """End the stream; turns without an answer fail and may be asked again."""
        self._outgoing.put(None)
        self._call.cancel()
        for turn_id in list(self._asked):
            asked = self._asked.pop(turn_id, None)
            if asked is not None:
                asked.settle(TurnFailure(turn_id, 'link_broken', why, Remedy.REOPEN))

    def _taken(self, answer: planner_pb2.TurnAnswer) -> Result | None:
        """Give an answer to its turn; drop what is late or of another epoch."""
        received_ns = self._clock.now_ns()
        asked = self._asked.get(answer.turn_id)
        if asked is None or self.grant is None or answer.epoch != self.grant.epoch:
            self.dropped_count += 1
            return None
        expected = wire.from_gap(answer)
        if expected is not None and asked.corrections < MOST_CORRECTIONS:
            asked.missing = self._history.correct(asked.missing, expected)
            asked.corrections += 1
            self._send(asked, self.grant)
            return None
        self._asked.pop(answer.turn_id, None)
        result = wire.from_answer(answer, asked.sent_ns, received_ns)
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

    def settle(self, result: Result) -> None:
        """Set the result."""
        self._result = result

    def poll(self) -> Result | None:
        """Return the result, or None while there is none; a turn past its deadline fails."""
        if self._result is None:
            deadline_ns = self.sent_ns + to_ns(self.turn.deadline_s)
            if self._clock.now_ns() > deadline_ns:
                self.cancel()
                self._result = TurnFailure(
                    self.turn.turn_id, 'deadline_passed',
                    f'no answer within {self.turn.deadline_s:g} s', Remedy.RETRY,
                )
        return self._result

    def cancel(self) -> None:
        """Withdraw the turn."""
        self._stream.forget(self.turn.turn_id)
