# SPDX-License-Identifier: Apache-2.0
"""SDF and URDF of this project are read by sdformat, the parser that Gazebo itself has."""

from pathlib import Path
import subprocess
from xml.etree import ElementTree

import pytest
from sim.arm_pose import JOINTS, URDF
from sim.gazebo.install import program
from sim.gazebo.world_sdf import world_sdf
from sim.tasks import draw_task

ROOT = Path(__file__).resolve().parents[3]


def parse(*arguments):
    """Run Gazebo's own tool; whatever it says is returned."""
    done = subprocess.run(
        [*program('gz'), 'sdf', *map(str, arguments)], capture_output=True, text=True, timeout=60,
        env={'PATH': '/usr/bin:/bin', 'HOME': '/tmp'},
    )
    assert done.returncode == 0, done.stderr
    assert 'Error' not in done.stderr
    return done.stdout


@pytest.mark.parametrize('seed', range(4))
def test_drawn_worlds_are_valid(gazebo, tmp_path, seed):
    """Whatever scene is drawn, the world is SDF."""
    path = tmp_path / 'drawn.world'
    path.write_text(world_sdf(draw_task(seed, 'test')[0]))

    assert 'Check complete' in parse('-k', path)


def test_the_shipped_world_is_valid(gazebo):
    """What users of modern Gazebo get."""
    assert 'Check complete' in parse('-k', ROOT / 'worlds' / 'table.sdf')


def test_the_expanded_xacro_has_all_joints(gazebo, tmp_path):
    """URDF from xacro becomes a model with the joints of the manifest."""
    xacro = pytest.importorskip('xacro')
    document = xacro.process_file(
        str(ROOT / 'urdf' / 'tendon_arm.urdf.xacro'),
        mappings={'description': str(URDF), 'parameters': 'controllers.yaml'})
    path = tmp_path / 'arm.urdf'
    path.write_text(document.toxml())

    model = ElementTree.fromstring(parse('-p', path)).find('model')
    assert {joint.get('name') for joint in model.findall('joint')} >= set(JOINTS)
