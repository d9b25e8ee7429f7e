# SPDX-License-Identifier: Apache-2.0
"""The gRPC service: hands streams and calls on, and turns errors into status codes, here only.

Knows gRPC and nothing about models; what happens inside a stream is in ``robot_stream``.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, NoReturn

from cloud_backbone import wire, wire_state
from cloud_backbone.config import LimitsConfig
from cloud_backbone.errors import DrainingError, LoadingError, reaction, TurnError
from cloud_backbone.planner import Planner
from cloud_backbone.robot_stream import RobotStream
import grpc
from protos import planner_pb2_grpc
from protos.protocol import REASON_KEY

log = logging.getLogger(__name__)


class PlannerService(planner_pb2_grpc.PlannerServicer):
    """Handlers of the Planner service. Until ``start`` all calls are refused as "loading"."""

    def __init__(self, limits: LimitsConfig) -> None:
        self._limits = limits
        self._planner: Planner | None = None
        self._ended: asyncio.Future[TurnError] = asyncio.get_running_loop().create_future()

    def start(self, planner: Planner) -> None:
        """Take calls."""
        self._planner = planner

    async def drain(self) -> None:
        """Take no more turns, finish those under way within the limit, then end all streams."""
        if self._planner is not None:
            self._planner.close()
            try:
                await asyncio.wait_for(self._planner.idle(), self._limits.drain_s)
            except asyncio.TimeoutError:
                log.warning('turns under way after %g s are dropped', self._limits.drain_s)
        if not self._ended.done():
            self._ended.set_result(DrainingError())

    async def Session(self, request_iterator: Any, context: Any) -> None:  # noqa: N802
        """Serve one robot."""

        async def read() -> Any:
            message = await context.read()
            return None if message is grpc.aio.EOF else message

        try:
            stream = RobotStream(self._ready(), read, context.write, self._ended)
            await stream.serve(self._limits.hello_timeout_s)
        except Exception as error:
            await _abort(context, error)

    async def CloseSession(self, request: Any, context: Any) -> Any:  # noqa: N802
        """End a session."""
        try:
            return wire.write_closed(self._ready().close_session(request.session_id))
        except Exception as error:
            await _abort(context, error)

    async def GetStats(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Return the counters."""
        try:
            return wire.write_stats(self._ready().stats())
        except Exception as error:
            await _abort(context, error)

    async def GetSessionState(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Say what a session holds."""
        try:
            planner = self._ready()
            state = await planner.caches.state(planner.session(request.session_id))
            return wire_state.write_state(state)
        except Exception as error:
            await _abort(context, error)

    async def Snapshot(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Write a session to the disk, or to the store that backbones share."""
        try:
            planner = self._ready()
            info = await planner.caches.snapshot(planner.session(request.session_id))
            return wire_state.write_snapshot(info)
        except Exception as error:
            await _abort(context, error)

    async def Restore(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Bring a session's cache back; from a shared store, also the session of another."""
        try:
            info = await self._ready().restore(request.session_id)
            return wire_state.write_restore(info)
        except Exception as error:
            await _abort(context, error)

    async def ClockSync(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Read the clock."""
        return wire.write_clock(time.monotonic_ns())

    def _ready(self) -> Planner:
        if self._planner is None:
            raise LoadingError
        return self._planner


async def _abort(context: Any, error: Exception) -> NoReturn:
    """End a call with the status, reason and message of an error."""
    if not isinstance(error, TurnError):
        log.exception('call failed', exc_info=error)
    told = reaction(error)
    metadata = ((REASON_KEY, wire.reason_name(told)),)
    await context.abort(told.status, told.message, trailing_metadata=metadata)
    raise AssertionError('abort returned')
