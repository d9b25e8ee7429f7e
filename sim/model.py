# SPDX-License-Identifier: Apache-2.0
"""The MuJoCo model: arm from the URDF, table, lamp, camera, and a fixed set of empty slots.

A slot is a free body whose shape, size, colour and mass `sim.world` fills in for each scene, so
that a new scene needs no new compilation. Contact groups (bits): 1 arm, 2 things, 4 table.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from sim.appearance import TEXTURES
from sim.arm_pose import JOINTS, URDF
from sim.display import mujoco
from sim.entity import BIN_WALL_M, HALF_HEIGHT_M, RADIUS_M
from sim.scene import MAX_BINS, MAX_CLUTTER, MAX_OBJECTS

Array = NDArray[np.float64]

CAMERA_NAME = 'front'
CAMERA_POSITION_M = (1.10, 0.0, 0.80)
CAMERA_TARGET_M = (0.47, 0.0, 0.0)
CAMERA_FOVY_DEG = 36.0
CAMERA_FOVY_RAD = math.radians(CAMERA_FOVY_DEG)
IMAGE_SIZE_PX = 256
TIMESTEP_S = 0.002

MIMIC_JOINT = 'gripper_right_finger_joint'
FINGERS = ('gripper_left_finger_link', 'gripper_right_finger_link')
FINGER_FRICTION = 1.5

ARM, THING, TABLE = 1, 2, 4
BIN_MASS_KG = 0.35
SLOTS = {'object': MAX_OBJECTS, 'bin': MAX_BINS, 'clutter': MAX_CLUTTER}

# Position servos per commanded joint: stiffness [N m/rad], damping [N m s/rad], greatest torque
# [N m], inertia of the motor behind its gear [kg m^2]; [N/m], [N s/m], [N], [kg] for the finger.
STIFFNESS = (12000.0, 12000.0, 8000.0, 2500.0, 2500.0, 1500.0, 4000.0)
DAMPING = (400.0, 400.0, 240.0, 40.0, 40.0, 25.0, 80.0)
FORCE_LIMIT = (150.0, 150.0, 150.0, 28.0, 28.0, 28.0, 30.0)
ARMATURE = (0.3, 0.3, 0.2, 0.05, 0.05, 0.05, 0.1)

# Bodies that overlap by construction at their common joint.
NEIGHBOURS = (
    ('base_link', 'shoulder_link'),
    ('base_link', 'upper_arm_link'),
    ('shoulder_link', 'forearm_link'),
    ('upper_arm_link', 'wrist_1_link'),
    ('forearm_link', 'wrist_2_link'),
    ('wrist_1_link', 'wrist_3_link'),
    ('wrist_1_link', 'gripper_link'),
    ('wrist_2_link', 'gripper_link'),
    ('gripper_left_finger_link', 'gripper_right_finger_link'),
)


def build_model() -> mujoco.MjModel:
    """Compile the whole world; takes about a tenth of a second, done once per process."""
    spec = mujoco.MjSpec.from_file(str(URDF))
    spec.modelname = 'tendon_world'
    spec.compiler.discardvisual = False
    spec.compiler.fusestatic = False
    spec.option.timestep = TIMESTEP_S
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.impratio = 10.0
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.visual.global_.offwidth = spec.visual.global_.offheight = IMAGE_SIZE_PX
    spec.visual.quality.offsamples = 0
    spec.visual.quality.shadowsize = 1024
    spec.visual.map.znear, spec.visual.map.zfar = 0.02, 20.0
    spec.stat.extent, spec.stat.center = 1.0, [0.45, 0.0, 0.1]
    _add_materials(spec)
    _add_surroundings(spec)
    _finish_arm(spec)
    for kind, count in SLOTS.items():
        for i in range(count):
            (_add_bin if kind == 'bin' else _add_slot)(spec, f'{kind}_{i}')
    return spec.compile()


def camera_axes() -> tuple[Array, Array, Array]:
    """Right, up and backward axes (3,) of the calibrated camera in the base frame."""
    forward = np.subtract(CAMERA_TARGET_M, CAMERA_POSITION_M)
    forward = forward / np.linalg.norm(forward)
    right = np.cross(forward, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    return right, np.cross(right, forward), -forward


def _add_materials(spec: mujoco.MjSpec) -> None:
    rng = np.random.default_rng(7)
    for name in TEXTURES[1:]:
        texture = spec.add_texture(
            name=name, type=mujoco.mjtTexture.mjTEXTURE_2D, width=256, height=256, nchannel=3
        )
        grey = _pattern(name, rng)
        texture.data = np.repeat((255 * grey).astype(np.uint8)[..., None], 3, 2).tobytes()
        material = spec.add_material(
            name=name, texuniform=True, texrepeat=[2.5, 2.5], specular=0.1, shininess=0.1
        )
        material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = name
    spec.add_material(name='plain', specular=0.1, shininess=0.1)
    spec.add_material(name='paint', specular=0.25, shininess=0.3)


def _pattern(name: str, rng: np.random.Generator) -> Array:
    """Brightness (256, 256) in 0.7..1 of a table surface."""
    v, u = np.mgrid[0:256, 0:256] / 256.0
    grey: Array
    if name == 'checker':
        grey = np.where((np.floor(u * 4) + np.floor(v * 4)) % 2 > 0, 1.0, 0.88)
    elif name == 'cloth':
        grey = 0.9 + 0.1 * np.sin(u * 64 * np.pi) * np.sin(v * 64 * np.pi)
    elif name == 'wood':
        planks = 0.05 * (np.floor(u * 4) % 2)
        grey = 0.85 - planks + 0.15 * np.sin(30 * np.pi * u + 4 * np.sin(2 * np.pi * v)) ** 2
    else:
        grey = np.zeros((256, 256))
        for k, n in enumerate((8, 32, 128), start=1):
            grey += np.kron(rng.random((n, n)), np.ones((256 // n, 256 // n))) / k
        grey = 0.75 + 0.25 * (grey - grey.min()) / np.ptp(grey)
    return grey


def _add_surroundings(spec: mujoco.MjSpec) -> None:
    world = spec.worldbody
    spec.visual.headlight.specular = [0.0, 0.0, 0.0]
    spec.visual.headlight.diffuse = [0.25, 0.25, 0.25]
    world.add_light(
        name='lamp', pos=[0.6, 0.5, 1.6], dir=[0, 0, -1], cutoff=80.0,
        type=mujoco.mjtLightType.mjLIGHT_SPOT, castshadow=True,
    )
    world.add_geom(
        name='table', type=mujoco.mjtGeom.mjGEOM_PLANE, size=[3, 3, 0.1], material='plain',
        contype=TABLE, conaffinity=0, friction=[0.6, 0.005, 0.0005],
    )
    right, up, _ = camera_axes()
    world.add_camera(
        name=CAMERA_NAME, pos=CAMERA_POSITION_M, xyaxes=[*right, *up], fovy=CAMERA_FOVY_DEG
    )


def _finish_arm(spec: mujoco.MjSpec) -> None:
    """Give the arm servos, balance its weight, and tell which links may overlap."""
    for body in spec.bodies:
        if body.name == 'world':
            continue
        body.gravcomp = 1.0
        for geom in body.geoms:
            geom.contype, geom.conaffinity = ARM, ARM | TABLE
            if 'finger' in body.name:
                geom.condim, geom.friction = 4, [FINGER_FRICTION, 0.05, 0.001]
                geom.solref, geom.solimp = [0.004, 1.0], [0.95, 0.99, 0.001, 0.5, 2.0]
                geom.priority = 1
    servos = zip(JOINTS, STIFFNESS, DAMPING, FORCE_LIMIT, ARMATURE, strict=True)
    for joint, kp, kd, limit, armature in servos:
        spec.joint(joint).armature = armature
        spec.add_actuator(
            name=joint, target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT,
            gaintype=mujoco.mjtGain.mjGAIN_FIXED, gainprm=[kp] + [0.0] * 9,
            biastype=mujoco.mjtBias.mjBIAS_AFFINE, biasprm=[0.0, -kp, -kd] + [0.0] * 7,
            forcerange=[-limit, limit], forcelimited=True,
        )
    for joint in (JOINTS[-1], MIMIC_JOINT):  # a thing that is pinched off must not pass the stops
        spec.joint(joint).solref_limit = [0.004, 1.0]
        spec.joint(joint).solimp_limit = [0.95, 0.99, 0.001, 0.5, 2.0]
    for first, second in NEIGHBOURS:
        spec.add_exclude(bodyname1=first, bodyname2=second)
    if not list(spec.equalities):  # MuJoCo before 4 does not read the mimic joint of the URDF
        spec.add_equality(
            type=mujoco.mjtEq.mjEQ_JOINT, objtype=mujoco.mjtObj.mjOBJ_JOINT,
            name1=MIMIC_JOINT, name2=JOINTS[-1], data=[0.0, 1.0] + [0.0] * 9,
        )
    for equality in spec.equalities:
        equality.solref, equality.solimp = [0.004, 1.0], [0.98, 0.999, 0.001, 0.5, 2.0]


def _add_slot(spec: mujoco.MjSpec, name: str) -> None:
    """Add a free body of one geom, and one that is only seen; their shapes are set per scene."""
    body = spec.worldbody.add_body(name=name, pos=[0, 0, -1])
    body.add_freejoint(name=name)
    body.add_geom(
        name=name, type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.022] * 3, mass=0.08, condim=6,
        contype=THING, conaffinity=ARM | THING | TABLE, material='paint',
        friction=[0.8, 0.005, 0.0008], solref=[0.006, 1.0],
    )
    body.add_geom(
        name=f'{name}_look', type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.022] * 3, mass=0.0,
        contype=0, conaffinity=0, material='paint', rgba=[0.0] * 4,
    )


def _add_bin(spec: mujoco.MjSpec, name: str) -> None:
    """Add a free body of a floor and four walls, origin at the geometric centre."""
    body = spec.worldbody.add_body(name=name, pos=[0, 0, -1])
    body.add_freejoint(name=name)
    half, high, wall = RADIUS_M['bin'], HALF_HEIGHT_M['bin'], BIN_WALL_M / 2
    side = half - wall
    parts: list[tuple[tuple[float, ...], tuple[float, ...]]]
    parts = [((0.0, 0.0, wall - high), (half, half, wall))]
    # The walls stand on the floor, so that only the floor touches the table: fewer contacts.
    parts += [((s * side, 0.0, wall), (wall, half, high - wall)) for s in (-1, 1)]
    parts += [((0.0, s * side, wall), (half, wall, high - wall)) for s in (-1, 1)]
    for i, (position, size) in enumerate(parts):
        body.add_geom(
            name=f'{name}_{i}', type=mujoco.mjtGeom.mjGEOM_BOX, pos=position, size=size,
            mass=BIN_MASS_KG / len(parts), condim=4, contype=THING, material='paint',
            conaffinity=ARM | THING | TABLE, friction=[0.6, 0.005, 0.0005], solref=[0.006, 1.0],
        )
