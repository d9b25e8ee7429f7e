# SPDX-License-Identifier: Apache-2.0
import copy
import math

import numpy as np
from onboard_decoder import wire
from onboard_decoder.errors import ManifestError
from onboard_decoder.kinematics import ForwardKinematics
from onboard_decoder.manifest_yaml import load_manifest, ROBOTS
from protos import embodiment_pb2
import pytest
import yaml

from tests.onboard_decoder.gantry import gantry

GOOD = yaml.safe_load((ROBOTS / 'tendon_arm' / 'manifest.yaml').read_text())


def load(folder, change):
    """Read the shipped manifest after a change."""
    data = copy.deepcopy(GOOD)
    change(data)
    path = folder / 'manifest.yaml'
    path.write_text(yaml.safe_dump(data))
    return load_manifest(path)


def test_a_manifest_is_found_by_name_file_and_folder(tmp_path):
    """Three ways to the same robot; its decoder lies beside it."""
    by_name = load_manifest('tendon_arm')

    assert by_name == load_manifest(ROBOTS / 'tendon_arm')
    assert by_name == load_manifest(ROBOTS / 'tendon_arm' / 'manifest.yaml')
    assert by_name.decoder == ROBOTS / 'tendon_arm' / 'decoder.onnx'
    assert len(by_name.joint_names) == 7


@pytest.mark.parametrize(('change', 'words'), [
    (lambda d: d.pop('name'), 'missing key name'),
    (lambda d: d.update(colour='red'), 'unknown key colour; keys are name, control_period_s'),
    (lambda d: d['joints'][2].update(max_speed=1.0), r'joints\[2\]: unknown key max_speed'),
    (lambda d: d['joints'][0].update(unit='deg'), "unit is 'deg'; it must be one of"),
    (lambda d: d['joints'][0].update(lower=4.0), 'must be below upper'),
    (lambda d: d['joints'][0].update(home=9.0), 'home 9.0 is not in'),
    (lambda d: d['joints'][0].update(max_jerk=0.0), 'max_jerk is 0.0; it must be > 0'),
    (lambda d: d['joints'][1].update(name='elbow_joint'), 'elbow_joint named more than once'),
    (lambda d: d['gripper'].update(joint='thumb'), "'thumb' is no joint; joints are shoulder"),
    (lambda d: d['gripper'].update(open_position=0.1), 'position 0.1 is not in 0.0..0.042'),
    (lambda d: d.update(cameras=[]), 'at least one entry'),
    (lambda d: d['cameras'][0].update(camera_to_base_wxyz=[1, 1, 0, 0]), 'has length 1.41'),
    (lambda d: d['cameras'][0].update(camera_in_base_m=[1, 0]), 'list of 3 numbers'),
    (lambda d: d['workspace'].update(lower_m=[0.9, -0.5, 0.0]), 'not below'),
    (lambda d: d.update(control_period_s=float('nan')), 'finite number'),
    (lambda d: d.update(control_period_s='fast'), "'fast' must be a finite number"),
    (lambda d: d.update(kinematics=[]), 'must be a mapping with chain, tool'),
])
def test_what_contradicts_itself_is_refused_with_place_value_and_allowed(tmp_path, change, words):
    """One sentence that helps to repair the file."""
    with pytest.raises(ManifestError, match=words):
        load(tmp_path, change)


def test_files_that_are_none_are_refused(tmp_path):
    """Missing: the known robots are listed; broken YAML: the place is."""
    with pytest.raises(ManifestError, match='robots that come with Tendon: tendon_arm'):
        load_manifest('no_such_robot')
    broken = tmp_path / 'manifest.yaml'
    broken.write_text('joints: [')
    with pytest.raises(ManifestError, match='cannot be read'):
        load_manifest(broken)


def test_the_gripper_translates_openings_and_positions(tmp_path):
    """Both ways, also for a gripper that closes upward."""
    manifest = load(tmp_path, lambda d: d.update(gripper={
        'joint': 'gripper_left_finger_joint', 'open_position': 0.0, 'closed_position': 0.04}))

    for opening in (0.0, 0.3, 1.0):
        position = manifest.gripper.position(opening)
        assert manifest.gripper.opening(position) == pytest.approx(opening)
    assert manifest.gripper.position(1.0) == 0.0


def test_the_embodiment_carries_every_number(tmp_path):
    """What the backbone reads is what the manifest says, for any robot."""
    for manifest in (load_manifest('tendon_arm'), gantry(tmp_path)):
        message = wire.to_embodiment(manifest)
        for joint, sent in zip(manifest.joints, message.joints, strict=True):
            unit = embodiment_pb2.JointUnit.Name(sent.unit)
            assert unit == {'rad': 'JOINT_UNIT_RADIAN', 'm': 'JOINT_UNIT_METRE'}[joint.unit]
            for field in ('name', 'lower', 'upper', 'max_velocity', 'max_acceleration'):
                assert getattr(sent, field) == getattr(joint, field)
        assert message.gripper.joint == manifest.gripper.joint
        assert message.workspace.upper_m.z == manifest.workspace.upper_m[2]


def test_forward_kinematics_of_the_shipped_arm():
    """At home the tool points down, its fingers close along the base's y axis."""
    manifest = load_manifest('tendon_arm')
    kinematics = ForwardKinematics(manifest)

    pose = kinematics.tool_in_base(manifest.home)

    assert np.allclose(pose[:3, 3], [0.306, 0.009, 0.344], atol=1e-3)
    assert np.allclose(pose[:3, 2], [0, 0, -1], atol=1e-3)
    assert kinematics.tool_yaw(manifest.home) == pytest.approx(0.0, abs=1e-3)


def test_yaw_turns_with_the_last_joint():
    """Turning the wrist turns the fingers by as much; half a turn looks the same."""
    manifest = load_manifest('tendon_arm')
    kinematics = ForwardKinematics(manifest)
    start = kinematics.tool_yaw(manifest.home)
    turned = manifest.home.copy()
    turned[5] += 0.4
    half = manifest.home.copy()
    half[5] += math.pi

    assert abs(kinematics.tool_yaw(turned) - start) == pytest.approx(0.4, abs=1e-3)
    assert kinematics.tool_yaw(half) == pytest.approx(start, abs=1e-3)


def test_sliding_joints_slide(tmp_path):
    """A gantry's tool is where its joints say."""
    kinematics = ForwardKinematics(gantry(tmp_path))

    assert np.allclose(kinematics.tool_position(np.array([0.3, -0.2, 0.5, 0.0])), [0.3, -0.2, 0.5])
