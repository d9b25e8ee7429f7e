# SPDX-License-Identifier: Apache-2.0
"""Promises to sessions under a policy: within the budget, alone or together, turn after turn."""

from pathlib import Path

from cloud_backbone.cache_calibration import CacheCalibration
from cloud_backbone.cache_policies import ServedPolicies
from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.model.backbone import Image, load_backbone
from cloud_backbone.model.tendon_backbone import TendonBackbone
from cloud_backbone.plan_generator import PlanGenerator, Question, Written
from cloud_backbone.plan_grammar import thought_of
from cloud_backbone.session_cache import SessionCache
import numpy as np
from protos.latency import Stopwatch
import pytest

from tests.fakes.leaning_backbone import LeaningBackbone

INSTRUCTIONS = (
    'put the red cube in the blue bin', 'pick up the green ball', 'stack the yellow cube on it',
)
POLICIES = ('cake+squat4', 'veda+int8', 'full', 'cake', 'kivi4')
BUDGETS = {'cake+squat4': 9_000, 'veda+int8': 9_000, 'cake': 12_000}


@pytest.fixture(scope='module')
def random(tiny_checkpoint: Path) -> TendonBackbone:
    """Return the tiny random model."""
    loaded = load_backbone(tiny_checkpoint)
    assert isinstance(loaded, TendonBackbone)
    return loaded


@pytest.fixture(scope='module')
def backbone(random: TendonBackbone) -> LeaningBackbone:
    """Return the random model, leaning towards plans with steps."""
    return LeaningBackbone(random, ' The', ' Plan', '.', ' cube')


@pytest.fixture(scope='module')
def policies(backbone: LeaningBackbone) -> ServedPolicies:
    """Return policies with gains that were calibrated on a few turns."""
    turns = [(INSTRUCTIONS[0], image(seed)) for seed in (1, 2)]
    return ServedPolicies(*CacheCalibration(backbone).learn(turns, 'noise'))


def image(seed: int) -> Image:
    """Return noise."""
    return np.random.default_rng(seed).integers(0, 255, (128, 128, 3), dtype=np.uint8)


def caches(policies: ServedPolicies, pool: BlockPool) -> list[SessionCache]:
    """Return one session of each policy."""
    return [SessionCache(pool, policies.find(name), BUDGETS.get(name)) for name in POLICIES]


def ask(
    backbone: LeaningBackbone, sessions: list[SessionCache], turn: int, first: int = 0
) -> list[Written]:
    """Write plans for some sessions at once, each with its own instruction and image."""
    questions = [
        Question(INSTRUCTIONS[row % 3], image(10 * turn + row), cache)
        for row, cache in enumerate(sessions, first)
    ]
    return PlanGenerator(backbone).generate(questions, Stopwatch())


def test_policies_share_a_batch(backbone: LeaningBackbone, policies: ServedPolicies) -> None:
    """Sessions of unlike policies and budgets get the plans that they get alone."""
    pool = BlockPool(1 << 26)
    together, alone = caches(policies, pool), caches(policies, pool)
    for turn in range(3):
        at_once = ask(backbone, together, turn)
        singly = [ask(backbone, [cache], turn, row)[0] for row, cache in enumerate(alone)]
        for one, other in zip(singly, at_once, strict=True):
            assert thought_of(one.draft) == thought_of(other.draft)
            assert np.allclose(one.latent, other.latent, atol=1e-3)
            assert one.reused_tokens == other.reused_tokens
            assert one.confidence == pytest.approx(other.confidence, rel=1e-3)
        for cache in (*together, *alone):
            assert cache.budget_bytes is None or 0 < cache.byte_count <= cache.budget_bytes
    for cache in (*together, *alone):
        cache.clear()
    assert pool.used_bytes == 0


def test_vital_tokens_outlive_the_prefill(
    backbone: LeaningBackbone, policies: ServedPolicies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a plan is written, every layer has all objects of the image, whatever else it has."""
    (cache,) = caches(policies, BlockPool(1 << 26))[:1]
    vital = backbone.prompt(INSTRUCTIONS[0]).vital
    assert vital is not None
    held = []
    forward = backbone.forward

    def watch(chunk, joint):  # type: ignore[no-untyped-def]
        rows = joint.sessions[0].rows.values()
        held.append([row.holds(*vital) for row in rows])
        return forward(chunk, joint)

    monkeypatch.setattr(backbone, 'forward', watch)
    ask(backbone, [cache], 0)
    assert len(held) > 2
    assert all(all(rows) for rows in held[1:])


def test_what_was_dropped_is_computed_anew(
    backbone: LeaningBackbone, policies: ServedPolicies
) -> None:
    """A session that lost part of its instruction plans as a new one does."""
    kept, fresh = (caches(policies, BlockPool(1 << 26))[0] for _ in range(2))
    ask(backbone, [kept], 0)
    held = kept.open(backbone).begin().intact()
    (second,) = ask(backbone, [kept], 1)
    (first,) = ask(backbone, [fresh], 1)
    assert second.reused_tokens == min(held, backbone.prompt(INSTRUCTIONS[0]).stable)
    assert held or second.draft == first.draft


def test_failure_gives_the_pages_back(
    backbone: LeaningBackbone, policies: ServedPolicies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an error in the middle of a turn nothing of the batch is left in the pool."""
    pool = BlockPool(1 << 26)
    sessions = caches(policies, pool)
    ask(backbone, sessions, 0)
    assert pool.used_bytes > 0
    monkeypatch.setattr(backbone, 'latent', lambda hidden: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ask(backbone, sessions, 1)
    assert pool.used_bytes == 0
    assert [len(cache) for cache in sessions] == [0] * len(sessions)


def test_full_session_keeps_its_pages_for_the_next_turn(backbone: LeaningBackbone) -> None:
    """Taking back the last plan gives no pages back that the next one needs."""
    pool = BlockPool(1 << 26)
    cache = SessionCache(pool)
    ask(backbone, [cache], 0)
    used = pool.used_bytes
    cache.reuse(backbone.prompt(INSTRUCTIONS[0]))
    assert pool.used_bytes == used > 0
    ask(backbone, [cache], 1)
    assert pool.used_bytes == used


def test_likely_answer_leaves_no_trace(
    backbone: LeaningBackbone, policies: ServedPolicies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read along to rank the prompt is not kept, and not read without a ranking."""
    counts: list[int] = []
    forward = backbone.forward

    def count(chunk, joint):  # type: ignore[no-untyped-def]
        counts.append(chunk.tokens.shape[1])
        return forward(chunk, joint)

    monkeypatch.setattr(backbone, 'forward', count)
    first = {}
    for name in ('full', 'veda+int8', 'kivi4'):
        cache = SessionCache(BlockPool(1 << 26), policies.find(name))
        (written,) = ask(backbone, [cache], 0)
        first[name] = counts[0]
        assert len(cache) == written.computed_tokens
        assert cache.open(backbone).begin().intact() == len(cache)
        counts.clear()
    assert first['kivi4'] == first['full'] < first['veda+int8']
