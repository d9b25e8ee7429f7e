# SPDX-License-Identifier: Apache-2.0
"""Writes the world of `worlds/` for modern Gazebo, from the same scenes as all others.

The arm is not in it: it comes from its URDF, with its controllers. Modern Gazebo loads no system
by itself once a world names any, so all are named. `python -m sim.gazebo.modern_world 7` prints
the world of a seed.
"""

from __future__ import annotations

import sys

from sim.gazebo.world_sdf import camera_sdf, clutter_sdf, entity_sdf, light_sdf, table_sdf
from sim.scene import SceneSpec
from sim.tasks import draw_task

IMAGE_TOPIC = 'camera/image_raw'   # camera/camera_info comes beside it by itself
SHIPPED_SEED = 7
SYSTEMS = {
    'physics': 'Physics', 'user-commands': 'UserCommands',
    'scene-broadcaster': 'SceneBroadcaster', 'sensors': 'Sensors',
}


def modern_world_sdf(scene: SceneSpec) -> str:
    """Return the world with a scene in it."""
    return '\n'.join([
        '<?xml version="1.0"?>',
        '<!-- SPDX-License-Identifier: Apache-2.0; made by sim/gazebo/modern_world.py -->',
        '<sdf version="1.7"><world name="tendon_world">',
        '<physics name="step" type="ignored"><max_step_size>0.001</max_step_size>'
        '<real_time_factor>1</real_time_factor></physics>',
        *(_system(name, kind) for name, kind in SYSTEMS.items()),
        light_sdf(scene.appearance), table_sdf(scene.appearance), *entity_sdf(scene),
        *clutter_sdf(scene), camera_sdf(scene.appearance, 'camera', IMAGE_TOPIC),
        '</world></sdf>', '',
    ])


def _system(name: str, kind: str) -> str:
    inside = '<render_engine>ogre2</render_engine>' if name == 'sensors' else ''
    return (
        f'<plugin filename="gz-sim-{name}-system" name="gz::sim::systems::{kind}">'
        f'{inside}</plugin>'
    )


if __name__ == '__main__':
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else SHIPPED_SEED
    print(modern_world_sdf(draw_task(seed, 'test', 'known', 'put')[0]), end='')
