# SPDX-License-Identifier: Apache-2.0
"""The one thread that a model lives on: load, warm up, and a planner that uses it.

Knows how long the first turns take and hides it from robots. Knows no gRPC.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
import logging
from pathlib import Path
import time

from cloud_backbone.cache_needs import measure_needs
from cloud_backbone.cache_policies import policies_of
from cloud_backbone.config import BackboneConfig
from cloud_backbone.memory_cache import MemoryCache
from cloud_backbone.model.backbone import Backbone, load_backbone
from cloud_backbone.plan_generator import PlanGenerator, Question
from cloud_backbone.planner import ModelFacts, Planner
from cloud_backbone.session_cache import SessionCache
from cloud_backbone.session_shelf import SessionShelf
from cloud_backbone.snapshot_exchange import exchange_of
from cloud_backbone.task_memory import Purpose, TaskMemory
from cloud_backbone.turn_planner import TurnPlanner
import numpy as np
from protos.latency import Stopwatch
from protos.protocol import MAX_INSTRUCTION_CHARS

log = logging.getLogger(__name__)
WARM_UP_TURNS = 3
MEMORIES = (TaskMemory(), TaskMemory(hand_holds=True), TaskMemory(purpose=Purpose.REFLECT))
"""One for each grammar, so that it is compiled before a robot waits for it."""


async def start_planner(config: BackboneConfig, executor: Executor) -> Planner:
    """Load the checkpoint and warm it up in ``executor``; return a planner that uses it.

    Raises:
        StartError: the checkpoint is not one, or cannot keep its cache as the settings say, or a
            place where sessions are kept cannot be used.
    """
    loop = asyncio.get_running_loop()
    backbone = await loop.run_in_executor(executor, _load, config)
    facts = await loop.run_in_executor(executor, warm_up, backbone)
    policies = policies_of(Path(config.checkpoint), facts.fingerprint)
    turns = TurnPlanner(backbone)
    exchange = await loop.run_in_executor(executor, exchange_of, config)
    shelf = await loop.run_in_executor(executor, shelf_of, config)
    return Planner(
        facts, turns, executor, config.limits, config.cache, policies, shelf, exchange
    )


def shelf_of(config: BackboneConfig) -> SessionShelf | None:
    """Return where sessions outlive the process, if the settings name a place.

    Raises:
        StartError: it cannot be written.
    """
    if not config.state_dir:
        return None
    limits = config.limits
    return SessionShelf(Path(config.state_dir), limits.stored_answers, limits.state_keep_s)


def _load(config: BackboneConfig) -> Backbone:
    return load_backbone(config.checkpoint, threads=config.threads, device=config.device)


def warm_up(backbone: Backbone) -> ModelFacts:
    """Run some turns of the longest kind, alone and together; return what they showed."""
    started_s = time.monotonic()
    width, height = backbone.image_size
    image = np.zeros((height, width, 3), dtype=np.uint8)
    longest = ('put the red cube ' * MAX_INSTRUCTION_CHARS)[:MAX_INSTRUCTION_CHARS]
    generator = PlanGenerator(backbone)
    caches = [SessionCache(), SessionCache()]
    questions = [Question(longest, image, cache) for cache in caches]
    for _ in range(WARM_UP_TURNS):
        generator.generate(questions[:1], Stopwatch())
    questions += [
        Question(longest, image, MemoryCache(), memory)
        for memory in MEMORIES if backbone.has_agent_words
    ]
    if backbone.can_batch:
        generator.generate(questions, Stopwatch())
    else:
        for question in questions[2:]:
            generator.generate([question], Stopwatch())
    log.info('warm after %.1f s', time.monotonic() - started_s)
    return ModelFacts(
        fingerprint=backbone.fingerprint,
        image_size=backbone.image_size,
        latent_size=backbone.latent_size,
        can_batch=backbone.can_batch,
        cache=measure_needs(backbone, caches[0]),
        vocabulary=backbone.language.vocabulary if backbone.has_agent_words else None,
    )
