# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from sim import model
from sim.arm_pose import HOME, JOINTS, tool_pose
import yaml

ROOT = Path(__file__).parents[2]
URDF = ElementTree.parse(ROOT / 'sim/assets/tendon_arm.urdf').getroot()
MANIFEST = yaml.safe_load(
    (ROOT / 'onboard_decoder/robots/tendon_arm/manifest.yaml').read_text(encoding='utf-8')
)


def _joint(name: str) -> ElementTree.Element:
    return next(j for j in URDF.iter('joint') if j.get('name') == name)


def _origin(joint: ElementTree.Element) -> list[float]:
    origin = joint.find('origin')
    assert origin is not None
    return [float(v) for key in ('xyz', 'rpy') for v in origin.get(key, '0 0 0').split()]


def test_joint_order_and_home():
    """The simulation commands the manifest's joints in the manifest's order, from its home."""
    assert tuple(j['name'] for j in MANIFEST['joints']) == JOINTS
    assert tuple(j['home'] for j in MANIFEST['joints']) == pytest.approx(HOME)


def test_limits_agree():
    """Every joint has the same range in both descriptions and may move as fast as it says."""
    for joint in MANIFEST['joints']:
        limit = _joint(joint['name']).find('limit')
        assert limit is not None
        assert float(limit.get('lower', 'nan')) == joint['lower']
        assert float(limit.get('upper', 'nan')) == joint['upper']
        assert float(limit.get('velocity', 'nan')) >= joint['max_velocity']


def test_chain_agrees():
    """The fixed transforms from joint to joint, and to the tool, are the same numbers."""
    chain = MANIFEST['kinematics']['chain']
    for name, link in zip(JOINTS[:6], chain, strict=True):
        assert _origin(_joint(name)) == pytest.approx([*link['xyz'], *link['rpy']])
    tool = MANIFEST['kinematics']['tool']
    offset = np.add(_origin(_joint('gripper_mount_joint')), _origin(_joint('tool_joint')))
    assert offset == pytest.approx([*tool['xyz'], *tool['rpy']])


def test_camera_agrees():
    """The camera hangs where the manifest says that it was calibrated."""
    front = MANIFEST['cameras'][0]
    assert front['name'] == model.CAMERA_NAME
    assert front['width_px'] == front['height_px'] == model.IMAGE_SIZE_PX
    assert front['vertical_fov_rad'] == pytest.approx(np.deg2rad(model.CAMERA_FOVY_DEG))
    assert front['camera_in_base_m'] == pytest.approx(model.CAMERA_POSITION_M)
    right, up, backward = model.camera_axes()
    w, x, y, z = front['camera_to_base_wxyz']
    first = [1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)]
    third = [2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)]
    assert first == pytest.approx(right, abs=1e-6)
    assert third == pytest.approx(-backward, abs=1e-6)


def test_home_points_down():
    """At home the tool points at the table and its y axis lies along base y."""
    position, rotation = tool_pose(HOME)
    assert rotation == pytest.approx(np.diag([-1.0, 1.0, -1.0]), abs=1e-3)
    assert position == pytest.approx([0.306, 0.009, 0.344], abs=1e-3)
