# SPDX-License-Identifier: Apache-2.0
"""Starts the whole system on modern Gazebo: ros2 launch tendon gazebo.launch.py headless:=true.

For ROS 2 Jazzy with Gazebo Harmonic, Kilted with Ionic and Lyrical with Jetty, with ros_gz,
gz_ros2_control, ros2_controllers, robot_state_publisher and xacro installed.

Then: tendon ask "put the red cube in the blue bin".
"""

from launch import LaunchDescription
from launch.action import Action
from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, LogInfo
from launch.conditions import IfCondition, UnlessCondition
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import Command, LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare

SIMULATED_TIME = {'use_sim_time': True}
CONTROLLER_TIMEOUT_S = '60'  # spawners wait so long for Gazebo to bring the controllers up


def generate_launch_description() -> LaunchDescription:
    """Return Gazebo with the arm in it, its controllers, the bridge, backbone and robot."""
    return LaunchDescription([*_arguments(), *_gazebo(), *_arm(), *_tendon()])


def _share(*parts: str) -> PathJoinSubstitution:
    return PathJoinSubstitution([FindPackageShare('tendon'), *parts])


def _included(package: str, name: str, **options: object) -> IncludeLaunchDescription:
    path = PathJoinSubstitution([FindPackageShare(package), 'launch', name])
    return IncludeLaunchDescription(PythonLaunchDescriptionSource(path), **options)


def _arguments() -> list[Action]:
    return [
        DeclareLaunchArgument(
            'world', default_value=_share('worlds', 'table.sdf'),
            description='SDF file of the world, without the arm',
        ),
        DeclareLaunchArgument(
            'headless', default_value='false', choices=['true', 'false'],
            description='No window; the camera is rendered all the same',
        ),
        DeclareLaunchArgument(
            'start_backbone', default_value='true', choices=['true', 'false'],
            description='Start a backbone here; false: use the one at cloud_address',
        ),
        DeclareLaunchArgument(
            'cloud_address', default_value='localhost:50251',
            description='host:port of the backbone',
        ),
        DeclareLaunchArgument(
            'command_interface', default_value='joint_trajectory',
            choices=['joint_trajectory', 'forward_position'],
            description='Which controller takes the commands',
        ),
    ]


def _gazebo() -> list[Action]:
    """Gazebo's server, with its window or without."""
    world, headless = LaunchConfiguration('world'), LaunchConfiguration('headless')
    return [
        _included(
            'ros_gz_sim', 'gz_sim.launch.py', condition=IfCondition(headless),
            launch_arguments=[('gz_args', ['-r -s --headless-rendering ', world])],
        ),
        _included(
            'ros_gz_sim', 'gz_sim.launch.py', condition=UnlessCondition(headless),
            launch_arguments=[('gz_args', ['-r ', world])],
        ),
    ]


def _arm() -> list[Action]:
    """The arm, its controllers, and what Gazebo says of time and camera."""
    description = ParameterValue(
        Command(['xacro ', _share('urdf', 'tendon_arm.urdf.xacro')]), value_type=str
    )
    spawn = ['--param-file', _share('config', 'controllers.yaml'),
             '--controller-manager-timeout', CONTROLLER_TIMEOUT_S]
    return [
        Node(
            package='robot_state_publisher', executable='robot_state_publisher',
            name='robot_state_publisher', output='screen',
            parameters=[{'robot_description': description, **SIMULATED_TIME}],
        ),
        Node(
            package='ros_gz_sim', executable='create', name='create_arm', output='screen',
            arguments=['-topic', 'robot_description', '-name', 'tendon_arm'],
        ),
        Node(
            package='controller_manager', executable='spawner', name='spawn_joint_states',
            output='screen', arguments=['joint_state_broadcaster', *spawn],
        ),
        Node(
            package='controller_manager', executable='spawner', name='spawn_commands',
            output='screen',
            arguments=[[LaunchConfiguration('command_interface'), '_controller'], *spawn],
        ),
        Node(
            package='ros_gz_bridge', executable='parameter_bridge', name='gazebo_bridge',
            output='screen',
            parameters=[{'config_file': ParameterValue(
                _share('config', 'bridge.yaml'), value_type=str), **SIMULATED_TIME}],
        ),
    ]


def _tendon() -> list[Action]:
    """The backbone, where one is wanted here, and the robot's node."""
    has_backbone = LaunchConfiguration('start_backbone')
    return [
        _included('tendon', 'backbone.launch.py', condition=IfCondition(has_backbone)),
        LogInfo(msg='no backbone is started here', condition=UnlessCondition(has_backbone)),
        _included('tendon', 'robot.launch.py', launch_arguments=[
            ('backbone_address', LaunchConfiguration('cloud_address')),
            ('command_interface', LaunchConfiguration('command_interface')),
            ('use_sim_time', 'true'),
        ]),
    ]
