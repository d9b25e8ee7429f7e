# SPDX-License-Identifier: Apache-2.0
"""Turns in, plans out: decode images, write drafts, ground them. Runs on the model's thread.

One robot's broken image or failing turn never spoils the turns that share its batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
import logging

from cloud_backbone.act import Act
from cloud_backbone.act_grounding import ActGrounder
from cloud_backbone.action_plan import Answer, Exactness, Outcome, Plan
from cloud_backbone.agent_words import Lesson
from cloud_backbone.errors import FixRequestError, PoolExhaustedError, Reason, TurnError
from cloud_backbone.grounding import Grounder, refusal
from cloud_backbone.image_intake import decode_jpeg
from cloud_backbone.kv_cache.errors import BudgetError, PoolFullError
from cloud_backbone.memory_cache import MemoryCache
from cloud_backbone.messages import Turn
from cloud_backbone.model.backbone import Backbone, Image
from cloud_backbone.plan_generator import PlanGenerator, Question, Written
from cloud_backbone.plan_grammar import thought_of
from cloud_backbone.session import Session
from cloud_backbone.task_memory import Purpose, TaskMemory, Tool
from protos.latency import Stopwatch

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TurnJob:
    """One turn of one session."""

    turn: Turn
    session: Session
    memory: TaskMemory | None = None
    """All of the task so far; None: a single question."""

    def question(self, image: Image) -> Question:
        """Return the turn as the model sees it; a check is a question that sees no history."""
        turn, session = self.turn, self.session
        if self.memory is None or self.memory.purpose is Purpose.CHECK:
            return Question(turn.instruction, image, session.cache, None, turn.observation_epoch)
        return Question(
            turn.instruction, image, session.memory, self.memory, turn.observation_epoch
        )


class TurnPlanner:
    """Answers batches of turns with one backbone."""

    def __init__(self, backbone: Backbone) -> None:
        self.backbone = backbone
        self._generator = PlanGenerator(backbone)

    def introduce(self, memory: MemoryCache) -> None:
        """Tell a memory which model it is of."""
        memory.introduce(self.backbone)

    def plan(self, jobs: Sequence[TurnJob]) -> list[Answer | BaseException]:
        """Return one answer or exception per job."""
        try:
            return self._plan(jobs)
        except Exception as error:
            if len(jobs) == 1 and (told := _told(error)) is not None:
                return [told]
            if len(jobs) == 1:
                log.exception('turn %s failed', jobs[0].turn.turn_id)
                return [error]
            log.warning('a batch of %d turns failed, trying them one by one', len(jobs))
            return [self.plan([job])[0] for job in jobs]

    def _plan(self, jobs: Sequence[TurnJob]) -> list[Answer | BaseException]:
        stopwatch = Stopwatch()
        with stopwatch.measure('vision'):
            images = [self._decode(job) for job in jobs]
        sound = [
            (job, image)
            for job, image in zip(jobs, images, strict=True)
            if not isinstance(image, TurnError)
        ]
        written = iter(self._write(sound, stopwatch))
        return [
            image if isinstance(image, TurnError) else self._answer(job, next(written), stopwatch)
            for job, image in zip(jobs, images, strict=True)
        ]

    def _decode(self, job: TurnJob) -> Image | TurnError:
        try:
            camera = job.session.embodiment.camera.name
            return decode_jpeg(job.turn.images[camera], self.backbone.image_size)
        except TurnError as error:
            return error

    def _write(
        self, sound: Sequence[tuple[TurnJob, Image]], stopwatch: Stopwatch
    ) -> list[Written]:
        if not sound:
            return []
        return self._generator.generate([job.question(image) for job, image in sound], stopwatch)

    def _answer(self, job: TurnJob, written: Written, stopwatch: Stopwatch) -> Answer:
        if len(job.session.memory):
            # One cache per session stays in memory; a check computes its few words anew.
            job.session.cache.clear()
        certificate = written.certificate
        plan = replace(
            self._ground(job, written),
            latent=written.latent,
            confidence=written.confidence,
            certificate=certificate,
        )
        exactness = Exactness.NUMERIC if certificate is None else certificate.exactness
        return Answer(
            plan, dict(stopwatch.durations_ns), written.reused_tokens, written.computed_tokens,
            exactness=exactness,
        )

    def _ground(self, job: TurnJob, written: Written) -> Plan:
        draft, embodiment = written.draft, job.session.embodiment
        vocabulary = self.backbone.language.vocabulary
        if isinstance(draft, Act):
            return ActGrounder(embodiment, vocabulary).ground(draft)
        if isinstance(draft, Lesson):
            # Nothing to execute: the trial is over.
            return Plan(Outcome.REFUSED, reason='The trial failed.', lesson=str(draft))
        if written.fault is not None:
            return refusal(f'Not understood: {written.fault}.', thought_of(draft))
        return Grounder(embodiment, vocabulary).ground(draft, _is_placed(job))


def _is_placed(job: TurnJob) -> bool:
    """Say whether the last thing that was done to a goal was to put something down."""
    entries = () if job.memory is None else job.memory.entries
    moved = [entry.call.tool for entry in entries if entry.call.tool in (Tool.PLACE, Tool.PUSH)]
    return bool(moved) and moved[-1] is Tool.PLACE


def _told(error: Exception) -> TurnError | None:
    """Return what a robot is told about its cache; None where it is a fault of ours."""
    if isinstance(error, PoolFullError):
        return PoolExhaustedError(str(error))
    if isinstance(error, BudgetError):
        return FixRequestError(Reason.BAD_CACHE_POLICY, str(error))
    return None
