# SPDX-License-Identifier: Apache-2.0
from hypothesis import given, settings
from hypothesis import strategies as st
from onboard_decoder.link_meter import LinkMeter
from onboard_decoder.pulse import Pulse
import pytest

MS = 1_000_000
S = 1000 * MS


class Line:
    """A pulse on a line with a delay: pongs come so much later than their pings."""

    def __init__(self, delay_ms=0, step_ms=10):
        self.meter, self.now_ns, self.step_ns = LinkMeter(), 0, step_ms * MS
        self.pulse, self.delay_ns = Pulse(self.meter, 0.1, 0), delay_ms * MS
        self.under_way, self.is_cut, self.most_silent_s = [], False, 0.0

    def run(self, duration_ms):
        """Let time pass, as the threads of a client would."""
        for _ in range(duration_ms * MS // self.step_ns):
            self.now_ns += self.step_ns
            if self.pulse.look(self.now_ns):
                self.under_way.append((self.now_ns + self.delay_ns, self.pulse.ping(self.now_ns)))
            while self.under_way and self.under_way[0][0] <= self.now_ns and not self.is_cut:
                self.pulse.sound()
                self.pulse.answered(self.under_way.pop(0)[1], self.now_ns)
            self.most_silent_s = max(self.most_silent_s, self.pulse.silent_s)


def test_a_backbone_that_says_nothing_is_silent_for_as_long_as_it_does():
    """Counted from the last word; one word ends it."""
    line = Line()
    line.run(1000)
    assert line.pulse.silent_s < 0.11

    line.is_cut = True
    line.run(300)
    assert 0.3 <= line.pulse.silent_s < 0.41
    line.is_cut = False
    line.run(20)
    assert line.pulse.silent_s < 0.11


@settings(deadline=None)
@given(st.integers(0, 200))
def test_a_slow_link_is_not_a_silent_one(delay_ms):
    """Whatever the round trip: pings do not wait for each other."""
    line = Line(delay_ms)
    line.run(1000)

    assert line.most_silent_s <= 0.1 + delay_ms / 1000 + 0.021
    line.most_silent_s = 0.0
    line.run(2000)
    assert line.most_silent_s <= 0.121


def test_a_pause_of_this_process_is_not_the_silence_of_the_other():
    """Ten seconds asleep count as the one look that they are."""
    line = Line()
    line.run(1000)

    line.pulse.look(line.now_ns + 10 * S)

    assert line.pulse.silent_s <= 0.21


def test_pings_stop_where_none_is_answered():
    """The queue of a dead connection stays short."""
    line = Line()
    line.is_cut = True
    line.run(60_000)

    assert len(line.under_way) == 100


def test_a_pong_of_another_connection_is_ignored():
    """Only what was sent is measured."""
    line = Line()
    line.pulse.answered(99, 5 * S)

    assert line.meter.quality(5 * S).round_trip_s is None


@pytest.mark.parametrize(('size', 'took_ms', 'rate'), [
    (10_000, 80, 125_000.0), (10_000, 0, 10_000_000.0),
])
def test_the_uplink_is_estimated_from_the_pongs_around_a_turn(size, took_ms, rate):
    """Bytes over the time between the pongs; not more than a millisecond can tell."""
    line = Line()
    before, after = line.pulse.ping(0), line.pulse.ping(0)
    line.pulse.uploaded(before, size, after)
    line.pulse.answered(before, 30 * MS)
    line.pulse.answered(after, (30 + took_ms) * MS)

    assert line.meter.quality(100 * MS).bytes_per_s == pytest.approx(rate)


def test_round_trips_are_smoothed_and_the_worst_is_forgotten_in_time():
    """One spike shows at once, fades, and is gone after five seconds."""
    meter = LinkMeter()
    for i in range(20):
        meter.trip(i * 100 * MS, 20 * MS)
    meter.trip(2 * S, 400 * MS)
    at_once = meter.quality(2 * S)
    for i in range(51):
        meter.trip(2 * S + (i + 1) * 100 * MS, 20 * MS)
    later = meter.quality(2 * S + 5100 * MS)

    assert at_once.round_trip_s == pytest.approx(0.0675)
    assert at_once.round_trip_worst_s == 0.4
    assert later.round_trip_s == pytest.approx(0.02, rel=0.01)
    assert later.round_trip_worst_s == 0.02


def test_a_ping_under_way_counts_by_its_age():
    """A link that has just died does not look good until it is silent."""
    line = Line()
    line.run(1000)
    line.is_cut = True
    line.run(200)

    quality = line.meter.quality(line.now_ns, line.pulse.waiting_ns(line.now_ns))

    assert quality.round_trip_worst_s >= 0.1


def test_what_is_long_ago_is_unknown():
    """None rather than an old number; answers are kept for a minute."""
    meter = LinkMeter()
    assert meter.quality(0) == type(meter.quality(0))()
    for duration_ms in (100, 200, 900):
        meter.answer(0, duration_ms * MS)
    meter.trip(0, 20 * MS)

    assert meter.quality(10 * S).answer_s == pytest.approx(0.2)
    assert meter.quality(10 * S).round_trip_s is None
    assert meter.quality(61 * S).answer_s is None
