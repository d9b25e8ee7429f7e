# SPDX-License-Identifier: Apache-2.0
"""Newest joints, by name, and newest image of each camera, with their ages.

Knows the manifest; nothing of ROS, networks or what the data is for. Writers replace whole values,
so readers of other threads need no lock. Nothing old is handed out silently: every value carries
its stamp.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.clock import Clock, to_ns, to_s
from onboard_decoder.errors import ImageRefused, JointsRefused
from onboard_decoder.image_codec import check_size, Image
from onboard_decoder.manifest import Manifest

Array = NDArray[np.float64]

_MOST_AHEAD_S = 0.1  # of the clock; two processes read it at different moments


@dataclass(frozen=True, slots=True)
class JointState:
    """Measured joints in the manifest's order, (joints,), with the time of measurement."""

    stamp_ns: int
    positions: Array
    velocities: Array


@dataclass(frozen=True, slots=True)
class CameraFrame:
    """One image (height, width, 3) RGB, its stamp and the time of its arrival."""

    stamp_ns: int
    arrived_ns: int
    epoch: int
    rgb: Image


class ObservationIntake:
    """Takes observations, refuses bad ones, hands out the newest."""

    def __init__(self, manifest: Manifest, clock: Clock, range_tolerance: float) -> None:
        self._manifest, self._clock = manifest, clock
        self._names = manifest.joint_names
        lower, upper = manifest.column('lower'), manifest.column('upper')
        slack = range_tolerance * (upper - lower)
        self._lower, self._upper = lower - slack, upper + slack
        self._epoch = 0
        self.joints: JointState | None = None
        self.frames: dict[str, CameraFrame] = {}
        self.distrusted: frozenset[str] = frozenset()  # cameras whose images are not to be used
        self.refused_count = 0

    def take_joints(
        self,
        stamp_s: float,
        names: Sequence[str],
        positions: Sequence[float] | Array,
        velocities: Sequence[float] | Array | None = None,
    ) -> None:
        """Take a joint message; its order may vary, joints of others are ignored.

        Velocities that are missing are estimated from the message before.

        Raises:
          JointsRefused: and the message is dropped.
        """
        try:
            self._check_stamp(JointsRefused, stamp_s)
            joints = self._read(stamp_s, names, positions, velocities)
        except JointsRefused:
            self.refused_count += 1
            raise
        if self.joints is None or joints.stamp_ns >= self.joints.stamp_ns:
            self.joints = joints

    def take_image(self, camera: str, stamp_s: float, rgb: Image) -> CameraFrame:
        """Take an image (height, width, 3) RGB. Raises ImageRefused and drops the image."""
        try:
            known = {entry.name: entry for entry in self._manifest.cameras}
            if camera not in known:
                raise ImageRefused(f'camera {camera!r} is unknown; cameras are {", ".join(known)}')
            check_size(rgb, known[camera])
            self._check_stamp(ImageRefused, stamp_s)
        except ImageRefused:
            self.refused_count += 1
            raise
        self._epoch += 1
        frame = CameraFrame(to_ns(stamp_s), self._clock.now_ns(), self._epoch, rgb)
        newest = self.frames.get(camera)
        if newest is None or frame.stamp_ns >= newest.stamp_ns:
            self.frames[camera] = frame
        return frame

    def fresh_frames(self, after_ns: int) -> dict[str, CameraFrame] | None:
        """Return one frame per camera, all taken after a time [ns] and to be trusted, or None."""
        frames = dict(self.frames)
        if self.distrusted or len(frames) < len(self._manifest.cameras):
            return None
        return frames if all(frame.stamp_ns > after_ns for frame in frames.values()) else None

    def joints_age_ns(self) -> int | None:
        """Return the age of the newest joints [ns], None where there are none."""
        return None if self.joints is None else self._clock.now_ns() - self.joints.stamp_ns

    def _read(
        self,
        stamp_s: float,
        names: Sequence[str],
        positions: Sequence[float] | Array,
        velocities: Sequence[float] | Array | None,
    ) -> JointState:
        """Order by name and check."""
        index = {name: i for i, name in enumerate(names)}
        missing = [name for name in self._names if name not in index]
        if missing:
            raise JointsRefused.missing(missing, names)
        if len(positions) != len(names):
            raise JointsRefused.wrong_width('positions', len(positions), len(names))
        order = [index[name] for name in self._names]
        measured = np.asarray(positions, dtype=np.float64)[order]
        self._check(measured)
        stamp_ns = to_ns(stamp_s)
        if velocities is None or len(velocities) == 0:
            return JointState(stamp_ns, measured, self._estimated(stamp_ns, measured))
        if len(velocities) != len(names):
            raise JointsRefused.wrong_width('velocities', len(velocities), len(names))
        speeds = np.asarray(velocities, dtype=np.float64)[order]
        # Many drivers send NaN for what they do not measure.
        if not np.isfinite(speeds).all():
            speeds = self._estimated(stamp_ns, measured)
        return JointState(stamp_ns, measured, speeds)

    def _check_stamp(
        self, refused: type[JointsRefused] | type[ImageRefused], stamp_s: float
    ) -> None:
        """Refuse a stamp of another clock: what lies ahead would count as fresh for ever."""
        ahead_s = stamp_s - to_s(self._clock.now_ns())
        if not ahead_s <= _MOST_AHEAD_S:
            raise refused(
                f"a stamp lies {ahead_s:.1f} s ahead of the robot's clock; it must be the time "
                f'of the measurement on that clock'
            )

    def _check(self, measured: Array) -> None:
        """Refuse NaN and values that can only be in another unit."""
        bad = ~np.isfinite(measured)
        if bad.any():
            i = int(np.argmax(bad))
            raise JointsRefused.not_finite(self._names[i], float(measured[i]))
        outside = (measured < self._lower) | (measured > self._upper)
        if outside.any():
            i = int(np.argmax(outside))
            joint = self._manifest.joints[i]
            raise JointsRefused.out_of_range(
                joint.name, float(measured[i]), joint.lower, joint.upper, joint.unit
            )

    def _estimated(self, stamp_ns: int, measured: Array) -> Array:
        """Return velocities from the joints before, zero where there are none, (joints,)."""
        before = self.joints
        if before is None or not 0 < stamp_ns - before.stamp_ns < to_ns(1.0):
            return np.zeros(len(self._names))
        return np.asarray((measured - before.positions) / ((stamp_ns - before.stamp_ns) / 1e9))
