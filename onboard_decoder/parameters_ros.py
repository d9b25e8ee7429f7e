# SPDX-License-Identifier: Apache-2.0
"""The node's parameters: declared with description and range, read into settings.

The robot's behaviour is declared from ``config``: its names, ranges and defaults are stated there
once. ``config/onboard.yaml`` lists all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from onboard_decoder.config import RobotSettings
from onboard_decoder.errors import SettingsError
from protos.protocol import ROBOT_ID
from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.node import Node

COMMAND_INTERFACES = ('joint_trajectory', 'forward_position')
IMAGE_TRANSPORTS = ('raw', 'compressed')


@dataclass(frozen=True)
class NodeParameters:
    """What the node is told at its start; see ``_DECLARED`` for the meaning."""

    robot: str
    robot_id: str
    backbone_address: str
    tls_ca: str
    tls_certificate: str
    tls_key: str
    cache_policy: str
    cache_budget_bytes: int
    command_interface: str
    image_transport: str
    autostart: bool
    process_priority: int
    loop_priority: int
    status_rate_hz: float
    latency_path: str
    transcript_path: str
    lessons_path: str
    record_path: str

    def __post_init__(self) -> None:
        for name, allowed in (
            ('command_interface', COMMAND_INTERFACES), ('image_transport', IMAGE_TRANSPORTS)
        ):
            if getattr(self, name) not in allowed:
                raise SettingsError(name, getattr(self, name), f'one of {", ".join(allowed)}')
        if not ROBOT_ID.fullmatch(self.robot_id):
            raise SettingsError('robot_id', self.robot_id, f'text that matches {ROBOT_ID.pattern}')


# name: default, description, range or None
_DECLARED: dict[str, tuple[Any, str, tuple[float, float] | None]] = {
    'robot': ('tendon_arm', 'Robot that comes with Tendon, or path of a manifest', None),
    'robot_id': ('robot', 'Name of this robot at the backbone, [A-Za-z0-9_.-]', None),
    'backbone_address': ('localhost:50251', 'host:port of the backbone', None),
    'tls_ca': ('', "PEM file of who may sign the backbone's certificate; empty: plain text",
               None),
    'tls_certificate': ('', "PEM file of this robot's certificate, where the backbone wants one",
                        None),
    'tls_key': ('', 'PEM file of its private key', None),
    'cache_policy': ('', "Cache policy by name; empty: the backbone's default", None),
    'cache_budget_bytes': (0, "Bytes of the session's cache; 0: the backbone's default",
                           (0, 2**50)),
    'command_interface': (
        'joint_trajectory', 'joint_trajectory: JointTrajectory to joint_trajectory_controller; '
        'forward_position: Float64MultiArray to forward_position_controller', None),
    'image_transport': ('raw', 'raw: camera/image_raw; compressed: its /compressed topic', None),
    'autostart': (True, 'Configure and activate at once, without a lifecycle manager', None),
    'process_priority': (20, 'SCHED_FIFO priority of the process; 0: none', (0, 98)),
    'loop_priority': (80, 'SCHED_FIFO priority of the command loop; 0: none', (0, 99)),
    'status_rate_hz': (10.0, 'Rate of the status topic [Hz]', (0.1, 100.0)),
    'latency_path': ('', 'File for latency traces as JSON lines; empty: none', None),
    'transcript_path': ('', "File for the agent's events as JSON lines; empty: none", None),
    'lessons_path': ('', "File for the agent's lessons as JSON lines; empty: kept until the end",
                     None),
    'record_path': ('', 'File for an MCAP recording; empty: none', None),
}


def declare(node: Node) -> list[str]:
    """Declare every parameter, read-only: a change takes effect at the next start.

    Returns:
      Names that were set but do not exist.
    """
    for name, (default, text, limits) in _DECLARED.items():
        node.declare_parameter(name, default, _descriptor(text, default, limits))
    for group in fields(RobotSettings):
        for entry in fields(getattr(RobotSettings(), group.name)):
            node.declare_parameter(
                f'{group.name}.{entry.name}', entry.default,
                _descriptor(entry.metadata['text'], entry.default, _limits(entry.metadata)),
            )
    # ROS ignores what nobody declares, so a misspelt name would go unnoticed.
    return sorted(
        name for name in node._parameter_overrides
        if not node.has_parameter(name) and not name.startswith('qos_overrides')
    )


def read(node: Node) -> tuple[NodeParameters, RobotSettings]:
    """Read what was set.

    Raises:
      SettingsError: for a value out of its range.
    """
    values = {name: node.get_parameter(name).value for name in _DECLARED}
    behaviour = {
        f'{group.name}.{entry.name}': node.get_parameter(f'{group.name}.{entry.name}').value
        for group in fields(RobotSettings)
        for entry in fields(getattr(RobotSettings(), group.name))
    }
    return NodeParameters(**values), RobotSettings().changed(behaviour)


def _limits(metadata: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the range of a setting, None for one that is a word."""
    return None if 'allowed' in metadata else (metadata['low'], metadata['high'])


def _descriptor(
    text: str, default: Any, limits: tuple[float, float] | None
) -> ParameterDescriptor:
    """Return description and range."""
    descriptor = ParameterDescriptor(description=text, read_only=True)
    if limits is not None and isinstance(default, int):
        descriptor.integer_range = [
            IntegerRange(from_value=int(limits[0]), to_value=int(limits[1]), step=0)]
    elif limits is not None:
        descriptor.floating_point_range = [
            FloatingPointRange(from_value=float(limits[0]), to_value=float(limits[1]), step=0.0)]
    return descriptor
