# SPDX-License-Identifier: Apache-2.0
"""Which points of an image the robot's own hand leaves free.

Knows camera and arm; nothing of pixels or of what is at a point.
"""

from collections.abc import Iterable

from onboard_decoder.agent.camera_view import distance_to_hand
from onboard_decoder.agent.image_change import Point
from onboard_decoder.kinematics import ForwardKinematics
from onboard_decoder.manifest import Manifest
from onboard_decoder.observation_intake import JointState

_HAND_M = 0.3  # length of a gripper with its wrist
_HAND_WIDTH = 0.06  # half of what it covers in the image, as share of its width


class Sight:
    """Looks past the hand, in the image of the first camera."""

    def __init__(
        self, manifest: Manifest, kinematics: ForwardKinematics, radius: float
    ) -> None:
        """Take ``radius`` as what must be free around a point, as share of the image."""
        self.camera, self._kinematics = manifest.cameras[0], kinematics
        self._reach = radius + _HAND_WIDTH

    def visible(self, points: Iterable[Point], joints: JointState) -> list[Point]:
        """Return the points that the hand does not cover while the arm stands so."""
        tool = self._kinematics.tool_in_base(joints.positions)
        return [
            point for point in points
            if distance_to_hand(self.camera, tool, _HAND_M, point) > self._reach
        ]
