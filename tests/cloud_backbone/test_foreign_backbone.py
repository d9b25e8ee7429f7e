# SPDX-License-Identifier: Apache-2.0
"""Promises for checkpoints of others: loaded from disk, they write plans too."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from cloud_backbone.memory_cache import MemoryCache
from cloud_backbone.model.backbone import load_backbone
from cloud_backbone.model.foreign_backbone import ForeignBackbone
from cloud_backbone.plan_generator import PlanGenerator, Question
from cloud_backbone.plan_grammar import compose, parse
from cloud_backbone.session_cache import SessionCache
from cloud_backbone.task_memory import HistoryEntry, StepResult, TaskMemory, Tool, ToolCall
import numpy as np
from protos.latency import Stopwatch
import pytest
import torch

from tests.fakes.tiny_checkpoint import make_idefics3, make_qwen


@pytest.fixture(scope='module', params=[make_idefics3, make_qwen])
def backbone(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> ForeignBackbone:
    """Load a tiny random checkpoint."""
    make: Callable[[Path], Path] = request.param
    loaded = load_backbone(make(tmp_path_factory.mktemp('foreign')))
    assert isinstance(loaded, ForeignBackbone)
    return loaded


def question(backbone: ForeignBackbone, seed: int, cache: SessionCache) -> Question:
    """Ask about noise."""
    width, height = backbone.image_size
    image = np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)
    return Question('put the red cube in the blue bin', image, cache)


def test_foreign_model_writes_a_plan_that_parses(backbone: ForeignBackbone) -> None:
    """A model that never saw our language still answers in it, with spelled locations."""
    asked = question(backbone, 1, SessionCache())
    (written,) = PlanGenerator(backbone).generate([asked], Stopwatch())
    vocabulary = backbone.language.vocabulary
    assert compose(parse(compose(written.draft), vocabulary)) == compose(written.draft)
    assert 0.0 < written.confidence <= 1.0
    assert written.latent == ()


def test_foreign_session_keeps_its_instruction(backbone: ForeignBackbone) -> None:
    """A second turn computes image and answer only, and two sessions do not mix."""
    generator, kept, other = PlanGenerator(backbone), SessionCache(), SessionCache()
    generator.generate([question(backbone, 1, kept)], Stopwatch())
    generator.generate([question(backbone, 3, other)], Stopwatch())
    (second,) = generator.generate([question(backbone, 2, kept)], Stopwatch())
    (fresh,) = generator.generate([question(backbone, 2, SessionCache())], Stopwatch())
    assert second.reused_tokens > 100
    assert second.draft == fresh.draft
    assert second.confidence == pytest.approx(fresh.confidence, rel=1e-3)


def test_chunks_predict_what_the_whole_sequence_predicts(backbone: ForeignBackbone) -> None:
    """Prefill and decode with a cache agree with the library's own forward over all tokens."""
    cache = SessionCache()
    asked = question(backbone, 1, cache)
    answer = list(backbone.language.codec.encode(' There is no red cube.'))
    pixels = backbone.see([asked.image])[0].tensors
    prompt = backbone.prompt(asked.instruction)
    whole = torch.tensor([[*prompt.tokens, *answer]])
    model = backbone._model
    types = (whole == model.config.image_token_id).int()
    extra = {'mm_token_type_ids': types} if prompt.rope_positions is not None else {}
    with torch.inference_mode():
        expected = model(input_ids=whole, **pixels, **extra).logits[0, -1]
    rows = _compute(backbone, asked, [prompt.tokens[:50], prompt.tokens[50:], answer])
    assert torch.allclose(rows, expected, atol=1e-4)


def _compute(
    backbone: ForeignBackbone, asked: Question, chunks: list[list[int] | tuple[int, ...]]
) -> torch.Tensor:
    from cloud_backbone.cache_rows import CacheRows
    from cloud_backbone.model.backbone import Chunk

    prompt = backbone.prompt(asked.instruction)
    image = backbone.see([asked.image])
    rows = CacheRows([asked.cache.open(backbone)])
    for number, chunk in enumerate(chunks):
        tokens, positions, mask = rows.append([chunk])
        scenes = image if number == 1 else None
        prediction = backbone.forward(
            Chunk(tokens, positions, mask, [prompt], scenes), rows.cache
        )
    return prediction.logits[0, -1]


def test_a_foreign_agent_grows_as_a_fresh_one_reads(backbone: ForeignBackbone) -> None:
    """History is computed once, on any position axes, and goes on after it was put down."""
    generator, kept = PlanGenerator(backbone), MemoryCache()
    for steps in range(3):
        memory = TaskMemory(entries=tuple(
            HistoryEntry(step + 1, ToolCall(Tool.GRASP, 'red cube'), StepResult.MISSED)
            for step in range(steps)
        ))

        def asked(cache: MemoryCache, steps: int = steps, memory: TaskMemory = memory) -> Question:
            plain = question(backbone, steps, SessionCache())
            return replace(plain, cache=cache, memory=memory, epoch=steps + 1)

        (grown,) = generator.generate([asked(kept)], Stopwatch())
        (fresh,) = generator.generate([asked(MemoryCache())], Stopwatch())
        assert grown.draft == fresh.draft
        assert grown.confidence == pytest.approx(fresh.confidence, rel=1e-3)
        assert grown.certificate == fresh.certificate
        assert (grown.reused_tokens > 100) == (steps > 0)
        kept.put_down()
