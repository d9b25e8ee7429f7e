# SPDX-License-Identifier: Apache-2.0
"""A bad network between robot and backbone: a gRPC server that hands messages on, or worse.

It repeats messages, turns their order round, sends old ones again, and cuts streams at any place.
Knows the method's name and that the first message of a stream is special; the same seed draws the
same mischief for each stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
import itertools
import queue
from random import Random
import threading
from types import TracebackType
from typing import Any

import grpc
from protos import planner_pb2
from protos.protocol import CLIENT_OPTIONS, SERVER_OPTIONS

SESSION = '/tendon.v1.Planner/Session'
HOLD_S = 0.01
"""A message that is held back goes on after this time, if no other overtakes it."""
EXPECTED = (
    grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.NOT_FOUND,
)
Messages = queue.SimpleQueue[bytes | None]


@dataclass(frozen=True)
class Mischief:
    """How often each thing happens to a message."""

    repeat: float = 0.15
    overtake: float = 0.15
    old: float = 0.1
    cut: float = 0.05


class Cut(Exception):
    """The stream breaks here."""


class ChaosProxy(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Hands streams on to ``route``'s address. Use as a context manager."""

    def __init__(self, seed: int, mischief: Mischief | None = None) -> None:
        self.plans: dict[str, set[bytes]] = {}
        """Every plan that the backbone gave, by turn id."""
        self.faults: list[str] = []
        """Ends of streams that no network explains."""
        self.cuts = 0
        self._seed, self._mischief = seed, mischief or Mischief()
        self._streams = itertools.count()
        self._alive: set[Callable[[], None]] = set()
        self._asked: list[bytes] = []
        self._answered: list[bytes] = []
        self._channel: grpc.Channel | None = None
        self._server = grpc.server(ThreadPoolExecutor(16), options=SERVER_OPTIONS)
        self._server.add_generic_rpc_handlers((self,))
        self.address = f'127.0.0.1:{self._server.add_insecure_port("127.0.0.1:0")}'

    def __enter__(self) -> ChaosProxy:
        """Listen."""
        self._server.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop at once."""
        self._server.stop(None).wait()
        if self._channel is not None:
            self._channel.close()

    def service(self, details: Any) -> Any:
        """Take streams of sessions; all other calls are unknown here."""
        if details.method != SESSION:
            return None
        return grpc.stream_stream_rpc_method_handler(self._serve)

    def route(self, address: str) -> None:
        """Hand streams on to this backbone from now on."""
        former = self._channel
        self._channel = grpc.insecure_channel(address, options=CLIENT_OPTIONS)
        if former is not None:
            former.close()

    def cut(self) -> None:
        """Break all streams."""
        for end in list(self._alive):
            end()

    def _serve(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        name = f'{self._seed}-{next(self._streams)}'
        up, up_raw, down_raw = Messages(), Messages(), Messages()
        assert self._channel is not None
        call = self._channel.stream_stream(SESSION)(iter(up.get, None))
        broken = threading.Event()

        def end() -> None:
            broken.set()
            call.cancel()
            down_raw.put(None)
            up_raw.put(None)

        def send() -> None:
            try:
                for message in self._meddled(up_raw, Random(f'{name}-up'), self._asked):
                    up.put(message)
            except Cut:
                end()
            up.put(None)

        self._alive.add(end)
        _start(lambda: _pump(requests, up_raw))
        _start(send)
        _start(lambda: self._receive(call, down_raw))
        try:
            yield from self._meddled(down_raw, Random(f'{name}-down'), self._answered)
        except Cut:
            broken.set()
        finally:
            self._alive.discard(end)
            end()
        if broken.is_set() or call.code() is not grpc.StatusCode.OK:
            self.cuts += 1
            context.abort(grpc.StatusCode.UNAVAILABLE, 'the network is bad')

    def _receive(self, call: Any, down: Messages) -> None:
        """Take what the backbone says, and note its plans and its refusals."""
        try:
            for data in call:
                answer = planner_pb2.SessionResponse.FromString(data).turn_answer
                if answer.WhichOneof('result') == 'plan':
                    plan = answer.plan.SerializeToString(deterministic=True)
                    self.plans.setdefault(answer.turn_id, set()).add(plan)
                down.put(data)
        except grpc.RpcError as error:
            # A stream that was cut before its hello arrived has said nothing.
            said_nothing = 'was nothing' in (error.details() or '')
            if error.code() not in EXPECTED and not said_nothing:
                self.faults.append(f'{error.code()}: {error.details()}')
        down.put(None)

    def _meddled(self, source: Messages, rng: Random, past: list[bytes]) -> Iterator[bytes]:
        first = source.get()
        if first is None:
            return
        yield first
        held = list[bytes]()
        while True:
            try:
                message = source.get(timeout=HOLD_S if held else None)
            except queue.Empty:
                yield held.pop()
                continue
            if message is None:
                return
            if not held and rng.random() < self._mischief.overtake:
                held.append(message)
                continue
            yield from self._repeated(message, rng, past)
            while held:
                yield held.pop()

    def _repeated(self, message: bytes, rng: Random, past: list[bytes]) -> Iterator[bytes]:
        """Hand one message on, perhaps twice, perhaps with an old one, perhaps not at all."""
        mischief = self._mischief
        if rng.random() < mischief.cut:
            raise Cut
        yield message
        if rng.random() < mischief.repeat:
            yield message
        if past and rng.random() < mischief.old:
            yield rng.choice(past)
        past.append(message)
        if rng.random() < mischief.cut:
            raise Cut


def _pump(source: Iterator[bytes], sink: Messages) -> None:
    try:
        for message in source:
            sink.put(message)
    except (grpc.RpcError, Exception):  # the robot is gone
        pass
    sink.put(None)


def _start(work: Callable[[], None]) -> None:
    threading.Thread(target=work, daemon=True).start()
