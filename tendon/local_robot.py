# SPDX-License-Identifier: Apache-2.0
"""A whole system on this machine: backbone, simulated arm and robot, each a process of its own.

Starts them in the order in which they need each other. Knows their parameters; knows nothing
about what they are then asked to do.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
import json
import os
from pathlib import Path

from tendon.backbone_process import HERE, Place, start_backbone
from tendon.conversation import Conversation
from tendon.stack import free_port, Stack

READY_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Scene:
    """What the simulated arm shows; see the arm node's parameters."""

    seed: int
    task: str = ''
    split: str = 'test'
    wording: str = 'known'
    mishap: str = 'none'
    simulator: str = 'mujoco'


@dataclass
class LocalRobot:
    """The running system and its files.

    Attributes:
      stack: the processes: 'backbone', 'arm', 'robot'.
      talk: the way to talk to the robot.
      backbone_port: where the backbone listens.
      traces: latency of each turn, JSON lines.
      transcript: the agent's events, JSON lines.
      recording: MCAP file of the run.
      place: where the backbone runs.
    """

    stack: Stack
    talk: Conversation
    backbone_port: int
    traces: Path
    transcript: Path
    recording: Path
    checkpoint: Path | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    place: Place = HERE

    def restart_backbone(self) -> None:
        """Start the backbone again on the same port and wait until it serves."""
        start_backbone(
            self.stack, self.checkpoint, self.backbone_port, self.settings, self.place
        )


@contextmanager
def local_robot(
    out: Path, scene: Scene, checkpoint: Path | None = None,
    parameters: dict[str, str | float | int] | None = None,
    settings: Mapping[str, object] | None = None,
    remaps: Mapping[str, str] | None = None,
    place: Place = HERE,
) -> Iterator[LocalRobot]:
    """Start everything, hand it over when the robot listens, and end everything.

    Args:
      out: folder for logs and records.
      scene: what the arm shows.
      checkpoint: model of the backbone; None takes the shipped one.
      parameters: further parameters of the robot's node.
      settings: of the backbone, besides its defaults.
      remaps: topics of the robot's node, by the names that it uses itself.
      place: where the backbone runs; robot and arm run where the caller is.

    Raises:
      PartDied, PartNotReady: if a part does not come up.
    """
    out = out.resolve()
    traces, transcript, recording = files = [
        out / name for name in ('turns.jsonl', 'transcript.jsonl', 'run.mcap')
    ]
    for path in files:
        path.unlink(missing_ok=True)
    port = free_port()
    is_simulated = scene.simulator == 'gazebo'  # which has a clock of its own
    with Stack(out / 'logs') as stack:
        address = start_backbone(stack, checkpoint, port, settings, place)
        stack.start('arm', 'sim.arm_node', *_arguments({
            'scene_seed': scene.seed, 'task': scene.task, 'split': scene.split,
            'wording': scene.wording, 'mishap': scene.mishap, 'simulator': scene.simulator,
            'use_clock': is_simulated,
        }))
        stack.start('robot', 'onboard_decoder.onboard_node', *_arguments({
            'backbone_address': address, 'latency_path': str(traces),
            'transcript_path': str(transcript), 'record_path': str(recording),
            'use_sim_time': is_simulated, **(parameters or {}),
        }), *_remapped(remaps or {}))
        os.environ.update(stack.environment)
        with Conversation() as talk:
            talk.wait_for_robot(READY_TIMEOUT_S, stack.check)
            yield LocalRobot(
                stack, talk, port, traces, transcript, recording, checkpoint, settings or {},
                place,
            )


def _remapped(topics: Mapping[str, str]) -> list[str]:
    """Write remaps as the end of a ROS command line."""
    return [word for name, other in topics.items() for word in ('-r', f'{name}:={other}')]


def _arguments(parameters: dict[str, str | float | int]) -> list[str]:
    """Write parameters as a ROS command line; an empty text keeps the default."""
    arguments = ['--ros-args']
    for name, value in parameters.items():
        if value != '':
            # Quoted, since YAML reads a bare off as false.
            written = json.dumps(value) if isinstance(value, str) else value
            arguments += ['-p', f'{name}:={written}']
    return arguments
