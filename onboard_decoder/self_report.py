# SPDX-License-Identifier: Apache-2.0
"""Puts together what the robot says of itself, from the parts that know.

Reads only; may be called by any thread.
"""

from dataclasses import dataclass

from onboard_decoder.agent.agent import MadeAgent
from onboard_decoder.chunk_maker import ChunkMaker
from onboard_decoder.fallback.guard import Guard
from onboard_decoder.fallback.watchdog import REACTIONS
from onboard_decoder.observation_intake import ObservationIntake
from onboard_decoder.planner_port import PlannerPort
from onboard_decoder.servo import Servo
from onboard_decoder.status import FaultStatus, RobotStatus


@dataclass(frozen=True)
class SelfReport:
    """The parts that know."""

    intake: ObservationIntake
    planner: PlannerPort
    servo: Servo
    maker: ChunkMaker
    made: MadeAgent
    guard: Guard

    def status(self, now_ns: int, notice: str, is_asked: bool) -> RobotStatus:
        """Return what the robot says of itself now.

        Args:
          now_ns: the time.
          notice: what was refused last.
          is_asked: whether an instruction waits to be taken; the last result is old then.
        """
        task, asker, runner = self.made.agent, self.made.asker, self.made.runner
        state, servo, step = self.planner.state(), self.servo, self.made.runner.step
        return RobotStatus(
            phase=task.phase.value,
            instruction=task.instruction,
            attempt=task.attempts,
            step=step.skill.value if step else '',
            step_index=runner.index, step_count=runner.count,
            waits_for=asker.waiting.value,
            trouble=asker.trouble,
            is_active=servo.is_active, is_stopped=servo.is_stopped,
            is_carrying=runner.is_carrying,
            link=state.link.value, link_reason=state.reason, choice=state.choice,
            notice=notice,
            faults={fault.value: REACTIONS[fault].word for fault in self.guard.faults},
            pace=round(servo.pace, 3), ticks=servo.last_tick.number if servo.last_tick else 0,
            counts=self._counts(),
            decoder_ms=round(self.maker.expected_ns / 1e6, 3),
            starved_ticks=servo.starvation.count,
            result=None if is_asked else task.result, tool=task.tool, question=task.question,
            quality=state.quality,
            fault_log={
                fault.value: FaultStatus(
                    REACTIONS[fault].word, record.count,
                    None if record.lasts_s is None else round(record.lasts_s, 3),
                )
                for fault, record in self.guard.records(now_ns).items()
            },
        )

    def _counts(self) -> dict[str, int]:
        """Return what was refused or limited so far."""
        return {
            'observations_refused': self.intake.refused_count,
            **{f'chunks_{name}': n for name, n in self.servo.buffer.counts.items()},
            'decoder_slow': self.maker.slow_count,
            'decoder_late': self.maker.late_count,
            **{f'filter_{name}': n for name, n in self.servo.filter.counts.items()},
        }
