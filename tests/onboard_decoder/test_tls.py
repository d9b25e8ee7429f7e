# SPDX-License-Identifier: Apache-2.0
"""The robot's certificates, against the real server."""

from dataclasses import replace
import shutil
import subprocess
import time

from cloud_backbone.config import load_config, TlsConfig
from onboard_decoder.clock import MonotonicClock
from onboard_decoder.config import OffloadSettings, RobotSettings
from onboard_decoder.errors import SettingsError
from onboard_decoder.planner_client import LinkSettings
from onboard_decoder.planner_port import Link
from onboard_decoder.robot_factory import Paths, RobotParts
from onboard_decoder.runtime import RuntimeSettings
from onboard_decoder.tls import TlsFiles
import pytest

from tests.fakes.backbone_server import BackboneServer
from tests.fakes.scripted_backbone import ScriptedBackbone

TIMEOUT_S = 30.0


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """Certificates, each its own authority, of a server, a robot and a stranger."""
    if shutil.which('openssl') is None:
        pytest.skip('openssl makes the certificates of this test and is not installed')
    folder = tmp_path_factory.mktemp('certificates')
    new = ['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256',
           '-nodes', '-days', '2', '-addext', 'subjectAltName=DNS:localhost']
    for name in ('server', 'robot', 'stranger'):
        files = ['-keyout', str(folder / f'{name}.key'), '-out', str(folder / f'{name}.pem')]
        subprocess.run([*new, '-subj', f'/CN={name}', *files], check=True, capture_output=True)
    locked = ['openssl', 'pkcs8', '-topk8', '-in', str(folder / 'robot.key'), '-out',
              str(folder / 'locked.key'), '-passout', 'pass:secret']
    subprocess.run(locked, check=True, capture_output=True)
    (folder / 'empty.pem').write_text('')
    return folder


def files(folder, **names):
    """Settings by the names of files; an empty one stays empty."""
    return TlsFiles(**{key: name and str(folder / name) for key, name in names.items()})


@pytest.fixture(scope='module')
def address(folder):
    """A server that wants a certificate of the robot."""
    tls = TlsConfig(*(str(folder / name) for name in ('server.pem', 'server.key', 'robot.pem')))
    with BackboneServer(ScriptedBackbone(), config=replace(load_config(None, {}), tls=tls)) as it:
        yield it.address.replace('127.0.0.1', 'localhost')


def last_state(address, tls, until):
    """State of the link of a robot that is built as its node builds it."""
    parts = RobotParts.build(
        'tendon_arm', 'robot-1', address, LinkSettings(hello_timeout_s=2.0),
        replace(RobotSettings(), offload=OffloadSettings(mode='cloud')), RuntimeSettings(),
        Paths(), MonotonicClock(), publish=lambda command: None, tls=tls,
    )
    try:
        deadline_s = time.monotonic() + TIMEOUT_S
        while not until(parts.planner.state()) and time.monotonic() < deadline_s:
            time.sleep(0.02)
        return parts.planner.state()
    finally:
        parts.close()


def test_a_robot_with_its_certificate_gets_a_session(folder, address):
    """Three files are all that it takes."""
    tls = files(folder, ca='server.pem', certificate='robot.pem', key='robot.key')

    state = last_state(address, tls, lambda state: state.link is Link.READY)

    assert state.link is Link.READY, state.reason


@pytest.mark.parametrize(('names', 'words'), [
    ({}, 'is it a port for TLS?'),
    ({'ca': 'stranger.pem'}, 'nobody that this robot trusts'),
    ({'ca': 'server.pem', 'certificate': 'stranger.pem', 'key': 'stranger.key'}, ''),
    ({'ca': 'server.pem'}, ''),
], ids=['plain', 'another authority', 'a stranger', 'no certificate'])
def test_without_the_right_files_there_is_no_session(folder, address, names, words):
    """The state says why, as far as the robot can know."""
    def is_told(state):
        return state.link is Link.READY or (words in state.reason and 'connecting' not in
                                            state.reason)

    state = last_state(address, files(folder, **names), is_told)

    assert state.link is not Link.READY
    assert words in state.reason and state.reason


@pytest.mark.parametrize(('names', 'words'), [
    ({'ca': 'none.pem'}, r"tls_ca is '.*none.pem'.*No such file"),
    ({'ca': '.'}, 'tls_ca is .*readable PEM file of certificates'),
    ({'ca': 'empty.pem'}, 'tls_ca is .*empty.pem.*readable PEM file of certificates'),
    ({'ca': 'robot.key'}, 'tls_ca is .*robot.key.*readable PEM file of certificates'),
    ({'ca': 'server.pem', 'certificate': 'none.pem', 'key': 'robot.key'},
     'tls_certificate is .*none.pem.*No such file'),
    ({'ca': 'server.pem', 'certificate': 'robot.pem', 'key': 'none.key'},
     'tls_key is .*none.key.*No such file'),
    ({'ca': 'server.pem', 'certificate': 'robot.pem', 'key': 'stranger.key'},
     r"tls_certificate is .*robot.pem.*unencrypted key is in tls_key '.*stranger.key'"),
    ({'ca': 'server.pem', 'certificate': 'robot.pem', 'key': 'locked.key'}, 'unencrypted key'),
    ({'ca': 'server.pem', 'certificate': 'robot.pem'}, "tls_key is '';.*both, or neither"),
    ({'ca': 'server.pem', 'key': 'robot.key'}, "tls_certificate is '';.*both, or neither"),
    ({'certificate': 'robot.pem', 'key': 'robot.key'}, "tls_ca is '';.*turns TLS on"),
], ids=str)
def test_files_that_cannot_work_are_refused_before_the_start(folder, names, words):
    """One sentence with the setting, its value and what is wrong with it."""
    with pytest.raises(SettingsError, match=words) as caught:
        files(folder, **names).credentials()

    assert '\n' not in str(caught.value)


def test_no_files_mean_plain_text():
    """As on loopback."""
    assert TlsFiles().credentials() is None
