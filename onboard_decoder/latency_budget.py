# SPDX-License-Identifier: Apache-2.0
"""Where the time of a turn went: one stamp per seam, all on the robot's clock.

The seams follow each other without a gap, so the stages add up to the wall clock from the image's
stamp to the first command of the plan; only what the backbone says of itself is measured
elsewhere, and uplink and downlink share what it leaves of the round trip.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from protos.latency import STAGES

BACKBONE_STAGES = ('queue', 'vision', 'prefill', 'decode')
BACKBONE_BUDGET_MS = 160.0
END_TO_END_BUDGET_MS = 250.0


@dataclass(slots=True)
class TurnTrace:
    """Stamps [ns] of one turn, filled in as it goes; None where it has not come so far."""

    turn_id: str
    captured_ns: int
    arrived_ns: int
    started_ns: int
    sent_ns: int | None = None
    received_ns: int | None = None
    taken_ns: int | None = None  # the plan is taken up, the decoder starts
    decoded_ns: int | None = None
    filtered_ns: int | None = None
    published_ns: int | None = None
    moved_ns: int | None = None
    backbone_ns: Mapping[str, int] = field(default_factory=dict)
    backbone_arrived_ns: int = 0  # of the turn, on the backbone's clock; 0 if unknown
    instruction: str = ''
    outcome: str = ''
    image_quality: int = 0  # of the JPEGs, 1..100; 0 if unknown

    @property
    def wall_ns(self) -> int | None:
        """From the image's stamp to the first command of the plan [ns]."""
        return None if self.published_ns is None else self.published_ns - self.captured_ns

    @property
    def backbone_total_ns(self) -> int:
        """What the backbone took on its own clock [ns]."""
        return sum(self.backbone_ns.get(stage, 0) for stage in BACKBONE_STAGES)

    def stages_ns(self) -> dict[str, int]:
        """Return the duration of each stage that was reached [ns], in the order of the path."""
        seams = {
            'capture': (self.captured_ns, self.arrived_ns),
            'intake': (self.arrived_ns, self.started_ns),
            'encode': (self.started_ns, self.sent_ns),
            'buffer': (self.received_ns, self.taken_ns),
            'decoder': (self.taken_ns, self.decoded_ns),
            'filter': (self.decoded_ns, self.filtered_ns),
            'publish': (self.filtered_ns, self.published_ns),
            'motion_onset': (self.published_ns, self.moved_ns),
        }
        found = {
            stage: end - start
            for stage, (start, end) in seams.items()
            if start is not None and end is not None
        }
        found.update(self._round_trip_ns())
        return {stage: found[stage] for stage in STAGES if stage in found}

    def verdict(self) -> dict[str, bool]:
        """Return which of the two lines were kept."""
        lines = {'backbone': self.backbone_total_ns <= BACKBONE_BUDGET_MS * 1e6}
        if self.wall_ns is not None:
            lines['end_to_end'] = self.wall_ns <= END_TO_END_BUDGET_MS * 1e6
        return lines

    def to_record(self) -> dict[str, Any]:
        """Return the line of the trace file."""
        return {
            'turn_id': self.turn_id,
            'instruction': self.instruction,
            'outcome': self.outcome,
            'image_quality': self.image_quality,
            'start_ns': self.captured_ns,
            'stages_ns': self.stages_ns(),
            'wall_ns': self.wall_ns,
            'backbone_arrived_ns': self.backbone_arrived_ns,
            'within': self.verdict(),
        }

    def _round_trip_ns(self) -> dict[str, int]:
        """Split the round trip into the backbone's stages and two halves of the rest [ns]."""
        if self.sent_ns is None or self.received_ns is None:
            return {}
        rest = max(0, self.received_ns - self.sent_ns - self.backbone_total_ns)
        inside = {s: self.backbone_ns[s] for s in BACKBONE_STAGES if s in self.backbone_ns}
        return {'uplink': rest // 2, **inside, 'downlink': rest - rest // 2}
