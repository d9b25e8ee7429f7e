# SPDX-License-Identifier: Apache-2.0
"""Promises of the doctor's checks on this machine: a good one and a bad one for each."""

from importlib.metadata import PackageNotFoundError
import os
from pathlib import Path
import platform
import sys

import cloud_backbone.config
from onboard_decoder import robot_factory
from onboard_decoder.errors import ConfigError
import pytest
from tendon import doctor_checks
from tendon.doctor_finding import State


@pytest.mark.parametrize(('machine', 'state'), [('x86_64', State.OK), ('riscv64', State.WARNING)])
def test_an_untested_machine_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, machine: str, state: State
) -> None:
    """It may work all the same."""
    monkeypatch.setattr(platform, 'machine', lambda: machine)
    found = doctor_checks.python()
    assert found.state is state
    assert machine in found.detail


def test_missing_libraries_are_named_with_what_installs_them(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them in one line."""
    assert doctor_checks.libraries().state is State.OK

    def version(name: str) -> str:
        if name in ('torch', 'ruckig'):
            raise PackageNotFoundError(name)
        return '1'

    monkeypatch.setattr(doctor_checks, 'version', version)
    found = doctor_checks.libraries()
    assert found.state is State.FAILURE
    assert found.detail == 'no torch, ruckig'
    assert 'pip install' in found.remedy


@pytest.mark.ros
def test_a_machine_without_ros_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """With ROS a node is really made."""
    assert doctor_checks.ros().state is State.OK
    monkeypatch.setitem(sys.modules, 'rclpy', None)
    found = doctor_checks.ros()
    assert found.state is State.FAILURE
    assert 'pip install' in found.remedy


def test_a_checkpoint_that_is_not_there_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_checkpoint: Path
) -> None:
    """And one that loads is right."""
    monkeypatch.setattr(cloud_backbone.config, 'SHIPPED_CHECKPOINT', tiny_checkpoint)
    assert doctor_checks.checkpoint().state is State.OK
    monkeypatch.setattr(cloud_backbone.config, 'SHIPPED_CHECKPOINT', tmp_path / 'none')
    found = doctor_checks.checkpoint()
    assert found.state is State.FAILURE
    assert 'none' in found.detail


def test_a_decoder_that_does_not_fit_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the one that comes with Tendon fits."""
    assert doctor_checks.decoder().state is State.OK

    def refuses(manifest: object) -> None:
        raise ConfigError('decoder has 6 joints, manifest has 7')

    monkeypatch.setattr(robot_factory, 'load_decoder', refuses)
    found = doctor_checks.decoder()
    assert found.state is State.FAILURE
    assert found.detail == 'decoder has 6 joints, manifest has 7'


@pytest.mark.parametrize(('free_mib', 'state'), [(4096, State.OK), (64, State.WARNING)])
def test_little_shared_memory_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, free_mib: int, state: State
) -> None:
    """As in a container that was given none."""
    sizes = os.statvfs_result((4096, 4096, 0, 0, free_mib * 256, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, 'statvfs', lambda folder: sizes)
    found = doctor_checks.shared_memory()
    assert found.state is state
    assert f'{free_mib} MiB free' in found.detail
    assert '--shm-size' in found.remedy
