# SPDX-License-Identifier: Apache-2.0
"""Chooses for every turn between the backbone and the small planner on board; see ``LinkJudge``.

The backbone comes first: with a good link it alone is asked. Where the link is bad both are, and
the small planner's answer is taken if it is sure enough; where the backbone does not answer in
time the small planner is asked as well. What it leaves to the backbone waits for it. Every answer
says who made it and why.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from onboard_decoder.clock import Clock, to_ns, to_s
from onboard_decoder.config import OffloadSettings
from onboard_decoder.errors import PlannerUnavailable
from onboard_decoder.fallback.heard_request import TooHard
from onboard_decoder.fallback.link_judge import LinkJudge
from onboard_decoder.fallback.onboard_planner import OnboardPlanner, OnboardTurn
from onboard_decoder.planner_port import (
    Choice,
    Link,
    PendingTurn,
    PlannerPort,
    PlannerState,
    Remedy,
    Source,
    TurnAnswer,
    TurnFailure,
    TurnRequest,
)


@dataclass(frozen=True, slots=True)
class _Probe:
    """A turn of the backbone whose answer nobody waits for, and when it was asked [ns]."""

    pending: PendingTurn
    asked_ns: int


class OffloadingPlanner:
    """A backbone and a small planner as one planner."""

    def __init__(
        self, cloud: PlannerPort, own: OnboardPlanner, settings: OffloadSettings, clock: Clock
    ) -> None:
        self._cloud, self._own, self._settings, self._clock = cloud, own, settings, clock
        self._judge = LinkJudge(settings, clock.now_ns())
        self._instruction = ''
        self._probe: _Probe | None = None

    def state(self) -> PlannerState:
        """Return the backbone's link, under what turns can be asked without it, and who plans."""
        state, choice = self.judged()
        fallback = self._own.grant if choice.source is Source.ONBOARD else None
        is_too_hard = isinstance(self._own.heard(self._instruction), TooHard)
        return replace(
            state, choice=choice, fallback=fallback,
            too_hard=self._instruction if is_too_hard else '',
        )

    def judged(self) -> tuple[PlannerState, Choice]:
        """Return the backbone's link and who is to plan."""
        state, now_ns = self._cloud.state(), self._clock.now_ns()
        return state, self._judge.judge(state, now_ns, self._owed_s(now_ns))

    def submit(self, turn: TurnRequest) -> OffloadedTurn:
        """Ask. Never waits. Raises PlannerUnavailable where neither can be asked."""
        self._instruction = turn.instruction
        self._own.listen(turn.instruction)
        state, choice = self.judged()
        cloud = self._ask_cloud(turn) if state.link is Link.READY else None
        wants_own = choice.source is Source.ONBOARD or cloud is None
        return OffloadedTurn(self, turn, choice, cloud, wants_own)

    def ask_own(self, turn: TurnRequest) -> OnboardTurn:
        """Ask the small planner."""
        return self._own.submit(turn)

    def keep_as_probe(self, pending: PendingTurn, asked_ns: int) -> None:
        """Let a turn of the backbone run on though its answer is dropped: it shows the link.

        Only one at a time; one that is not answered says that the next would not be either.
        """
        if self._probe is not None:
            self._probe.pending.cancel()
        self._probe = _Probe(pending, asked_ns)

    def _owed_s(self, now_ns: int) -> float:
        """Return for how long the probe has had no answer [s], 0 where there is no probe."""
        probe = self._probe
        if probe is None:
            return 0.0
        if probe.pending.poll() is not None:
            if self._probe is probe:
                self._probe = None
            return 0.0
        return to_s(now_ns - probe.asked_ns)

    @property
    def settings(self) -> OffloadSettings:
        """The numbers."""
        return self._settings

    def now_ns(self) -> int:
        """Return the time [ns]."""
        return self._clock.now_ns()

    def close(self) -> None:
        """Close both."""
        self._own.close()
        self._cloud.close()

    def _ask_cloud(self, turn: TurnRequest) -> PendingTurn | None:
        try:
            return self._cloud.submit(turn)
        except PlannerUnavailable:  # gone since its state was read
            return None


class OffloadedTurn:
    """A turn that was asked of one or both; see ``planner_port.PendingTurn``."""

    def __init__(
        self, planner: OffloadingPlanner, turn: TurnRequest, choice: Choice,
        cloud: PendingTurn | None, wants_own: bool,
    ) -> None:
        self._planner, self._turn, self._choice = planner, turn, choice
        self._cloud, self._own = cloud, planner.ask_own(turn) if wants_own else None
        self._asked_ns = planner.now_ns()
        self._own_reason = choice.reason if wants_own else ''
        self._cloud_failure: TurnFailure | None = None
        self._own_failure: TurnFailure | None = None
        self._result: TurnAnswer | TurnFailure | None = None

    def poll(self) -> TurnAnswer | TurnFailure | None:
        """Return the result, or None while there is none. Never waits."""
        if self._result is None:
            self._result = self._from_cloud() or self._from_own() or self._failed()
        return self._result

    def cancel(self) -> None:
        """Withdraw the turn from both."""
        for pending in (self._cloud, self._own):
            if pending is not None:
                pending.cancel()

    def _from_cloud(self) -> TurnAnswer | TurnFailure | None:
        """Take the backbone's answer if it is there; see to a deputy if it is not to be had."""
        found = self._cloud.poll() if self._cloud is not None else None
        if isinstance(found, TurnAnswer):
            if self._own is not None:
                self._own.cancel()
            reason = self._choice.reason
            if self._choice.source is Source.ONBOARD:
                reason = f'the backbone answered first, though {reason}'
            return replace(found, choice=Choice(Source.CLOUD, reason))
        if isinstance(found, TurnFailure):
            self._cloud, self._cloud_failure = None, found
            if found.remedy is Remedy.FIX:
                return found
            self._hedge(f'the backbone failed: {found.message}')
        elif self._cloud is not None and self._own is None:
            self._perhaps_hedge()
        return None

    def _perhaps_hedge(self) -> None:
        """Ask the small planner too once the backbone is late or out of sight."""
        late_s, waited_ns = self._planner.settings.late_s, self._planner.now_ns() - self._asked_ns
        if waited_ns > to_ns(late_s):
            self._hedge(f'no answer of the backbone for {to_s(waited_ns):.2f} s')
            return
        state, _ = self._planner.judged()
        if state.link is not Link.READY:
            self._hedge(f'link is {state.link.value}')

    def _hedge(self, reason: str) -> None:
        if self._own is None and self._own_failure is None:
            self._own, self._own_reason = self._planner.ask_own(self._turn), reason

    def _from_own(self) -> TurnAnswer | None:
        """Take the small planner's answer if there is one; the backbone's then comes too late."""
        found = self._own.poll() if self._own is not None else None
        if isinstance(found, TurnFailure):
            self._own, self._own_failure = None, found
        if not isinstance(found, TurnAnswer):
            return None
        if self._cloud is not None:
            self._planner.keep_as_probe(self._cloud, self._asked_ns)
        return replace(found, choice=Choice(Source.ONBOARD, self._own_reason))

    def _failed(self) -> TurnFailure | None:
        """Fail once nobody can answer any more: to be asked again, as the link may come back."""
        if self._cloud is not None or self._own is not None:
            return None
        failures = [f for f in (self._cloud_failure, self._own_failure) if f is not None]
        message = '; '.join(failure.message for failure in failures)
        return TurnFailure(self._turn.turn_id, failures[0].reason, message, Remedy.RETRY)
