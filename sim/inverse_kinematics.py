# SPDX-License-Identifier: Apache-2.0
"""Joints for a tool pose of any arm that MuJoCo can load: quadratic programs by mink and daqp.

Knows: one URDF, its joint limits, a posture to stay near (it picks the branch, elbow up, so that
the answer is a smooth function of the pose). Knows no time and no obstacles. About a millisecond
a pose; `arm_geometry` is exact and a thousand times cheaper, but for this project's arm only.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sim.display import mujoco
from sim.errors import SimError

Array = NDArray[np.float64]

TOLERANCE = 1e-5        # [m] and [rad]
STEP_LIMIT = 80
STRIDE = 0.5            # [rad] of any joint in one step; longer ones change the branch
TOOL_DOWN_WXYZ = np.array([0.0, 0.0, 1.0, 0.0])   # half a turn about base y


class ReachError(SimError):
    """No joints within the limits bring the tool to the pose."""

    def __init__(self, pose: Sequence[float], error: float) -> None:
        x, y, z, yaw = pose
        super().__init__(
            f'tool pose x {x:.3f}, y {y:.3f}, z {z:.3f} m, yaw {yaw:.2f} rad is out of reach: the '
            f'nearest joints miss it by {error:.4f} m or rad; allowed: {TOLERANCE}'
        )


class InverseKinematics:
    """Solver for poses with the tool pointing straight down.

    Attributes:
        joint_names: joints of the answers, in order.
    """

    def __init__(self, urdf: Path, joint_names: Sequence[str], posture: Sequence[float]) -> None:
        """Load an arm.

        Args:
            urdf: robot description with a body `tool0`.
            joint_names: joints to solve for.
            posture: the branch to stay on, one position [rad] per name.
        """
        import mink

        spec = mujoco.MjSpec.from_file(str(urdf))
        spec.compiler.fusestatic = False
        model = spec.compile()
        self.joint_names = tuple(joint_names)
        self._indices = [int(model.joint(name).qposadr[0]) for name in joint_names]
        self._configuration = mink.Configuration(model)
        self._start = self._configuration.q.copy()
        self._start[self._indices] = posture
        self._tool = mink.FrameTask('tool0', 'body', position_cost=1.0, orientation_cost=0.3)
        self._posture = mink.PostureTask(model, cost=1e-4)
        self._posture.set_target(self._start)
        stride = {name: np.array([STRIDE]) for name in joint_names}
        self._limits = [mink.ConfigurationLimit(model), mink.VelocityLimit(model, stride)]
        self._pose = mink.SE3

    def solve(self, pose: Sequence[float], start: Sequence[float] | None = None) -> Array:
        """Find the joints for one tool-down pose.

        Args:
            pose: Tool x, y, z [m] and yaw [rad] in base.
            start: Joints near the answer (its branch is kept); None for the posture.

        Returns:
            Joint positions [rad]. Shape (joints,).

        Raises:
            ReachError: no joints within the limits fit.
        """
        import mink

        self._begin(pose, start)
        error = np.inf
        for step in range(STEP_LIMIT):
            error = float(np.abs(self._tool.compute_error(self._configuration)).max())
            if error < TOLERANCE:
                return np.array(self._configuration.q[self._indices])
            # The posture leads the first steps into its branch and then lets go of the pose.
            tasks = [self._tool, self._posture] if step < STEP_LIMIT // 8 else [self._tool]
            velocity = mink.solve_ik(
                self._configuration, tasks, 1.0, 'daqp', damping=1e-9, limits=self._limits)
            self._configuration.integrate_inplace(velocity, 1.0)
        raise ReachError(tuple(pose), error)

    def _begin(self, pose: Sequence[float], start: Sequence[float] | None) -> None:
        x, y, z, yaw = pose
        turn = np.array([np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)])
        rotation = np.zeros(4)
        mujoco.mju_mulQuat(rotation, turn, TOOL_DOWN_WXYZ)
        self._tool.set_target(self._pose(wxyz_xyz=np.array([*rotation, x, y, z])))
        q = self._start.copy()
        if start is not None:
            q[self._indices] = start
        self._configuration.update(q)
