# SPDX-License-Identifier: Apache-2.0
"""Starts the robot's node: ros2 launch tendon robot.launch.py backbone_address:=cloud:50251.

The arm's driver, its controllers and the camera are started by their own packages.
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, SetEnvironmentVariable
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare


def generate_launch_description() -> LaunchDescription:
    """Return the node, its parameters and its remappings."""
    config = PathJoinSubstitution([FindPackageShare('tendon'), 'config'])
    image = LaunchConfiguration('image_topic')
    return LaunchDescription([
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
            'image_topic', default_value='camera/image_raw', description='Of the camera'
        ),
        DeclareLaunchArgument(
            'use_sim_time', default_value='false', choices=['true', 'false'],
            description='Take the time of stamps from /clock',
        ),
        # Without it, raw images above 0.5 MB get lost between processes.
        SetEnvironmentVariable(
            'FASTRTPS_DEFAULT_PROFILES_FILE', PathJoinSubstitution([config, 'fastdds.xml'])
        ),
        Node(
            package='tendon', executable='onboard_node', name='onboard_node', output='screen',
            namespace=LaunchConfiguration('namespace'),
            parameters=[
                LaunchConfiguration('robot_params'),
                {
                    'robot': ParameterValue(LaunchConfiguration('robot'), value_type=str),
                    'backbone_address': ParameterValue(
                        LaunchConfiguration('backbone_address'), value_type=str
                    ),
                    'command_interface': ParameterValue(
                        LaunchConfiguration('command_interface'), value_type=str
                    ),
                    'agent.mode': ParameterValue(LaunchConfiguration('mode'), value_type=str),
                    'use_sim_time': ParameterValue(
                        LaunchConfiguration('use_sim_time'), value_type=bool
                    ),
                },
            ],
            remappings=[
                ('camera/image_raw', image),
                ('camera/image_raw/compressed', [image, '/compressed']),
            ],
        ),
    ])
