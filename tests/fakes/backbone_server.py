# SPDX-License-Identifier: Apache-2.0
"""The real backbone server in a thread of the test's process, on a free port."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
import threading
from types import TracebackType

from cloud_backbone.config import BackboneConfig, LimitsConfig
from cloud_backbone.model.backbone import Backbone
from cloud_backbone.model_thread import shelf_of, warm_up
from cloud_backbone.planner import ModelFacts, Planner
from cloud_backbone.serving import serve
from cloud_backbone.snapshot_exchange import exchange_of
from cloud_backbone.turn_planner import TurnPlanner

START_TIMEOUT_S = 120.0


class BackboneServer:
    """Serves a model. Use as a context manager; ``address`` is where it listens.

    With ``facts`` it is not warmed up; ``planner_of`` makes what answers its turns.
    """

    def __init__(
        self,
        backbone: Backbone,
        limits: LimitsConfig | None = None,
        config: BackboneConfig | None = None,
        facts: ModelFacts | None = None,
        planner_of: Callable[[Backbone], TurnPlanner] = TurnPlanner,
    ) -> None:
        limits = limits or LimitsConfig()
        self._config = replace(config or BackboneConfig(), port=0, limits=limits)
        self.executor = ThreadPoolExecutor(1)
        facts = facts or self.executor.submit(warm_up, backbone).result()
        self.planner = Planner(
            facts, planner_of(backbone), self.executor, limits, self._config.cache,
            shelf=shelf_of(self._config), exchange=exchange_of(self._config),
        )
        self.address = ''
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self) -> BackboneServer:
        """Return when it serves."""
        self._thread.start()
        assert self._ready.wait(START_TIMEOUT_S), 'the server did not start'
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Drain and stop."""
        self.stop()

    def stop(self) -> None:
        """Drain, stop, and wait for the end."""
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self.executor.shutdown()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()

        def ready(address: str, planner: Planner) -> None:
            self.address = address
            self._ready.set()

        await serve(self._config, on_ready=ready, stop=self._stop, planner=self.planner)
