# SPDX-License-Identifier: Apache-2.0
"""Promises about who plans by the setting, and what a robot needs for it."""

from dataclasses import replace
import logging
import threading

from onboard_decoder.clock import MonotonicClock
from onboard_decoder.config import RobotSettings
from onboard_decoder.errors import ConfigError
from onboard_decoder.fallback.offloading import OffloadingPlanner
from onboard_decoder.fallback.onboard_planner import OnboardPlanner
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.planner_port import Link, PlannerState
from onboard_decoder.robot_factory import load_planner
import pytest

MANIFEST = load_manifest('tendon_arm')


class Client:
    """Stands for the link to a backbone."""

    def __init__(self):
        self.news, self.is_closed = threading.Event(), False

    def state(self):
        return PlannerState(Link.CONNECTING, 'as set')

    def close(self):
        self.is_closed = True


def load(mode, manifest=MANIFEST):
    opened = []

    def connect():
        opened.append(Client())
        return opened[-1]

    settings = RobotSettings().changed({'offload.mode': mode})
    planner, news = load_planner(manifest, settings, MonotonicClock(), connect)
    return planner, news, opened


def without_planner(tmp_path):
    """The same robot, whose folder has no small planner."""
    return replace(MANIFEST, decoder=tmp_path / 'decoder.onnx')


def test_mode_cloud_is_the_backbone_alone(tmp_path):
    """Nothing else is loaded, so a robot without a small planner works as before."""
    planner, news, opened = load('cloud', without_planner(tmp_path))
    assert planner is opened[0] and news is opened[0].news


def test_mode_onboard_dials_nobody():
    """No link is opened."""
    planner, _, opened = load('onboard')
    planner.close()
    assert isinstance(planner, OnboardPlanner) and opened == []


def test_mode_auto_is_both_and_closes_both():
    """Both share the event that wakes the agent."""
    planner, news, opened = load('auto')
    assert isinstance(planner, OffloadingPlanner) and news is opened[0].news
    planner.close()
    assert opened[0].is_closed


def test_mode_auto_without_a_file_is_the_backbone_alone_and_says_so(tmp_path, caplog):
    """A robot of ones own need not have a small planner."""
    with caplog.at_level(logging.WARNING):
        planner, _, opened = load('auto', without_planner(tmp_path))
    assert planner is opened[0]
    assert 'the backbone alone plans' in caplog.text


@pytest.mark.parametrize('mode', ['auto', 'onboard'])
def test_a_bad_file_is_told_before_anything_is_opened(mode, tmp_path):
    """The file is loaded first, so that nothing is left open."""
    (tmp_path / 'planner.onnx').write_bytes(b'no network')
    opened = []
    with pytest.raises(ConfigError, match=r'planner\.onnx'):
        load_planner(
            without_planner(tmp_path), RobotSettings().changed({'offload.mode': mode}),
            MonotonicClock(),
            lambda: opened.append(Client()))
    assert opened == []


def test_mode_onboard_needs_the_file(tmp_path):
    """The message says how one is made."""
    with pytest.raises(ConfigError, match='planner_pipeline'):
        load('onboard', without_planner(tmp_path))
