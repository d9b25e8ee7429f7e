# SPDX-License-Identifier: Apache-2.0
"""One robot's stream: hello first, then turns, each answered as soon as its plan is there.

A ping is answered as soon as it is read, so that a robot can tell a busy backbone from a dead one.

Reads and writes through two functions, so that it knows no gRPC. A turn's error is an answer;
an error of the stream is raised and ends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
import logging
import time
from typing import Any

from cloud_backbone import wire
from cloud_backbone.action_plan import Answer
from cloud_backbone.errors import (
    FixRequestError,
    reaction,
    Reason,
    ReopenSessionError,
    TurnError,
)
from cloud_backbone.messages import CancelTurn, Hello, Ping, Turn, Welcome
from cloud_backbone.planner import Planner
from cloud_backbone.session import Session

log = logging.getLogger(__name__)
MAX_UNSENT = 32
Read = Callable[[], Awaitable[Any]]
Write = Callable[[Any], Awaitable[None]]


class RobotStream:
    """Serves one stream from its first message to its last.

    Args:
        planner: opens sessions and answers turns.
        read: returns the next message, or None when the robot has half-closed.
        write: sends one message.
        ended: resolves to the error that ends all streams, for example a shutdown.
    """

    def __init__(
        self, planner: Planner, read: Read, write: Write, ended: asyncio.Future[TurnError]
    ) -> None:
        self._planner = planner
        self._read, self._write, self._ended = read, write, ended
        self._lock = asyncio.Lock()
        self._answers: set[asyncio.Task[None]] = set()

    async def serve(self, hello_timeout_s: float) -> None:
        """Serve until the robot half-closes.

        Raises:
            TurnError: the stream must end with a status.
        """
        hello = await self._hello(hello_timeout_s)
        session, welcome = await self._planner.open(hello)
        epoch = welcome.epoch
        try:
            if not await self._welcomed(welcome):
                return
            while (message := await self._next()) is not None:
                if not self._planner.sessions.holds(session):
                    raise ReopenSessionError(Reason.SESSION_LOST, 'this session was closed')
                await self._read_and_take(session, epoch, message)
                await self._make_room()
            if self._answers:
                await asyncio.wait(self._answers)
        finally:
            self._planner.sessions.detach(session, epoch)
            for answer in self._answers:
                answer.cancel()

    async def _make_room(self) -> None:
        """Read no further while a robot does not take its answers."""
        while len(self._answers) >= MAX_UNSENT and not self._ended.done():
            tasks: set[asyncio.Future[Any]] = {*self._answers, self._ended}
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

    async def _welcomed(self, welcome: Welcome) -> bool:
        """Send the welcome; say whether the robot is still there to hear it."""
        try:
            await self._send(wire.write_welcome(welcome))
        except Exception as error:
            log.info('session %s: the robot is gone: %s', welcome.session_id, error)
            return False
        return True

    async def _hello(self, timeout_s: float) -> Hello:
        try:
            message = await asyncio.wait_for(self._next(), timeout_s)
        except asyncio.TimeoutError as error:
            raise FixRequestError(
                Reason.PROTOCOL_ORDER, f'no hello within {timeout_s:g} s'
            ) from error
        hello = None if message is None else wire.read_request(message)
        if not isinstance(hello, Hello):
            said = 'nothing' if hello is None else type(hello).__name__
            raise FixRequestError(
                Reason.PROTOCOL_ORDER, f'the first message must be a Hello, was {said}'
            )
        return hello

    async def _next(self) -> Any:
        """Return the next message, None at the end. Raises the error that ends all streams."""
        reading = asyncio.ensure_future(self._read())

        def stop(ended: asyncio.Future[TurnError]) -> None:
            reading.cancel()

        self._ended.add_done_callback(stop)
        try:
            message = await reading
        except asyncio.CancelledError:
            if not self._ended.done():
                raise
        finally:
            self._ended.remove_done_callback(stop)
        if self._ended.done():
            raise self._ended.result()
        return message

    async def _read_and_take(self, session: Session, epoch: int, message: Any) -> None:
        """Take a message; a turn that cannot be read is answered by an error."""
        try:
            request = wire.read_request(message)
        except FixRequestError as error:
            turn_id = wire.turn_id_of(message)
            if turn_id is None:
                raise
            self._planner.count_error()
            await self._send(wire.write_error(turn_id, session.epoch, reaction(error)))
        else:
            self._take(session, epoch, request)

    def _take(
        self, session: Session, epoch: int, request: Hello | Turn | CancelTurn | Ping
    ) -> None:
        if isinstance(request, Hello):
            raise FixRequestError(
                Reason.PROTOCOL_ORDER, 'a second Hello on one stream; open another stream'
            )
        if isinstance(request, CancelTurn):
            if session.epoch == epoch:
                session.cancel(request.turn_id)
            return
        answer = asyncio.create_task(
            self._say(wire.write_pong(request.number), 'ping') if isinstance(request, Ping)
            else self._answer(session, epoch, request)
        )
        self._answers.add(answer)
        answer.add_done_callback(self._answers.discard)

    async def _answer(self, session: Session, epoch: int, turn: Turn) -> None:
        """Send one answer; a withdrawn turn gets none."""
        arrived_ns = time.monotonic_ns()
        try:
            task = self._planner.ask(session, turn)
            await asyncio.wait({task})
            if task.cancelled():
                return
            answer: Answer = task.result()
            message = wire.write_answer(turn.turn_id, epoch, answer, arrived_ns)
        except Exception as error:
            if not isinstance(error, TurnError):
                log.exception('turn %r failed', turn.turn_id)
            self._planner.count_error()
            message = wire.write_error(turn.turn_id, session.epoch, reaction(error))
        await self._say(message, f'turn {turn.turn_id!r}')

    async def _say(self, message: Any, what: str) -> None:
        """Send an answer; a robot that is gone needs none."""
        try:
            await self._send(message)
        except Exception as error:
            log.info('%s: the robot is gone before its answer: %s', what, error)

    async def _send(self, message: Any) -> None:
        async with self._lock:
            await self._write(message)

