# SPDX-License-Identifier: Apache-2.0
"""The part of the robot that runs at every tick: buffer, filter, command. Waits for nobody.

Knows chunks and joints; nothing of tasks, plans or the backbone. ``tick`` is called by one thread,
everything else may be called by another, and so may the reasons to brake be set:
``is_estopped`` while the emergency stop is pressed, ``are_joints_frozen`` while they are.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.chunk import Target
from onboard_decoder.chunk_maker import TickStamp
from onboard_decoder.clock import Clock
from onboard_decoder.config import ChunkSettings
from onboard_decoder.fallback.watchdog import Watchdog
from onboard_decoder.joint_limiter import Motion
from onboard_decoder.kinematics import ForwardKinematics
from onboard_decoder.manifest import Manifest
from onboard_decoder.observation_intake import ObservationIntake
from onboard_decoder.pace import PaceKeeper
from onboard_decoder.plan_buffer import PlanBuffer
from onboard_decoder.safety_filter import SafetyFilter
from onboard_decoder.starvation import Starvation
from onboard_decoder.trace_collector import TraceCollector

Array = NDArray[np.float64]

_DRY_TICKS = 5  # without a target while acting; fewer are the start of a step
_ARRIVED_S = 0.5  # when commands have rested for so long, an arm that follows rests too


@dataclass(frozen=True, slots=True)
class Command:
    """What the arm is to do at one tick: positions and velocities in the manifest's order.

    ``stop_positions`` is where it would stand still ``stop_s`` later if no command followed.
    """

    tick: int
    positions: Array
    velocities: Array
    stop_positions: Array
    stop_s: float

    @classmethod
    def of(cls, tick: int, motion: Motion, safety: SafetyFilter) -> 'Command':
        """Return the command of a motion, with the way to stop behind it."""
        return cls(tick, motion.positions, motion.velocities, *safety.stop)


Publish = Callable[[Command], None]


class Servo:
    """One command per tick, from the chunk that is being played or from the brake.

    ``moved_count`` is how often the arm was found elsewhere and commands began anew from there.
    """

    def __init__(
        self,
        manifest: Manifest,
        kinematics: ForwardKinematics,
        intake: ObservationIntake,
        watchdog: Watchdog,
        traces: TraceCollector,
        clock: Clock,
        settings: ChunkSettings,
        publish: Publish,
    ) -> None:
        self._intake, self._watchdog, self._traces = intake, watchdog, traces
        self._clock, self._publish = clock, publish
        self.buffer = PlanBuffer.of(manifest, settings)
        self._pace_keeper = PaceKeeper(manifest, settings.lag_s)
        self._consumed = 0.0
        self.pace = 1.0
        self._arrived_ticks = round(_ARRIVED_S / manifest.control_period_s)
        self._rested_ticks = 0  # for so many the commands have been at rest, with no target
        self.moved_count = 0
        self.filter = SafetyFilter(manifest, kinematics, settings.follow_gain_per_s)
        self._dry_ticks = 0
        self.starvation = Starvation()
        self._is_moving = False
        self.is_active = False
        self.is_stopped = False
        self.is_estopped = False
        self.are_joints_frozen = False
        self.last_tick: TickStamp | None = None

    def activate(self) -> None:
        """Command from the next tick on, starting at the measured pose."""
        self.filter.forget()
        self.buffer.clear()
        self.is_stopped, self._dry_ticks, self._rested_ticks = False, 0, 0
        self.is_active = True

    def deactivate(self) -> None:
        """Command nothing any more."""
        self.is_active = False

    def brake(self) -> None:
        """Come to rest, and stay until ``is_stopped`` is lifted."""
        self.is_stopped = True
        self.drop()

    def drop(self) -> None:
        """Forget what is being played."""
        self.starvation.expect(False)
        self.buffer.clear()

    def follow(self, is_moving: bool, is_between_steps: bool) -> None:
        """Learn whether steps are run; with the last of them ends what is played."""
        if self._is_moving and not is_moving:
            self.drop()
        self._is_moving = is_moving
        self.starvation.expect(is_moving and not is_between_steps)

    @property
    def motion(self) -> Motion | None:
        """What was commanded last; None while nothing is."""
        ready = self.is_active and self.filter.is_ready
        return self.filter.motion if ready else None

    @property
    def is_dry(self) -> bool:
        """True if there has been no target for some ticks."""
        return self._dry_ticks >= _DRY_TICKS

    def tick(self) -> Command | None:
        """Command one period; None while inactive, or while nobody knows where the arm is.

        That is at the start until there are fresh joints, and while joints are old once the arm
        has come to rest. What goes wrong inside is raised after the arm was told to
        brake.
        """
        is_start = not self.filter.is_ready or self._is_elsewhere()
        if not self.is_active or (is_start and not self._start()):
            return None
        number = self.last_tick.number + 1 if self.last_tick else 0
        last = self.filter.motion
        must_brake = self.must_brake
        if must_brake:
            self.buffer.clear()  # made from joints that are not to be trusted, or not wanted
        try:
            self._keep_pace(last.positions)
            self.last_tick = TickStamp(number, self._clock.now_ns(), self._consumed)
            # The first command of all is the measured pose, whatever there is to play.
            target = None if must_brake or is_start else self.buffer.sample(
                number, last, self._consumed, self.pace
            )
            self._note(target, must_brake)
            motion = self.filter.step(target and self._paced(target, last.positions))
        except Exception:
            # Braking needs nothing of what failed, and the arm must not be left in full motion.
            self.buffer.clear()
            self._publish(Command.of(number, self.filter.brake(), self.filter))
            raise
        filtered_ns = self._clock.now_ns()
        command = Command.of(number, motion, self.filter)
        self._publish(command)
        if target:
            self._traces.commanded(target.chunk_number, filtered_ns, self._clock.now_ns())
        return command

    def _note(self, target: Target | None, must_brake: bool) -> None:
        """Count the ticks without a target, those of them at rest, and those that starved."""
        self._dry_ticks = 0 if target else self._dry_ticks + 1
        is_at_rest = target is None and self.filter.is_at_rest
        self._rested_ticks = self._rested_ticks + 1 if is_at_rest else 0
        if must_brake:
            self.starvation.braked()
        else:
            self.starvation.saw(target is not None)

    def _keep_pace(self, commanded: Array) -> None:
        """Consume a tick, or less of it while the arm is behind; nothing where nothing plays.

        The arm may be behind what was commanded, (joints,), and the command behind the chunk,
        where a limit or the workspace held it back.
        """
        joints, played = self._intake.joints, self.buffer.played
        if played is None or played.heading is None:
            self.pace = 1.0
            return
        self.pace = self._pace_keeper.pace(played.positions, commanded, played.heading)
        if joints is not None:
            self.pace = min(
                self.pace, self._pace_keeper.pace(commanded, joints.positions, played.heading)
            )
        self._consumed += self.pace

    def _paced(self, target: Target, commanded: Array) -> Target:
        """Catch up with the chunk only as fast as the arm follows."""
        if self.pace == 1.0:
            return target
        way = target.positions - commanded
        return replace(target, positions=commanded + self.pace * way)

    def _start(self) -> bool:
        """Take the measured pose as the first command, if there is a fresh one."""
        joints = self._intake.joints
        if joints is None or self._are_joints_stale():
            return False
        self.moved_count += self.filter.is_ready
        self.filter.reset(joints.positions)
        self.buffer.clear()
        return True

    def _is_elsewhere(self) -> bool:
        """True if an arm that was told to rest may be, or is, where no command led it.

        It was moved by hand or sank while its drives had no power, or a simulator began anew. The
        old pose, commanded further, would then be a jump.
        """
        joints = self._intake.joints
        if self._rested_ticks < self._arrived_ticks or joints is None or self.are_joints_frozen:
            return False
        commanded = self.filter.motion.positions
        return self._are_joints_stale() or self._pace_keeper.is_behind(commanded, joints.positions)

    @property
    def must_brake(self) -> bool:
        """True where somebody stopped the arm, or its joints are not to be trusted."""
        stopped = self.is_stopped or self.is_estopped
        return stopped or self.are_joints_frozen or self._are_joints_stale()

    def _are_joints_stale(self) -> bool:
        return self._watchdog.are_joints_stale(self._intake.joints_age_ns())
