# SPDX-License-Identifier: Apache-2.0
"""Senses that go on talking and say the same: joints and cameras whose driver hangs.

Stamps that grow prove nothing; what proves it is a value that stays the same to the last bit while
the arm moves. A resting arm in front of a resting scene proves nothing either, so nothing is
concluded from it, nor from an image in which the tool cannot be seen.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.agent.camera_view import point_in_image
from onboard_decoder.clock import to_ns
from onboard_decoder.config import WatchdogLimits
from onboard_decoder.image_codec import Image
from onboard_decoder.kinematics import ForwardKinematics
from onboard_decoder.manifest import Manifest
from onboard_decoder.observation_intake import CameraFrame, JointState

Array = NDArray[np.float64]

_FEWEST_MESSAGES = 3
_LINES_APART = 16


class FrozenJoints:
    """Finds joints that stand still to the last bit though they are led somewhere else."""

    def __init__(self, manifest: Manifest, limits: WatchdogLimits) -> None:
        # Fingers do not count: a thing between them may hold them still.
        self._kept = np.arange(len(manifest.joints)) != manifest.gripper_index
        self._speeds = manifest.column('max_velocity')[self._kept]
        self._least_ns, self._least_way_s = to_ns(limits.joints_frozen_s), limits.joints_led_s
        self._values: Array | None = None
        self._led_from: Array | None = None
        self._since_ns = self._stamp_ns = self._messages = 0
        self._led_s = 0.0
        self.is_frozen = False

    def forget(self) -> None:
        """Begin anew: what follows gets another chance."""
        self._values, self.is_frozen = None, False

    def look(self, joints: JointState, commanded: Array | None) -> None:
        """Compare the newest joints with those before.

        Args:
          joints: the newest; looking twice at the same changes nothing.
          commanded: what was commanded last, (joints,); None while nothing is.
        """
        values = joints.positions[self._kept]
        led_to = None if commanded is None else commanded[self._kept]
        if self._values is None or not np.array_equal(values, self._values):
            self._values, self._led_from, self._led_s = values, led_to, 0.0
            self._since_ns = self._stamp_ns = joints.stamp_ns
            self._messages, self.is_frozen = 1, False
            return
        if led_to is None or self._led_from is None:
            self._led_from = led_to
        else:
            # Commands that begin anew at the measured pose lead nowhere, though they jump.
            way = np.minimum(np.abs(led_to - self._led_from), np.abs(led_to - values))
            way_s = float(np.max(way / self._speeds))
            self._led_s = max(self._led_s, way_s)
        if joints.stamp_ns > self._stamp_ns:
            self._stamp_ns, self._messages = joints.stamp_ns, self._messages + 1
        lasts_ns = self._stamp_ns - self._since_ns
        if self._messages >= _FEWEST_MESSAGES and lasts_ns >= self._least_ns:
            self.is_frozen = self.is_frozen or self._led_s >= self._least_way_s


@dataclass
class _Run:
    """Images of one camera that are the same, from the first on."""

    first: CameraFrame
    newest: CameraFrame
    seen_at_m: Array | None = None  # where the tool was first while it was in the image
    moved_m: float = 0.0
    count: int = 1


class FrozenCameras:
    """Finds cameras whose images stay the same to the last bit while the tool moves in them.

    Attributes:
      frozen: names of such cameras.
    """

    def __init__(
        self, manifest: Manifest, kinematics: ForwardKinematics, limits: WatchdogLimits
    ) -> None:
        self._cameras = {camera.name: camera for camera in manifest.cameras}
        self._kinematics = kinematics
        self._least_ns, self._least_m = to_ns(limits.image_frozen_s), limits.image_moved_m
        self._runs: dict[str, _Run] = {}
        self.frozen: frozenset[str] = frozenset()

    def forget(self) -> None:
        """Begin anew: what follows gets another chance."""
        self._runs, self.frozen = {}, frozenset()

    def look(self, frames: Mapping[str, CameraFrame], joints: JointState) -> None:
        """Compare the newest images with those before; ``joints`` say where the tool is."""
        for camera, frame in dict(frames).items():
            run = self._runs.get(camera)
            if run is None or run.newest is not frame:
                self._take(camera, frame, self._kinematics.tool_position(joints.positions))

    def _take(self, camera: str, frame: CameraFrame, tool_m: Array) -> None:
        """Go on with the run, or begin another where a pixel differs."""
        run = self._runs.get(camera)
        if run is None or not _are_same(run.first.rgb, frame.rgb):
            run = self._runs[camera] = _Run(frame, frame)
            self.frozen -= {camera}
        else:
            run.newest, run.count = frame, run.count + 1
        if not self._is_in_image(camera, tool_m):
            return
        if run.seen_at_m is None:
            run.seen_at_m = tool_m
        run.moved_m = max(run.moved_m, float(np.linalg.norm(tool_m - run.seen_at_m)))
        lasts_ns = frame.stamp_ns - run.first.stamp_ns
        is_long = run.count >= _FEWEST_MESSAGES and lasts_ns >= self._least_ns
        if is_long and run.moved_m >= self._least_m:
            self.frozen |= {camera}

    def _is_in_image(self, camera: str, tool_m: Array) -> bool:
        point = point_in_image(self._cameras[camera], tool_m)
        return point is not None and all(0.0 <= share <= 1.0 for share in point)


def _are_same(one: Image, other: Image) -> bool:
    """Compare all pixels; a live camera differs in every line, so a few are looked at first."""
    few = slice(None, None, _LINES_APART)
    return np.array_equal(one[few], other[few]) and np.array_equal(one, other)
