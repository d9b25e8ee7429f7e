# SPDX-License-Identifier: Apache-2.0
"""Promises about a tick in which something goes wrong that nobody has thought of."""

import numpy as np
from onboard_decoder.manifest_yaml import load_manifest
import pytest

from tests.onboard_decoder.servo_world import assert_within_limits, ServoWorld

ARM = load_manifest('tendon_arm')


def failing(*args):
    """Stand in for any part of a tick."""
    raise ZeroDivisionError('nobody has thought of it')


@pytest.mark.parametrize('part', ['played', 'sample', 'step'])
def test_an_arm_in_full_motion_is_told_to_brake_where_a_tick_fails(part, monkeypatch):
    """Within the limits, down to rest; the error is raised, so that it is counted."""
    world, heard = ServoWorld(ARM), []
    world.servo._publish = lambda command: heard.append(command.positions)
    world.start()
    world.tick()
    world.offer(ARM.home + np.linspace(0, 0.6, 50)[:, None])
    world.tick(20)
    whole = world.servo.filter if part == 'step' else world.servo.buffer
    with monkeypatch.context() as patch:
        patch.setattr(type(whole), part, property(failing) if part == 'played' else failing)
        for _ in range(60):
            world.offer(ARM.home + np.linspace(0, 0.6, 50)[:, None])
            with pytest.raises(ZeroDivisionError):
                world.tick()
            world.clock.advance(world.period_ns)
            world.intake.take_joints(
                world.clock.now_ns() / 1e9, ARM.joint_names, heard[-1])

    assert len(heard) == 81
    assert_within_limits(ARM, heard)
    assert np.ptp(heard[-10:], axis=0).max() < 1e-9

    world.offer(np.tile(heard[-1] + 0.1, (50, 1)), epoch=world.servo.buffer.epoch)
    world.tick(20)
    assert np.abs(heard[-1] - heard[80]).max() > 0.01
