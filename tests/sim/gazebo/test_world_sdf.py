# SPDX-License-Identifier: Apache-2.0
"""Gazebo's world is the one that MuJoCo shows: same arm, same things, same camera."""

from xml.etree import ElementTree

import numpy as np
from onboard_decoder.manifest_yaml import load_manifest
import pytest
from sim.arm_pose import JOINTS, URDF
from sim.gazebo.arm_sdf import MODEL
from sim.gazebo.urdf_links import UrdfLinks
from sim.gazebo.world_sdf import entity_model, world_sdf
from sim.model import CAMERA_NAME
from sim.tasks import draw_task
from sim.world import World

SCENE, _ = draw_task(7, 'test', 'known', 'put')


@pytest.fixture(scope='module')
def sdf():
    """The parsed world."""
    return ElementTree.fromstring(world_sdf(SCENE)).find('world')


@pytest.fixture(scope='module')
def mujoco_world():
    """The same scene in MuJoCo."""
    world = World()
    world.show(SCENE)
    return world


def model(sdf, name):
    """Find a model by its name."""
    return next(entry for entry in sdf.findall('model') if entry.get('name') == name)


def numbers(element, path):
    """Read the numbers of an element."""
    return np.array([float(value) for value in element.find(path).text.split()])


def rotation(roll, pitch, yaw):
    """Rotation matrix of an SDF pose."""
    cr, sr, cp, sp, cy, sy = (f(a) for a in (roll, pitch, yaw) for f in (np.cos, np.sin))
    return np.array([
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
        [-sp, cp * sr, cp * cr],
    ])


def test_joints_have_the_limits_of_the_other_simulator(sdf, mujoco_world):
    """Names, ranges and axes of the commanded joints agree, and lie outside the manifest's."""
    joints = {joint.get('name'): joint for joint in model(sdf, MODEL).findall('joint')}
    manifest = {joint.name: joint for joint in load_manifest('tendon_arm').joints}

    for name in JOINTS:
        lower, upper = mujoco_world.model.joint(name).range
        limit = joints[name].find('axis/limit')
        assert numbers(limit, 'lower')[0] == pytest.approx(lower)
        assert numbers(limit, 'upper')[0] == pytest.approx(upper)
        assert lower <= manifest[name].lower and manifest[name].upper <= upper
        np.testing.assert_allclose(
            numbers(joints[name], 'axis/xyz'), mujoco_world.model.joint(name).axis, atol=1e-12)


def test_links_weigh_what_they_weigh_in_the_other_simulator(sdf, mujoco_world):
    """Mass by mass."""
    for link in model(sdf, MODEL).findall('link'):
        mass = numbers(link, 'inertial/mass')[0]
        assert mass == pytest.approx(mujoco_world.model.body(link.get('name')).mass[0])


def test_things_stand_and_weigh_the_same(sdf, mujoco_world):
    """Poses, colours and masses of all entities agree."""
    for index, entity in enumerate(SCENE.entities):
        found = model(sdf, entity_model(index))
        np.testing.assert_allclose(
            numbers(found, 'pose')[:3], mujoco_world.centre(index), atol=1e-9)
        body = mujoco_world.model.body(mujoco_world.body(index))
        assert numbers(found, 'link/inertial/mass')[0] == pytest.approx(body.mass[0])
        paint = numbers(found, 'link/visual/material/diffuse')[:3]
        np.testing.assert_allclose(paint, entity.rgb, atol=1e-3)


def test_the_camera_looks_from_the_same_place_in_the_same_direction(sdf, mujoco_world):
    """SDF's cameras look along x, MuJoCo's along -z."""
    x, y, z, *angles = numbers(model(sdf, CAMERA_NAME), 'pose')
    camera = mujoco_world.model.camera(CAMERA_NAME).id

    np.testing.assert_allclose((x, y, z), mujoco_world.data.cam_xpos[camera], atol=1e-9)
    axes = mujoco_world.data.cam_xmat[camera].reshape(3, 3)
    np.testing.assert_allclose(rotation(*angles)[:, 0], -axes[:, 2], atol=1e-9)
    np.testing.assert_allclose(rotation(*angles)[:, 2], axes[:, 1], atol=1e-9)


def test_the_arm_starts_in_the_pose_of_the_scene(sdf):
    """The state of the world holds the poses of all links that have a mass."""
    links = UrdfLinks(URDF)
    poses = links.poses(dict(zip(JOINTS, SCENE.joints, strict=True)))
    state = {link.get('name'): numbers(link, 'pose') for link in sdf.findall('state/model/link')}

    assert state.keys() == {link.get('name') for link in model(sdf, MODEL).findall('link')}
    np.testing.assert_allclose(
        state['gripper_link'][:3], poses['gripper_link'][:3, 3], atol=1e-6)
