# SPDX-License-Identifier: Apache-2.0
import signal
import subprocess
import sys
import time

import pytest

from tests.onboard_decoder.gantry import gantry

pytestmark = pytest.mark.ros
TIMEOUT_S = 60.0


def run_node(*parameters, code=None):
    """Start the node as a process of its own."""
    code = code or 'import sys; from onboard_decoder.onboard_node import main; sys.exit(main())'
    told = [argument for entry in ('process_priority:=0', 'loop_priority:=0', *parameters)
            for argument in ('-p', entry)]
    return subprocess.Popen(
        [sys.executable, '-c', code, '--ros-args', *told],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.parametrize(('parameter', 'words'), [
    ('robot:=no_such_robot', 'robots that come with Tendon'),
    ('command_interface:=velocity', 'joint_trajectory, forward_position'),
    ('robot_id:="a robot"', 'robot_id'),
    ('limits.max_attempts:=0', 'limits.max_attempts'),
    ('tls_ca:=/no/such/file.pem', "tls_ca is '/no/such/file.pem'; it must be a readable PEM file"),
])
def test_a_wrong_parameter_ends_the_node_with_one_sentence(parameter, words):
    """Exit status not 0, and the sentence has the value or the allowed ones."""
    node = run_node(parameter)

    output, _ = node.communicate(timeout=TIMEOUT_S)

    assert node.returncode != 0
    assert words in output


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_node_cleanly(tmp_path, number):
    """Even three of them: exit status 0 and no traceback."""
    gantry(tmp_path)
    code = (
        'import sys; from onboard_decoder import onboard_node, robot_factory\n'
        'from tests.onboard_decoder.gantry import GantryDecoder\n'
        'robot_factory.load_decoder = GantryDecoder\n'
        'print("ready", flush=True)\n'
        'sys.exit(onboard_node.main())'
    )
    node = run_node(f'robot:={tmp_path}/manifest.yaml', 'backbone_address:=127.0.0.1:1', code=code)
    assert node.stdout is not None and node.stdout.readline() == 'ready\n'
    time.sleep(1.5)

    for _ in range(3):
        node.send_signal(number)
        time.sleep(0.02)
    output, _ = node.communicate(timeout=TIMEOUT_S)

    assert node.returncode == 0, output
    assert 'Traceback' not in output
