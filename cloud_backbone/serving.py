# SPDX-License-Identifier: Apache-2.0
"""The life of one server: bind, load, warm up, serve, drain.

The health service says SERVING only when a turn would take its normal time. SIGTERM and SIGINT
finish the turns under way, then end. Knows gRPC servers; what is served is made elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
import signal
from typing import Any

from cloud_backbone.config import BackboneConfig
from cloud_backbone.listening import bind
from cloud_backbone.model_thread import start_planner
from cloud_backbone.planner import Planner
from cloud_backbone.planner_service import PlannerService
import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from protos import planner_pb2_grpc
from protos.protocol import SERVER_OPTIONS

SERVICE = 'tendon.v1.Planner'
NAMES = (SERVICE, health.OVERALL_HEALTH)
LAST_WRITES_S = 1.0
Announce = Callable[[str, Planner], None]


def announce(address: str, planner: Planner) -> None:
    """Print the one line that says where the backbone serves."""
    print(f'backbone serves at {address}, model {planner.facts.fingerprint[:12]}', flush=True)


async def serve(
    config: BackboneConfig,
    *,
    on_ready: Announce = announce,
    stop: asyncio.Event | None = None,
    planner: Planner | None = None,
) -> None:
    """Serve until ``stop`` is set, or a signal arrives.

    Args:
        config: the settings.
        on_ready: told the address when turns are taken.
        stop: ends the server; signals are left alone if it is given.
        planner: takes the place of the one that the checkpoint would make.

    Raises:
        StartError: the port is taken or the checkpoint is not one.
    """
    stopping = stop or _stop_on_signals()
    executor = ThreadPoolExecutor(1, thread_name_prefix='model')
    service = PlannerService(config.limits)
    status = health.aio.HealthServicer()
    server = _server(service, status, config)
    try:
        address = bind(server, config)
        await _say(status, health_pb2.HealthCheckResponse.NOT_SERVING)
        await server.start()
        planner = planner or await _unless(stopping, start_planner(config, executor))
        if planner is not None:
            service.start(planner)
            await _say(status, health_pb2.HealthCheckResponse.SERVING)
            on_ready(address, planner)
            await stopping.wait()
    finally:
        await status.enter_graceful_shutdown()
        await service.drain()
        await server.stop(LAST_WRITES_S)
        if planner is not None:
            await planner.finish()
        executor.shutdown(wait=False, cancel_futures=True)


def _server(service: PlannerService, status: Any, config: BackboneConfig) -> grpc.aio.Server:
    # Each session holds one call; the rest is for unary calls and for streams without hello.
    server = grpc.aio.server(
        options=SERVER_OPTIONS, maximum_concurrent_rpcs=2 * config.limits.max_sessions + 16
    )
    planner_pb2_grpc.add_PlannerServicer_to_server(service, server)
    health_pb2_grpc.add_HealthServicer_to_server(status, server)
    names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)
    return server


async def _say(status: Any, value: int) -> None:
    for name in NAMES:
        await status.set(name, value)


async def _unless(stopping: asyncio.Event, work: Any) -> Any:
    """Return what ``work`` returns, or None if the server is to stop before."""
    task = asyncio.ensure_future(work)
    stopped = asyncio.ensure_future(stopping.wait())
    await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not task.done():
        task.cancel()
        return None
    return task.result()


def _stop_on_signals() -> asyncio.Event:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    return stopping
