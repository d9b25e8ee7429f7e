# SPDX-License-Identifier: Apache-2.0
"""A workspace built by colcon, as ROS users build it, and what starts from it."""

import os
from pathlib import Path
import shutil
import signal
import subprocess
import sys
import time

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD_TIMEOUT_S = 240.0
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 20.0
NODE = ('lib/tendon/onboard_node --ros-args -r __ns:=/built -p process_priority:=0 '
        '-p loop_priority:=0 -p backbone_address:=127.0.0.1:1')


def in_workspace(workspace, command, folder, **options):
    """Start a command elsewhere, in a shell that has sourced the workspace."""
    return subprocess.Popen(
        ['bash', '-c', f'. {workspace}/install/setup.bash && exec {command}'], cwd=folder,
        text=True, start_new_session=True, **options)


@pytest.fixture(scope='module')
def workspace(tmp_path_factory):
    """A copy of the tracked files, built."""
    pytest.importorskip('colcon_core', reason='colcon is not installed here, or not importable')
    pytest.importorskip('colcon_ros', reason='colcon-ros is not installed here')
    listed = subprocess.run(
        ['git', 'ls-files', '-z'], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip('no git checkout: the files that belong to the tree are not known')
    folder = tmp_path_factory.mktemp('workspace')
    for name in filter(None, listed.stdout.split('\0')):
        if not name.startswith('tests/') and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    built = subprocess.run(
        [sys.executable, '-m', 'colcon', 'build', '--event-handlers', 'console_direct+'],
        cwd=folder, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False,
        env={**os.environ, 'COLCON_HOME': str(folder / 'colcon_home')})
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_everything_that_launch_needs_is_installed(workspace):
    """Marker, launch files, parameters, worlds, robots and executables lie where ROS looks."""
    package = workspace / 'install' / 'tendon'
    share = package / 'share' / 'tendon'
    listed = {
        folder: {path.relative_to(ROOT / folder) for path in (ROOT / folder).rglob(pattern)}
        for folder, pattern in (
            ('launch', '*.launch.py'), ('config', '*.*'), ('urdf', '*.xacro'),
            ('worlds', '*.sdf'))
    }

    assert (package / 'share/ament_index/resource_index/packages/tendon').is_file()
    assert (share / 'package.xml').is_file()
    for folder, names in listed.items():
        assert names
        for name in names:
            assert (share / folder / name).is_file(), name
    for name in ('onboard_node', 'arm_node', 'backbone', 'tendon'):
        assert os.access(package / 'lib' / 'tendon' / name, os.X_OK), name


def test_the_installed_code_is_that_of_the_workspace(workspace, tmp_path):
    """Sourcing the workspace is enough to import it, with its decoder and its messages."""
    shown = in_workspace(
        workspace, f'{sys.executable} -c "import onboard_decoder, protos.planner_pb2 as p; '
        'from onboard_decoder.manifest_yaml import load_manifest as m; '
        "print(m('tendon_arm').decoder.is_file(), p.__file__, onboard_decoder.__file__)\"",
        tmp_path, stdout=subprocess.PIPE)

    is_there, *files = shown.communicate(timeout=START_TIMEOUT_S)[0].split()

    assert is_there == 'True'
    assert all(name.startswith(f'{workspace}/install/') for name in files), files


@pytest.fixture
def listener():
    """A ROS node of the test."""
    rclpy = pytest.importorskip('rclpy')
    context = rclpy.Context()
    rclpy.init(context=context)
    yield rclpy.create_node('listener', context=context)
    rclpy.try_shutdown(context=context)


@pytest.mark.ros
def test_the_installed_node_starts_and_ends_with_sigint(workspace, listener, tmp_path):
    """As ros2 launch starts it: it is configured, says its status, and ends with exit status 0."""
    log = tmp_path / 'node.log'
    with log.open('w') as output:
        node = in_workspace(
            workspace, f'{workspace}/install/tendon/{NODE}', tmp_path,
            stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not listener.count_publishers('/built/status'):
            assert node.poll() is None and time.monotonic() < deadline_s, log.read_text()
            time.sleep(0.05)
        node.send_signal(signal.SIGINT)
        assert node.wait(STOP_TIMEOUT_S) == 0, log.read_text()
    finally:
        if node.poll() is None:
            os.killpg(node.pid, signal.SIGKILL)
            node.wait()
