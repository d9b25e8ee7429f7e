# SPDX-License-Identifier: Apache-2.0
"""A robot's link to its backbone: one session, kept open for ever, seen without waiting.

A thread of its own opens the stream, says hello, reads answers, and opens it again with back-off
when it breaks; a session that the backbone lost is replaced by a new one. Another thread pings: a
backbone that says nothing for a while is SILENT, and one that stays so gets another connection.
See ``planner_port`` for what callers may rely on.
"""

from dataclasses import dataclass, replace
import logging
import threading
import time

import grpc
from onboard_decoder import wire
from onboard_decoder.backbone_address import check_address
from onboard_decoder.clock import Clock, MonotonicClock, to_ns
from onboard_decoder.errors import PlannerUnavailable, SettingsError
from onboard_decoder.known_history import KnownHistory
from onboard_decoder.link_meter import LinkMeter
from onboard_decoder.link_reason import explain, LinkReason
from onboard_decoder.manifest import Manifest
from onboard_decoder.planner_port import (
    Link,
    LinkQuality,
    PlannerState,
    Remedy,
    TurnFailure,
    TurnRequest,
)
from onboard_decoder.planner_stream import AskedTurn, NoWelcome, PlannerStream
from protos import planner_pb2_grpc
from protos.protocol import CLIENT_OPTIONS, ROBOT_ID

log = logging.getLogger(__name__)

# Channels to the same address share connections unless told not to; an old connection that waits
# for its next retransmission would delay the new session by seconds.
_OPTIONS = (*CLIENT_OPTIONS, ('grpc.use_local_subchannel_pool', 1))


@dataclass(frozen=True)
class LinkSettings:
    """How the link is opened, how long it may be gone, and how long it may be silent.

    Nothing heard for ``silence_s``: SILENT; for ``dead_after_s``: another connection is opened.
    ``cache_policy`` empty and ``cache_budget_bytes`` 0 mean the backbone's default.
    """

    hello_timeout_s: float = 5.0
    backoff_first_s: float = 0.05
    backoff_most_s: float = 0.25
    refused_backoff_s: float = 3.0
    lost_after_s: float = 3.0
    ping_period_s: float = 0.1
    silence_s: float = 0.25
    silence_check_s: float = 0.02
    dead_after_s: float = 2.0
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
          SettingsError: for a robot id that no backbone takes, or an address that is none.
        """
        check_address(address)
        if not ROBOT_ID.fullmatch(robot_id):
            raise SettingsError('robot_id', robot_id, f'text that matches {ROBOT_ID.pattern}')
        self._address, self._robot_id, self._manifest = address, robot_id, manifest
        self._settings, self._clock = settings or LinkSettings(), clock or MonotonicClock()
        self._credentials = credentials
        self._channel: grpc.Channel | None = None
        self._meter, self._quality = LinkMeter(), LinkQuality()
        self._state = PlannerState(Link.CONNECTING, f'connecting to {address}')
        self._stream: PlannerStream | None = None
        self._session_id, self._history = '', KnownHistory()
        self._since_ns = self._clock.now_ns()  # since when there is no session
        self._closed = threading.Event()
        self.news = threading.Event()  # set when there is an answer or another state
        self.session_count = 0
        self._threads = [
            threading.Thread(target=work, name=name, daemon=True)
            for work, name in ((self._run, 'planner-link'), (self._beat, 'planner-pulse'))
        ]
        for thread in self._threads:
            thread.start()

    def state(self) -> PlannerState:
        """Return the link's state. Never waits."""
        state, stream = self._state, self._stream
        if state.link is Link.READY:
            if stream is None:  # it broke just now, and nobody has said so yet
                state = PlannerState(Link.DEGRADED, f'stream to {self._address} broke')
            elif stream.silent_s > self._settings.silence_s:
                silence = f'has said nothing for {stream.silent_s:.1f} s'
                state = replace(
                    state, link=Link.SILENT, reason=f'backbone at {self._address} {silence}')
        return replace(state, quality=self._quality)

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
            self._say_goodbye()
        if self._channel is not None:
            self._channel.close()
        for thread in self._threads:
            thread.join(timeout=2.0)
        self._state = PlannerState(Link.CLOSED, 'closed by this robot')

    def __enter__(self) -> 'PlannerClient':
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _say_goodbye(self) -> None:
        """End the session, if the backbone can be told quickly."""
        try:
            with self._new_channel() as channel:
                stub = planner_pb2_grpc.PlannerStub(channel)
                stub.CloseSession(wire.to_close(self._session_id), timeout=0.5)
        except grpc.RpcError:
            pass  # the backbone lets idle sessions expire

    def _new_channel(self) -> grpc.Channel:
        if self._credentials is not None:
            return grpc.secure_channel(self._address, self._credentials, options=_OPTIONS)
        return grpc.insecure_channel(self._address, options=_OPTIONS)

    def _beat(self) -> None:
        """Ping, listen for silence, and give up on a connection that stays silent."""
        while not self._closed.wait(self._settings.silence_check_s):
            try:
                self._beat_once()
            except Exception:
                # A thread that ended would leave a dead connection unseen for ever.
                log.exception('a ping failed')

    def _beat_once(self) -> None:
        stream, before = self._stream, self.state().link
        if stream is not None:
            stream.beat()
            if stream.silent_s > self._settings.dead_after_s:
                stream.end(f'backbone at {self._address} said nothing for '
                           f'{stream.silent_s:.1f} s; opening another connection')
        waiting_ns = stream.waiting_ns() if stream is not None else 0
        self._quality = self._meter.quality(time.monotonic_ns(), waiting_ns)
        if self.state().link is not before:
            self.news.set()

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
        stream, channel = None, self._new_channel()
        self._channel = channel
        try:
            if self._closed.is_set():  # since before ``close`` could see this channel
                return reason
            stream = PlannerStream(
                planner_pb2_grpc.PlannerStub(channel), hello, self._clock, self._history,
                self._meter, settings.ping_period_s,
            )
            self._opened(stream)
            for result in stream.read():
                self.news.set()
                if isinstance(result, TurnFailure) and result.remedy is Remedy.REOPEN:
                    reason = LinkReason(f'backbone at {self._address}: {result.message}')
                    break
        except NoWelcome as error:
            reason = LinkReason(f'{self._address} {error}; is it a Tendon backbone?')
        except grpc.RpcError as error:
            ended = stream.why_ended if stream is not None else ''
            reason = LinkReason(ended) if ended else explain(error, self._address)
        except ValueError as error:  # the channel was closed in this moment
            reason = LinkReason(str(error))
        except Exception as error:  # a thread that ended would never connect again
            log.exception('the stream to %s failed', self._address)
            reason = LinkReason(f'the stream to {self._address} failed: {error!r}; see the log')
        finally:
            self._stream = None
            if stream is not None:
                stream.end(reason.text)
            channel.close()
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
