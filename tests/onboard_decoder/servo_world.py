# SPDX-License-Identifier: Apache-2.0
"""The part of the robot that runs at each tick, on a clock of the test's, with an arm that obeys.

No agent and no backbone: the test hands chunks over, or lets ``ChunkMaker`` make them.
"""

import numpy as np
from onboard_decoder.chunk import Chunk
from onboard_decoder.clock import ManualClock, to_ns, to_s
from onboard_decoder.config import RobotSettings
from onboard_decoder.errors import ChunkRefused
from onboard_decoder.fallback.watchdog import Watchdog
from onboard_decoder.kinematics import ForwardKinematics
from onboard_decoder.observation_intake import ObservationIntake
from onboard_decoder.servo import Servo
from onboard_decoder.trace_collector import TraceCollector

SLACK = 1e-6


class ServoWorld:
    """Observe and tick, one period after the other; keeps what was commanded."""

    def __init__(self, manifest, settings=None):
        settings = settings or RobotSettings()
        self.manifest, self.clock = manifest, ManualClock(to_ns(10.0))
        self.period_ns = to_ns(manifest.control_period_s)
        self.kinematics = ForwardKinematics(manifest)
        self.intake = ObservationIntake(manifest, self.clock, settings.watchdog.range_tolerance)
        self.servo = Servo(
            manifest, self.kinematics, self.intake, Watchdog(settings.watchdog),
            TraceCollector(manifest), self.clock, settings.chunks, lambda command: None,
        )
        self.arm = manifest.home.copy()
        self.has_joints, self.share = True, 1.0  # of the way to the command that the arm goes
        self.runs = []  # of commanded positions, one run after each start
        self.number = 0

    def start(self):
        """Activate; a new run begins where the arm is."""
        self.servo.activate()
        self.runs.append([])

    def tick(self, count=1):
        """Let periods pass; return the last command."""
        command = None
        for _ in range(count):
            if self.has_joints:
                self.intake.take_joints(
                    to_s(self.clock.now_ns()), self.manifest.joint_names, self.arm)
            command = self.servo.tick()
            if command is not None:
                self.runs[-1].append(command.positions)
                self.arm = self.arm + self.share * (command.positions - self.arm)
            self.clock.advance(self.period_ns)
        return command

    def offer(self, rows, ahead=1, made_ago=0, epoch=None):
        """Hand a chunk over; return whether it was taken."""
        self.number += 1
        stamp, buffer = self.servo.last_tick, self.servo.buffer
        tick = stamp.number if stamp else 0
        consumed = stamp.consumed if stamp else 0.0
        try:
            buffer.offer(Chunk(
                self.number, tick - made_ago, consumed + ahead, np.asarray(rows, float),
                buffer.epoch if epoch is None else epoch,
            ))
        except ChunkRefused:
            return False
        return True


def assert_within_limits(manifest, commands, slack=SLACK):
    """Position, velocity, acceleration and jerk of commands (ticks, joints), from rest on."""
    commands = np.asarray(commands)
    assert np.isfinite(commands).all()
    start = commands[0]
    assert (commands >= np.minimum(manifest.column('lower'), start) - 1e-5).all()
    assert (commands <= np.maximum(manifest.column('upper'), start) + 1e-5).all()
    for order, limit in ((1, 'max_velocity'), (2, 'max_acceleration'), (3, 'max_jerk')):
        still = np.repeat(commands[:1], order, axis=0)
        period_s = manifest.control_period_s
        rates = np.abs(np.diff(np.concatenate([still, commands]), order, axis=0)) / period_s**order
        worst = (rates / manifest.column(limit)).max()
        assert worst <= 1 + slack, f'{limit}: {worst:.9f} of the limit'


def outside_m(manifest, kinematics, commands):
    """How far the tool is outside the workspace at worst [m]."""
    tools = np.array([kinematics.tool_position(row) for row in commands])
    beyond = np.maximum(
        np.array(manifest.workspace.lower_m) - tools, tools - np.array(manifest.workspace.upper_m))
    return float(np.maximum(beyond, 0).max())
