# SPDX-License-Identifier: Apache-2.0
"""Starts the whole system on the simulated arm: ros2 launch tendon sim.launch.py seed:=3.

Something goes wrong there with: mode:=react mishap:=moved.

Then: tendon ask "put the red cube in the blue bin".
"""

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, LogInfo
from launch.conditions import IfCondition, UnlessCondition
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare


def generate_launch_description() -> LaunchDescription:
    """Return backbone, robot and simulated arm."""
    share = FindPackageShare('tendon')
    has_backbone = LaunchConfiguration('start_backbone')
    return LaunchDescription([
        DeclareLaunchArgument(
            'start_backbone', default_value='true', choices=['true', 'false'],
            description='Start a backbone here; false: use the one at backbone_address',
        ),
        DeclareLaunchArgument(
            'arm_params', default_value=PathJoinSubstitution([share, 'config', 'arm.yaml']),
            description='YAML file with the parameters of the simulated arm',
        ),
        DeclareLaunchArgument(
            'simulator', default_value='mujoco', choices=['mujoco', 'gazebo'],
            description='Whose physics and pictures; gazebo: see tendon gazebo-install',
        ),
        DeclareLaunchArgument('seed', default_value='1', description='Draws scene and task'),
        DeclareLaunchArgument(
            'task', default_value='', choices=['', 'pick', 'put', 'stack', 'push', 'absent'],
            description='Kind of task; empty: any',
        ),
        DeclareLaunchArgument(
            'mishap', default_value='none',
            choices=['none', 'moved', 'dropped', 'blocked', 'slick', 'flat'],
            description='What goes wrong; the task is put unless another one is named',
        ),
        DeclareLaunchArgument(
            'person', default_value='true', choices=['true', 'false'],
            description="Somebody beside the table answers the robot's questions",
        ),
        DeclareLaunchArgument('namespace', default_value='', description='Of nodes and topics'),
        DeclareLaunchArgument(
            'use_sim_time', default_value='false', choices=['true', 'false'],
            description='The arm publishes /clock, and all stamps follow it',
        ),
        IncludeLaunchDescription(
            PythonLaunchDescriptionSource(
                PathJoinSubstitution([share, 'launch', 'backbone.launch.py'])
            ),
            condition=IfCondition(has_backbone),
        ),
        LogInfo(msg='no backbone is started here', condition=UnlessCondition(has_backbone)),
        # All other arguments of robot.launch.py can be given too.
        IncludeLaunchDescription(
            PythonLaunchDescriptionSource(
                PathJoinSubstitution([share, 'launch', 'robot.launch.py'])
            ),
            launch_arguments={
                name: LaunchConfiguration(name) for name in ('namespace', 'use_sim_time')
            }.items(),
        ),
        Node(
            package='tendon', executable='arm_node', name='sim_arm', output='screen',
            namespace=LaunchConfiguration('namespace'),
            parameters=[
                LaunchConfiguration('arm_params'),
                {
                    'simulator': ParameterValue(
                        LaunchConfiguration('simulator'), value_type=str
                    ),
                    'scene_seed': ParameterValue(LaunchConfiguration('seed'), value_type=int),
                    'task': ParameterValue(LaunchConfiguration('task'), value_type=str),
                    'mishap': ParameterValue(LaunchConfiguration('mishap'), value_type=str),
                    'person': ParameterValue(LaunchConfiguration('person'), value_type=bool),
                    'use_clock': ParameterValue(
                        LaunchConfiguration('use_sim_time'), value_type=bool
                    ),
                },
            ],
        ),
    ])
