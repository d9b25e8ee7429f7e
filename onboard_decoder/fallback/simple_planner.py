# SPDX-License-Identifier: Apache-2.0
"""The small planner: an image and a sentence to a plan for a simple task, or why it is too hard.

Picks, puts into containers, goes home, stays, says that a thing is not there or that a task is
done. What it is not sure of it leaves to the backbone. One run takes a few milliseconds.
"""

from __future__ import annotations

import math

import numpy as np
from onboard_decoder.agent.motions import Motions
from onboard_decoder.agent.success import SuccessJudge
from onboard_decoder.config import RobotSettings
from onboard_decoder.fallback.heard_request import (
    Named,
    Request,
    TooHard,
    understand,
    words_of,
)
from onboard_decoder.fallback.onboard_model import OnboardModel, Reading
from onboard_decoder.fallback.seen_things import Picture, Seen
from onboard_decoder.fallback.simple_steps import OutOfReach, SimpleSteps, Spot
from onboard_decoder.image_codec import Image
from onboard_decoder.kinematics import ForwardKinematics
from onboard_decoder.manifest import Manifest
from onboard_decoder.observation_intake import JointState
from onboard_decoder.plan import ActionPlan, Outcome, PlanStep, Skill

INSIDE_M = 0.075
"""What lies in a container is not farther from its centre than this."""
SEEN, UNSEEN = 0.7, 0.03
"""Likelihoods above which a thing is there, and below which it is not; between, nobody knows."""
_BESIDE = 0.5  # presence of a thing where there should be none
_CONTAINER_RADIUS = 0.05  # share of the image side


class SimplePlanner:
    """One robot's small planner."""

    def __init__(
        self, manifest: Manifest, model: OnboardModel, settings: RobotSettings | None = None
    ) -> None:
        """Take the numbers by which the robot itself judges and moves; the defaults where None."""
        settings, kinematics = settings or RobotSettings(), ForwardKinematics(manifest)
        self._model, self._about = model, model.about
        self._steps = SimpleSteps(manifest)
        self._judge = SuccessJudge(manifest, kinematics, settings.success)
        self._motions = Motions(manifest, kinematics, self._judge, settings.limits.retreat_m)

    def request(self, instruction: str) -> Request | TooHard:
        """Return what a sentence asks for; sees no image."""
        words = words_of(instruction, self._about)
        if isinstance(words, TooHard):
            return words
        side = self._about.image_px
        return understand(
            words, self._model.read(np.zeros((side, side, 3), np.uint8), words), self._about)

    def plan(self, instruction: str, image: Image, joints: JointState) -> ActionPlan | TooHard:
        """Return a plan with its calibrated confidence.

        Args:
          instruction: what the person said.
          image: of the manifest's first camera, at the size that the model takes.
          joints: the newest.

        Raises:
          ValueError: for an image of another size.
        """
        words = words_of(instruction, self._about)
        if isinstance(words, TooHard):
            return words
        reading = self._model.read(image, words)
        request = understand(words, reading, self._about)
        if isinstance(request, TooHard):
            return request
        if request.task == 'stay':
            return self._plan(Outcome.DONE, request.certainty, 'I stay where I am.')
        if request.task == 'home':
            return self._go_home(request, joints)
        try:
            return self._handle(request, reading, joints)
        except OutOfReach as error:
            return self._plan(Outcome.REFUSED, request.certainty, str(error))

    def _go_home(self, request: Request, joints: JointState) -> ActionPlan:
        if self._judge.is_at_target(PlanStep(Skill.HOME), joints.positions):
            return self._plan(Outcome.DONE, request.certainty, 'I am at home.')
        steps = self._motions.away(joints, self._judge.is_holding(joints.positions))
        return self._plan(Outcome.STEPS, request.certainty, '', steps)

    def _handle(
        self, request: Request, reading: Reading, joints: JointState
    ) -> ActionPlan | TooHard:
        """Plan what is done with a thing."""
        picture = Picture(reading, self._about)
        assert request.a is not None
        a = picture.find(request.a.colour, request.a.kind)
        if a.likelihood < SEEN:
            return self._perhaps_absent(request, request.a, a)
        if request.b is None:
            return self._pick(request, request.a, a, joints)
        b = picture.find(request.b.colour, request.b.kind)
        if b.likelihood < SEEN:
            return self._perhaps_absent(request, request.b, b)
        return self._put(request, a, b, picture, joints)

    def _perhaps_absent(
        self, request: Request, thing: Named, seen: Seen
    ) -> ActionPlan | TooHard:
        """Refuse only what is surely not there: a refusal ends the task."""
        if seen.likelihood >= UNSEEN:
            return TooHard(f'cannot tell whether there is a {thing}', may_pass=True)
        score = request.certainty * (1.0 - seen.likelihood)
        return self._plan(Outcome.REFUSED, score, f'There is no {thing}.')

    def _pick(
        self, request: Request, thing: Named, a: Seen, joints: JointState
    ) -> ActionPlan | TooHard:
        score = request.certainty * _sureness(a)
        if a.is_held and self._judge.is_holding(joints.positions):
            return self._plan(Outcome.DONE, score, f'The gripper holds the {thing}.')
        problem = _hindrance(thing, a)
        if problem is not None:
            return problem
        spot = self._steps.spot(thing, a.point, a.yaw_rad)
        return self._plan(
            Outcome.STEPS, score, '', (*self._steps.take(spot), self._steps.hold(spot)))

    def _put(
        self, request: Request, a: Seen, b: Seen, picture: Picture, joints: JointState
    ) -> ActionPlan | TooHard:
        assert request.a is not None
        assert request.b is not None
        score = request.certainty * _sureness(a) * _sureness(b)
        to = self._steps.spot(request.b, b.point)
        at = self._steps.spot(request.a, a.point, a.yaw_rad)
        if a.is_supported and _distance_m(at, to) <= INSIDE_M:
            reason = f'Nothing to do: the {request.a} is in the {request.b}.'
            return self._plan(Outcome.DONE, score, reason)
        if picture.things_near(b.point, _CONTAINER_RADIUS) > _BESIDE:
            return TooHard(f'something is in the {request.b}', may_pass=True)
        if a.is_held and self._judge.is_holding(joints.positions):
            return self._plan(Outcome.STEPS, score, '', self._steps.put_down(to))
        problem = _hindrance(request.a, a)
        if problem is not None:
            return problem
        return self._plan(
            Outcome.STEPS, score, '', (*self._steps.take(at), *self._steps.put_down(to)))

    def _plan(
        self, outcome: Outcome, score: float, reason: str, steps: tuple[PlanStep, ...] = ()
    ) -> ActionPlan:
        """Return a plan whose confidence is the share of such plans that were right."""
        curve = self._about.curves[outcome.value]
        odds = min(max(score, 1e-6), 1.0 - 1e-6)
        logit = math.log(odds / (1.0 - odds))
        confidence = 1.0 / (1.0 + math.exp(-(curve.slope * logit + curve.offset)))
        thought = ' '.join(dict.fromkeys(
            f'The {s.object_name} is at {s.point[0]:.3f}, {s.point[1]:.3f}.'
            for s in steps if s.point is not None))
        return ActionPlan(outcome, steps, thought, reason, confidence=confidence)


def _sureness(seen: Seen) -> float:
    """Return how likely this is the one thing of its name."""
    return seen.likelihood * (1.0 - seen.second)


def _hindrance(thing: Named, seen: Seen) -> TooHard | None:
    """Return why a thing cannot simply be taken."""
    if seen.is_supported:
        return TooHard(f'the {thing} lies in or on something', may_pass=True)
    if seen.is_held:
        return TooHard(f'the {thing} hangs in the air', may_pass=True)
    return None


def _distance_m(a: Spot, b: Spot) -> float:
    return math.hypot(a.x - b.x, a.y - b.y)
