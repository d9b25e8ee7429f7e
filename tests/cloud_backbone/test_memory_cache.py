# SPDX-License-Identifier: Apache-2.0
"""Promises of the agent's cache with a real (random) model: the same acts as from scratch."""

from pathlib import Path

from cloud_backbone.action_plan import Exactness
from cloud_backbone.agent_words import Lesson
from cloud_backbone.cache_calibration import CacheCalibration
from cloud_backbone.cache_policies import ServedPolicies
from cloud_backbone.draft_check import hint_of
from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_state.snapshot import Snapshot
from cloud_backbone.memory_cache import MemoryCache
from cloud_backbone.model.backbone import Image, load_backbone
from cloud_backbone.model.tendon_backbone import TendonBackbone
from cloud_backbone.plan_generator import PlanGenerator, Question, Written
from cloud_backbone.session_cache import SessionCache
from cloud_backbone.task_memory import (
    HistoryEntry,
    Manner,
    Purpose,
    StepResult,
    TaskMemory,
    Tool,
    ToolCall,
)
import numpy as np
from protos.latency import Stopwatch
import pytest

from tests.fakes.leaning_backbone import LeaningBackbone

GOAL = 'put the red cube in the blue bin'
LESSONS = ('The red cube slips: grasp and carry it slowly.',)
POLICIES = ('full', 'int8', 'cake+squat4', 'veda+int8', 'kivi4')


@pytest.fixture(scope='module')
def backbone(tiny_checkpoint: Path) -> LeaningBackbone:
    """Return the tiny random model; the eyes of a random one are not asked."""
    loaded = load_backbone(tiny_checkpoint)
    assert isinstance(loaded, TendonBackbone)
    assert loaded.has_agent_words
    return LeaningBackbone(loaded)


@pytest.fixture(scope='module')
def policies(backbone: LeaningBackbone) -> ServedPolicies:
    """Return policies with gains that were calibrated on a few turns."""
    turns = [(GOAL, image(seed)) for seed in (1, 2)]
    return ServedPolicies(*CacheCalibration(backbone).learn(turns, 'noise'))


def image(seed: int) -> Image:
    """Return noise."""
    return np.random.default_rng(seed).integers(0, 255, (128, 128, 3), dtype=np.uint8)


def entries(count: int) -> tuple[HistoryEntry, ...]:
    """Return steps that went this way and that."""
    results, manners = list(StepResult), list(Manner)
    return tuple(
        HistoryEntry(
            step, ToolCall(Tool.GRASP, 'red cube', manner=manners[step % 3]),
            results[step % len(results)],
        )
        for step in range(count)
    )


def question(
    cache: MemoryCache | SessionCache, count: int, seed: int = 0, **fields: object
) -> Question:
    """Return an agent's question after so many steps."""
    memory = TaskMemory(entries=entries(count), lessons=LESSONS, **fields)  # type: ignore[arg-type]
    return Question(GOAL, image(seed or count + 1), cache, memory, count + 1)


def ask(backbone: LeaningBackbone, *questions: Question) -> list[Written]:
    """Write without caring about time."""
    return PlanGenerator(backbone).generate(questions, Stopwatch())


def assert_same(one: Written, other: Written) -> None:
    """Same words, and numbers that differ by rounding only."""
    assert hint_of(one.draft) == hint_of(other.draft)
    assert one.confidence == pytest.approx(other.confidence, rel=1e-3)
    assert np.allclose(one.latent, other.latent, atol=1e-3)


def test_a_grown_cache_writes_what_a_fresh_one_does(backbone: LeaningBackbone) -> None:
    """Step after step the act, its confidence and its latent are those of a recomputation."""
    kept = MemoryCache()
    for count in range(6):
        (grown,) = ask(backbone, question(kept, count, hand_holds=count % 2 == 1))
        (fresh,) = ask(backbone, question(MemoryCache(), count, hand_holds=count % 2 == 1))
        assert_same(grown, fresh)
        assert (grown.reused_tokens > 0) == (count > 0)
        assert grown.computed_tokens + grown.reused_tokens == fresh.computed_tokens
        assert grown.certificate is not None
        assert grown.certificate == fresh.certificate
        assert grown.certificate.exactness is Exactness.NUMERIC


def test_a_new_lesson_and_a_new_trial_crop_as_much_as_they_must(
    backbone: LeaningBackbone,
) -> None:
    """Tools and goal are held on to; what follows a change is computed anew."""
    kept = MemoryCache()
    ask(backbone, question(kept, 3))
    memory = TaskMemory(trial=2, lessons=(*LESSONS, 'The red cube is low: grasp it lower.'))
    (second,) = ask(backbone, Question(GOAL, image(9), kept, memory, 9))
    sizes = dict(backbone.prompt(GOAL, memory).parts)
    assert second.reused_tokens >= sizes['system'] + sizes['goal']
    (fresh,) = ask(backbone, Question(GOAL, image(9), MemoryCache(), memory, 9))
    assert_same(second, fresh)


def test_a_lesson_is_written_on_the_same_cache(backbone: LeaningBackbone) -> None:
    """To reflect is one more question about the same history."""
    kept = MemoryCache()
    ask(backbone, question(kept, 4))
    (written,) = ask(backbone, question(kept, 4, purpose=Purpose.REFLECT))
    assert isinstance(written.draft, Lesson)
    assert written.reused_tokens > 0


def test_the_same_image_is_not_computed_twice(backbone: LeaningBackbone) -> None:
    """A turn asked again about the very same image computes what it writes, and no image."""
    kept = MemoryCache()
    (first,) = ask(backbone, question(kept, 2))
    (again,) = ask(backbone, question(kept, 2))
    assert_same(first, again)
    parts = dict(backbone.prompt(GOAL, question(kept, 2).memory).parts)
    assert again.computed_tokens < first.computed_tokens - parts['scene'] + 2


def test_acts_and_plans_share_a_batch(
    backbone: LeaningBackbone, policies: ServedPolicies
) -> None:
    """Robots of any kind, policy and history get together what they get alone."""
    pool = BlockPool(1 << 26)

    def questions(caches: list[MemoryCache | SessionCache], turn: int) -> list[Question]:
        return [
            question(cache, turn + row, 10 * turn + row + 1) if row % 3
            else Question(GOAL, image(10 * turn + row + 1), cache)
            for row, cache in enumerate(caches)
        ]

    def caches() -> list[MemoryCache | SessionCache]:
        return [
            (MemoryCache if row % 3 else SessionCache)(pool, policies.find(name))
            for row, name in enumerate(POLICIES)
        ]

    together, alone = caches(), caches()
    for turn in range(3):
        at_once = ask(backbone, *questions(together, turn))
        singly = [ask(backbone, one)[0] for one in questions(alone, turn)]
        for one, other in zip(singly, at_once, strict=True):
            assert_same(one, other)
            assert one.reused_tokens == other.reused_tokens
    for cache in (*together, *alone):
        cache.clear()
    assert pool.used_bytes == 0


@pytest.mark.parametrize('name', ['cake+squat4', 'veda+int8'])
def test_a_lossy_policy_is_certified_as_such(
    backbone: LeaningBackbone, policies: ServedPolicies, name: str
) -> None:
    """What a policy has dropped or encoded makes answers approximate, and stays in its budget."""
    cache = MemoryCache(BlockPool(1 << 26), policies.find(name), 16_000)
    for count in range(8):
        (written,) = ask(backbone, question(cache, count))
        assert 0 < cache.byte_count <= 16_000
    assert written.certificate is not None
    assert written.certificate.exactness is Exactness.APPROXIMATE
    assert {part.exactness for part in cache.segments()} & {Exactness.APPROXIMATE}


def test_what_was_put_down_goes_on_bit_for_bit(backbone: LeaningBackbone) -> None:
    """Pages go back to the pool; the next turn costs what it would have cost."""
    pool = BlockPool(1 << 26)
    kept, moved = MemoryCache(pool), MemoryCache(pool)
    for cache in (kept, moved):
        ask(backbone, question(cache, 3))
    used = pool.used_bytes
    snapshot = moved.put_down()
    assert isinstance(snapshot, Snapshot)
    assert (moved.tier, moved.byte_count) == ('memory', 0)
    assert pool.used_bytes < used
    (stayed,) = ask(backbone, question(kept, 4))
    (back,) = ask(backbone, question(moved, 4))
    assert_same(stayed, back)
    assert back.reused_tokens == stayed.reused_tokens
    assert moved.note == ''
