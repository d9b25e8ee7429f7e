# SPDX-License-Identifier: Apache-2.0
"""Promises of --cache-policy and --cache-budget."""

from onboard_decoder.planner_client import LinkSettings
import pytest
from tendon.cache_wish import CacheWish
from tendon.errors import BadRequest


def test_bytes_and_shares_are_told_apart() -> None:
    """A whole number is bytes; what is at most 1 is a share, as settings of a backbone say it."""
    for said, settings in (
        ('', {}), ('0', {}), ('30000', {'cache.budget_bytes': 30000}),
        ('1/8', {'cache.budget_fraction': 0.125}), ('0.5', {'cache.budget_fraction': 0.5}),
    ):
        assert CacheWish.read('', said).settings() == settings
    wish = CacheWish.read('cake+squat4', '1/4')
    assert wish.settings() == {'cache.policy': 'cake+squat4', 'cache.budget_fraction': 0.25}


def test_running_backbone_is_asked_in_the_hello() -> None:
    """It takes bytes; a share is refused with what to do."""
    assert CacheWish.read('kivi4', '9').link() == LinkSettings(
        cache_policy='kivi4', cache_budget_bytes=9
    )
    with pytest.raises(BadRequest, match='1/8; with --backbone give bytes'):
        CacheWish.read('', '1/8').link()


@pytest.mark.parametrize('said', ['much', '-1', '1/0', '3.5', '9/8'])
def test_nonsense_is_refused(said: str) -> None:
    """The message shows what was said and what would do."""
    with pytest.raises(BadRequest, match='allowed: bytes, or a share such as 1/8'):
        CacheWish.read('', said)
