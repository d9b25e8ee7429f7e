# SPDX-License-Identifier: Apache-2.0
"""A robot's link to its backbone: one session, kept open for ever, seen without waiting.

A thread of its own opens the stream, says hello, reads answers, and opens it again with back-off
when it breaks; a session that the backbone lost is replaced by a new one. See ``planner_port`` for
what callers may rely on.
"""

from dataclasses import dataclass
import threading

import grpc
from onboard_decoder import wire
from onboard_decoder.clock import Clock, MonotonicClock, to_ns
from onboard_decoder.errors import PlannerUnavailable, SettingsError
from onboard_decoder.known_history import KnownHistory
from onboard_decoder.link_reason import explain, LinkReason
from onboard_decoder.manifest import Manifest
from onboard_decoder.planner_port import Link, PlannerState, Remedy, TurnFailure, TurnRequest
from onboard_decoder.planner_stream import AskedTurn, NoWelcome, PlannerStream
from protos import planner_pb2_grpc
from protos.protocol import CLIENT_OPTIONS, ROBOT_ID


@dataclass(frozen=True)
class LinkSettings:
    """How the link is opened and how long it may be gone.

    ``cache_policy`` empty and ``cache_budget_bytes`` 0 mean the backbone's default.
    """

    hello_timeout_s: float = 5.0
    backoff_first_s: float = 0.05
    backoff_most_s: float = 1.0
    refused_backoff_s: float = 3.0
    lost_after_s: float = 3.0
    cache_policy: str = ''
    cache_budget_bytes: int = 0


class PlannerClient:
    """Keeps one session open. Use as a context manager or call ``close``."""

    def __init__(
        self,
        address: str,
        robot_id: str,
        manifest: Manifest,
        settings: LinkSettings | None = None,
        clock: Clock | None = None,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        """Begin to connect; returns at once.

        Args:
          address: host:port of the backbone.
          robot_id: stable name of this robot.
          manifest: the robot.
          settings: the defaults where None.
          clock: for stamps and deadlines of turns; the machine's where None.
          credentials: for TLS; plaintext where None.

        Raises:
          SettingsError: for a robot id that no backbone takes.
        """
        if not ROBOT_ID.fullmatch(robot_id):
            raise SettingsError('robot_id', robot_id, f'text that matches {ROBOT_ID.pattern}')
        self._address, self._robot_id, self._manifest = address, robot_id, manifest
        self._settings, self._clock = settings or LinkSettings(), clock or MonotonicClock()
        self._channel = (
            grpc.secure_channel(address, credentials, options=CLIENT_OPTIONS) if credentials
            else grpc.insecure_channel(address, options=CLIENT_OPTIONS)
        )
        self._stub = planner_pb2_grpc.PlannerStub(self._channel)
        self._state = PlannerState(Link.CONNECTING, f'connecting to {address}')
        self._stream: PlannerStream | None = None
        self._session_id, self._history = '', KnownHistory()
        self._since_ns = self._clock.now_ns()  # since when there is no session
        self._closed = threading.Event()
        self.news = threading.Event()  # set when there is an answer or another state
        self.session_count = 0
        self._thread = threading.Thread(target=self._run, name='planner-link', daemon=True)
        self._thread.start()

    def state(self) -> PlannerState:
        """Return the link's state. Never waits."""
        return self._state

    def submit(self, turn: TurnRequest) -> AskedTurn:
        """Ask. Never waits. Raises PlannerUnavailable where there is no session."""
        stream = self._stream
        if stream is None:
            raise PlannerUnavailable(self._state.reason)
        return stream.submit(turn)

    def close(self) -> None:
        """End session and thread; idempotent."""
        if self._closed.is_set():
            return
        self._closed.set()
        stream = self._stream
        if stream is not None:
            stream.end('closed by this robot')
        if self._session_id:
            try:
                self._stub.CloseSession(wire.to_close(self._session_id), timeout=0.5)
            except grpc.RpcError:
                pass  # the backbone lets idle sessions expire
        self._channel.close()
        self._thread.join(timeout=2.0)
        self._state = PlannerState(Link.CLOSED, 'closed by this robot')

    def __enter__(self) -> 'PlannerClient':
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _run(self) -> None:
        """Open streams, one after the other, until closed."""
        backoff_s = self._settings.backoff_first_s
        while not self._closed.is_set():
            opened = self.session_count
            reason = self._converse()
            if self._closed.is_set():
                return
            if self.session_count > opened:
                backoff_s = self._settings.backoff_first_s
                self._since_ns = self._clock.now_ns()
            self._without_session(reason)
            self._closed.wait(self._settings.refused_backoff_s if reason.is_final else backoff_s)
            backoff_s = min(2 * backoff_s, self._settings.backoff_most_s)

    def _converse(self) -> LinkReason:
        """Hold one stream until it breaks; return why it did."""
        settings = self._settings
        hello = wire.to_hello(
            self._robot_id, self._manifest, self._session_id, settings.cache_policy,
            settings.cache_budget_bytes,
        )
        reason = LinkReason(f'backbone at {self._address} ended the session')
        stream = None
        try:
            stream = PlannerStream(self._stub, hello, self._clock, self._history)
            self._opened(stream)
            for result in stream.read():
                self.news.set()
                if isinstance(result, TurnFailure) and result.remedy is Remedy.REOPEN:
                    reason = LinkReason(f'backbone at {self._address}: {result.message}')
                    break
        except NoWelcome as error:
            reason = LinkReason(f'{self._address} {error}; is it a Tendon backbone?')
        except grpc.RpcError as error:
            reason = explain(error, self._address)
        except ValueError as error:  # the channel was closed in this moment
            reason = LinkReason(str(error))
        self._stream = None
        if stream is not None:
            stream.end(reason.text)
        return reason

    def _opened(self, stream: PlannerStream) -> None:
        """Take the welcome; turns can be asked from now on."""
        grant = stream.welcome(self._settings.hello_timeout_s)
        self._session_id = grant.session_id
        self._stream = stream
        self.session_count += 1
        self._state = PlannerState(Link.READY, f'session at {self._address}', grant)
        self.news.set()

    def _without_session(self, reason: LinkReason) -> None:
        """Say how bad it is."""
        gone_ns = self._clock.now_ns() - self._since_ns
        if reason.is_final or gone_ns > to_ns(self._settings.lost_after_s):
            link = Link.LOST
        else:
            link = Link.DEGRADED if self.session_count else Link.CONNECTING
        self._state = PlannerState(link, reason.text)
        self.news.set()
