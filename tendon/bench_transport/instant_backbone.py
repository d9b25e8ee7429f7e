# SPDX-License-Identifier: Apache-2.0
"""The real server, with a model that answers at once: it decodes the image and plans the same.

``python -m tendon.bench_transport.instant_backbone WIDTH HEIGHT LATENT`` prints its port.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
import sys

from cloud_backbone.action_plan import Answer, Certificate, Outcome, Plan, Skill, Step, Success
from cloud_backbone.cache_needs import CacheNeeds
from cloud_backbone.config import BackboneConfig
from cloud_backbone.image_intake import decode_jpeg
from cloud_backbone.memory_cache import MemoryCache
from cloud_backbone.planner import ModelFacts, Planner
from cloud_backbone.serving import serve
from cloud_backbone.turn_planner import TurnJob
from protos.latency import Stopwatch

STEPS = (
    Step(Skill.REACH, (0.42, 0.05, 0.20), 'red cube', (0.4, 0.6)),
    Step(Skill.GRASP, (0.42, 0.05, 0.03), 'red cube', (0.4, 0.6), 0.0, 0.5, Success.HOLDING),
    Step(Skill.LIFT, (0.42, 0.05, 0.25), 'red cube', None, 0.0),
    Step(Skill.PLACE, (0.42, -0.15, 0.06), 'blue bin', (0.7, 0.6), 1.0, 0.5, Success.RELEASED),
)


class InstantTurns:
    """Answers with the same plan, as soon as the image is there as an array.

    Args:
      image_size: width and height [px].
      latent_size: numbers for the decoder.
    """

    def __init__(self, image_size: tuple[int, int], latent_size: int) -> None:
        self._size = image_size
        self._plan = Plan(
            Outcome.STEPS, 'The red cube is to the left of the blue bin.', steps=STEPS,
            latent=(0.0,) * latent_size, confidence=0.98,
            certificate=Certificate(1, 1, prefix_hash='0' * 64),
        )

    def introduce(self, memory: MemoryCache) -> None:
        """Do nothing: it remembers nothing."""

    def plan(self, jobs: Sequence[TurnJob]) -> list[Answer | BaseException]:
        """Return the plan for each of the turns."""
        stopwatch = Stopwatch()
        with stopwatch.measure('vision'):
            for job in jobs:
                decode_jpeg(job.turn.images[job.session.embodiment.camera.name], self._size)
        return [Answer(self._plan, dict(stopwatch.durations_ns)) for _ in jobs]


async def _serve(width: int, height: int, latent_size: int) -> None:
    config, executor = BackboneConfig(port=0), ThreadPoolExecutor(1)
    facts = ModelFacts('instant', (width, height), latent_size, True, CacheNeeds(0, 0, 0, None))
    planner = Planner(facts, InstantTurns((width, height), latent_size), executor, config.limits)
    await serve(config, planner=planner, on_ready=lambda address, _: print(
        address.rpartition(':')[2], flush=True))


if __name__ == '__main__':
    try:
        asyncio.run(_serve(*(int(word) for word in sys.argv[1:])))
    except KeyboardInterrupt:
        pass
