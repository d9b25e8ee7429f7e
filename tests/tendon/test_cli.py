# SPDX-License-Identifier: Apache-2.0
"""Promises of the command line."""

from dataclasses import fields
import subprocess
import sys

import pytest
from tendon import __version__, cli
from tendon.cli_options import Mishap, Mode
from tendon.errors import BadRequest, PartNotReady
from typer.main import get_command
from typer.testing import CliRunner

HEAVY = ('torch', 'transformers', 'mujoco', 'onnxruntime', 'rclpy', 'grpc', 'matplotlib', 'numpy')


def commands(group, path=()):
    """Return the words of every command below a group."""
    return [
        words for name, entry in group.commands.items()
        for words in (
            commands(entry, (*path, name)) if hasattr(entry, 'commands') else [(*path, name)])
    ]


COMMANDS = [words for words in commands(get_command(cli.app)) if words != ('serve',)]
"""All but the one whose help is that of the server."""


@pytest.fixture
def fails_with(monkeypatch):
    """Let the program's body raise an error, and return what the user would see."""
    def run(error, capsys):
        def body():
            raise error

        monkeypatch.setattr(cli, 'app', body)
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return ended.value.code, capsys.readouterr().err
    return run


def test_help_needs_none_of_the_heavy_libraries():
    """The command line comes up without what its commands need."""
    code = f'import sys, tendon.cli; print([m for m in {HEAVY} if m in sys.modules])'

    shown = subprocess.check_output([sys.executable, '-c', code], text=True)

    assert shown.strip() == '[]'


@pytest.mark.parametrize('command', COMMANDS, ids=' '.join)
def test_every_command_has_help_with_examples(command):
    """--help shows how the command is used, and names it in an example."""
    shown = CliRunner().invoke(cli.app, [*command, '--help'])

    assert shown.exit_code == 0
    assert 'Examples:' in shown.output
    assert f'tendon {" ".join(command)}' in shown.output


def test_version_is_printed():
    """One line with the version."""
    assert CliRunner().invoke(cli.app, ['--version']).output == f'tendon {__version__}\n'


def test_unknown_option_is_a_bad_request():
    """Exit status 2."""
    assert CliRunner().invoke(cli.app, ['eval', '--episode', '3']).exit_code == 2


@pytest.mark.parametrize(('words', 'allowed'), [
    (['demo', '--mode', 'think'], ['plan', 'react']),
    (['robot', '--mode', 'think'], ['plan', 'react']),
    (['demo', '--mishap', 'quake'], [entry.value for entry in Mishap]),
    (['arm', '--mishap', 'quake'], [entry.value for entry in Mishap]),
], ids=' '.join)
def test_a_wrong_word_is_refused_with_the_right_ones(words, allowed):
    """Exit status 2 at once; nothing is started."""
    shown = CliRunner().invoke(cli.app, words)

    assert shown.exit_code == 2
    assert all(word in shown.output for word in [words[-1], *allowed])


def test_modes_and_mishaps_are_those_of_robot_and_simulation():
    """The command line offers what its parts take, in the same order."""
    names = pytest.importorskip('sim.surroundings').NAMES
    modes = pytest.importorskip('onboard_decoder.config').AgentSettings
    (mode,) = [entry for entry in fields(modes) if entry.name == 'mode']

    assert tuple(entry.value for entry in Mishap) == names
    assert tuple(entry.value for entry in Mode) == mode.metadata['allowed']


@pytest.mark.parametrize('instruction', ['', '   ', 'x' * 10_000], ids=['empty', 'blank', 'long'])
def test_ask_refuses_what_no_robot_takes(instruction):
    """Before anything is started, and with the allowed length."""
    with pytest.raises(BadRequest, match='1 to 500') as refused:
        CliRunner().invoke(cli.app, ['ask', instruction], catch_exceptions=False)

    assert '\n' not in str(refused.value)


@pytest.mark.parametrize(('error', 'status'), [
    (BadRequest('split is x; allowed: train, test'), 2), (PartNotReady('robot', 3.0), 1),
], ids=['request', 'run'])
def test_expected_errors_are_one_sentence(fails_with, capsys, error, status):
    """No traceback; 2 for the request, 1 for the run."""
    assert fails_with(error, capsys) == (status, f'tendon: {error}\n')


@pytest.mark.parametrize('name', [
    'cloud_backbone.errors:StartError', 'onboard_decoder.errors:ConfigError',
    'sim.errors:SimError',
])
def test_errors_of_every_package_are_expected(fails_with, capsys, name):
    """Their texts are for people."""
    module, _, kind = name.partition(':')
    error = getattr(pytest.importorskip(module), kind)('do this instead')

    assert fails_with(error, capsys) == (2, 'tendon: do this instead\n')


def test_missing_library_comes_with_its_remedy(fails_with, capsys):
    """A machine without ROS is told what to install."""
    error = ModuleNotFoundError("No module named 'rclpy'", name='rclpy')

    status, said = fails_with(error, capsys)

    assert status == 2
    assert said == "tendon: this command needs rclpy; run: pip install 'tendon[ros]'\n"


def test_faults_of_ours_keep_their_traceback(monkeypatch):
    """A bug is not dressed up as a bad request."""
    def body():
        raise KeyError('bug')

    monkeypatch.setattr(cli, 'app', body)
    with pytest.raises(KeyError):
        cli.main()


def test_parameters_become_ros_arguments():
    """What was not given is left to the node; what the user adds comes later."""
    parameters = {'robot': None, 'backbone_address': 'cloud:1'}

    assert cli.ros_arguments(parameters, ['--ros-args', '-p', 'a:=1']) == [
        '--ros-args', '-p', 'backbone_address:=cloud:1', '--', '--ros-args', '-p', 'a:=1',
    ]
    assert cli.ros_arguments({'robot': None}, []) == []
