# SPDX-License-Identifier: Apache-2.0
"""Last before the arm: whatever comes in, what goes out obeys every limit of the manifest.

Invariant: behind every commanded motion there is a way to stand still that stays inside the joint
limits and, at every tick, inside the workspace; what would break it is replaced by a tick of that
way. Knows nothing of plans, chunks or clocks.
"""

from collections import Counter

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.chunk import Target
from onboard_decoder.joint_limiter import Brake, JointLimiter, Motion
from onboard_decoder.kinematics import ForwardKinematics
from onboard_decoder.manifest import Manifest

Array = NDArray[np.float64]

REFUSED = ('not_finite', 'wrong_width', 'position', 'workspace', 'stopping', 'solver')

_POSITION_SLACK = 1e-6  # [rad] or [m]; rounding of ruckig
_BOX_SLACK_M = 1e-4
_REST_SLACK = 1e-6


class SafetyFilter:
    """Turns targets into commands, one per tick.

    ``counts`` says how often what was refused or limited: not_finite, wrong_width, position
    (target beyond a joint's limit), workspace, stopping (no room to stop), solver.
    """

    def __init__(
        self, manifest: Manifest, kinematics: ForwardKinematics, follow_gain_per_s: float
    ) -> None:
        self._period_s = manifest.control_period_s
        self._lower, self._upper = manifest.column('lower'), manifest.column('upper')
        self._box_lower = np.array(manifest.workspace.lower_m)
        self._box_upper = np.array(manifest.workspace.upper_m)
        self._kinematics = kinematics
        self._limiter = JointLimiter(manifest, follow_gain_per_s)
        self._motion: Motion | None = None
        self._brake: Brake | None = None
        self._braked_s = 0.0
        # Every word from the start: others read it while a tick counts.
        self.counts = Counter(dict.fromkeys(REFUSED, 0))

    @property
    def motion(self) -> Motion:
        """The motion that was commanded last. Raises RuntimeError before ``reset``."""
        if self._motion is None:
            raise RuntimeError('safety filter was not reset to a measured pose')
        return self._motion

    @property
    def is_ready(self) -> bool:
        """True after ``reset``."""
        return self._motion is not None

    @property
    def is_at_rest(self) -> bool:
        """True if the commanded joints stand still."""
        return self._motion is None or (
            float(np.abs(self._motion.velocities).max()) < _REST_SLACK
            and float(np.abs(self._motion.accelerations).max()) < _REST_SLACK
        )

    @property
    def stop(self) -> tuple[Array, float]:
        """Where the joints would come to rest, (joints,), and after what time [s]."""
        assert self._brake is not None
        left_s = self._brake.trajectory.duration - self._braked_s
        return self._brake.end, max(0.0, left_s)

    def reset(self, measured: Array) -> Motion:
        """Start at a measured pose (joints,), at rest: the first command changes nothing."""
        motion = Motion.at_rest(measured)
        brake = self._limiter.brake(motion)
        if brake is None:
            raise RuntimeError(f'cannot stand still at {measured}')
        self._motion, self._brake, self._braked_s = motion, brake, 0.0
        return motion

    def forget(self) -> None:
        """Want a ``reset`` before the next step."""
        self._motion = None

    def step(self, target: Target | None) -> Motion:
        """Return the next motion: toward the target where that is allowed, else braking."""
        if target is None or not self._is_usable(target):
            return self.brake()
        positions, velocities = self._inside_limits(target)
        if self._leaves_box(positions):
            self.counts['workspace'] += 1
            return self.brake()
        wanted = self._limiter.toward(self.motion, positions, velocities)
        if wanted is None:
            self.counts['solver'] += 1
            return self.brake()
        return self._stoppable(wanted)

    def brake(self) -> Motion:
        """Return the next motion on the way to stand still; stays when there."""
        assert self._brake is not None
        self._braked_s += self._period_s
        self._motion = self._brake.at(self._braked_s)
        return self._motion

    def _is_usable(self, target: Target) -> bool:
        """Refuse and count NaN, infinity and other widths."""
        shape = self.motion.positions.shape
        if target.positions.shape != shape or target.velocities.shape != shape:
            self.counts['wrong_width'] += 1
            return False
        if not (np.isfinite(target.positions).all() and np.isfinite(target.velocities).all()):
            self.counts['not_finite'] += 1
            return False
        return True

    def _inside_limits(self, target: Target) -> tuple[Array, Array]:
        """Clip positions; a joint that was clipped is to come to rest, each (joints,)."""
        positions = np.clip(target.positions, self._lower, self._upper)
        clipped = np.abs(positions - target.positions) > _POSITION_SLACK
        if clipped.any():
            self.counts['position'] += 1
        return positions, np.where(clipped, 0.0, target.velocities)

    def _leaves_box(self, positions: Array) -> bool:
        """True if the tool would be outside the box and not on its way back, (joints,)."""
        outside_m = float(self._outside_m(positions))
        if outside_m <= _BOX_SLACK_M:
            return False
        return outside_m >= float(self._outside_m(self.motion.positions))

    def _strays(self, brake: Brake) -> bool:
        """True if the tool would be farther outside the box than now at a tick of the way."""
        outside_m = float(self._outside_m(brake.path(self._period_s)).max())
        if outside_m <= _BOX_SLACK_M:
            return False
        return outside_m > float(self._outside_m(self.motion.positions))

    def _outside_m(self, positions: Array) -> Array:
        """Return how far the tool is outside the workspace (...) [m], for joints (..., joints)."""
        tool = self._kinematics.tool_position(positions)
        beyond = np.maximum(self._box_lower - tool, tool - self._box_upper)
        return np.asarray(np.linalg.norm(np.maximum(beyond, 0.0), axis=-1))

    def _stoppable(self, wanted: Motion) -> Motion:
        """Take the wanted motion if the arm can stop after it; else brake what cannot."""
        assert self._brake is not None
        brake = self._limiter.brake(wanted)
        safe = self._brake.at(self._braked_s + self._period_s)
        beyond = self._beyond(brake) if brake is not None else np.full(len(self._lower), True)
        if beyond.any():
            self.counts['stopping'] += 1
            wanted = wanted.mixed(safe, beyond)
            brake = self._limiter.brake(wanted)
        if brake is None or self._strays(brake):
            self.counts['workspace' if brake is not None else 'solver'] += 1
            return self.brake()
        self._motion, self._brake, self._braked_s = wanted, brake, 0.0
        return wanted

    def _beyond(self, brake: Brake) -> NDArray[np.bool_]:
        """Return which joints could not stop inside their limits, (joints,).

        A joint that was measured beyond a limit may come back, not go farther.
        """
        now = self.motion.positions
        lowest = np.minimum(self._lower, now) - _POSITION_SLACK
        highest = np.maximum(self._upper, now) + _POSITION_SLACK
        return np.asarray((brake.lowest < lowest) | (brake.highest > highest))
