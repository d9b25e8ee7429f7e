# SPDX-License-Identifier: Apache-2.0
"""What the robot says of itself: one immutable value, ready for JSON.

Knows no ROS; the node publishes it as text and as diagnostics.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
import json

from onboard_decoder.agent.task_result import TaskResult
from onboard_decoder.planner_port import Choice, LinkQuality


@dataclass(frozen=True, slots=True)
class FaultStatus:
    """A fault that has come at least once, the reaction to it, and how often it came.

    ``lasts_s`` is for how long it has been there [s], None where it is over.
    """

    reaction: str
    count: int
    lasts_s: float | None


@dataclass(frozen=True, slots=True)
class RobotStatus:
    """The robot at one moment.

    ``faults`` maps each fault of now to the reaction to it, ``fault_log`` tells of all that came;
    ``notice`` is what was refused last; ``quality`` is of the link to the backbone;
    ``starved_ticks`` had nothing to aim at while a step was run;
    ``choice`` is who plans now and why, None where there is no choice;
    ``tool`` is the one in use and ``question`` what a person is asked, both in mode react.
    """

    phase: str
    instruction: str
    attempt: int
    step: str
    step_index: int
    step_count: int
    waits_for: str
    trouble: str
    is_active: bool
    is_stopped: bool
    is_carrying: bool
    link: str
    link_reason: str
    notice: str
    faults: Mapping[str, str]
    pace: float
    ticks: int
    counts: Mapping[str, int]
    decoder_ms: float
    result: TaskResult | None
    starved_ticks: int = 0
    tool: str = ''
    question: str = ''
    choice: Choice | None = None
    quality: LinkQuality | None = None
    fault_log: Mapping[str, FaultStatus] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return one line of JSON."""
        record = asdict(self)
        if self.choice is not None:
            record['choice']['source'] = self.choice.source.value
        if self.result is not None:
            record['result']['outcome'] = self.result.outcome.value
            record['result']['end'] = self.result.end.value if self.result.end else ''
        return json.dumps(record, ensure_ascii=False)
