# SPDX-License-Identifier: Apache-2.0
"""Promises about who is to plan as the link comes and goes."""

from hypothesis import given, settings
from hypothesis import strategies as st
from onboard_decoder.clock import to_ns
from onboard_decoder.config import OffloadSettings
from onboard_decoder.errors import SettingsError
from onboard_decoder.fallback.link_judge import expected_answer_s, LinkJudge
from onboard_decoder.planner_port import Link, LinkQuality, PlannerState, Source
import pytest

SETTINGS = OffloadSettings(mode='auto', enter_s=0.8, leave_s=0.5, dwell_s=3.0, late_s=1.0)
PERIOD_S = 0.05

states = st.builds(
    PlannerState,
    link=st.sampled_from(list(Link)),
    quality=st.none() | st.builds(
        LinkQuality,
        round_trip_s=st.none() | st.floats(0.0, 2.0),
        round_trip_worst_s=st.none() | st.floats(0.0, 2.0),
        answer_s=st.none() | st.floats(0.0, 3.0),
        bytes_per_s=st.none() | st.floats(1e2, 1e8),
    ),
)
traces = st.lists(st.tuples(states, st.integers(1, 120)), min_size=1, max_size=60)


def ready(answer_s=None):
    return PlannerState(Link.READY, quality=LinkQuality(answer_s=answer_s))


def sources(trace, judge=None):
    """Judge a trace of (state, periods); return the time and the source of every period."""
    judge = judge or LinkJudge(SETTINGS, 0)
    found, now_s = [], 0.0
    for state, periods in trace:
        for _ in range(periods):
            found.append((now_s, judge.judge(state, to_ns(now_s)).source, state))
            now_s += PERIOD_S
    return found


@settings(max_examples=300, deadline=None)
@given(traces)
def test_it_never_flaps_more_than_the_dwell_allows(trace):
    """Whatever the link does, the backbone plans again at most once per dwell time."""
    seen = sources(trace)
    returns = [
        now_s for (_, before, _), (now_s, after, _) in zip(seen, seen[1:], strict=False)
        if before is Source.ONBOARD and after is Source.CLOUD
    ]
    gaps = [b - a for a, b in zip(returns, returns[1:], strict=False)]
    assert all(gap >= SETTINGS.dwell_s - 1e-6 for gap in gaps)
    assert len(returns) <= seen[-1][0] / SETTINGS.dwell_s + 1


@settings(max_examples=300, deadline=None)
@given(traces)
def test_the_backbone_never_plans_over_a_link_that_is_gone_or_slow(trace):
    """After the start a turn goes to the backbone alone only if the link is ready and fast."""
    has_been_ready = False
    for now_s, source, state in sources(trace):
        has_been_ready |= state.link is Link.READY
        is_early = not has_been_ready and now_s <= SETTINGS.late_s + 1e-6
        if source is Source.CLOUD and not (is_early and state.link is Link.CONNECTING):
            expected_s = expected_answer_s(state.quality)
            assert state.link is Link.READY
            assert expected_s is None or expected_s <= SETTINGS.enter_s


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(
    st.floats(0.0, 0.8).map(lambda answer_s: ready(answer_s)), st.integers(1, 120)), min_size=1))
def test_with_a_good_link_the_backbone_always_plans(trace):
    """As long as answers come within the limit, nothing but the backbone is chosen."""
    assert {source for _, source, _ in sources(trace)} == {Source.CLOUD}


def test_it_comes_back_after_the_dwell_time_of_good_link_without_a_break():
    """A blink of the link starts the waiting anew."""
    judge = LinkJudge(SETTINGS, 0)
    lost, good = PlannerState(Link.LOST), ready(0.1)
    seen = sources([(good, 2), (lost, 1), (good, 50), (lost, 1), (good, 70)], judge)
    returned_s = next(
        now_s for (_, a, _), (now_s, b, _) in zip(seen, seen[1:], strict=False)
        if (a, b) == (Source.ONBOARD, Source.CLOUD))
    assert returned_s == pytest.approx((2 + 1 + 50 + 1) * PERIOD_S + SETTINGS.dwell_s, abs=0.06)


def test_between_the_two_limits_nothing_changes():
    """What is slower than it must be to return, and faster than it must be to leave, stays."""
    between = ready(0.65)
    assert sources([(between, 200)])[-1][1] is Source.CLOUD
    assert sources([(ready(2.0), 1), (between, 200)])[-1][1] is Source.ONBOARD


def test_connecting_may_take_a_while_at_the_start():
    """A robot that has just been started waits for its backbone before it plans by itself."""
    connecting = PlannerState(Link.CONNECTING)
    seen = sources([(connecting, 60)])
    early = {source for now_s, source, _ in seen if now_s <= SETTINGS.late_s - 1e-6}
    assert early == {Source.CLOUD}
    assert seen[-1][1] is Source.ONBOARD


def test_the_reason_names_what_was_seen():
    """A choice says which link or which time it rests on."""
    judge = LinkJudge(SETTINGS, 0)
    judge.judge(ready(), 0)
    assert 'silent' in judge.judge(PlannerState(Link.SILENT), 1).reason
    slow = LinkJudge(SETTINGS, 0).judge(ready(1.5), 0)
    assert '1.50 s' in slow.reason and '0.8 s' in slow.reason


def test_a_thin_uplink_counts_before_the_first_answer():
    """Where no answer is known yet, the size of a turn and the uplink tell how long it takes."""
    thin = LinkQuality(round_trip_s=0.05, bytes_per_s=2000.0)
    expected_s = expected_answer_s(thin)
    assert expected_s is not None and expected_s > 1.0
    assert expected_answer_s(LinkQuality(0.05, answer_s=0.2, bytes_per_s=2000.0)) == 0.2


def test_limits_the_wrong_way_round_are_refused():
    """To return later than to leave makes no sense."""
    with pytest.raises(SettingsError, match='leave_s'):
        OffloadSettings(enter_s=0.3, leave_s=0.5)
