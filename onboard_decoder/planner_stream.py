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
from onboard_decoder.planner_port import Grant, Remedy, TurnAnswer, TurnFailure, TurnRequest
from protos import planner_pb2, planner_pb2_grpc

Result = TurnAnswer | TurnFailure


class NoWelcome(Exception):
    """The backbone did not answer the hello in time, or not with a welcome."""


class PlannerStream:
    """A stream; ``grant`` is set by the welcome."""

    def __init__(
        self,
        stub: planner_pb2_grpc.PlannerStub,
        hello: planner_pb2.SessionRequest,
        clock: Clock,
    ) -> None:
        self._clock = clock
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
        asked = AskedTurn(self, turn, self._clock)
        message = wire.to_turn(turn, self.grant.epoch)
        size, limit = message.ByteSize(), self.grant.max_message_bytes
        if 0 < limit < size:
            asked.settle(TurnFailure(
                turn.turn_id, 'too_large',
                f'turn has {size} bytes, the backbone takes {limit}; send fewer or smaller images',
                Remedy.FIX,
            ))
            return asked
        self._asked[turn.turn_id] = asked
        self._outgoing.put(message)
        return asked

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
        self._asked.pop(answer.turn_id, None)
        result = wire.from_answer(answer, asked.sent_ns, received_ns)
        asked.settle(result)
        return result


class AskedTurn:
    """A turn that was asked; see ``planner_port.PendingTurn``."""

    def __init__(self, stream: PlannerStream, turn: TurnRequest, clock: Clock) -> None:
        self._stream, self._turn, self._clock = stream, turn, clock
        self._result: Result | None = None
        self.sent_ns = clock.now_ns()

    def settle(self, result: Result) -> None:
        """Set the result."""
        self._result = result

    def poll(self) -> Result | None:
        """Return the result, or None while there is none; a turn past its deadline fails."""
        if self._result is None:
            deadline_ns = self.sent_ns + to_ns(self._turn.deadline_s)
            if self._clock.now_ns() > deadline_ns:
                self.cancel()
                self._result = TurnFailure(
                    self._turn.turn_id, 'deadline_passed',
                    f'no answer within {self._turn.deadline_s:g} s', Remedy.RETRY,
                )
        return self._result

    def cancel(self) -> None:
        """Withdraw the turn."""
        self._stream.forget(self._turn.turn_id)
