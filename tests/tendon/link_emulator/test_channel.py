# SPDX-License-Identifier: Apache-2.0
"""Promises of both ways of a link, on a clock of the test's own."""

from hypothesis import given
from hypothesis import strategies as st
from tendon.link_emulator.channel import Channel, End
from tendon.link_emulator.profile import Direction, LinkProfile
from tendon.link_emulator.shaper import NS_PER_MS, NS_PER_S

PROFILE = LinkProfile('x', up=Direction(10.0), down=Direction(4.0))


def packets(channel: Channel, end: End, now_ms: float) -> list[bytes]:
    """Return what comes out at an end by a time."""
    return [packet for _, packet in channel.leave(end, round(now_ms * NS_PER_MS))]


def test_each_way_has_its_own_delay() -> None:
    """Up is towards the backbone, down towards the robot."""
    channel = Channel(PROFILE, 0)
    channel.enter(End.ROBOT, b'up', 0)
    channel.enter(End.BACKBONE, b'down', 0)
    assert channel.next_due_ns() == 4 * NS_PER_MS
    assert packets(channel, End.ROBOT, 3.9) == []
    assert packets(channel, End.ROBOT, 4.0) == [b'down']
    assert packets(channel, End.BACKBONE, 9.9) == []
    assert packets(channel, End.BACKBONE, 10.0) == [b'up']
    assert channel.next_due_ns() is None


def test_nothing_comes_out_where_it_went_in() -> None:
    """A packet leaves at the other end only."""
    channel = Channel(PROFILE, 0)
    channel.enter(End.ROBOT, b'up', 0)
    assert packets(channel, End.ROBOT, 1000) == []


def test_a_link_that_is_cut_loses_what_comes_in_and_what_is_under_way() -> None:
    """And it comes back by itself, with nothing of what was lost."""
    channel = Channel(PROFILE, 0)
    channel.enter(End.ROBOT, b'under way', 0)
    channel.cut(5 * NS_PER_MS, 0.1)
    channel.enter(End.ROBOT, b'sent while away', 6 * NS_PER_MS)
    assert packets(channel, End.BACKBONE, 50) == []
    assert packets(channel, End.BACKBONE, 200) == []
    channel.enter(End.ROBOT, b'after', 200 * NS_PER_MS)
    assert packets(channel, End.BACKBONE, 210) == [b'after']
    assert channel.counts(End.ROBOT).cut == 2


def test_a_cut_can_be_ended() -> None:
    """A length of 0 brings the link back at once."""
    channel = Channel(PROFILE, 0)
    channel.cut(0, 10.0)
    assert channel.is_away(NS_PER_S)
    channel.cut(NS_PER_S, 0)
    assert not channel.is_away(NS_PER_S)


@given(
    st.lists(st.tuples(st.sampled_from(End), st.integers(0, 30)), max_size=80),
    st.lists(st.integers(0, 3000), max_size=5), st.integers(0, 9),
)
def test_every_packet_is_counted_once(
    events: list[tuple[End, int]], cuts: list[int], seed: int
) -> None:
    """Sent = arrived + lost + overflowed + cut, whatever happens to the link."""
    way = Direction(5.0, 4.0, 0.2, 2.0, 1.0, 3000)
    channel, now_ms = Channel(LinkProfile('x', up=way, down=way), seed), 0
    sent, arrived = dict.fromkeys(End, 0), dict.fromkeys(End, 0)
    for end, gap_ms in events:
        now_ms += gap_ms
        for cut_ms in [c for c in cuts if now_ms - gap_ms <= c < now_ms]:
            channel.cut(cut_ms * NS_PER_MS, 0.02)
        channel.enter(end, bytes(1000), now_ms * NS_PER_MS)
        sent[end] += 1
        for each in End:
            arrived[each.other] += len(packets(channel, each, now_ms))
    for each in End:
        arrived[each.other] += len(packets(channel, each, now_ms + 10_000))
    for end in End:
        counts = channel.counts(end)
        assert sent[end] == arrived[end] + counts.lost + counts.overflowed + counts.cut
