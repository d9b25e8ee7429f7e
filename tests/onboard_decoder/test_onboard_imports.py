# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys


def test_the_runtime_needs_no_torch_no_ros_and_touches_no_logger():
    """Importing all of the robot but its node: small, and without side effects."""
    code = (
        'import logging, sys\n'
        'before = logging.getLogger().level, list(logging.getLogger().handlers)\n'
        'import onboard_decoder.robot_factory, onboard_decoder.plan_decoder\n'
        'after = logging.getLogger().level, list(logging.getLogger().handlers)\n'
        'assert before == after, after\n'
        'bad = {"torch", "rclpy", "transformers", "mujoco"} & set(sys.modules)\n'
        'assert not bad, bad\n'
    )

    done = subprocess.run([sys.executable, '-c', code], capture_output=True, timeout=120)

    assert done.returncode == 0, done.stderr.decode()
