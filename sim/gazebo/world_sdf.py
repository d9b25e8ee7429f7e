# SPDX-License-Identifier: Apache-2.0
"""A whole world for Gazebo Classic: the arm, a drawn scene, table, lamp and calibrated camera.

Takes the same URDF, scene and camera as `sim.model` and `sim.world` do for MuJoCo; what differs
is physics and rendering. Tables are painted plain: their patterns are textures of MuJoCo's model.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from sim.appearance import Appearance, Clutter
from sim.arm_pose import JOINTS, URDF
from sim.entity import BIN_WALL_M, Entity
from sim.gazebo.arm_sdf import arm_sdf, MODEL, paint, surface
from sim.gazebo.urdf_links import pose_text, rotation, UrdfLinks
from sim.model import (
    BIN_MASS_KG,
    camera_axes,
    CAMERA_FOVY_RAD,
    CAMERA_NAME,
    CAMERA_POSITION_M,
    IMAGE_SIZE_PX,
    MIMIC_JOINT,
)
from sim.scene import SceneSpec

Array = NDArray[np.float64]

WORLD = 'tendon_world'
CAMERA_LINK = f'{CAMERA_NAME}/link/rgb'
IMAGE_RATE_HZ = 15
STEP_S = 0.001
THING_FRICTION = 0.8
TABLE_FRICTION = 0.6


def entity_model(index: int) -> str:
    """Return the model's name of an entity."""
    return f'entity_{index}'


def world_sdf(scene: SceneSpec, weightless: bool = False) -> str:
    """Return the world with a scene in it, the arm in the scene's pose; it runs in real time.

    Args:
        scene: as drawn.
        weightless: nothing falls, held or not; for pictures of a moment.
    """
    urdf, look = UrdfLinks(URDF), scene.appearance
    return '\n'.join([
        f'<?xml version="1.0"?><sdf version="1.6"><world name="{WORLD}">',
        _physics(weightless), light_sdf(look), table_sdf(look), *entity_sdf(scene),
        *clutter_sdf(scene), arm_sdf(urdf), camera_sdf(look, CAMERA_NAME),
        _state(urdf, scene), '</world></sdf>',
    ])


def _physics(weightless: bool) -> str:
    return ('<gravity>0 0 0</gravity>' if weightless else '') + (
        f'<physics type="ode"><max_step_size>{STEP_S}</max_step_size>'
        f'<real_time_update_rate>{1 / STEP_S:g}</real_time_update_rate>'
        '<ode><solver><iters>80</iters></solver></ode></physics>'
    )


def light_sdf(look: Appearance) -> str:
    """Ambient light of the room, a lamp, and what MuJoCo's camera light adds."""
    room = look.ambient
    lamp = look.light_strength
    aim = np.subtract((0.45, 0.0, 0.0), look.light_from)
    direction = _numbers(aim / np.linalg.norm(aim))
    at = _numbers(look.light_from)
    shadows = str(look.shadows).lower()
    ahead = _numbers(-camera_axes()[2])
    return (
        f'<scene><ambient>{room} {room} {room} 1</ambient>'
        f'<background>0 0 0 1</background><shadows>{shadows}</shadows></scene>'
        f'<light name="lamp" type="spot"><pose>{at} 0 0 0</pose>'
        f'<diffuse>{lamp} {lamp} {lamp} 1</diffuse><specular>.1 .1 .1 1</specular>'
        '<attenuation><range>20</range><constant>1</constant><linear>0</linear>'
        '<quadratic>0</quadratic></attenuation>'
        f'<direction>{direction}</direction><cast_shadows>{shadows}</cast_shadows>'
        '<spot><inner_angle>2.6</inner_angle><outer_angle>2.8</outer_angle>'
        '<falloff>1</falloff></spot></light>'
        '<light name="headlight" type="directional"><cast_shadows>false</cast_shadows>'
        '<diffuse>.25 .25 .25 1</diffuse><specular>0 0 0 1</specular>'
        f'<direction>{ahead}</direction></light>'
    )


def table_sdf(look: Appearance) -> str:
    """The table, plain."""
    shape = '<geometry><plane><normal>0 0 1</normal><size>6 6</size></plane></geometry>'
    return (
        '<model name="table"><static>1</static><link name="link">'
        f'<collision name="solid">{shape}{surface(TABLE_FRICTION)}</collision>'
        f'<visual name="look">{shape}{paint(look.table_rgb)}</visual></link></model>'
    )


def entity_sdf(scene: SceneSpec) -> list[str]:
    """One model per entity, in order."""
    return [_entity(entity_model(i), entity) for i, entity in enumerate(scene.entities)]


def clutter_sdf(scene: SceneSpec) -> list[str]:
    """One model per grey thing."""
    return [_clutter(f'clutter_{i}', c) for i, c in enumerate(scene.appearance.clutter)]


def _entity(name: str, entity: Entity) -> str:
    pose = np.eye(4)
    c, s = math.cos(entity.yaw), math.sin(entity.yaw)
    cr, sr = math.cos(entity.roll), math.sin(entity.roll)
    pose[:3, :3] = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ np.array(
        [[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    pose[:3, 3] = entity.x, entity.y, entity.z
    if entity.kind == 'bin':
        return _bin(name, entity, pose_text(pose))
    r, h = entity.radius_m, entity.half_height_m
    shape, inertia = {
        'cube': (_box(r, r, h), _inertia(entity.mass_kg, r, r, h)),
        'ball': (f'<sphere><radius>{r}</radius></sphere>', [0.4 * entity.mass_kg * r * r] * 3),
        'cylinder': (
            f'<cylinder><radius>{r}</radius><length>{2 * h}</length></cylinder>',
            [entity.mass_kg * (0.25 * r * r + h * h / 3)] * 2 + [0.5 * entity.mass_kg * r * r],
        ),
    }[entity.kind]
    return _free(name, pose_text(pose), entity.mass_kg, inertia, [('0 0 0 0 0 0', shape)],
                 entity.rgb)


def _bin(name: str, entity: Entity, pose: str) -> str:
    """A floor and four walls, origin at the geometric centre."""
    half, high, wall = entity.radius_m, entity.half_height_m, BIN_WALL_M / 2
    side = half - wall
    shapes = [(f'0 0 {wall - high} 0 0 0', _box(half, half, wall))]
    shapes += [(f'{s * side} 0 {wall} 0 0 0', _box(wall, half, high - wall)) for s in (-1, 1)]
    shapes += [(f'0 {s * side} {wall} 0 0 0', _box(half, wall, high - wall)) for s in (-1, 1)]
    inertia = _inertia(BIN_MASS_KG, half, half, high)
    return _free(name, pose, BIN_MASS_KG, inertia, shapes, entity.rgb)


def _clutter(name: str, thing: Clutter) -> str:
    a, b, c = thing.size
    mass = 8 * a * b * c * 1000.0
    return _free(name, f'{thing.x} {thing.y} {c} 0 0 {thing.yaw}', mass, _inertia(mass, a, b, c),
                 [('0 0 0 0 0 0', _box(a, b, c))], (thing.grey,) * 3)


def _free(
    name: str, pose: str, mass: float, inertia: list[float], shapes: list[tuple[str, str]],
    rgb: tuple[float, float, float],
) -> str:
    """A movable model of one link; it never falls asleep, since sleepers are not reported."""
    entries = ''.join(
        f'<{axis}>{value:.9f}</{axis}>' for axis, value in zip(('ixx', 'iyy', 'izz'), inertia,
                                                               strict=True))
    solids = ''.join(
        f'<collision name="solid_{i}"><pose>{at}</pose><geometry>{shape}</geometry>'
        f'{surface(THING_FRICTION)}</collision><visual name="look_{i}"><pose>{at}</pose>'
        f'<geometry>{shape}</geometry>{paint(rgb)}</visual>'
        for i, (at, shape) in enumerate(shapes)
    )
    return (
        f'<model name="{name}"><pose>{pose}</pose><allow_auto_disable>0</allow_auto_disable>'
        f'<link name="link"><inertial><mass>{mass}</mass><inertia>{entries}<ixy>0</ixy>'
        f'<ixz>0</ixz><iyz>0</iyz></inertia></inertial>{solids}</link></model>'
    )


def _camera_pose(look: Appearance) -> str:
    """The camera as it hangs; SDF's cameras look along their x axis, y to the left."""
    right, up, backward = camera_axes()
    pose = np.eye(4)
    pose[:3, :3] = _turned(np.array(look.camera_turn), np.stack([right, up, backward], 1))
    pose[:3, :3] = pose[:3, :3] @ np.array([[0.0, -1, 0], [0, 0, 1], [-1, 0, 0]])
    pose[:3, 3] = np.add(CAMERA_POSITION_M, look.camera_shift)
    return pose_text(pose)


def camera_sdf(look: Appearance, name: str, topic: str = '') -> str:
    """The camera; its topic follows its name where none is given."""
    about = f'<topic>{topic}</topic>' if topic else ''
    return (
        f'<model name="{name}"><static>1</static><pose>{_camera_pose(look)}</pose>'
        '<link name="link"><sensor name="rgb" type="camera"><always_on>1</always_on>'
        f'<update_rate>{IMAGE_RATE_HZ}</update_rate>{about}'
        f'<camera><horizontal_fov>{CAMERA_FOVY_RAD}</horizontal_fov>'
        f'<image><width>{IMAGE_SIZE_PX}</width><height>{IMAGE_SIZE_PX}</height>'
        '<format>R8G8B8</format></image><clip><near>.02</near><far>20</far></clip></camera>'
        '</sensor></link></model>'
    )


def _turned(vector: Array, axes: Array) -> Array:
    """Turn axes (3, 3), in columns, by a rotation vector (3,) of the camera's own frame."""
    angle = float(np.linalg.norm(vector))
    if angle == 0.0:
        return axes
    return np.asarray(rotation(vector / angle, angle) @ axes)


def _state(urdf: UrdfLinks, scene: SceneSpec) -> str:
    """Where the arm's links are at the start: a model cannot be loaded with joints off 0."""
    positions = dict(zip(JOINTS, scene.joints, strict=True))
    positions[MIMIC_JOINT] = scene.joints[-1]
    links = ''.join(
        f'<link name="{name}"><pose>{pose_text(pose)}</pose></link>'
        for name, pose in urdf.poses(positions).items()
        if urdf.links[name].find('inertial') is not None
    )
    return f'<state world_name="{WORLD}"><model name="{MODEL}">{links}</model></state>'


def _box(a: float, b: float, c: float) -> str:
    """A box of half lengths [m]."""
    return f'<box><size>{2 * a} {2 * b} {2 * c}</size></box>'


def _inertia(mass: float, a: float, b: float, c: float) -> list[float]:
    """Return what an even box of half lengths [m] has about its axes."""
    return [mass * (b * b + c * c) / 3, mass * (a * a + c * c) / 3, mass * (a * a + b * b) / 3]


def _numbers(values: Array | tuple[float, ...]) -> str:
    return ' '.join(f'{value:.9g}' for value in values)
