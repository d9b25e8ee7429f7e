# SPDX-License-Identifier: Apache-2.0
"""Promises of one way of a link, for any packets."""

import random

from hypothesis import given
from hypothesis import strategies as st
import pytest
from tendon.link_emulator.loss import BurstLoss
from tendon.link_emulator.profile import Direction
from tendon.link_emulator.shaper import NS_PER_MS, NS_PER_S, Shaper

SIZES = st.integers(20, 1500)
# Gap to the packet before [us], size.
PACKETS = st.lists(st.tuples(st.integers(0, 20_000), SIZES), min_size=1, max_size=200)
WAYS = st.builds(
    Direction, delay_ms=st.floats(0, 200), jitter_ms=st.floats(0, 50), loss=st.floats(0, 0.4),
    burst=st.floats(1, 10), rate_mbit_s=st.sampled_from([0.0, 0.5, 3.0, 100.0]),
    queue_bytes=st.integers(1500, 1 << 18),
)


def sent(way: Direction, packets: list[tuple[int, int]], seed: str = 's') -> list[
    tuple[int, int, int | None]
]:
    """Send packets; return when each came in [ns], its size, and when it is due [ns]."""
    shaper, now_ns, found = Shaper(way, seed), 0, []
    for gap_us, size in packets:
        now_ns += gap_us * 1000
        found.append((now_ns, size, shaper.due_ns(now_ns, size)))
    return found


@given(WAYS, PACKETS)
def test_packets_keep_their_order(way: Direction, packets: list[tuple[int, int]]) -> None:
    """Jitter delays; it never lets one packet overtake another."""
    due = [entry[2] for entry in sent(way, packets) if entry[2] is not None]
    assert due == sorted(due)


@given(WAYS, PACKETS)
def test_no_packet_is_faster_than_the_fixed_delay(
    way: Direction, packets: list[tuple[int, int]]
) -> None:
    """The delay is the least that a packet takes."""
    for now_ns, _, due_ns in sent(way, packets):
        assert due_ns is None or due_ns - now_ns >= int(way.delay_ms * NS_PER_MS)


@given(WAYS, PACKETS)
def test_the_rate_is_never_exceeded(way: Direction, packets: list[tuple[int, int]]) -> None:
    """What came out since any packet came in is no more than the rate lets through."""
    if not way.rate_mbit_s:
        return
    out = [entry for entry in sent(way, packets) if entry[2] is not None]
    for first in range(len(out)):
        start_ns, size_sum = out[first][0] + int(way.delay_ms * NS_PER_MS), 0
        for _, size, due_ns in out[first:]:
            size_sum += size
            assert due_ns is not None
            assert size_sum * 8 <= way.rate_mbit_s * 1e6 * (due_ns - start_ns + 2) / NS_PER_S


@given(WAYS, PACKETS)
def test_the_same_seed_gives_the_same_schedule(
    way: Direction, packets: list[tuple[int, int]]
) -> None:
    """A measurement can be repeated."""
    assert sent(way, packets) == sent(way, packets)


def test_another_seed_gives_another_schedule() -> None:
    """The seed is what draws jitter and loss."""
    way, packets = Direction(5.0, 5.0), [(1000, 500)] * 50
    assert sent(way, packets) != sent(way, packets, 'other')


def test_a_packet_that_finds_the_queue_full_is_dropped() -> None:
    """The queue takes its bytes and no more, and has room again once they have left."""
    way = Direction(rate_mbit_s=0.8, queue_bytes=3000)  # 100 bytes per millisecond
    burst = sent(way, [(0, 1000)] * 5)
    assert [entry[2] for entry in burst] == [10 * NS_PER_MS, 20 * NS_PER_MS, 30 * NS_PER_MS,
                                             None, None]
    assert sent(way, [(0, 1000)] * 5 + [(10_000, 1000)])[-1][2] == 40 * NS_PER_MS


def test_jitter_has_its_mean() -> None:
    """Over many packets that are far apart, the extra is what the profile says."""
    way = Direction(delay_ms=1.0, jitter_ms=4.0)
    extra = [(due or 0) - now - NS_PER_MS for now, _, due in sent(way, [(200_000, 100)] * 4000)]
    assert sum(extra) / len(extra) / NS_PER_MS == pytest.approx(4.0, rel=0.1)


@pytest.mark.parametrize(('loss', 'burst'), [(0.01, 3.0), (0.2, 1.0), (0.1, 10.0)])
def test_loss_has_its_share_and_its_bursts(loss: float, burst: float) -> None:
    """Gilbert and Elliott: the share that is lost, and how many in a row, are as asked."""
    model = BurstLoss(loss, burst, random.Random(4))
    lost = [model.loses_next() for _ in range(300_000)]
    bursts = sum(now and not before for before, now in zip([False, *lost], lost, strict=False))
    assert sum(lost) / len(lost) == pytest.approx(loss, rel=0.1)
    assert sum(lost) / bursts == pytest.approx(burst, rel=0.1)


def test_no_loss_loses_nothing() -> None:
    """A share of 0 is no rare event but none."""
    model = BurstLoss(0.0, 3.0, random.Random(1))
    assert not any(model.loses_next() for _ in range(10_000))
