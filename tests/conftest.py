# SPDX-License-Identifier: Apache-2.0
"""Keeps every test run to itself: own ROS domain on this machine only, few threads, no hub."""

from collections.abc import Iterator
import os
from pathlib import Path
import socket

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parents[1]
FIRST_DOMAIN = 1
LAST_DOMAIN = 101
DOMAIN_PORT_BASE = 21500
HELD: list[socket.socket] = []


# How long an example takes depends on who else uses the machine.
hypothesis.settings.register_profile('tendon', deadline=None)
hypothesis.settings.load_profile('tendon')
os.environ.setdefault('OMP_NUM_THREADS', '1')  # torch reads it when a conftest imports it


def free_domain() -> int:
    """Return a ROS domain id that no other test run of this machine uses; held until the end."""
    for domain in range(FIRST_DOMAIN, LAST_DOMAIN + 1):
        lock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            lock.bind(('127.0.0.1', DOMAIN_PORT_BASE + domain))
        except OSError:
            lock.close()
            continue
        HELD.append(lock)
        return domain
    raise RuntimeError(f'all ROS domains {FIRST_DOMAIN} to {LAST_DOMAIN} are in use')


def pytest_configure() -> None:
    """Set the environment before any test module is imported; children inherit it."""
    os.environ['ROS_DOMAIN_ID'] = str(free_domain())
    os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
    os.environ['FASTRTPS_DEFAULT_PROFILES_FILE'] = str(ROOT / 'config' / 'fastdds.xml')
    os.environ.setdefault('ROS_LOG_DIR', str(ROOT / '.ros_log'))
    os.environ.setdefault('MUJOCO_GL', 'egl')
    os.environ.setdefault('MPLBACKEND', 'Agg')
    os.environ['HF_HUB_OFFLINE'] = '1'


def pytest_unconfigure() -> None:
    """Give the ROS domain back."""
    while HELD:
        HELD.pop().close()


@pytest.fixture(scope='session')
def root() -> Iterator[Path]:
    """Top folder of the repository."""
    yield ROOT


@pytest.fixture(scope='session')
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of a tiny random model of the project's own kind."""
    # Imported here: only tests of the backbone need torch.
    from tests.fakes.tiny_checkpoint import make_tendon

    return make_tendon(tmp_path_factory.mktemp('tiny'))
