# SPDX-License-Identifier: Apache-2.0
"""A backbone without a model: a real gRPC server that answers with the plans it was given.

Speaks the whole protocol (hello, epochs, repeated and cancelled turns) and can be late, frozen or
killed. Knows nothing about models and imports neither the cloud's nor the robot's code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
import itertools
import queue
import threading
import time
from types import TracebackType

import grpc
from protos import latency, plan_pb2, planner_pb2, planner_pb2_grpc
from protos.protocol import (
    MAX_INSTRUCTION_CHARS,
    MAX_MESSAGE_BYTES,
    PROTOCOL_VERSION,
    REASON_KEY,
    SERVER_OPTIONS,
)

from tests.fakes.scripted_histories import ScriptedHistories
from tests.fakes.scripted_plans import plan_of as plan_of
from tests.fakes.scripted_plans import step as step

Answer = plan_pb2.ActionPlan | planner_pb2.TurnError
Script = Callable[[planner_pb2.Turn], Answer]
Said = planner_pb2.TurnAnswer | planner_pb2.Pong | None


class ScriptedPlanner(planner_pb2_grpc.PlannerServicer):
    """Answers the n-th turn with the n-th plan (the last one for ever), or asks a function.

    Use as a context manager, or ``start`` and ``stop`` it. ``hellos``, ``turns`` and ``cancelled``
    record what robots sent. ``delay_s`` may be changed while it runs. ``histories`` holds the
    entries of each task of each session.
    """

    def __init__(
        self,
        answers: Iterable[Answer] | Script = (),
        *,
        delay_s: float = 0.0,
        image_size: tuple[int, int] = (128, 128),
        latent_size: int = 0,
        port: int = 0,
    ) -> None:
        self.delay_s = delay_s
        self.hellos: list[planner_pb2.Hello] = []
        self.turns: list[planner_pb2.Turn] = []
        self.cancelled: list[str] = []
        self.port = port
        self.histories = ScriptedHistories()
        self._script = answers if callable(answers) else _in_order(list(answers) or [plan_of()])
        self._image_size, self._latent_size = image_size, latent_size
        self._thawed, self._speaking = threading.Event(), threading.Event()
        self._thawed.set()
        self._speaking.set()
        self._epochs = itertools.count(1)
        self._stored: dict[str, dict[str, planner_pb2.TurnAnswer]] = {}
        self._lock = threading.Lock()
        self._server: grpc.Server | None = None

    @property
    def address(self) -> str:
        """Where it listens, as a gRPC target."""
        return f'127.0.0.1:{self.port}'

    def start(self) -> ScriptedPlanner:
        """Listen; the port stays the same when it is started again after ``stop`` or ``kill``."""
        self._server = grpc.server(ThreadPoolExecutor(16), options=SERVER_OPTIONS)
        planner_pb2_grpc.add_PlannerServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(self.address)
        self._server.start()
        return self

    def stop(self, grace_s: float | None = None) -> None:
        """Stop listening and end all streams, after ``grace_s`` at most."""
        self.thaw()
        self.speak()
        if self._server is not None:
            self._server.stop(grace_s).wait()
            self._server = None

    def kill(self) -> None:
        """Stop at once and forget all sessions, as a crashed process would."""
        self.stop()
        with self._lock:
            self._stored.clear()
            self.histories.clear()

    def freeze(self) -> None:
        """Be busy: keep connections and answer pings, but no turn until ``thaw``."""
        self._thawed.clear()

    def thaw(self) -> None:
        """Give the answers that ``freeze`` held back."""
        self._thawed.set()

    def hush(self) -> None:
        """Be silent, as a stopped process is: say nothing at all until ``speak``."""
        self._speaking.clear()

    def speak(self) -> None:
        """Say what ``hush`` held back."""
        self._speaking.set()

    def __enter__(self) -> ScriptedPlanner:
        """Start it."""
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop it."""
        self.stop()

    def Session(  # noqa: N802 - the name is gRPC's
        self,
        request_iterator: Iterator[planner_pb2.SessionRequest],
        context: grpc.ServicerContext,
    ) -> Iterator[planner_pb2.SessionResponse]:
        """Serve one robot."""
        first = next(request_iterator, None)
        if first is None or first.WhichOneof('message') != 'hello':
            _abort(context, 'PROTOCOL_ORDER', 'the first message must be a hello')
        assert first is not None
        if first.hello.protocol_version != PROTOCOL_VERSION:
            _abort(
                context,
                'PROTOCOL_MISMATCH',
                f'robot speaks protocol version {first.hello.protocol_version}, '
                f'backbone speaks {PROTOCOL_VERSION}',
            )
        self.hellos.append(first.hello)
        welcome = self._welcome(first.hello)
        yield planner_pb2.SessionResponse(welcome=welcome)
        answers: queue.SimpleQueue[Said] = queue.SimpleQueue()
        threading.Thread(
            target=self._read, args=(request_iterator, welcome, answers), daemon=True
        ).start()
        while (said := answers.get()) is not None:
            self._speaking.wait()
            is_pong = isinstance(said, planner_pb2.Pong)
            yield planner_pb2.SessionResponse(**{'pong' if is_pong else 'turn_answer': said})

    def CloseSession(  # noqa: N802
        self, request: planner_pb2.CloseSessionRequest, context: grpc.ServicerContext
    ) -> planner_pb2.CloseSessionResponse:
        """Forget a session."""
        with self._lock:
            was_open = self._stored.pop(request.session_id, None) is not None
        return planner_pb2.CloseSessionResponse(was_open=was_open)

    def GetStats(  # noqa: N802
        self, request: planner_pb2.GetStatsRequest, context: grpc.ServicerContext
    ) -> planner_pb2.GetStatsResponse:
        """Count what happened."""
        return planner_pb2.GetStatsResponse(
            model_fingerprint='scripted',
            open_session_count=len(self._stored),
            plan_count=len(self.turns),
            protocol_version=PROTOCOL_VERSION,
        )

    def ClockSync(  # noqa: N802
        self, request: planner_pb2.ClockSyncRequest, context: grpc.ServicerContext
    ) -> planner_pb2.ClockSyncResponse:
        """Read the clock."""
        return planner_pb2.ClockSyncResponse(monotonic_ns=time.monotonic_ns())

    def _welcome(self, hello: planner_pb2.Hello) -> planner_pb2.Welcome:
        with self._lock:
            resumed = hello.session_id in self._stored
            epoch = next(self._epochs)
            session_id = hello.session_id if resumed else f'scripted-{epoch}'
            self._stored.setdefault(session_id, {})
        width, height = self._image_size
        return planner_pb2.Welcome(
            session_id=session_id,
            epoch=epoch,
            resumed=resumed,
            model_fingerprint='scripted',
            image_width_px=width,
            image_height_px=height,
            latent_size=self._latent_size,
            cache_policy=hello.cache_policy or 'full',
            cache_budget_bytes=hello.cache_budget_bytes,
            max_message_bytes=MAX_MESSAGE_BYTES,
            max_instruction_chars=MAX_INSTRUCTION_CHARS,
            answers_pings=True,
        )

    def _read(
        self,
        requests: Iterator[planner_pb2.SessionRequest],
        welcome: planner_pb2.Welcome,
        answers: queue.SimpleQueue[Said],
    ) -> None:
        workers = []
        try:
            for request in requests:
                if request.WhichOneof('message') == 'cancel_turn':
                    self.cancelled.append(request.cancel_turn.turn_id)
                elif request.WhichOneof('message') == 'ping':
                    answers.put(planner_pb2.Pong(number=request.ping.number))
                elif request.WhichOneof('message') == 'turn':
                    worker = threading.Thread(
                        target=lambda turn=request.turn: answers.put(self._answer(turn, welcome)),
                        daemon=True,
                    )
                    worker.start()
                    workers.append(worker)
        except grpc.RpcError:
            pass  # the robot is gone, or kill() ended the stream
        for worker in workers:
            worker.join()
        answers.put(None)

    def _answer(
        self, turn: planner_pb2.Turn, welcome: planner_pb2.Welcome
    ) -> planner_pb2.TurnAnswer:
        answer = planner_pb2.TurnAnswer(turn_id=turn.turn_id, epoch=welcome.epoch)
        if turn.epoch != welcome.epoch:
            answer.error.reason = planner_pb2.ERROR_REASON_STALE_EPOCH
            answer.error.remedy = planner_pb2.REMEDY_REOPEN_SESSION
            answer.error.message = f'turn has epoch {turn.epoch}, session has {welcome.epoch}'
            return answer
        stopwatch = latency.Stopwatch()
        with stopwatch.measure('queue'):
            self._thawed.wait()
        with stopwatch.measure('decode'):
            time.sleep(self.delay_s)
            with self._lock:
                stored = self._stored.setdefault(welcome.session_id, {})
                if turn.turn_id in stored:
                    answer.CopyFrom(stored[turn.turn_id])
                    answer.epoch = welcome.epoch
                    return answer
                if not self.histories.apply(welcome.session_id, turn, answer):
                    return answer
                self.turns.append(turn)
                result = self._script(turn)
                if isinstance(result, planner_pb2.TurnError):
                    answer.error.CopyFrom(result)
                else:
                    answer.plan.CopyFrom(result)
                    _certify(answer.plan.certificate, turn.observation.observation_epoch)
                stored[turn.turn_id] = answer
        answer.backbone_trace.CopyFrom(latency.to_trace(stopwatch.durations_ns))
        return answer


def _certify(certificate: plan_pb2.Certificate, observation_epoch: int) -> None:
    certificate.stalest_observation_epoch = observation_epoch
    certificate.freshest_observation_epoch = observation_epoch
    certificate.exactness = plan_pb2.EXACTNESS_NUMERIC


def _in_order(answers: list[Answer]) -> Script:
    remaining = iter(answers)
    return lambda turn: next(remaining, answers[-1])


def _abort(context: grpc.ServicerContext, reason: str, message: str) -> None:
    context.set_trailing_metadata(((REASON_KEY, f'ERROR_REASON_{reason}'),))
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, message)
