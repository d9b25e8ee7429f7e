# SPDX-License-Identifier: Apache-2.0
"""ROS 2 messages of the simulated robot from plain values; the only file that fills them in.

Image data goes through array.array: assigning numpy arrays to byte fields is a thousand times
slower.
"""

from __future__ import annotations

from array import array
import math
from typing import Any

from builtin_interfaces.msg import Time
import cv2
from sensor_msgs.msg import CameraInfo, CompressedImage, Image, JointState
from sim.arm_port import JointReading
from sim.camera import Image as Picture
from sim.model import CAMERA_FOVY_DEG, IMAGE_SIZE_PX
from sim.trajectory import TrajectoryPoint
from trajectory_msgs.msg import JointTrajectory

OPTICAL_FRAME = 'front_optical_frame'


def joint_state(reading: JointReading, stamp: Time) -> JointState:
    """Positions and velocities of the commanded joints."""
    message = JointState()
    message.header.stamp = stamp
    message.name = list(reading.positions)
    message.position = list(reading.positions.values())
    message.velocity = list(reading.velocities.values())
    return message


def image(picture: Picture, stamp: Time) -> Image:
    """Picture (height, width, 3) as rgb8."""
    message = Image()
    message.header.stamp, message.header.frame_id = stamp, OPTICAL_FRAME
    message.height, message.width, _ = picture.shape
    message.encoding, message.step = 'rgb8', 3 * message.width
    data = array('B')
    data.frombytes(picture.tobytes())
    message.data = data
    return message


def compressed_image(picture: Picture, stamp: Time, quality: int) -> CompressedImage:
    """Picture (height, width, 3) as JPEG of this quality (1 to 100)."""
    message = CompressedImage()
    message.header.stamp, message.header.frame_id = stamp, OPTICAL_FRAME
    message.format = 'rgb8; jpeg compressed bgr8'
    bgr = cv2.cvtColor(picture, cv2.COLOR_RGB2BGR)
    _, code = cv2.imencode('.jpg', bgr, [cv2.IMWRITE_JPEG_QUALITY, quality])
    data = array('B')
    data.frombytes(code.tobytes())
    message.data = data
    return message


def camera_info(stamp: Time) -> CameraInfo:
    """The calibration, without distortion."""
    message = CameraInfo()
    message.header.stamp, message.header.frame_id = stamp, OPTICAL_FRAME
    message.height = message.width = IMAGE_SIZE_PX
    focal = IMAGE_SIZE_PX / 2 / math.tan(math.radians(CAMERA_FOVY_DEG) / 2)
    centre = IMAGE_SIZE_PX / 2
    message.distortion_model = 'plumb_bob'
    message.d = [0.0] * 5
    message.k = [focal, 0.0, centre, 0.0, focal, centre, 0.0, 0.0, 1.0]
    message.r = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    message.p = [focal, 0.0, centre, 0.0, 0.0, focal, centre, 0.0, 0.0, 0.0, 1.0, 0.0]
    return message


def trajectory_points(message: JointTrajectory) -> list[TrajectoryPoint]:
    """Points of a trajectory message."""
    return [
        TrajectoryPoint(seconds(p.time_from_start), list(p.positions), list(p.velocities))
        for p in message.points
    ]


def seconds(stamp: Any) -> float:
    """Seconds of a Time or Duration message."""
    return float(stamp.sec) + 1e-9 * float(stamp.nanosec)


def stamp_of(time_s: float) -> Time:
    """Time message of a time in seconds."""
    nanoseconds = round(time_s * 1e9)
    return Time(sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9)
