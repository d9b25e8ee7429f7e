# SPDX-License-Identifier: Apache-2.0
"""Starts the backbone: ros2 launch tendon backbone.launch.py port:=50300.

Not a ROS node: it listens on gRPC only, so it may as well run on a machine without ROS.
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.substitutions import FindPackagePrefix, FindPackageShare


def generate_launch_description() -> LaunchDescription:
    """Return the one process."""
    settings = PathJoinSubstitution([FindPackageShare('tendon'), 'config', 'backbone.yaml'])
    program = PathJoinSubstitution([FindPackagePrefix('tendon'), 'lib', 'tendon', 'backbone'])
    return LaunchDescription([
        DeclareLaunchArgument(
            'backbone_settings', default_value=settings, description='YAML file: see its comments'
        ),
        DeclareLaunchArgument('port', default_value='50251', description='Port to listen on'),
        ExecuteProcess(
            cmd=[
                program, '--config', LaunchConfiguration('backbone_settings'),
                '--port', LaunchConfiguration('port'),
            ],
            name='backbone', output='screen',
        ),
    ])
