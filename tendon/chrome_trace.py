# SPDX-License-Identifier: Apache-2.0
"""Writes turns as a Chrome trace, which Perfetto and chrome://tracing open."""

from collections.abc import Sequence
import json
from pathlib import Path
from typing import Any

from onboard_decoder.latency_budget import BACKBONE_STAGES
from tendon.budget import NETWORK_STAGES, TurnTimes

LANES = {'robot': 1, 'network': 2, 'backbone': 3}


def write_chrome_trace(turns: Sequence[TurnTimes], path: Path) -> None:
    """Write one event per stage; a stage starts where the one before it ended."""
    events = [_lane_name(name, number) for name, number in LANES.items()]
    for turn in turns:
        start_ms = turn.start_ms
        for stage, duration_ms in turn.stages_ms.items():
            events.append(_event(turn.turn_id, stage, start_ms, duration_ms))
            start_ms += duration_ms
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({'traceEvents': events, 'displayTimeUnit': 'ms'}))


def _event(turn_id: str, stage: str, start_ms: float, duration_ms: float) -> dict[str, Any]:
    lane = 'backbone' if stage in BACKBONE_STAGES else 'robot'
    lane = 'network' if stage in NETWORK_STAGES else lane
    return {
        'name': stage, 'ph': 'X', 'pid': 1, 'tid': LANES[lane],
        'ts': start_ms * 1e3, 'dur': duration_ms * 1e3, 'args': {'turn': turn_id},
    }


def _lane_name(name: str, number: int) -> dict[str, Any]:
    return {'name': 'thread_name', 'ph': 'M', 'pid': 1, 'tid': number, 'args': {'name': name}}
