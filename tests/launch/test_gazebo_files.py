# SPDX-License-Identifier: Apache-2.0
"""What users of modern Gazebo start names what the code uses; no machine of ours can run it."""

from pathlib import Path
import re
from xml.etree import ElementTree

from onboard_decoder.manifest_yaml import load_manifest
import pytest
from sim.arm_pose import HOME, JOINTS, URDF
from sim.gazebo.modern_world import IMAGE_TOPIC, modern_world_sdf, SHIPPED_SEED
from sim.gazebo.world_sdf import IMAGE_RATE_HZ
from sim.model import MIMIC_JOINT
from sim.tasks import draw_task
import yaml

from tests.launch.recording_stand_in import record

ROOT = Path(__file__).resolve().parents[2]
LAUNCH = ROOT / 'launch' / 'gazebo.launch.py'
XACRO = ROOT / 'urdf' / 'tendon_arm.urdf.xacro'
WORLD = ROOT / 'worlds' / 'table.sdf'
CONTROLLERS = yaml.safe_load((ROOT / 'config' / 'controllers.yaml').read_text())
BRIDGE = yaml.safe_load((ROOT / 'config' / 'bridge.yaml').read_text())
NODE = (ROOT / 'onboard_decoder' / 'onboard_node.py').read_text()


def test_all_parts_are_started():
    """Gazebo, the arm, its controllers, the bridge, a backbone and the robot."""
    recording = record(LAUNCH)

    assert list(recording.foreign) == ['ros_gz_sim/launch/gz_sim.launch.py']
    assert [process.name for process in recording.processes] == [
        'robot_state_publisher', 'create_arm', 'spawn_joint_states', 'spawn_commands',
        'gazebo_bridge', 'backbone', 'onboard_node',
    ]


@pytest.mark.parametrize(('headless', 'wanted'), [
    ('true', '-r -s --headless-rendering '), ('false', '-r '),
])
def test_the_window_is_one_switch(headless, wanted):
    """Headless or not, Gazebo starts once, runs at once, and gets the world."""
    (arguments,) = record(LAUNCH, headless=headless).foreign.values()

    assert arguments == {'gz_args': f'{wanted}{WORLD}'}


def test_a_cloud_elsewhere_is_told_to_the_robot():
    """With cloud_address and no backbone of its own, as on a real robot."""
    recording = record(LAUNCH, start_backbone='false', cloud_address='cloud.example:50251')

    assert 'backbone' not in [process.name for process in recording.processes]
    told = recording.process('onboard_node').parameters[1]
    assert told['backbone_address'] == 'cloud.example:50251'
    assert told['use_sim_time'] is True


@pytest.mark.parametrize('interface', ['joint_trajectory', 'forward_position'])
def test_the_controller_that_is_started_listens_where_the_robot_speaks(interface):
    """Topic of the node, name of the controller, and its joints agree."""
    recording = record(LAUNCH, command_interface=interface)

    name = recording.process('spawn_commands').arguments[0]
    assert name in CONTROLLERS['controller_manager']['ros__parameters']
    assert re.search(rf"'{name}/(joint_trajectory|commands)'", NODE)
    manifest = load_manifest('tendon_arm')
    assert tuple(CONTROLLERS[name]['ros__parameters']['joints']) == manifest.joint_names
    assert recording.process('onboard_node').parameters[1]['command_interface'] == interface


def test_spawners_wait_and_read_the_shipped_file():
    """Nothing depends on who is up first."""
    for name in ('spawn_joint_states', 'spawn_commands'):
        arguments = record(LAUNCH).process(name).arguments
        assert '--controller-manager-timeout' in arguments
        assert Path(arguments[arguments.index('--param-file') + 1]).is_file()


def test_the_bridge_carries_what_the_node_subscribes_to():
    """Clock and camera, under the node's own names; joints come from ros2_control."""
    carried = {entry['ros_topic_name']: entry for entry in BRIDGE}

    assert set(carried) == {'/clock', IMAGE_TOPIC, 'camera/camera_info'}
    assert f"'{IMAGE_TOPIC}'" in NODE
    assert all(entry['direction'] == 'GZ_TO_ROS' for entry in BRIDGE)
    assert record(LAUNCH).process('gazebo_bridge').parameters[0]['use_sim_time'] is True


def test_the_shipped_world_is_the_one_that_is_made():
    """The file follows the generator; make it anew with python -m sim.gazebo.modern_world."""
    scene, _ = draw_task(SHIPPED_SEED, 'test', 'known', 'put')

    assert WORLD.read_text() == modern_world_sdf(scene)


def test_the_shipped_world_has_its_systems_and_the_camera():
    """Without the sensors' system there would be no picture, without physics no time."""
    world = ElementTree.parse(WORLD).getroot().find('world')

    systems = {plugin.get('name').rpartition('::')[2] for plugin in world.findall('plugin')}
    assert systems == {'Physics', 'UserCommands', 'SceneBroadcaster', 'Sensors'}
    (sensor,) = world.iter('sensor')
    assert sensor.findtext('topic') == IMAGE_TOPIC
    assert float(sensor.findtext('update_rate')) == IMAGE_RATE_HZ


@pytest.fixture(scope='module')
def robot(tmp_path_factory):
    """The expanded xacro, by the reference tool."""
    xacro = pytest.importorskip('xacro')
    document = xacro.process_file(str(XACRO), mappings={
        'description': str(URDF), 'parameters': str(ROOT / 'config' / 'controllers.yaml')})
    path = tmp_path_factory.mktemp('urdf') / 'arm.urdf'
    path.write_text(document.toxml())
    return path


def test_every_commanded_joint_is_under_control_from_home(robot):
    """ros2_control has the manifest's joints, with their home as first position."""
    control = ElementTree.parse(robot).getroot().find('ros2_control')
    starts = {
        joint.get('name'): float(joint.findtext("state_interface[@name='position']/param"))
        for joint in control.findall('joint') if joint.find('command_interface') is not None
    }

    assert starts == pytest.approx(dict(zip(JOINTS, HOME, strict=True)))
    assert control.find(f"joint[@name='{MIMIC_JOINT}']") is not None


def test_the_plugin_reads_the_shipped_controllers(robot):
    """Names of Jazzy and later are the default."""
    plugin = ElementTree.parse(robot).getroot().find('gazebo/plugin')

    assert plugin.get('filename') == 'gz_ros2_control-system'
    assert Path(plugin.findtext('parameters')).is_file()
