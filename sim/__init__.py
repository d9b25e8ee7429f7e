# SPDX-License-Identifier: Apache-2.0
"""The simulated side of Tendon: a table, objects, a camera and an arm, with no knowledge of plans.

Data path: entity and scene (what lies where) -> model and world (MuJoCo) -> camera (image, label
points) -> dataset (shards) or mujoco_arm (physics) -> tasks (success) -> arm_node (ROS 2 topics).

MuJoCo picks its off-screen back end from MUJOCO_GL while it is imported, so the default is set
here, before any module of this package can import it.
"""

import os

os.environ.setdefault('MUJOCO_GL', 'egl')
