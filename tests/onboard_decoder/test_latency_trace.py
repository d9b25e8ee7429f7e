# SPDX-License-Identifier: Apache-2.0
from hypothesis import given
from hypothesis import strategies as st
import numpy as np
from onboard_decoder.chunk_maker import Made
from onboard_decoder.latency_budget import TurnTrace
from onboard_decoder.observation_intake import JointState
from onboard_decoder.trace_collector import TraceCollector
from protos.latency import STAGES

from tests.onboard_decoder.gantry import gantry

MS = 1_000_000
FIELDS = (
    'captured_ns', 'arrived_ns', 'started_ns', 'sent_ns', 'received_ns', 'taken_ns', 'decoded_ns',
    'filtered_ns', 'published_ns', 'moved_ns',
)
STEPS = st.lists(st.integers(0, 300 * MS), min_size=len(FIELDS), max_size=len(FIELDS))


def trace_of(stamps, **more):
    """A trace with these stamps."""
    return TurnTrace('t', **dict(zip(FIELDS, stamps, strict=False)), **more)


@given(STEPS, st.lists(st.integers(0, 40 * MS), min_size=4, max_size=4))
def test_stages_add_up_to_the_wall_clock_exactly(steps, inside):
    """Whatever took how long, as long as the backbone fits into the round trip."""
    steps[4] += sum(inside)
    backbone = dict(zip(('queue', 'vision', 'prefill', 'decode'), inside, strict=True))
    trace = trace_of(np.cumsum(steps).tolist(), backbone_ns=backbone)

    stages = trace.stages_ns()

    assert list(stages) == list(STAGES)
    assert sum(v for name, v in stages.items() if name != 'motion_onset') == trace.wall_ns
    assert trace.backbone_total_ns == sum(inside)
    assert abs(stages['uplink'] - stages['downlink']) <= 1


def test_stages_that_were_not_reached_are_left_out():
    """A refused turn has no decoder and no wall clock."""
    trace = trace_of([0, 5 * MS, 6 * MS, 8 * MS, 100 * MS], backbone_ns={'decode': 60 * MS})

    assert list(trace.stages_ns()) == [
        'capture', 'intake', 'encode', 'uplink', 'decode', 'downlink']
    assert trace.to_record()['wall_ns'] is None
    assert trace.verdict() == {'backbone': True}


def test_the_two_lines_are_160_and_250_ms():
    """Backbone and end to end have their own verdicts."""
    slow = trace_of(
        [0, 0, 0, 0, 200 * MS, 200 * MS, 210 * MS, 251 * MS, 251 * MS],
        backbone_ns={'decode': 161 * MS})

    assert slow.verdict() == {'backbone': False, 'end_to_end': False}


def test_a_trace_is_followed_to_the_first_command_and_the_first_motion(tmp_path):
    """Commands of older chunks and joints from before the command do not count."""
    manifest = gantry(tmp_path)
    collector = TraceCollector(manifest)
    trace = trace_of([0, 1, 2, 3, 4])
    collector.watch(trace, Made(7, 1.0, 5 * MS, 6 * MS))

    def felt(time_ns, offset):
        collector.felt(JointState(time_ns, manifest.home + offset, np.zeros(4)))

    collector.commanded(6, 8 * MS, 9 * MS)
    assert trace.published_ns is None
    collector.commanded(7, 10 * MS, 11 * MS)
    collector.commanded(8, 20 * MS, 21 * MS)
    felt(10 * MS, 0.5)
    felt(12 * MS, 0.0)
    felt(20 * MS, 1e-6)
    assert collector.take() == []
    felt(30 * MS, 0.01)

    assert collector.take() == [trace]
    assert (trace.taken_ns, trace.decoded_ns) == (5 * MS, 6 * MS)
    assert (trace.filtered_ns, trace.published_ns, trace.moved_ns) == (10 * MS, 11 * MS, 30 * MS)


def test_an_arm_that_does_not_move_ends_the_trace_without_onset(tmp_path):
    """After some patience; and the end of a run ends it too."""
    manifest = gantry(tmp_path)
    collector = TraceCollector(manifest)
    for _ in range(2):
        collector.watch(trace_of([0, 1, 2, 3, 4]), Made(1, 1.0, 5, 6))
        collector.commanded(1, 10, 11)
    for time_s in (0, 1, 3):
        collector.felt(JointState(time_s * 1000 * MS + 20, manifest.home, np.zeros(4)))
    collector.flush()

    assert [trace.moved_ns for trace in collector.take()] == [None, None]


def test_the_record_says_when_the_backbone_had_the_turn():
    """On the backbone's own clock; whoever draws both machines needs it."""
    trace = trace_of([0, 5 * MS, 6 * MS], backbone_arrived_ns=77)

    assert trace.to_record()['backbone_arrived_ns'] == 77
