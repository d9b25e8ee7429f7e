# SPDX-License-Identifier: Apache-2.0
from dataclasses import fields

from onboard_decoder.config import RobotSettings, setting_names, TaskLimits
from onboard_decoder.errors import SettingsError
import pytest


def test_settings_are_changed_by_name():
    """The rest stays as it is."""
    changed = RobotSettings().changed({'limits.max_attempts': 5, 'watchdog.plan_late_s': 1.0})

    assert changed.limits.max_attempts == 5
    assert changed.watchdog.plan_late_s == 1.0
    assert changed.chunks == RobotSettings().chunks


@pytest.mark.parametrize(('name', 'value', 'words'), [
    ('limits.max_attempts', 0, 'is 0; it must be in 1..20'),
    ('limits.max_attempts', 2.5, 'whole number'),
    ('limits.step_timeout_s', float('nan'), 'in 0.1..600'),
    ('limits.step_timeout_s', 'long', 'a number'),
    ('limits.step_timeout_s', True, 'a number'),
    ('limits.attempts', 3, 'one of chunks.decode_every_ticks'),
    ('max_attempts', 3, 'one of'),
])
def test_unknown_names_and_bad_values_are_refused(name, value, words):
    """With the name, the value and what is allowed."""
    with pytest.raises(SettingsError, match=words):
        RobotSettings().changed({name: value})


def test_every_setting_has_a_text_and_a_default_in_its_range():
    """What the node declares comes from here."""
    defaults = RobotSettings()
    for group in fields(defaults):
        for entry in fields(getattr(defaults, group.name)):
            assert entry.metadata['text']
            if 'allowed' in entry.metadata:
                assert entry.default in entry.metadata['allowed']
            else:
                assert entry.metadata['low'] <= entry.default <= entry.metadata['high']
            assert f'{group.name}.{entry.name}' in setting_names()
    assert TaskLimits() == defaults.limits
