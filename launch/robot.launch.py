# SPDX-License-Identifier: Apache-2.0
"""Starts the robot's node: ros2 launch tendon robot.launch.py backbone_address:=cloud:50251.

The arm's driver, its controllers and the camera are started by their own packages. Certificates
(tls_ca and so on) are set in the file robot_params.
"""

from launch import LaunchDescription
from launch.action import Action
from launch.actions import DeclareLaunchArgument, SetEnvironmentVariable
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare


def generate_launch_description() -> LaunchDescription:
    """Return the node, its parameters and its remappings."""
    config = PathJoinSubstitution([FindPackageShare('tendon'), 'config'])
    return LaunchDescription([
        *_behaviour(config),
        *_topics(),
        # Without it, raw images above 0.5 MB get lost between processes.
        SetEnvironmentVariable(
            'FASTRTPS_DEFAULT_PROFILES_FILE', PathJoinSubstitution([config, 'fastdds.xml'])
        ),
        _node(),
    ])


def _behaviour(config: PathJoinSubstitution) -> list[Action]:
    """Arguments that become parameters."""
    return [
        DeclareLaunchArgument(
            'robot_params', default_value=PathJoinSubstitution([config, 'onboard.yaml']),
            description='YAML file with the parameters of the node',
        ),
        DeclareLaunchArgument('namespace', default_value='', description='Of node and topics'),
        DeclareLaunchArgument(
            'robot', default_value='tendon_arm',
            description='Robot that comes with Tendon, or path of a manifest',
        ),
        DeclareLaunchArgument(
            'backbone_address', default_value='localhost:50251', description='host:port'
        ),
        DeclareLaunchArgument(
            'command_interface', default_value='joint_trajectory',
            choices=['joint_trajectory', 'forward_position'],
            description='Which controller takes the commands',
        ),
        DeclareLaunchArgument(
            'mode', default_value='plan', choices=['plan', 'react'],
            description='Of the agent: whole plans, or one tool call after the other',
        ),
        DeclareLaunchArgument(
            'use_sim_time', default_value='false', choices=['true', 'false'],
            description='Take the time of stamps from /clock',
        ),
    ]


def _topics() -> list[Action]:
    """Arguments that become remappings; the topic of a command follows its controller's name."""
    return [
        DeclareLaunchArgument(
            'joint_states_topic', default_value='joint_states',
            description='Of the measured joints',
        ),
        DeclareLaunchArgument(
            'image_topic', default_value='camera/image_raw', description='Of the camera'
        ),
        DeclareLaunchArgument(
            'joint_trajectory_controller', default_value='joint_trajectory_controller',
            description='Controller for joint_trajectory, as scaled_joint_trajectory_controller',
        ),
        DeclareLaunchArgument(
            'joint_trajectory_topic',
            default_value=[LaunchConfiguration('joint_trajectory_controller'),
                           '/joint_trajectory'],
            description='Its topic',
        ),
        DeclareLaunchArgument(
            'forward_position_controller', default_value='forward_position_controller',
            description='Controller for forward_position',
        ),
        DeclareLaunchArgument(
            'commands_topic',
            default_value=[LaunchConfiguration('forward_position_controller'), '/commands'],
            description='Its topic',
        ),
    ]


def _node() -> Node:
    """The robot's node."""
    image = LaunchConfiguration('image_topic')
    return Node(
        package='tendon', executable='onboard_node', name='onboard_node', output='screen',
        namespace=LaunchConfiguration('namespace'),
        parameters=[
            LaunchConfiguration('robot_params'),
            {
                'robot': _text('robot'),
                'backbone_address': _text('backbone_address'),
                'command_interface': _text('command_interface'),
                'agent.mode': _text('mode'),
                'use_sim_time': ParameterValue(
                    LaunchConfiguration('use_sim_time'), value_type=bool
                ),
            },
        ],
        remappings=[
            ('joint_states', LaunchConfiguration('joint_states_topic')),
            ('joint_trajectory_controller/joint_trajectory',
             LaunchConfiguration('joint_trajectory_topic')),
            ('forward_position_controller/commands', LaunchConfiguration('commands_topic')),
            ('camera/image_raw', image),
            ('camera/image_raw/compressed', [image, '/compressed']),
        ],
    )


def _text(argument: str) -> ParameterValue:
    return ParameterValue(LaunchConfiguration(argument), value_type=str)
