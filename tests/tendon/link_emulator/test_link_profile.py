# SPDX-License-Identifier: Apache-2.0
"""Promises of link profiles."""

from pathlib import Path

import pytest
from tendon.errors import BadRequest
from tendon.link_emulator.profile import (
    Direction,
    from_record,
    LinkProfile,
    load_profiles,
    profile_named,
)

NAMES = ['ideal', 'wifi', '5g', 'wifi_busy', 'lte', 'lte_edge', 'outage']


def test_the_profiles_that_come_with_tendon_are_named_and_told_apart() -> None:
    """Each has its name, a sentence, and numbers of its own."""
    profiles = load_profiles()
    assert list(profiles) == NAMES
    assert all(profile.what for profile in profiles.values())
    assert len({str(profile) for profile in profiles.values()}) == len(NAMES)
    assert [name for name, profile in profiles.items() if profile.outage_s] == ['outage']


def test_an_unknown_link_is_answered_with_the_known_ones() -> None:
    """The message names what was asked and what there is."""
    with pytest.raises(BadRequest, match="'wlan'; allowed: ideal, wifi, 5g"):
        profile_named('wlan')


def test_a_profile_survives_being_written_down() -> None:
    """What the link's process is told is what the run asked for."""
    profile = LinkProfile('x', up=Direction(3.0, loss=0.1, burst=2.0), outage_s=1.0)
    assert from_record(profile.record()) == profile


@pytest.mark.parametrize(('record', 'message'), [
    ({'delay': 3}, 'up has delay; allowed: delay_ms'),
    ({'delay_ms': -1}, 'delay_ms is -1; allowed: 0 to 10000'),
    ({'delay_ms': 'soon'}, "delay_ms is 'soon'"),
    ({'delay_ms': float('nan')}, 'delay_ms is nan'),
    ({'loss': 1.0}, 'loss is 1.0; allowed: 0 to 0.9'),
    ({'burst': 0}, 'burst is 0; allowed: 1 to 1000'),
    ({'queue_bytes': 100}, 'queue_bytes is 100; allowed: 1500'),
    ({'loss': 0.8, 'burst': 1}, 'loss 0.8 in bursts of 1 cannot be; allowed: a burst of 4'),
    ('fast', "up is 'fast'; it must be a mapping"),
])
def test_what_no_link_can_be_is_refused(record: object, message: str) -> None:
    """The message names the value and what is allowed."""
    with pytest.raises(BadRequest, match=message):
        from_record({'name': 'x', 'up': record})


@pytest.mark.parametrize(('text', 'message'), [
    ('links: 3', 'must hold a mapping'),
    ('links: {a: 3}', 'must hold a mapping'),
    ('nets: {}', 'must hold a mapping'),
    ('links: [', 'cannot read'),
    ('links: {a: {upp: {}}}', 'link has upp; allowed: name, what, up, down, outage_s'),
])
def test_a_file_that_holds_no_links_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    """Nothing in the file is ignored in silence."""
    path = tmp_path / 'links.yaml'
    path.write_text(text)
    with pytest.raises(BadRequest, match=message):
        load_profiles(path)


def test_a_file_of_ones_own_replaces_the_links_that_come_with_tendon(tmp_path: Path) -> None:
    """Its names are the ones that are allowed."""
    path = tmp_path / 'links.yaml'
    path.write_text('links: {office: {up: {delay_ms: 4}, down: {delay_ms: 3}}}')
    assert profile_named('office', path).up.delay_ms == 4
    with pytest.raises(BadRequest, match="'lte'; allowed: office"):
        profile_named('lte', path)
