# SPDX-License-Identifier: Apache-2.0
"""Gazebo for the tests, fetched once; where that fails each test says so and is skipped."""

import pytest
from sim.errors import GazeboUnavailable
from sim.gazebo.gazebo_arm import GazeboArm
from sim.gazebo.install import install
from sim.tasks import draw_task

SCENE, TASK = draw_task(7, 'test', 'known', 'put')


@pytest.fixture(scope='session')
def gazebo():
    """The folder of the unpacked Gazebo."""
    try:
        return install()
    except GazeboUnavailable as error:
        pytest.skip(f'GAZEBO WAS NOT TESTED: {error}')


@pytest.fixture
def arm(gazebo, tmp_path):
    """An arm in a Gazebo of its own, in real time, with a scene."""
    made = GazeboArm(tmp_path)
    made.reset(SCENE)
    yield made
    made.close()


@pytest.fixture
def stepped_arm(gazebo, tmp_path):
    """The same in lockstep."""
    made = GazeboArm(tmp_path, lockstep=True)
    made.reset(SCENE)
    yield made
    made.close()
