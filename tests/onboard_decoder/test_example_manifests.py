# SPDX-License-Identifier: Apache-2.0
"""The manifests of arms that users have: config/robots against what the makers publish."""

from dataclasses import replace
from math import pi
from pathlib import Path
import time

import numpy as np
from onboard_decoder.decoder_file import DecoderFileError
from onboard_decoder.kinematics import ForwardKinematics
from onboard_decoder.manifest import Kinematics, Transform
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.plan import PlanStep, Skill
from onboard_decoder.planner_client import PlannerClient
from onboard_decoder.planner_port import Link
from onboard_decoder.robot_factory import load_decoder
import pytest

from tests.fakes.backbone_server import BackboneServer
from tests.fakes.scripted_backbone import ScriptedBackbone

TIMEOUT_S = 30.0
FOLDER = Path(__file__).resolve().parents[2] / 'config' / 'robots'
NAMES = ('fr3', 'so101', 'ur5e')
ROBOTS = {name: load_manifest(FOLDER / f'{name}.yaml') for name in NAMES}
# The files cite where these are from. Joint: lower, upper, velocity [rad, rad/s; finger m, m/s].
MAKERS = {
    'ur5e': {
        'shoulder_pan_joint': (-2 * pi, 2 * pi, pi), 'shoulder_lift_joint': (-2 * pi, 2 * pi, pi),
        'elbow_joint': (-pi, pi, pi), 'wrist_1_joint': (-2 * pi, 2 * pi, pi),
        'wrist_2_joint': (-2 * pi, 2 * pi, pi), 'wrist_3_joint': (-2 * pi, 2 * pi, pi),
        'robotiq_85_left_knuckle_joint': (0.0, 0.8, 0.5),
    },
    'fr3': {
        'fr3_joint1': (-2.7437, 2.7437, 2.62), 'fr3_joint2': (-1.7837, 1.7837, 2.62),
        'fr3_joint3': (-2.9007, 2.9007, 2.62), 'fr3_joint4': (-3.0421, -0.1518, 2.62),
        'fr3_joint5': (-2.8065, 2.8065, 5.26), 'fr3_joint6': (0.5445, 4.5169, 4.18),
        'fr3_joint7': (-3.0159, 3.0159, 5.26), 'fr3_finger_joint1': (0.0, 0.04, 0.05),
    },
    'so101': {
        'shoulder_pan': (-1.91986, 1.91986, 4.71), 'shoulder_lift': (-1.74533, 1.74533, 4.71),
        'elbow_flex': (-1.69, 1.69, 4.71), 'wrist_flex': (-1.65806, 1.65806, 4.71),
        'wrist_roll': (-2.79253, 2.79253, 4.71), 'gripper': (-0.174533, 1.74533, 4.71),
    },
}


def turned(axis, angle):
    """Rotation about x or z, (4, 4)."""
    cos, sin = np.cos(angle), np.sin(angle)
    pose = np.eye(4)
    first, second = (1, 2) if axis == 'x' else (0, 1)
    pose[first, first] = pose[second, second] = cos
    pose[second, first], pose[first, second] = sin, -sin
    return pose


def moved(x=0.0, z=0.0):
    """Translation [m], (4, 4)."""
    pose = np.eye(4)
    pose[0, 3], pose[2, 3] = x, z
    return pose


def ur5e_by_dh(joints):
    """Tool flange by the maker's table; its frame base is base_link turned by half a turn."""
    a = (0.0, -0.425, -0.3922, 0.0, 0.0, 0.0)
    d = (0.1625, 0.0, 0.0, 0.1333, 0.0997, 0.0996)
    alpha = (pi / 2, 0.0, 0.0, pi / 2, -pi / 2, 0.0)
    pose = turned('z', pi)
    for row in zip(joints, d, a, alpha, strict=True):
        pose = pose @ turned('z', row[0]) @ moved(z=row[1]) @ moved(x=row[2]) @ turned('x', row[3])
    return pose


def fr3_by_dh(joints):
    """Flange by the maker's table, which is Craig's kind."""
    a = (0.0, 0.0, 0.0, 0.0825, -0.0825, 0.0, 0.088)
    d = (0.333, 0.0, 0.316, 0.0, 0.384, 0.0, 0.0)
    alpha = (0.0, -pi / 2, pi / 2, pi / 2, -pi / 2, pi / 2, pi / 2)
    pose = np.eye(4)
    for row in zip(joints, a, d, alpha, strict=True):
        pose = pose @ turned('x', row[3]) @ moved(x=row[1]) @ turned('z', row[0]) @ moved(z=row[2])
    return pose @ moved(z=0.107)


def flange(name, joints, length_m):
    """Pose of the flange of an example, at a length behind the last joint."""
    manifest = ROBOTS[name]
    bare = replace(manifest, kinematics=Kinematics(
        manifest.kinematics.chain, Transform((0.0, 0.0, length_m), (0.0, 0.0, 0.0))))
    return ForwardKinematics(bare).tool_in_base(np.append(joints, 0.0))


def test_every_example_is_listed_here():
    """A file without a check would be a guess."""
    assert tuple(sorted(path.stem for path in FOLDER.iterdir())) == NAMES


@pytest.mark.parametrize('name', NAMES)
def test_joints_are_the_drivers_and_within_the_makers_limits(name):
    """So that it is Tendon that slows down, not the arm that stops."""
    manifest = ROBOTS[name]

    assert manifest.name == name
    assert manifest.joint_names == tuple(MAKERS[name])
    assert manifest.gripper.joint == manifest.joint_names[-1]
    assert len(manifest.kinematics.chain) == len(manifest.joints) - 1
    for joint in manifest.joints:
        lower, upper, velocity = MAKERS[name][joint.name]
        assert lower <= joint.lower < joint.upper <= upper
        assert joint.max_velocity <= velocity
        assert 8 <= joint.max_jerk / joint.max_acceleration <= 20


@pytest.mark.parametrize(('name', 'by_dh', 'length_m'), [
    ('ur5e', ur5e_by_dh, 0.0), ('fr3', fr3_by_dh, 0.107),
])
def test_kinematics_are_those_of_the_makers_table(name, by_dh, length_m):
    """At zero, at home and at a hundred poses, to a hundredth of a millimetre."""
    joints = ROBOTS[name].joints[:-1]
    low, high = ([getattr(joint, key) for joint in joints] for key in ('lower', 'upper'))
    drawn = np.random.default_rng(0).uniform(low, high, (100, len(joints)))

    for pose in (np.zeros(len(joints)), ROBOTS[name].home[:-1], *drawn):
        assert flange(name, pose, length_m) == pytest.approx(by_dh(pose), abs=1e-5)


@pytest.mark.parametrize(('name', 'length_m', 'expected_m'), [
    ('ur5e', 0.0, (0.8172, 0.2329, 0.0628)), ('fr3', 0.107, (0.088, 0.0, 0.926)),
])
def test_the_flange_at_zero_is_where_the_makers_lengths_put_it(name, length_m, expected_m):
    """Sums of lengths in the drawing; no matrix is needed for them."""
    pose = flange(name, np.zeros(len(ROBOTS[name].joints) - 1), length_m)

    assert pose[:3, 3] == pytest.approx(expected_m, abs=1e-6)


@pytest.mark.parametrize(('joints', 'expected_m'), [
    ((0.0, 0.0, 0.0, 0.0, 0.0), (0.39136, -0.00040, 0.22647)),
    ((0.3, -0.5, 0.4, 0.6, -0.7), (0.29959, -0.07570, 0.16569)),
])
def test_so101_is_where_its_urdf_puts_it(joints, expected_m):
    """The frame gripperframe in baseframe, x forward, worked out by another program."""
    tool_m = ForwardKinematics(ROBOTS['so101']).tool_position(np.array([*joints, 0.0]))

    assert tool_m == pytest.approx(expected_m, abs=1e-5)


@pytest.mark.parametrize('name', NAMES)
def test_home_is_in_the_workspace(name):
    """And with the two big arms the tool points down, the fingers along the base's y axis."""
    manifest = ROBOTS[name]
    kinematics = ForwardKinematics(manifest)

    assert manifest.workspace.contains(tuple(kinematics.tool_position(manifest.home)))
    if name != 'so101':
        pose = kinematics.tool_in_base(manifest.home)
        assert pose[:3, 2] == pytest.approx([0.0, 0.0, -1.0], abs=1e-3)
        assert abs(kinematics.tool_yaw(manifest.home)) < 0.01


@pytest.mark.parametrize('name', NAMES)
def test_without_a_decoder_it_stops_and_says_how_to_train_one(name):
    """It loads, and goes no further."""
    with pytest.raises(DecoderFileError) as caught:
        load_decoder(ROBOTS[name])

    assert f'{name} does not move without a decoder of its own' in str(caught.value)
    assert 'docs/your_arm.md' in str(caught.value)
    assert 'python -m onboard_decoder.training' in str(caught.value)


@pytest.mark.parametrize('name', NAMES)
def test_a_decoder_can_be_made_for_it(name, tmp_path):
    """Five, six or seven joints, a gripper in radians or metres: copied, made, loaded, asked."""
    training = pytest.importorskip('onboard_decoder.training.decoder_model')
    from onboard_decoder.training.export import export

    copied = tmp_path / 'manifest.yaml'
    copied.write_text((FOLDER / f'{name}.yaml').read_text(encoding='utf-8'), encoding='utf-8')
    manifest = load_manifest(tmp_path)
    small = training.DecoderConfig(width=16, blocks=1, goal_width=16)
    export(training.DecoderModel(manifest, small), manifest, manifest.decoder)

    rest = np.zeros(len(manifest.joints))
    chunk = load_decoder(manifest).decode(PlanStep(Skill.HOME), manifest.home, rest, 0.04)

    assert chunk.positions.shape == (50, len(manifest.joints))
    assert np.all(chunk.positions >= manifest.column('lower') - 1e-6)
    assert np.all(chunk.positions <= manifest.column('upper') + 1e-6)


@pytest.mark.parametrize('name', NAMES)
def test_the_backbone_takes_it(name):
    """The real server gives a session to a robot of this kind."""
    with (
        BackboneServer(ScriptedBackbone()) as server,
        PlannerClient(server.address, f'{name}-1', ROBOTS[name]) as client,
    ):
        deadline_s = time.monotonic() + TIMEOUT_S
        while client.state().link is not Link.READY and time.monotonic() < deadline_s:
            time.sleep(0.02)

        assert client.state().link is Link.READY, client.state().reason
