# SPDX-License-Identifier: Apache-2.0
"""Builds a robot in real time from what a person writes down: names, addresses, paths.

The one place on this side that chooses implementations. Knows no ROS.
"""

from collections.abc import Callable
from dataclasses import dataclass
import logging
import threading

from onboard_decoder.agent.lesson_store import LessonStore
from onboard_decoder.agent.transcript import Transcript
from onboard_decoder.clock import Clock
from onboard_decoder.config import RobotSettings
from onboard_decoder.decoder_port import DecoderPort
from onboard_decoder.manifest import Manifest
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.planner_client import LinkSettings, PlannerClient
from onboard_decoder.planner_port import PlannerPort
from onboard_decoder.recorder import Recorder
from onboard_decoder.robot import Robot
from onboard_decoder.runtime import Runtime, RuntimeSettings
from onboard_decoder.servo import Command
from onboard_decoder.tls import TlsFiles
from onboard_decoder.trace_file import TraceFile

log = logging.getLogger(__name__)

PLANNER_FILE = 'planner.onnx'
"""The small planner's file, beside the decoder of its robot."""


@dataclass(frozen=True)
class Paths:
    """Files to write; an empty one is not written. Lessons are read first."""

    latency: str = ''
    transcript: str = ''
    record: str = ''
    lessons: str = ''


@dataclass(frozen=True)
class RobotParts:
    """A robot with what must be closed after it."""

    robot: Robot
    runtime: Runtime
    planner: PlannerPort
    transcript: Transcript | None

    @classmethod
    def build(
        cls,
        robot: str,
        robot_id: str,
        address: str,
        link: LinkSettings,
        behaviour: RobotSettings,
        runtime: RuntimeSettings,
        paths: Paths,
        clock: Clock,
        publish: Callable[[Command], None],
        say: Callable[[str], None] | None = None,
        tls: TlsFiles | None = None,
    ) -> 'RobotParts':
        """Load and wire; threads wait for ``runtime.start``, only the link opens at once.

        Args:
          robot: manifest by name or path.
          robot_id: this robot's name at the backbone.
          address: host:port of the backbone.
          link: how the link is opened.
          behaviour: the robot's numbers.
          runtime: the threads' numbers.
          paths: files to write.
          clock: the robot's clock.
          publish: hands a command to the arm.
          say: publishes the agent's question to a person.
          tls: certificates of the link; plain text where None.

        Raises:
          ConfigError: in one sentence, and nothing is left open.
        """
        manifest = load_manifest(robot)
        credentials = tls.credentials() if tls is not None else None
        decoder = load_decoder(manifest)
        trace_file = TraceFile(paths.latency) if paths.latency else None
        transcript = Transcript(paths.transcript) if paths.transcript else None
        recorder = Recorder(paths.record, clock) if paths.record else None
        planner, news = load_planner(
            manifest, behaviour, clock,
            lambda: PlannerClient(address, robot_id, manifest, link, clock, credentials),
        )
        made = Robot(
            manifest, planner, decoder, clock, behaviour,
            publish=_recorded(publish, recorder),
            sinks=[sink for sink in (transcript, recorder) if sink is not None],
            news=news,
            lessons=LessonStore(paths.lessons, behaviour.agent.max_lessons),
            say=say,
        )
        return cls(made, Runtime(made, clock, runtime, trace_file, recorder), planner, transcript)

    def close(self) -> None:
        """End threads, session and files; idempotent."""
        self.runtime.stop()
        self.planner.close()
        if self.transcript is not None:
            self.transcript.close()


def load_decoder(manifest: Manifest) -> DecoderPort:
    """Load the decoder that the manifest names. Raises ConfigError where that fails."""
    # Imported here: onnxruntime takes a while, and a wrong manifest should be told at once.
    from onboard_decoder.plan_decoder import PlanDecoder

    return PlanDecoder(manifest)


def load_planner(
    manifest: Manifest, settings: RobotSettings, clock: Clock,
    connect: Callable[[], PlannerClient],
) -> tuple[PlannerPort, threading.Event]:
    """Return who plans by the setting, and what is set when it has news.

    Args:
      manifest: the robot; its small planner lies beside its decoder.
      settings: of the robot; they say who is to plan.
      clock: the robot's clock.
      connect: opens the link to the backbone; not called where it is not needed.

    Raises:
      ConfigError: the small planner cannot be used. With 'auto' a robot may lack the file.
    """
    path = manifest.decoder.parent / PLANNER_FILE
    is_lacking = settings.offload.mode == 'auto' and not path.is_file()
    if is_lacking:
        log.warning('%s has no %s: the backbone alone plans', manifest.name, path)
    if settings.offload.mode == 'cloud' or is_lacking:
        client = connect()
        return client, client.news
    # Imported here for the same reason as the decoder.
    from onboard_decoder.fallback.offloading import OffloadingPlanner
    from onboard_decoder.fallback.onboard_model import OnboardModel
    from onboard_decoder.fallback.onboard_planner import OnboardPlanner

    model = OnboardModel(manifest, path)
    if settings.offload.mode == 'onboard':
        alone = OnboardPlanner(manifest, model, clock, settings)
        return alone, alone.news
    client = connect()
    own = OnboardPlanner(manifest, model, clock, settings, client.news)
    return OffloadingPlanner(client, own, settings.offload, clock), client.news


def _recorded(
    publish: Callable[[Command], None], recorder: Recorder | None
) -> Callable[[Command], None]:
    """Let the recorder see every command after the arm has it."""
    if recorder is None:
        return publish

    def both(command: Command) -> None:
        publish(command)
        recorder.command(command)

    return both
