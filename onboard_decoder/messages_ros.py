# SPDX-License-Identifier: Apache-2.0
"""Standard ROS messages <-> values of this package. Knows no node and no topic names."""

from builtin_interfaces.msg import Duration, Time
from onboard_decoder.clock import NS_PER_S, to_ns
from onboard_decoder.image_codec import decode_compressed, decode_raw, Image
from onboard_decoder.manifest import Manifest
from onboard_decoder.servo import Command
from sensor_msgs.msg import CompressedImage
from sensor_msgs.msg import Image as ImageMessage
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

# Below this share of a tick there is nothing left to brake.
_LEAST_STOP_S = 1e-3


def to_trajectory(command: Command, manifest: Manifest) -> JointTrajectory:
    """Return the next point and, behind it, the way to stand still.

    A controller replaces the trajectory at the next command; if none comes it brakes by itself. It
    starts at once (stamp zero) and ends at rest, which newer controllers insist on.
    """
    trajectory = JointTrajectory(joint_names=list(manifest.joint_names))
    period_s = manifest.control_period_s
    is_moving = command.stop_s > _LEAST_STOP_S
    velocities = command.velocities if is_moving else 0.0 * command.velocities
    trajectory.points.append(
        JointTrajectoryPoint(
            positions=command.positions.tolist(),
            velocities=velocities.tolist(),
            time_from_start=_duration(period_s),
        )
    )
    if is_moving:
        trajectory.points.append(
            JointTrajectoryPoint(
                positions=command.stop_positions.tolist(),
                velocities=[0.0] * len(manifest.joints),
                time_from_start=_duration(period_s + command.stop_s),
            )
        )
    return trajectory


def to_array(command: Command) -> Float64MultiArray:
    """Return the positions in the manifest's order, which must be the controller's."""
    return Float64MultiArray(data=command.positions.tolist())


def from_image(message: ImageMessage) -> Image:
    """Return (height, width, 3) RGB. Raises ImageRefused."""
    return decode_raw(
        memoryview(message.data), message.width, message.height, message.step, message.encoding
    )


def from_compressed(message: CompressedImage) -> Image:
    """Return (height, width, 3) RGB. Raises ImageRefused."""
    return decode_compressed(memoryview(message.data))


def stamp_ns(stamp: Time) -> int:
    """Return a stamp of ROS time [ns]."""
    return int(stamp.sec) * NS_PER_S + int(stamp.nanosec)


def _duration(seconds: float) -> Duration:
    whole, rest = divmod(to_ns(seconds), NS_PER_S)
    return Duration(sec=whole, nanosec=rest)
