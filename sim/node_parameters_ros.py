# SPDX-License-Identifier: Apache-2.0
"""Parameters of the arm node: names, defaults, descriptions, ranges.

Declares them on a node and reads them; knows nothing of the simulation but its choices.
"""

from __future__ import annotations

from typing import get_args, NamedTuple

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.node import Node
from sim.arm_factory import SIMULATORS
from sim.instructions import Wording
from sim.scene import SPLITS
from sim.surroundings import NAMES
from sim.tasks import TASK_KINDS
from sim.variation import AXES

Value = bool | int | float | str


class Parameter(NamedTuple):
    """One parameter; `low` and `high` bound numbers, `at_start` makes it read-only."""

    name: str
    default: Value
    description: str
    low: float = 0.0
    high: float = 0.0
    at_start: bool = False


PARAMETERS = (
    Parameter(
        'simulator', 'mujoco', f'Whose physics and pictures: {", ".join(SIMULATORS)}.',
        at_start=True,
    ),
    Parameter('seed', 0, 'Seed of the sensor noise.', 0, 2**31 - 1, at_start=True),
    Parameter('scene_seed', 1, 'Seed of scene and task, used at the next reset.', 0, 2**31 - 1),
    Parameter('task', '', f'Kind of task: one of {", ".join(TASK_KINDS)}, or empty for any.'),
    Parameter('split', 'train', f'Scenes to draw from: {", ".join(SPLITS)}.'),
    Parameter('wording', 'known', f'Sentences to draw from: {", ".join(get_args(Wording))}.'),
    Parameter('axis', 'none', f'What differs from training: {", ".join(AXES)}.'),
    Parameter(
        'mishap', 'none', f'What goes wrong: {", ".join(NAMES)}. The task is put unless named.'
    ),
    Parameter('person', True, 'Somebody beside the table answers questions.'),
    Parameter(
        'real_time_factor', 1.0,
        'Simulated seconds per second; 0 runs as fast as possible.', 0.0, 100.0,
    ),
    Parameter('joint_rate_hz', 100.0, 'Rate of joint_states.', 10.0, 500.0, at_start=True),
    Parameter('image_rate_hz', 12.5, 'Rate of the camera.', 0.5, 60.0, at_start=True),
    Parameter('state_rate_hz', 5.0, 'Rate of task/state.', 0.1, 50.0, at_start=True),
    Parameter('jpeg_quality', 90, 'Quality of the compressed images.', 1, 100),
    Parameter(
        'use_clock', False, 'Publish /clock and stamp messages with simulated time.',
        at_start=True,
    ),
    Parameter(
        'position_noise', 0.0, 'Standard deviation of measured positions [rad].', 0.0, 0.1,
        at_start=True,
    ),
    Parameter(
        'velocity_noise', 0.0, 'Standard deviation of measured velocities [rad/s].', 0.0, 1.0,
        at_start=True,
    ),
)


def declare(node: Node) -> None:
    """Declare all parameters on a node."""
    for parameter in PARAMETERS:
        descriptor = ParameterDescriptor(
            description=parameter.description, read_only=parameter.at_start
        )
        if type(parameter.default) is int:
            bounds = IntegerRange(from_value=int(parameter.low), to_value=int(parameter.high))
            descriptor.integer_range = [bounds]
        elif type(parameter.default) is float:
            descriptor.floating_point_range = [
                FloatingPointRange(from_value=parameter.low, to_value=parameter.high)
            ]
        node.declare_parameter(parameter.name, parameter.default, descriptor)
