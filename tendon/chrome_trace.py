# SPDX-License-Identifier: Apache-2.0
"""Writes turns as a Chrome trace, which Perfetto and chrome://tracing open.

Robot and backbone are drawn as two machines on the robot's timeline. Where the offset of their
clocks is known the backbone's stages stand where they happened, give or take its bound; where it
is not, in the middle of the round trip.
"""

from collections.abc import Callable, Sequence
import json
from pathlib import Path
from typing import Any

from onboard_decoder.latency_budget import BACKBONE_STAGES
from tendon.budget import NETWORK_STAGES, TurnTimes
from tendon.clock_offset import Offset

ROBOT, BACKBONE = 1, 2
BEFORE_UPLINK = ('capture', 'intake', 'encode')
LANES = {'robot': (ROBOT, 1), 'network': (ROBOT, 2), 'backbone': (BACKBONE, 1)}

OffsetAt = Callable[[int], Offset | None]


def write_chrome_trace(
    turns: Sequence[TurnTimes], path: Path, offset_at: OffsetAt = lambda time_ns: None
) -> None:
    """Write one event per stage; a stage starts where the one before it ended.

    Args:
      turns: what is drawn.
      path: file.
      offset_at: gives the backbone's clock minus the robot's at a time of the robot [ns].
    """
    events = [
        _name('process_name', ROBOT, 0, 'robot'), _name('process_name', BACKBONE, 0, 'backbone'),
        *(_name('thread_name', *place, name) for name, place in LANES.items()),
    ]
    for turn in turns:
        events += _events(turn, offset_at(round(turn.start_ms * 1e6)))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({'traceEvents': events, 'displayTimeUnit': 'ms'}))


def placed(turn: TurnTimes, offset: Offset | None) -> dict[str, float]:
    """Return the stages [ms] with the network's share put where it was: sums stay as they are."""
    stages = dict(turn.stages_ms)
    if offset is None or turn.backbone_arrived_ms is None:
        return stages
    if not stages.keys() >= set(NETWORK_STAGES):
        return stages
    both = stages['uplink'] + stages['downlink']
    sent_ms = turn.start_ms + sum(stages.get(name, 0.0) for name in BEFORE_UPLINK)
    up = turn.backbone_arrived_ms - offset.offset_ns / 1e6 - sent_ms
    # The bound may be wider than the way is long.
    stages['uplink'] = min(max(up, 0.0), both)
    stages['downlink'] = both - stages['uplink']
    return stages


def _events(turn: TurnTimes, offset: Offset | None) -> list[dict[str, Any]]:
    start_ms, events = turn.start_ms, []
    known = {} if offset is None else {'clock_bound_ms': round(offset.bound_ns / 1e6, 3)}
    for stage, duration_ms in placed(turn, offset).items():
        lane = 'backbone' if stage in BACKBONE_STAGES else 'robot'
        machine, line = LANES['network' if stage in NETWORK_STAGES else lane]
        events.append({
            'name': stage, 'ph': 'X', 'pid': machine, 'tid': line, 'ts': start_ms * 1e3,
            'dur': duration_ms * 1e3, 'args': {'turn': turn.turn_id, **known},
        })
        start_ms += duration_ms
    return events


def _name(kind: str, machine: int, line: int, name: str) -> dict[str, Any]:
    return {'name': kind, 'ph': 'M', 'pid': machine, 'tid': line, 'args': {'name': name}}
