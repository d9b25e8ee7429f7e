# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import numpy as np
from onboard_decoder.agent.task_result import TaskOutcome
from onboard_decoder.clock import to_ns
from onboard_decoder.config import WatchdogLimits
from onboard_decoder.fallback.frozen_senses import FrozenCameras, FrozenJoints
from onboard_decoder.kinematics import ForwardKinematics
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.observation_intake import CameraFrame, JointState
import pytest

from tests.onboard_decoder.gantry import DONE, gantry, IMAGE, Lockstep, put_plan

MANIFEST = load_manifest('tendon_arm')
KINEMATICS = ForwardKinematics(MANIFEST)
LIMITS = WatchdogLimits()
RNG = np.random.default_rng(0)


def felt(stamp_s, positions):
    """Return joints that were measured."""
    return JointState(to_ns(stamp_s), positions, np.zeros(len(positions)))


def frozen_joints(way_of, measured_of, duration_s=2.0):
    """Return at which time [s] joints were found frozen, None if never; 100 Hz of messages."""
    sense = FrozenJoints(MANIFEST, LIMITS)
    for i in range(round(duration_s * 100)):
        sense.look(felt(i / 100, measured_of(i / 100)), way_of(i / 100))
        if sense.is_frozen:
            return i / 100
    return None


def led(time_s):
    """Commands: half of full speed in the second joint."""
    positions = MANIFEST.home.copy()
    positions[1] += 0.5 * MANIFEST.joints[1].max_velocity * time_s
    return positions


def rest(time_s):
    """Commands: stay."""
    return MANIFEST.home.copy()


def test_joints_that_stand_still_to_the_last_bit_while_they_are_led_away_are_frozen():
    """Soon enough, and not before they could have moved."""
    found_s = frozen_joints(led, rest)

    assert found_s is not None
    assert LIMITS.joints_frozen_s <= found_s <= 0.3


@pytest.mark.parametrize(('commanded', 'measured'), [
    (rest, rest),  # a resting arm of a simulation without noise
    (led, led),  # a perfect arm
    (lambda t: None, rest),  # nothing is commanded
    (led, lambda t: rest(t) + 1e-9 * RNG.standard_normal(7)),  # blocked, as real encoders see it
    (led, lambda t: rest(t) if t < 0.1 else led(t - 0.1)),  # late by a tenth of a second
    (lambda t: rest(t) + np.eye(7)[6] * min(0.02, 0.1 * t), rest),  # fingers around a thing
], ids=['rest', 'perfect', 'idle', 'noisy', 'late', 'fingers'])
def test_joints_that_may_be_right_are_not_frozen(commanded, measured):
    """No false alarm, with and without noise."""
    assert frozen_joints(commanded, measured) is None


def test_joints_that_change_again_are_not_frozen_any_more():
    """One bit is enough."""
    sense = FrozenJoints(MANIFEST, LIMITS)
    for i in range(100):
        sense.look(felt(i / 100, rest(0)), led(i / 100))
    assert sense.is_frozen

    sense.look(felt(1.0, rest(0) + 1e-9), led(1.0))

    assert not sense.is_frozen


def frozen_camera(image_of, positions_of, duration_s=4.0):
    """Return at which time [s] the camera was found frozen, None if never; 20 images a second."""
    sense = FrozenCameras(MANIFEST, KINEMATICS, LIMITS)
    for i in range(round(duration_s * 20)):
        frame = CameraFrame(to_ns(i / 20), 0, i, image_of(i))
        sense.look({'front': frame}, felt(i / 20, positions_of(i / 20)))
        sense.look({'front': frame}, felt(i / 20, positions_of(i / 20 + 0.04)))
        if sense.frozen:
            assert sense.frozen == {'front'}
            return i / 20
    return None


def picture(number):
    """Return an image; another number, another image."""
    return np.full((256, 256, 3), number % 251, np.uint8)


def swing(time_s):
    """The arm turns about its foot, above the table."""
    positions = np.array([0.0, -1.2, 1.6, -1.97, -1.57, 0.0, 0.04])
    positions[0] += 0.6 * np.sin(time_s)
    return positions


def test_a_camera_that_shows_the_same_while_the_tool_moves_in_it_is_frozen():
    """The tool is in the image, so the image must change."""
    found_s = frozen_camera(lambda i: picture(7), swing)

    assert found_s is not None
    assert found_s >= LIMITS.image_frozen_s


@pytest.mark.parametrize(('image', 'positions'), [
    (picture, swing),  # it shows what happens
    (lambda i: picture(7), lambda t: swing(0)),  # nothing happens
    (lambda i: picture(i // 15), swing),  # a slow driver repeats images
    (lambda i: picture(7), lambda t: MANIFEST.home + np.eye(7)[0] * (1.2 + 0.4 * np.sin(t))),
], ids=['live', 'rest', 'slow', 'out of sight'])
def test_a_camera_that_may_be_right_is_not_frozen(image, positions):
    """No false alarm, though the images have no noise."""
    assert frozen_camera(image, positions) is None


class Hanging(Lockstep):
    """The driver of the joints hangs while ``is_hanging``: new stamps, old values."""

    is_hanging = False
    said = None

    def step(self):
        true = self.arm.positions
        if self.is_hanging:
            self.said = true if self.said is None else self.said
            self.arm.positions = self.said
        else:
            self.said = None
        try:
            self.robot.observe_joints(
                self.clock.now_ns() / 1e9, self.arm.names, self.arm.positions)
            self.robot.think()
            self.arm.positions = true
            command = self.robot.tick()
            if self.has_images and self.robot.wants_image:
                self.robot.observe_image('front', self.clock.now_ns() / 1e9, IMAGE)
        finally:
            self.clock.advance(self.period_ns)
        return command


def test_the_arm_brakes_when_its_joints_hang_and_goes_on_when_they_are_back(tmp_path):
    """Within what it was led away; the task is done afterwards, without a restart."""
    world = Hanging(gantry(tmp_path), [put_plan(), DONE])
    world.arm.thing_m, world.arm.thing_below_m = 0.02, 0.05
    world.robot.ask('put it there')
    world.run(lambda robot: robot.status().step == 'move' and not robot.is_at_rest)
    world.is_hanging = True
    world.run(lambda robot: 'joints_frozen' in robot.status().faults, limit_s=2.0)
    world.run(lambda robot: robot.is_at_rest, limit_s=2.0)
    before = world.arm.commands[-1]
    for _ in range(100):
        world.step()
    assert np.allclose(world.arm.commands[-1], before, atol=1e-6)

    world.is_hanging = False
    result = world.run().result

    assert result.outcome is TaskOutcome.DONE
    events = [(e['event'], e['fault']) for e in world.robot.events if 'fault' in e]
    assert ('fault', 'joints_frozen') in events
    assert ('fault_over', 'joints_frozen') in events


def test_no_turn_is_asked_with_the_image_of_a_frozen_camera(tmp_path):
    """The question waits, and says that there is no image; a live one is used at once."""
    manifest = gantry(tmp_path)
    camera = replace(manifest.cameras[0], camera_in_base_m=(0.5, 0.0, -2.0))  # looks up at it
    manifest = replace(manifest, cameras=(camera,))
    world = Lockstep(manifest, [put_plan(), DONE])
    world.arm.thing_m, world.arm.thing_below_m = 0.02, 0.05
    world.robot.ask('put it there')
    while 'image_frozen' not in world.robot.status().faults:
        world.robot.observe_image('front', world.clock.now_ns() / 1e9, IMAGE)
        world.step()
    turns = len(world.port.turns)
    world.has_images = False
    step = world.robot.status().step_index
    for _ in range(400):
        world.robot.observe_image('front', world.clock.now_ns() / 1e9, IMAGE)
        world.step()

    assert len(world.port.turns) == turns
    assert world.robot.status().step_index == step + 1  # one step was finished, none begun
    world.robot.observe_image('front', world.clock.now_ns() / 1e9, IMAGE + 1)
    world.has_images = True
    assert world.run().result.outcome is TaskOutcome.DONE
