# SPDX-License-Identifier: Apache-2.0
"""Launch files against the recording stand-in; see test_real_launch.py for the real one."""

from dataclasses import fields, is_dataclass
from pathlib import Path
import re

from cloud_backbone.config import BackboneConfig, load_config
from onboard_decoder.config import RobotSettings, setting_names
import pytest
import yaml

from tests.launch.recording_stand_in import record

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / 'launch').glob('*.launch.py'))
SIM, ROBOT, BACKBONE = (
    ROOT / 'launch' / f'{name}.launch.py' for name in ('sim', 'robot', 'backbone')
)


def flat(table, prefix=''):
    """Names as ROS writes them: nested keys joined by dots."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, f'{prefix}{name}.')
        else:
            yield f'{prefix}{name}', value


def parameters_in(name):
    """Parameters of a YAML file in config/."""
    text = (ROOT / 'config' / name).read_text(encoding='utf-8')
    return dict(flat(yaml.safe_load(text)['/**']['ros__parameters']))


def declared_by_robot():
    """Parameters of the robot's node with their defaults."""
    parameters = pytest.importorskip('onboard_decoder.parameters_ros')
    behaviour = RobotSettings()
    defaults = {name: entry[0] for name, entry in parameters._DECLARED.items()}
    for name in setting_names():
        group, key = name.split('.')
        defaults[name] = getattr(getattr(behaviour, group), key)
    return defaults


def declared_by_arm():
    """Parameters of the arm's node with their defaults."""
    parameters = pytest.importorskip('sim.node_parameters_ros')
    return {entry.name: entry.default for entry in parameters.PARAMETERS}


def test_sim_starts_all_three():
    """One command brings up backbone, arm and robot."""
    names = {process.name for process in record(SIM).processes}

    assert names == {'backbone', 'sim_arm', 'onboard_node'}


def test_sim_can_use_a_backbone_elsewhere():
    """With start_backbone:=false none is started, and the robot is told the address."""
    recording = record(SIM, start_backbone='false', backbone_address='cloud.example:50251')

    assert {process.name for process in recording.processes} == {'sim_arm', 'onboard_node'}
    told = recording.process('onboard_node').parameters[1]
    assert told['backbone_address'] == 'cloud.example:50251'
    assert recording.log == ['no backbone is started here']


def test_simulated_time_is_one_switch():
    """use_sim_time lets the arm publish the clock and the robot follow it."""
    recording = record(SIM, use_sim_time='true')

    assert recording.process('sim_arm').parameters[1]['use_clock'] is True
    assert recording.process('onboard_node').parameters[1]['use_sim_time'] is True


def test_mode_and_mishap_reach_their_nodes():
    """One line starts an agent of single calls where something goes wrong and nobody helps."""
    recording = record(SIM, mode='react', mishap='blocked', person='false')

    assert recording.process('onboard_node').parameters[1]['agent.mode'] == 'react'
    told = recording.process('sim_arm').parameters[1]
    assert (told['mishap'], told['person']) == ('blocked', False)


def test_launch_has_the_choices_of_the_nodes():
    """Of mode, mishap, simulator and command interface: what the nodes take, nothing else."""
    names = pytest.importorskip('sim.surroundings').NAMES
    simulators = pytest.importorskip('sim.arm_factory').SIMULATORS
    modes = RobotSettings.__dataclass_fields__['agent'].default_factory
    allowed = modes.__dataclass_fields__['mode'].metadata['allowed']

    declared = record(SIM).declared

    assert tuple(declared['mode'].choices) == allowed
    interfaces = pytest.importorskip('onboard_decoder.parameters_ros').COMMAND_INTERFACES
    assert tuple(declared['command_interface'].choices) == interfaces
    assert tuple(declared['mishap'].choices) == names
    assert tuple(declared['simulator'].choices) == simulators


def test_namespace_holds_for_arm_and_robot():
    """Two systems can share a graph."""
    recording = record(SIM, namespace='left')

    assert recording.process('sim_arm').namespace == 'left'
    assert recording.process('onboard_node').namespace == 'left'


def test_image_topic_is_remapped_with_its_compressed_one():
    """One argument moves both transports."""
    moved = record(ROBOT, image_topic='wrist/color/image_raw').process('onboard_node').remappings

    assert moved['camera/image_raw'] == 'wrist/color/image_raw'
    assert moved['camera/image_raw/compressed'] == 'wrist/color/image_raw/compressed'


@pytest.mark.parametrize(('argument', 'topic', 'there'), [
    ({'joint_states_topic': '/joint_states'}, 'joint_states', '/joint_states'),
    ({'joint_trajectory_controller': 'scaled_joint_trajectory_controller'},
     'joint_trajectory_controller/joint_trajectory',
     'scaled_joint_trajectory_controller/joint_trajectory'),
    ({'joint_trajectory_topic': 'arm/commands'},
     'joint_trajectory_controller/joint_trajectory', 'arm/commands'),
    ({'forward_position_controller': 'arm_controller'},
     'forward_position_controller/commands', 'arm_controller/commands'),
    ({'commands_topic': '/arm/position'}, 'forward_position_controller/commands', '/arm/position'),
], ids=str)
def test_each_topic_of_an_arm_can_be_told(argument, topic, there):
    """By the controller's name or by the whole topic; the others stay where they are."""
    usual = record(ROBOT).process('onboard_node').remappings

    assert all(old == new for old, new in usual.items())
    assert record(ROBOT, **argument).process('onboard_node').remappings == {**usual, topic: there}


def test_only_topics_of_the_node_are_remapped():
    """A remapping of a topic that nobody has would be lost without a word."""
    source = (ROOT / 'onboard_decoder' / 'onboard_node.py').read_text(encoding='utf-8')

    for topic in record(ROBOT).process('onboard_node').remappings:
        assert f"'{topic.removesuffix('/compressed')}'" in source, topic


def test_launch_leaves_the_certificates_to_the_parameter_file():
    """An argument with an empty default would turn TLS off again behind the file's back."""
    files, told = record(ROBOT).process('onboard_node').parameters

    assert {'tls_ca', 'tls_certificate', 'tls_key'} <= set(parameters_in(files.name)) - set(told)


@pytest.mark.parametrize('simulator', ['mujoco', 'gazebo'])
def test_the_simulator_is_one_argument(simulator):
    """The same three processes; the arm's node knows both."""
    recording = record(SIM, simulator=simulator)

    assert recording.process('sim_arm').parameters[1]['simulator'] == simulator
    assert {process.name for process in recording.processes} == {
        'backbone', 'sim_arm', 'onboard_node'}
    assert record(SIM).process('sim_arm').parameters[1]['simulator'] == 'mujoco'


@pytest.mark.parametrize(('path', 'argument'), [
    (SIM, {'mode': 'think'}), (SIM, {'mishap': 'quake'}), (ROBOT, {'mode': 'think'}),
    (SIM, {'task': 'juggle'}), (SIM, {'simulator': 'chess'}), (SIM, {'seed': 'seven'}),
    (SIM, {'start_backbone': 'perhaps'}), (ROBOT, {'command_interface': 'velocity'}),
], ids=str)
def test_a_value_that_cannot_be_is_refused(path, argument):
    """Choices and types are checked before anything starts."""
    with pytest.raises(ValueError, match=next(iter(argument.values()))):
        record(path, **argument)


@pytest.mark.parametrize('path', FILES, ids=lambda path: path.name)
def test_every_argument_is_described(path):
    """--show-args helps."""
    for argument in record(path).declared.values():
        assert argument.description, argument.name


@pytest.mark.parametrize('path', FILES, ids=lambda path: path.name)
def test_every_executable_is_installed(path):
    """What is started is a console script of setup.py and lies where launch looks."""
    scripts = re.findall(r"'(\w+) = [\w.]+:main'", (ROOT / 'setup.py').read_text())

    depends = re.findall(r'<exec_depend>(.+)</exec_depend>', (ROOT / 'package.xml').read_text())
    for process in record(path).processes:
        folder, _, name = process.executable.rpartition('/')
        package = folder.removeprefix('PREFIX/lib/')
        assert (name in scripts) if package == 'tendon' else (package in depends), name


@pytest.mark.parametrize('path', FILES, ids=lambda path: path.name)
def test_every_file_that_is_named_exists(path):
    """Parameter files, settings and the DDS profile are in the repository."""
    recording = record(path)
    named = [*recording.environment.values()]
    for process in recording.processes:
        named += [entry for entry in process.parameters if not isinstance(entry, dict)]
        named += [word for word in process.arguments if word.endswith('.yaml')]

    assert named
    for entry in named:
        assert Path(entry).is_file(), entry


@pytest.mark.parametrize(('name', 'declared'), [
    ('onboard.yaml', declared_by_robot), ('arm.yaml', declared_by_arm),
])
def test_yaml_lists_every_parameter_with_its_default(name, declared):
    """The file is the list of parameters; a missing, unknown or drifted one shows."""
    assert parameters_in(name) == declared()


@pytest.mark.parametrize(('node', 'declared'), [
    ('onboard_node', declared_by_robot), ('sim_arm', declared_by_arm),
])
def test_launch_sets_only_declared_parameters(node, declared):
    """A misspelt parameter does not get lost."""
    told = record(SIM).process(node).parameters[1]

    assert set(told) - {'use_sim_time'} <= set(declared())


def test_backbone_yaml_lists_every_setting_with_its_default():
    """All but the checkpoint, which is a path of this installation."""
    path = ROOT / 'config' / 'backbone.yaml'
    listed = dict(flat(yaml.safe_load(path.read_text(encoding='utf-8'))))

    def names(settings, prefix=''):
        for entry in fields(settings):
            value = getattr(settings, entry.name)
            if is_dataclass(value):
                yield from names(value, f'{prefix}{entry.name}.')
            else:
                yield prefix + entry.name

    assert set(listed) == set(names(BackboneConfig())) - {'checkpoint'}
    assert load_config(path, {}) == BackboneConfig()


def test_package_xml_names_what_launch_files_and_nodes_import():
    """Nothing of ROS is imported without an exec_depend, so rosdep installs everything."""
    depends = re.findall(r'<exec_depend>(.+)</exec_depend>', (ROOT / 'package.xml').read_text())
    sources = [*FILES, *(ROOT / 'onboard_decoder').rglob('*.py'), *(ROOT / 'sim').rglob('*.py'),
               *(ROOT / 'tendon').rglob('*.py')]
    ros = re.compile(r'^\s*(?:from|import) (launch_ros|launch|rclpy|\w+_msgs|\w+_srvs'
                     r'|builtin_interfaces|rcl_interfaces)\b', re.MULTILINE)

    imported = {name for path in sources for name in ros.findall(path.read_text())}

    assert imported <= set(depends)


def test_launch_is_no_python_package():
    """With an __init__.py our folder would hide the real launch from everybody."""
    assert not (ROOT / 'launch' / '__init__.py').exists()
