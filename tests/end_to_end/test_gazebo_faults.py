# SPDX-License-Identifier: Apache-2.0
"""The whole stack on a Gazebo that misbehaves: backbone, robot and arm, each a process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
import os
from pathlib import Path
import signal
import time

import pytest
from sim.errors import GazeboUnavailable
from sim.gazebo.install import install
from sim.gazebo.messages import gazebo
from sim.gazebo.transport import GazeboTransport
from sim.gazebo.world_sdf import STEP_S, WORLD
from tendon.local_robot import local_robot, LocalRobot, Scene

rclpy = pytest.importorskip('rclpy')
from std_srvs.srv import Trigger  # noqa: E402
from trajectory_msgs.msg import JointTrajectory  # noqa: E402

pytestmark = [
    pytest.mark.ros, pytest.mark.slow, pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:module 'sre_:DeprecationWarning"),
]
PATIENCE_S = 120.0


@pytest.fixture(scope='module')
def robot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalRobot]:
    """A running system with an arm in Gazebo."""
    try:
        install()
    except GazeboUnavailable as error:
        pytest.skip(f'GAZEBO WAS NOT TESTED: {error}')
    folder = tmp_path_factory.mktemp('gazebo')
    with local_robot(folder, Scene(7, 'put', simulator='gazebo')) as running:
        running.talk.wait(lambda: bool(running.talk.truth), PATIENCE_S)
        yield running


@pytest.fixture
def grasping(robot: LocalRobot) -> LocalRobot:
    """The robot in the middle of a task, on a scene as it was drawn."""
    reset(robot)
    wait(robot, lambda: not robot.talk.truth['success'])
    robot.talk.say(str(robot.talk.truth['instruction']))
    wait(robot, lambda: robot.talk.status.get('step') == 'grasp')
    return robot


def wait(robot: LocalRobot, condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    assert robot.talk.wait(condition, PATIENCE_S), robot.talk.status


def reset(robot: LocalRobot) -> None:
    """Call the arm's reset, as a user would."""
    client = robot.talk.node.create_client(Trigger, 'sim_arm/reset')
    assert client.wait_for_service(PATIENCE_S)
    answer = client.call_async(Trigger.Request())
    wait(robot, answer.done)
    assert answer.result().success, answer.result().message


def is_there(robot: LocalRobot, fault: str) -> bool:
    """Say whether the diagnostics have a fault."""
    return robot.talk.diagnostics.get(f'fault {fault}', {}).get('is_there') == 'True'


def ends_well(robot: LocalRobot) -> None:
    """The task is done, and nobody had to restart the robot."""
    wait(robot, lambda: bool(robot.talk.status.get('result')))
    assert robot.talk.status['result']['outcome'] == 'done', robot.talk.status
    assert robot.talk.wait(lambda: bool(robot.talk.truth.get('success')), PATIENCE_S)


def server_of(robot: LocalRobot) -> int:
    """Return the process id of the arm's gzserver."""
    tasks = Path(f'/proc/{robot.stack.pid("arm")}/task').iterdir()
    children = [child for task in tasks for child in (task / 'children').read_text().split()]
    lines = {int(child): Path(f'/proc/{child}/cmdline').read_text() for child in children}
    return next(pid for pid, line in lines.items() if 'gzserver' in line)


@contextmanager
def hand_on(robot: LocalRobot) -> Iterator[GazeboTransport]:
    """A client of the arm's gzserver, as its window would be; at the end time goes on as usual."""
    pid = server_of(robot)
    pairs = Path(f'/proc/{pid}/environ').read_text().split('\0')
    address = next(pair for pair in pairs if pair.startswith('GAZEBO_MASTER_URI='))
    client = GazeboTransport(int(address.rpartition(':')[2]))
    client.advertise(f'/gazebo/{WORLD}/world_control', 'WorldControl')
    client.advertise(f'/gazebo/{WORLD}/physics', 'Physics')
    try:
        yield client
    finally:
        pace(client, 1.0)
        pause(client, False)
        client.close()


def pause(client: GazeboTransport, is_paused: bool) -> None:
    """Stop the time or let it go on."""
    client.publish(f'/gazebo/{WORLD}/world_control', gazebo['WorldControl'](pause=is_paused))


def pace(client: GazeboTransport, real_time_factor: float) -> None:
    """Set simulated seconds per second."""
    client.publish(f'/gazebo/{WORLD}/physics', gazebo['Physics'](
        real_time_update_rate=real_time_factor / STEP_S))


def speed_of(robot: LocalRobot) -> float:
    """Measure simulated seconds per second."""
    began_s, simulated_s = time.monotonic(), float(robot.talk.truth['time_s'])
    robot.talk.wait(lambda: False, 2.0)
    return (float(robot.talk.truth['time_s']) - simulated_s) / (time.monotonic() - began_s)


def commanded(robot: LocalRobot) -> list[JointTrajectory]:
    """Listen for a second to what the arm is told."""
    heard: list[JointTrajectory] = []
    topic = 'joint_trajectory_controller/joint_trajectory'
    listener = robot.talk.node.create_subscription(JointTrajectory, topic, heard.append, 100)
    robot.talk.wait(lambda: False, 1.0)
    robot.talk.node.destroy_subscription(listener)
    return heard


def test_a_pause_is_diagnosed_and_waited_for(grasping: LocalRobot) -> None:
    """Joints that stand still in time are stale: the robot brakes, rests, and goes on after it."""
    with hand_on(grasping) as client:
        pause(client, True)
        wait(grasping, lambda: is_there(grasping, 'joints_stale'))
        grasping.talk.wait(lambda: False, 1.0)
        goals = [point.positions for message in commanded(grasping) for point in message.points]
        assert is_there(grasping, 'joints_stale')
        assert all(goal == goals[0] for goal in goals), 'it moves by joints that are stale'
        pause(client, False)
        ends_well(grasping)


def test_a_slow_simulation_is_followed(grasping: LocalRobot) -> None:
    """At three tenths of real time the task is done all the same."""
    with hand_on(grasping) as client:
        pace(client, 0.3)
        grasping.talk.wait(lambda: False, 0.5)
        assert speed_of(grasping) < 0.5
        ends_well(grasping)


def test_a_killed_gazebo_is_diagnosed_and_the_task_goes_on(grasping: LocalRobot) -> None:
    """The arm node starts another one with the scene as drawn, and the robot begins anew."""
    os.kill(server_of(grasping), signal.SIGKILL)
    wait(grasping, lambda: is_there(grasping, 'joints_stale'))
    ends_well(grasping)


def test_a_reset_under_way_is_survived(grasping: LocalRobot) -> None:
    """Whoever resets the scene moves arm and things; the robot looks again and does the task."""
    reset(grasping)
    ends_well(grasping)
