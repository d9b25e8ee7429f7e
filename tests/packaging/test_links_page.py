# SPDX-License-Identifier: Apache-2.0
"""The page on links says what the file of links says."""

from tendon.link_emulator.profile import Direction, LinkProfile, load_profiles

from tests.tendon.link_emulator.places import ROOT


def row_of(profile: LinkProfile) -> str:
    """Return a profile as a row of the page."""
    up, down = profile.up, profile.down

    def both(name: str, unit: float = 1.0) -> str:
        return ' / '.join(f'{getattr(way, name) / unit:g}' for way in (up, down))

    loss = f'{up.loss * 100:g} %, {up.burst:g}' if up.loss else 'none'
    rate = both('rate_mbit_s') if up.rate_mbit_s else 'unlimited'
    queue = both('queue_bytes', 1024) if up.rate_mbit_s else '-'
    return f'| `{profile.name}` | {both("delay_ms")} | {both("jitter_ms")} | {loss} | {rate} | ' \
           f'{queue} |'


def test_the_table_of_links_is_that_of_the_file() -> None:
    """Each link that is never cut has its row, number by number."""
    page = (ROOT / 'docs' / 'links.md').read_text(encoding='utf-8').splitlines()
    links = load_profiles()
    missing = [row_of(link) for link in links.values() if not link.outage_s
               and row_of(link) not in page]
    assert not missing


def test_the_outage_is_described_by_another_link() -> None:
    """It is that link, and goes away for as long as the page says."""
    page = (ROOT / 'docs' / 'links.md').read_text(encoding='utf-8')
    links = load_profiles()
    assert (links['outage'].up, links['outage'].down) == (links['5g'].up, links['5g'].down)
    assert f'as `5g`, away for {links["outage"].outage_s:g} s' in page


def test_loss_is_the_same_both_ways() -> None:
    """The page has one column for it."""
    def loss(way: Direction) -> tuple[float, float]:
        return way.loss, way.burst

    assert all(loss(link.up) == loss(link.down) for link in load_profiles().values())
