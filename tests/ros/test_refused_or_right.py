# SPDX-License-Identifier: Apache-2.0
"""Every mix-up that drivers are known for, sent to the real node: refused or right, never used."""

import math
import time

from builtin_interfaces.msg import Time
import numpy as np
import pytest
from sensor_msgs.msg import Image, JointState

from tests.ros.onboard_world import World

pytestmark = [
    pytest.mark.ros,
    pytest.mark.filterwarnings("ignore:module 'sre_:DeprecationWarning"),
]
TRUE = {'x': 0.31, 'y': -0.12, 'z': 0.27, 'finger': 0.03}


class Quiet(World):
    """A world whose arm publishes nothing by itself."""

    def __init__(self, folder, monkeypatch):
        super().__init__(folder, monkeypatch)
        for timer in self.arm.node.timers:
            timer.cancel()
        time.sleep(0.1)
        self.robot = self.node._runtime.robot
        self.robot.intake.joints, self.robot.intake.frames = None, {}


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A node that hears only what the test says."""
    world = Quiet(tmp_path, monkeypatch)
    yield world
    world.close()


def send_joints(world, names, values, ahead_s=0.0):
    """Publish joints until the node has taken or refused a message."""
    intake = world.robot.intake
    before = intake.refused_count
    message = JointState(name=names, position=[float(value) for value in values])

    def is_over():
        seconds = world.arm.node.get_clock().now().nanoseconds / 1e9 + ahead_s
        whole = math.floor(seconds)
        message.header.stamp = Time(sec=whole, nanosec=int((seconds - whole) * 1e9))
        world.arm._joints.publish(message)
        time.sleep(0.02)
        return intake.joints is not None or intake.refused_count > before

    world.arm.spin_until(is_over)
    return intake.joints


@pytest.mark.parametrize('names', [
    ['x', 'y', 'z', 'finger'], ['finger', 'z', 'y', 'x'], ['z', 'wheel', 'x', 'finger', 'y'],
], ids=['as in the manifest', 'turned round', 'among others'])
def test_joints_are_taken_by_name(world, names):
    """In whatever order and company they come."""
    joints = send_joints(world, names, [TRUE.get(name, 99.0) for name in names])

    assert np.array_equal(joints.positions, list(TRUE.values()))


@pytest.mark.parametrize(('names', 'values', 'words'), [
    (['x', 'y', 'z'], [0.31, -0.12, 0.27], 'joints finger are missing'),
    (['joint_1', 'joint_2', 'joint_3', 'joint_4'], [0.31, -0.12, 0.27, 0.03], 'are missing'),
    (['x', 'y', 'z', 'finger'], [310.0, -120.0, 270.0, 30.0], 'another unit'),
    (['x', 'y', 'z', 'finger'], [0.31, -0.12, math.degrees(0.27), 0.03], 'another unit'),
    (['x', 'y', 'z', 'finger'], [0.31, math.nan, 0.27, 0.03], 'must be finite'),
    (['x', 'y', 'z', 'finger'], [0.31, -0.12, math.inf, 0.03], 'must be finite'),
    (['x', 'y', 'z', 'finger'], [0.31, -0.12, 0.27], 'positions for 4 joint names'),
], ids=['missing', 'other names', 'millimetres', 'degrees', 'nan', 'inf', 'width'])
def test_joints_that_cannot_be_right_are_refused(world, names, values, words):
    """With a sentence in the status; no command goes by them."""
    assert send_joints(world, names, values) is None
    assert words in world.robot.notice
    command = world.robot.tick()
    assert command is None or np.allclose(command.positions, world.manifest.home)


@pytest.mark.parametrize(('ahead_s', 'is_fresh'), [(5.0, True), (0.0, True), (-5.0, False)])
def test_a_clock_that_is_off_never_makes_old_joints_look_new(world, ahead_s, is_fresh):
    """A stamp of the future counts as now; one of the past as old: the arm brakes for it."""
    joints = send_joints(world, list(TRUE), TRUE.values(), ahead_s)
    age_ns = world.robot.intake.joints_age_ns()

    assert np.array_equal(joints.positions, list(TRUE.values()))
    assert 0 <= age_ns
    assert (age_ns < 4_000_000_000) is is_fresh


COLOURS = np.zeros((24, 32, 3), np.uint8)
COLOURS[:, :16], COLOURS[:, 16:] = (200, 30, 10), (10, 60, 220)  # red left, blue right


def send_image(world, encoding, pixels):
    """Publish an image until the node has taken or refused one."""
    message = Image(height=24, width=32, encoding=encoding)
    message.step = pixels.nbytes // 24
    message.data.frombytes(np.ascontiguousarray(pixels).tobytes())
    intake, before = world.robot.intake, world.robot.intake.refused_count

    def is_over():
        message.header.stamp = world.arm.node.get_clock().now().to_msg()
        world.arm._image.publish(message)
        time.sleep(0.02)
        return bool(intake.frames) or bool(world.robot.notice) or intake.refused_count > before

    world.arm.spin_until(is_over)
    return intake.frames.get('front')


@pytest.mark.parametrize(('encoding', 'pixels'), [
    ('rgb8', COLOURS), ('bgr8', COLOURS[..., ::-1]),
])
def test_colours_are_what_the_encoding_says(world, encoding, pixels):
    """Red is red, whichever way it came."""
    assert np.array_equal(send_image(world, encoding, pixels).rgb, COLOURS)


@pytest.mark.parametrize(('encoding', 'pixels'), [
    ('16UC1', np.zeros((24, 32), np.uint16)), ('32FC1', np.zeros((24, 32), np.float32)),
    ('rgb8', np.zeros((24, 16, 3), np.uint8)), ('', COLOURS),
], ids=['depth', 'float depth', 'half a line', 'no encoding'])
def test_images_that_are_no_colours_are_refused(world, encoding, pixels):
    """With a sentence; the camera counts as silent."""
    assert send_image(world, encoding, pixels) is None
    assert world.robot.notice

