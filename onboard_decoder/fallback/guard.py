# SPDX-License-Identifier: Apache-2.0
"""Gathers what the watchdog looks at, and keeps what it found: the faults of this moment.

Called by the agent's thread, each time it thinks; commands nothing itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from onboard_decoder.agent.agent import MadeAgent
from onboard_decoder.agent.turn_asker import Waiting
from onboard_decoder.chunk_maker import ChunkMaker
from onboard_decoder.config import WatchdogLimits
from onboard_decoder.fallback.fault_log import FaultLog, FaultRecord
from onboard_decoder.fallback.frozen_senses import FrozenCameras, FrozenJoints
from onboard_decoder.fallback.watchdog import Fault, Health, may_begin_step, Watchdog
from onboard_decoder.kinematics import ForwardKinematics
from onboard_decoder.manifest import Manifest
from onboard_decoder.observation_intake import ObservationIntake
from onboard_decoder.planner_port import PlannerPort, PlannerState
from onboard_decoder.servo import Servo


@dataclass(frozen=True)
class Watched:
    """What the guard looks after."""

    manifest: Manifest
    kinematics: ForwardKinematics
    intake: ObservationIntake
    planner: PlannerPort
    servo: Servo
    maker: ChunkMaker
    made: MadeAgent


class Guard:
    """Finds the faults; ``faults`` are those of the last ``check``."""

    def __init__(
        self, watched: Watched, limits: WatchdogLimits, watchdog: Watchdog,
        log: Callable[..., None],
    ) -> None:
        self._watched, self._watchdog = watched, watchdog
        self._joints = FrozenJoints(watched.manifest, limits)
        self._cameras = FrozenCameras(watched.manifest, watched.kinematics, limits)
        self._log = FaultLog(log)
        self._plan_wanted_ns: int | None = None
        self.faults: tuple[Fault, ...] = ()

    @property
    def may_begin_step(self) -> bool:
        """Whether the robot may begin a step."""
        return may_begin_step(self.faults)

    def forgive(self) -> None:
        """Give frozen senses another chance: a person wants the robot to go on."""
        self._joints.forget()
        self._cameras.forget()
        self._spread()

    def check(self, now_ns: int) -> None:
        """Find the faults of this moment [ns] and tell those who must know at once."""
        intake, servo = self._watched.intake, self._watched.servo
        if intake.joints is not None:
            motion = servo.motion
            self._joints.look(intake.joints, None if motion is None else motion.positions)
            self._cameras.look(intake.frames, intake.joints)
        self._spread()
        state = self._watched.planner.state()
        self.faults = self._watchdog.check(self._health(state, now_ns))
        self._log.update(self.faults, now_ns, self._details(state))

    def records(self, now_ns: int) -> Mapping[Fault, FaultRecord]:
        """Return since when each fault is there, and how often it came."""
        return self._log.records(now_ns)

    def _details(self, state: PlannerState) -> Mapping[Fault, str]:
        """Return what is to be said of some faults."""
        link = (Fault.SERVER_GONE, Fault.SERVER_SILENT, Fault.ON_ITS_OWN)
        details = dict.fromkeys(link, state.reason)
        details[Fault.IMAGE_FROZEN] = ', '.join(sorted(self._cameras.frozen))
        return details

    def _spread(self) -> None:
        """Let nothing that is frozen be acted on."""
        self._watched.servo.are_joints_frozen = self._joints.is_frozen
        self._watched.intake.distrusted = self._cameras.frozen

    def _health(self, state: PlannerState, now_ns: int) -> Health:
        """Gather what the watchdog looks at."""
        watched, servo, asker = self._watched, self._watched.servo, self._watched.made.asker
        is_moving = watched.made.agent.is_moving
        if is_moving or asker.waiting is Waiting.NOTHING:
            self._plan_wanted_ns = None
        elif self._plan_wanted_ns is None:
            self._plan_wanted_ns = now_ns
        wanted_ns = self._plan_wanted_ns
        return Health(
            joints_age_ns=watched.intake.joints_age_ns(),
            image_wait_ns=asker.image_wait_ns(now_ns),
            turn_age_ns=asker.turn_age_ns(now_ns),
            is_acting=is_moving and not watched.made.runner.is_waiting,
            has_target=not servo.is_dry,
            link=state.link,
            is_decoder_slow=watched.maker.is_slow,
            is_stopped=servo.is_stopped,
            pace=servo.pace,
            has_fallback=state.fallback_for(watched.made.agent.instruction) is not None,
            plan_wait_ns=None if wanted_ns is None else now_ns - wanted_ns,
            round_trip_s=state.quality.round_trip_s if state.quality else None,
            are_joints_frozen=self._joints.is_frozen,
            is_image_frozen=bool(self._cameras.frozen),
            is_estopped=servo.is_estopped,
        )
