# SPDX-License-Identifier: Apache-2.0
"""Shows a scene: writes entities, look and arm pose into the slots of one compiled model.

`show` costs about a millisecond and never compiles. Knows geometry, not time: `sim.mujoco_arm`
steps the same model.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from sim.appearance import Appearance, Clutter
from sim.arm_pose import JOINTS
from sim.camera import label_point
from sim.display import mujoco
from sim.entity import Entity
from sim.errors import SceneError
from sim.model import (
    ARM,
    build_model,
    CAMERA_NAME,
    CAMERA_POSITION_M,
    FINGER_FRICTION,
    FINGERS,
    MIMIC_JOINT,
    SLOTS,
    TABLE,
    THING,
)
from sim.scene import SceneSpec

Array = NDArray[np.float64]

_SHAPES = {
    'cube': mujoco.mjtGeom.mjGEOM_BOX,
    'ball': mujoco.mjtGeom.mjGEOM_SPHERE,
    'cylinder': mujoco.mjtGeom.mjGEOM_CYLINDER,
    'flat ball': mujoco.mjtGeom.mjGEOM_ELLIPSOID,
}
_FAR_M = 50.0


class World:
    """One compiled model with the scene that it shows now.

    Attributes:
        model: MuJoCo model.
        data: MuJoCo state.
        scene: the scene shown last.
    """

    def __init__(self) -> None:
        self.model = build_model()
        self.data = mujoco.MjData(self.model)
        self.scene = SceneSpec((), 'train', ())
        self._camera = self.model.camera(CAMERA_NAME).id
        self._camera_quat = self.model.cam_quat[self._camera].copy()
        self._slots: list[int] = []
        self._solid = self.model.geom_contype != 0
        self._joint_addresses = [self.model.joint(name).qposadr[0] for name in JOINTS]
        self._right_finger = self.model.joint(MIMIC_JOINT).qposadr[0]
        self._free = [
            [self.model.body(f'{kind}_{i}').id for i in range(count)]
            for kind, count in SLOTS.items()
        ]

    def show(self, scene: SceneSpec) -> None:
        """Replace what is shown; velocities are zero, contacts are not computed yet."""
        mujoco.mj_resetData(self.model, self.data)
        self.scene = scene
        objects, bins, clutter = (list(slots) for slots in self._free)
        self._slots = []
        for entity in scene.entities:
            free = bins if entity.kind == 'bin' else objects
            if not free:
                raise SceneError(f'number of things like {entity.name}', 'too high', str(SLOTS))
            body = free.pop(0)
            self._slots.append(body)
            self._fill(body, entity)
        for thing in scene.appearance.clutter[: SLOTS['clutter']]:
            self._fill_clutter(clutter.pop(0), thing)
        for rank, body in enumerate([*objects, *bins, *clutter]):
            self._empty(body, rank)
        self._paint(scene.appearance)
        self.set_grip(FINGER_FRICTION)
        self.set_joints(scene.joints)
        positions = self.data.qpos.copy()
        mujoco.mj_setConst(self.model, self.data)  # masses have changed; it moves everything
        self.data.qpos[:] = positions
        self.update()

    def set_joints(self, joints: tuple[float, ...] | Array) -> None:
        """Set the seven commanded joints (both fingers move) and their servo targets."""
        for address, value in zip(self._joint_addresses, joints, strict=True):
            self.data.qpos[address] = value
        self.data.qpos[self._right_finger] = joints[-1]
        self.data.ctrl[:] = joints

    def update(self) -> None:
        """Compute poses of bodies, camera and lamp from the positions; no forces."""
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_camlight(self.model, self.data)

    def move(self, index: int, spot: tuple[float, float, float]) -> None:
        """Stand an entity upright at x [m], y [m], yaw [rad] on the table, at rest."""
        body, (x, y, yaw) = self._slots[index], spot
        self._place(body, (x, y, self.scene.entities[index].half_height_m), yaw)
        first = self.model.body_dofadr[body]
        self.data.qvel[first:first + 6] = 0.0
        self.update()

    def set_grip(self, friction: float) -> None:
        """Set the sliding friction between the fingers and whatever they touch."""
        for name in FINGERS:
            self.model.geom_friction[self._geoms(self.model.body(name).id), 0] = friction

    def body(self, index: int) -> int:
        """Body id of an entity."""
        return self._slots[index]

    def centre(self, index: int) -> Array:
        """Geometric centre (3,) of an entity in the base frame [m]."""
        centre: Array = self.data.xpos[self._slots[index]].copy()
        return centre

    def label_points(self) -> Array:
        """Where the centres of the entities appear to the calibrated camera (entities, 2)."""
        return label_point(self.data.xpos[self._slots].reshape(-1, 3))

    def visible_share(self, index: int) -> float:
        """Share 0..1 of sampled points of an entity that the camera sees."""
        entity = self.scene.entities[index]
        eye = self.data.cam_xpos[self._camera].copy()
        r, h = 0.7 * entity.radius_m, 0.7 * entity.half_height_m
        offsets = [(0, 0, 0), (r, 0, 0), (0, r, 0), (0, -r, 0), (0, 0, h)]
        if entity.kind == 'bin':
            offsets = [(0, 0, -h)] + [(a * r, b * r, h) for a in (-1, 1) for b in (-1, 1)]
        return sum(self._sees(eye, index, self.centre(index) + o) for o in offsets) / len(offsets)

    def _sees(self, eye: Array, index: int, point: Array) -> bool:
        geom = np.zeros(1, dtype=np.int32)
        ray = point - eye
        distance = mujoco.mj_ray(self.model, self.data, eye, ray, None, 1, -1, geom)
        if geom[0] < 0 or distance > 1.02:
            return True
        body = self.model.geom_bodyid[geom[0]]
        content = [self._slots[i] for i, e in enumerate(self.scene.entities) if e.inside == index]
        return body == self._slots[index] or body in content

    def _place(
        self, body: int, position: tuple[float, float, float], yaw: float, roll: float = 0.0
    ) -> None:
        start = self.model.jnt_qposadr[self.model.body_jntadr[body]]
        cy, sy, cr, sr = (f(a / 2) for a in (yaw, roll) for f in (math.cos, math.sin))
        self.data.qpos[start:start + 7] = [*position, cy * cr, cy * sr, sy * sr, sy * cr]

    def _fill(self, body: int, entity: Entity) -> None:
        self._place(body, (entity.x, entity.y, entity.z), entity.yaw, entity.roll)
        self.model.body_gravcomp[body] = 0.0
        geoms = self._geoms(body)
        self.model.geom_rgba[geoms, :3] = entity.rgb
        self._allow_contact(geoms, True)
        if entity.kind == 'bin':
            return
        half = (entity.radius_m, entity.radius_m, entity.half_height_m)
        self._weigh(body, entity.kind, half, entity.mass_kg)
        solid, look = geoms.start, geoms.start + 1
        self._form(solid, entity.kind, half, entity.firm)
        self._form(look, entity.kind, half)
        self.model.geom_rgba[solid, 3] = float(entity.firm == 1.0)
        self.model.geom_rgba[look, 3] = float(entity.firm < 1.0)

    def _fill_clutter(self, body: int, clutter: Clutter) -> None:
        self._place(body, (clutter.x, clutter.y, clutter.size[2]), clutter.yaw)
        self.model.body_gravcomp[body] = 0.0
        self.model.geom_rgba[self._geoms(body), :3] = clutter.grey
        self._allow_contact(self._geoms(body), True)
        a, b, c = clutter.size
        self._weigh(body, 'cube', clutter.size, 8 * a * b * c * 1000.0)
        self._form(self._geoms(body).start, 'cube', clutter.size)
        self.model.geom_rgba[self._geoms(body), 3] = 1.0, 0.0

    def _empty(self, body: int, rank: int) -> None:
        """Park a slot far behind the arm, weightless and without contacts."""
        self._place(body, (-_FAR_M, rank * 1.0, 1.0), 0.0)
        self.model.body_gravcomp[body] = 1.0
        self._allow_contact(self._geoms(body), False)

    def _geoms(self, body: int) -> slice:
        first = self.model.body_geomadr[body]
        return slice(first, first + self.model.body_geomnum[body])

    def _allow_contact(self, geoms: slice, on: bool) -> None:
        solid = self._solid[geoms]
        self.model.geom_contype[geoms] = np.where(solid, THING, 0) if on else 0
        self.model.geom_conaffinity[geoms] = np.where(solid, ARM | THING | TABLE, 0) if on else 0

    def _form(
        self, geom: int, kind: str, half: tuple[float, float, float], firm: float = 1.0
    ) -> None:
        """Turn a geom into a cube, ball or cylinder of this half size, or the firm part of it."""
        a, b, h = half[0], half[1], half[2] * firm
        half, model = (a, b, h), self.model
        form = 'flat ball' if kind == 'ball' and firm < 1.0 else kind
        sizes = {'ball': (a, 0.0, 0.0), 'cylinder': (a, h, 0.0)}
        reach = {'ball': a, 'flat ball': a, 'cylinder': math.hypot(a, h)}
        model.geom_type[geom], model.geom_size[geom] = _SHAPES[form], sizes.get(form, half)
        model.geom_aabb[geom] = [0, 0, 0, *half]
        model.geom_rbound[geom] = reach.get(form, math.hypot(*half))
        model.geom_pos[geom, 2] = h - h / firm
        model.geom_sameframe[geom] = mujoco.mjtSameFrame.mjSAMEFRAME_NONE

    def _weigh(
        self, body: int, kind: str, half: tuple[float, float, float], mass_kg: float
    ) -> None:
        """Give a slot the mass of an even cube, ball or cylinder."""
        a, b, c = np.square(half)
        inertia = {
            'cube': (b + c, a + c, a + b),
            'ball': (1.2 * a,) * 3,
            'cylinder': (0.75 * a + c, 0.75 * a + c, 1.5 * a),
        }[kind]
        self.model.body_mass[body] = mass_kg
        self.model.body_inertia[body] = np.array(inertia) * mass_kg / 3.0

    def _paint(self, look: Appearance) -> None:
        model = self.model
        table = model.geom('table').id
        model.geom_matid[table] = model.material(look.table_texture).id
        model.geom_rgba[table, :3] = look.table_rgb
        model.vis.headlight.ambient[:] = look.ambient
        model.light_diffuse[0] = look.light_strength
        model.light_pos[0] = look.light_from
        aim = np.array([0.45, 0.0, 0.0]) - look.light_from
        model.light_dir[0] = aim / np.linalg.norm(aim)
        model.light_pos0[0], model.light_dir0[0] = model.light_pos[0], model.light_dir[0]
        model.cam_pos[self._camera] = np.add(CAMERA_POSITION_M, look.camera_shift)
        turn = np.zeros(4)
        angle = float(np.linalg.norm(look.camera_turn))
        axis = np.array(look.camera_turn) / angle if angle else np.array([0.0, 0.0, 1.0])
        mujoco.mju_axisAngle2Quat(turn, axis, angle)
        mujoco.mju_mulQuat(model.cam_quat[self._camera], turn, self._camera_quat)
