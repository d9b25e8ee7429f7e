# SPDX-License-Identifier: Apache-2.0
"""A planner behind the real service whose answers tell whose turn it was, and what was in it."""

from collections.abc import Sequence
import hashlib
import random
import time

from cloud_backbone.action_plan import Answer, Certificate, Outcome, Plan
from cloud_backbone.cache_needs import CacheNeeds
from cloud_backbone.memory_cache import MemoryCache
from cloud_backbone.planner import ModelFacts
from cloud_backbone.turn_planner import TurnJob

FACTS = ModelFacts('echo', (128, 128), 2, True, CacheNeeds(0, 0, 0, None))


def proof(
    robot: str, turn_id: str, instruction: str, epoch: int, joints: Sequence[float], jpeg: bytes
) -> str:
    """Return a digest over all that one robot asked."""
    asked = [robot, turn_id, instruction, epoch, list(joints), hashlib.sha256(jpeg).hexdigest()]
    return hashlib.sha256(repr(asked).encode()).hexdigest()


class EchoTurns:
    """Answers with the proof of each turn; now and then it takes its time.

    ``batches`` records how many turns each batch had.
    """

    def __init__(self, seed: int = 0, slow_share: float = 0.02, slow_s: float = 0.01) -> None:
        self._rng, self._slow_share, self._slow_s = random.Random(seed), slow_share, slow_s
        self.batches: list[int] = []

    def introduce(self, memory: MemoryCache) -> None:
        """Do nothing: it remembers nothing."""

    def plan(self, jobs: Sequence[TurnJob]) -> list[Answer | BaseException]:
        """Return the proofs."""
        self.batches.append(len(jobs))
        if self._rng.random() < self._slow_share:
            time.sleep(self._slow_s)
        return [self._answer(job) for job in jobs]

    def _answer(self, job: TurnJob) -> Answer:
        turn, epoch = job.turn, job.turn.observation_epoch
        said = proof(
            job.session.robot_id, turn.turn_id, turn.instruction, epoch, turn.joint_positions,
            turn.images['front'],
        )
        return Answer(Plan(
            Outcome.REFUSED, reason=said, latent=(0.0, 0.0),
            certificate=Certificate(epoch, epoch),
        ))
