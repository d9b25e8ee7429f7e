# SPDX-License-Identifier: Apache-2.0
"""The arm's URDF as links and joints with poses in the base frame, for any joint positions.

Reads what `sim/assets/tendon_arm.urdf` uses: revolute, prismatic and fixed joints, primitives.
Knows no simulator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
import math
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Element = ElementTree.Element


@dataclass(frozen=True)
class JointDescription:
    """One joint; ``origin`` (4, 4) is of the child's frame in the parent's at position 0."""

    name: str
    kind: str
    parent: str
    child: str
    origin: Array
    axis: Array
    element: Element


class UrdfLinks:
    """Links and joints by name.

    Attributes:
        links: elements of the links, in the order of the file.
        joints: the joints, in the order of the file.
    """

    def __init__(self, path: Path) -> None:
        root = ElementTree.parse(path).getroot()
        self.links = {str(link.get('name')): link for link in root.iter('link')}
        self.joints = {str(joint.get('name')): _joint(joint) for joint in root.findall('joint')}
        self.colours = {
            str(material.get('name')): str(colour.get('rgba'))
            for material in root.findall('material')
            if (colour := material.find('color')) is not None
        }

    def poses(self, positions: Mapping[str, float]) -> dict[str, Array]:
        """Return the pose (4, 4) of each link in the base frame; joints not named are at 0."""
        poses: dict[str, Array] = {}
        children = {joint.child for joint in self.joints.values()}
        poses.update({name: np.eye(4) for name in self.links if name not in children})
        waiting = list(self.joints.values())
        while waiting:
            joint = waiting.pop(0)
            if joint.parent not in poses:
                waiting.append(joint)
                continue
            moved = _moved(joint, positions.get(joint.name, 0.0))
            poses[joint.child] = poses[joint.parent] @ joint.origin @ moved
        return poses


def position_between(joint: JointDescription, parent: Array, child: Array) -> float:
    """Return the joint's position from the poses (4, 4) of its two links [rad] or [m]."""
    moved = np.linalg.inv(joint.origin) @ np.linalg.inv(parent) @ child
    if joint.kind == 'prismatic':
        return float(moved[:3, 3] @ joint.axis)
    turn = moved[:3, :3]
    sine = 0.5 * np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0],
                           turn[1, 0] - turn[0, 1]]) @ joint.axis
    return math.atan2(float(sine), 0.5 * (float(np.trace(turn)) - 1.0))


def origin_of(element: Element) -> Array:
    """Return the <origin> of an element as a pose (4, 4); the identity where there is none."""
    origin = element.find('origin')
    if origin is None:
        return np.eye(4)
    xyz = [float(value) for value in origin.get('xyz', '0 0 0').split()]
    roll, pitch, yaw = (float(value) for value in origin.get('rpy', '0 0 0').split())
    pose = np.eye(4)
    about_x, about_y, about_z = np.eye(3)
    pose[:3, :3] = rotation(about_z, yaw) @ rotation(about_y, pitch) @ rotation(about_x, roll)
    pose[:3, 3] = xyz
    return pose


def rotation(axis: Array, angle: float) -> Array:
    """Return the rotation (3, 3) about an axis of length 1 by an angle [rad]."""
    x, y, z = axis
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    turn: Array = np.eye(3) + math.sin(angle) * cross + (1.0 - math.cos(angle)) * cross @ cross
    return turn


def pose_text(pose: Array) -> str:
    """Write a pose (4, 4) as 'x y z roll pitch yaw'."""
    turn = pose[:3, :3]
    pitch = math.asin(float(np.clip(-turn[2, 0], -1.0, 1.0)))
    if abs(turn[2, 0]) < 1.0 - 1e-9:
        roll, yaw = math.atan2(turn[2, 1], turn[2, 2]), math.atan2(turn[1, 0], turn[0, 0])
    else:  # looking straight up or down, roll and yaw turn about the same axis
        roll, yaw = 0.0, math.atan2(-turn[0, 1], turn[1, 1])
    return ' '.join(f'{value:.12g}' for value in (*pose[:3, 3], roll, pitch, yaw))


def _joint(element: Element) -> JointDescription:
    axis = element.find('axis')
    direction = '1 0 0' if axis is None else axis.get('xyz', '1 0 0')
    ends = {kind: str(found.get('link')) for kind in ('parent', 'child')
            if (found := element.find(kind)) is not None}
    return JointDescription(
        str(element.get('name')), str(element.get('type')), ends['parent'], ends['child'],
        origin_of(element), np.array([float(value) for value in direction.split()]), element,
    )


def _moved(joint: JointDescription, position: float) -> Array:
    """Return what a position does to the child's frame, (4, 4)."""
    moved = np.eye(4)
    if joint.kind == 'prismatic':
        moved[:3, 3] = position * joint.axis
    elif joint.kind != 'fixed':
        moved[:3, :3] = rotation(joint.axis, position)
    return moved
