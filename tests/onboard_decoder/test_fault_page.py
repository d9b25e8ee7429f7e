# SPDX-License-Identifier: Apache-2.0
import re

from onboard_decoder.config import WatchdogLimits
from onboard_decoder.fallback.watchdog import REACTIONS


def test_the_page_has_every_fault_with_its_reaction(root):
    """In the order of the code; the third column begins with the reaction."""
    page = (root / 'docs' / 'faults.md').read_text(encoding='utf-8')
    table = page.split('## The faults')[1].split('## Where')[0]
    rows = re.findall(r'^\| `(\w+)` \|[^|]*\| `(\w+)`', table, re.MULTILINE)

    assert rows == [(fault.value, reaction.word) for fault, reaction in REACTIONS.items()]


def test_the_page_names_only_settings_that_exist(root):
    """With their defaults, where it gives them."""
    page = (root / 'docs' / 'faults.md').read_text(encoding='utf-8')
    told = re.findall(r'`(?:watchdog\.)?(\w+_s)` \(([\d.]+) s\)', page)

    assert len(told) >= 7
    assert all(getattr(WatchdogLimits(), name) == float(value) for name, value in told)
