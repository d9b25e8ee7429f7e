# SPDX-License-Identifier: Apache-2.0
"""Looks on while the arm moves: does what is seen now still call for what is being done?

Until something is touched, newer images are compared around the plan's targets with the image of
the decision. A change is judged by the backbone while the arm goes on (repair), or stops the arm
(exact). Nothing here waits or moves; the owner stops the arm and keeps it from touching anything
while ``may_touch`` is False.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from onboard_decoder.agent.decision import Decision, is_same_choice
from onboard_decoder.agent.image_change import changed_share, Point
from onboard_decoder.agent.sight import Sight
from onboard_decoder.agent.step_runner import Body
from onboard_decoder.agent.turn_asker import Log
from onboard_decoder.agent.turn_maker import TurnMaker
from onboard_decoder.clock import to_ns
from onboard_decoder.config import AgentSettings
from onboard_decoder.errors import PlannerUnavailable
from onboard_decoder.image_codec import Image
from onboard_decoder.observation_intake import CameraFrame, JointState, ObservationIntake
from onboard_decoder.planner_port import Link, PendingTurn, PlannerPort, TurnAnswer
from onboard_decoder.task_memory import TaskMemory


@dataclass(frozen=True, slots=True)
class Revision:
    """The arm must stop: take up ``decision``, or look anew where it is None."""

    reason: str
    decision: Decision | None = None


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question on its way."""

    turn_id: str
    pending: PendingTurn
    frames: dict[str, CameraFrame]


class Watch:
    """Watches one tool call at a time."""

    def __init__(
        self,
        sight: Sight,
        intake: ObservationIntake,
        planner: PlannerPort,
        maker: TurnMaker,
        settings: AgentSettings,
        log: Log,
    ) -> None:
        self._sight, self._camera = sight, sight.camera
        self._intake, self._planner, self._maker = intake, planner, maker
        self._settings, self._log = settings, log
        self._decision: Decision | None = None
        self._instruction, self._memory = '', TaskMemory()
        self._seen: dict[Point, Image] = {}
        self._asked: _Asked | None = None
        self._left = 0
        self._looked_ns = self._held_since_ns = 0

    def begin(
        self, decision: Decision, instruction: str, memory: TaskMemory, joints: JointState
    ) -> None:
        """Watch what a decision set in motion."""
        self.end()
        if self._settings.watch == 'off':
            return
        self._decision, self._instruction, self._memory = decision, instruction, memory
        self._left = self._settings.watch_turns
        self._looked_ns, self._held_since_ns, self._seen = decision.taken_ns, 0, {}
        self._remember(decision.frames, joints)

    def end(self) -> None:
        """Watch no more; a question on its way is withdrawn."""
        if self._asked is not None:
            self._asked.pending.cancel()
        self._asked, self._decision = None, None

    def wants_image(self, now_ns: int) -> bool:
        """True when it is time for another look; at once where the arm waits for it."""
        if self._decision is None or self._asked is not None or self._left == 0:
            return False
        is_due = now_ns - self._looked_ns >= to_ns(self._settings.watch_period_s)
        return is_due or self._looked_ns < self._held_since_ns

    @property
    def may_touch(self) -> bool:
        """True if what was seen since the arm waits before contact is in order."""
        if self._decision is None or (self._asked is None and self._left == 0):
            return True
        return self._asked is None and 0 < self._held_since_ns <= self._looked_ns

    def advance(
        self, body: Body, is_before_contact: bool, is_at_contact: bool
    ) -> Revision | None:
        """Look, ask, judge, as far as it is due.

        Args:
          body: what the body feels.
          is_before_contact: whether nothing has been touched.
          is_at_contact: whether the step that follows touches something.
        """
        if self._decision is None:
            return None
        if not is_before_contact:
            self.end()
            return None
        if not is_at_contact:
            self._held_since_ns = 0
        elif self._held_since_ns == 0:
            self._held_since_ns = body.now_ns
        elif body.now_ns - self._held_since_ns > to_ns(self._settings.watch_wait_s):
            return Revision('a change could not be judged in time')
        if self._asked is not None:
            return self._judged(self._asked, body)
        return self._look(body) if self.wants_image(body.now_ns) else None

    def _look(self, body: Body) -> Revision | None:
        """Compare a new image with the one of the decision."""
        frames = self._intake.fresh_frames(self._looked_ns)
        if frames is None:
            return None
        self._looked_ns = min(frame.stamp_ns for frame in frames.values())
        share = self._change(frames[self._camera.name].rgb, body.joints)
        if share < self._settings.watch_share:
            return None
        self._log('change_seen', share=round(share, 4),
                  observation_epoch=frames[self._camera.name].epoch)
        if self._settings.watch == 'exact':
            return Revision('the scene has changed')
        return self._ask(frames, body)

    def _change(self, now: Image, joints: JointState) -> float:
        """Return how much has changed around the targets that can be seen."""
        settings, worst = self._settings, 0.0
        for point in self._visible(joints):
            before = self._seen.setdefault(point, now)
            if before is not now:
                share = changed_share(before, now, (point,), settings.watch_radius)
                worst = max(worst, share)
        return worst

    def _visible(self, joints: JointState) -> list[Point]:
        """Return the targets that the hand does not cover."""
        assert self._decision is not None
        return self._sight.visible(self._decision.points, joints)

    def _remember(self, frames: Mapping[str, CameraFrame], joints: JointState) -> None:
        """Take images as what the decision rests on."""
        image = frames[self._camera.name].rgb
        self._seen = dict.fromkeys(self._visible(joints), image)

    def _ask(self, frames: dict[str, CameraFrame], body: Body) -> Revision | None:
        """Put the same question about the new image."""
        assert self._decision is not None
        state = self._planner.state()
        if state.link is not Link.READY or state.grant is None:
            return Revision(f'the scene has changed, and nobody can be asked: {state.reason}')
        turn = self._maker.make(
            self._instruction, frames, body.joints, state.grant, self._memory,
            revises=self._decision.turn_id,
        )
        try:
            pending = self._planner.submit(turn)
        except PlannerUnavailable as error:
            return Revision(str(error))
        self._left -= 1
        self._asked = _Asked(turn.turn_id, pending, frames)
        self._log('turn', turn_id=turn.turn_id, instruction=self._instruction,
                  observation_epoch=turn.observation_epoch, revises=turn.revises,
                  image_quality=turn.image_quality, session=state.grant.session_id)
        return None

    def _judged(self, asked: _Asked, body: Body) -> Revision | None:
        """Read the answer: the same choice again, or another one."""
        assert self._decision is not None
        result = asked.pending.poll()
        if result is None or result.turn_id != asked.turn_id:
            return None
        self._asked = None
        if not isinstance(result, TurnAnswer):
            return Revision(f'a change could not be judged: {result.message}')
        self._maker.computed_tokens += result.computed_token_count
        newer = Decision(asked.turn_id, result.plan, asked.frames)
        if not is_same_choice(self._decision.plan, result.plan, self._settings.watch_target_m):
            return Revision('the choice has changed', newer)
        certificate = result.plan.certificate
        self._log('certificate', turn_id=asked.turn_id, revises=self._decision.turn_id,
                  exactness=certificate.exactness.value if certificate else '',
                  freshest_epoch=max(frame.epoch for frame in asked.frames.values()))
        self._decision = Decision(asked.turn_id, self._decision.plan, asked.frames)
        self._remember(asked.frames, body.joints)
        return None
