# SPDX-License-Identifier: Apache-2.0
"""Promises of plan generation: the same plan alone, in a batch, and on a cache of before."""

from pathlib import Path

from cloud_backbone.model.backbone import Backbone, Image, load_backbone
from cloud_backbone.model.tendon_backbone import TendonBackbone
from cloud_backbone.plan_generator import PlanGenerator, Question, Written
from cloud_backbone.plan_grammar import fault_of
from cloud_backbone.session_cache import SessionCache
import numpy as np
from protos.latency import Stopwatch
import pytest
import torch

from tests.fakes.leaning_backbone import LeaningBackbone
from tests.fakes.scripted_backbone import ByteCodec, PICK, ScriptedBackbone

INSTRUCTIONS = (
    'put the red cube in the blue bin',
    'pick up the green ball',
    'please, if you would be so kind, stack the yellow cube on the purple cylinder',
)
SWAPPED = (
    ' The blue bin is at <010><020>, the red cube at <030><040>.'
    ' Plan: reach A, grasp A, lift, move B, place B, lift, home.'
)
PUT = (
    ' The red cube is at <010><020>, the blue bin at <030><040>.'
    ' Plan: reach A, grasp A, lift, move B, place B, lift, home.'
)


@pytest.fixture(scope='module')
def random(tiny_checkpoint: Path) -> TendonBackbone:
    """Return the tiny random model."""
    loaded = load_backbone(tiny_checkpoint)
    assert isinstance(loaded, TendonBackbone)
    return loaded


@pytest.fixture(scope='module', params=[(',',), ('.', ' cube')], ids=['two things', 'one thing'])
def backbone(random: TendonBackbone, request: pytest.FixtureRequest) -> Backbone:
    """Return the random model, leaning towards plans with steps for two things, or one."""
    return LeaningBackbone(random, ' The', ' Plan', *request.param)


def image(seed: int, backbone: Backbone) -> Image:
    """Return noise of the size that the model wants."""
    width, height = backbone.image_size
    return np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)


def ask(backbone: Backbone, *questions: Question) -> list[Written]:
    """Write plans without caring about time."""
    return PlanGenerator(backbone).generate(questions, Stopwatch())


def assert_same(first: Written, second: Written) -> None:
    """Same words, and numbers that differ by rounding only."""
    one, other = first.draft, second.draft
    assert (one.outcome, one.task, one.a, one.b) == (other.outcome, other.task, other.a, other.b)
    assert first.fault == second.fault
    for point, again in ((one.a_point, other.a_point), (one.b_point, other.b_point)):
        assert (point is None) == (again is None)
        assert point is None or np.allclose(point, again, atol=1e-4)
    assert first.confidence == pytest.approx(second.confidence, rel=1e-3)
    assert np.allclose(first.latent, second.latent, atol=1e-3)


def test_turns_in_a_batch_get_the_plans_that_they_get_alone(backbone: Backbone) -> None:
    """Rows of other lengths, some with a cache of before, do not change a plan."""
    alone, together = [SessionCache() for _ in range(3)], [SessionCache() for _ in range(3)]
    # One session has asked the same before, one something else, one nothing.
    for caches in (alone, together):
        ask(backbone, Question(INSTRUCTIONS[0], image(9, backbone), caches[0]))
        ask(backbone, Question(INSTRUCTIONS[0], image(9, backbone), caches[1]))
    questions = [
        [
            Question(text, image(row, backbone), caches[row])
            for row, text in enumerate(INSTRUCTIONS)
        ]
        for caches in (alone, together)
    ]
    for turn in range(2):
        singly = [ask(backbone, question)[0] for question in questions[0]]
        at_once = ask(backbone, *questions[1])
        assert all(written.draft.outcome == 'steps' for written in singly)
        for one, other in zip(singly, at_once, strict=True):
            assert_same(one, other)
            assert one.reused_tokens == other.reused_tokens
            assert one.computed_tokens == other.computed_tokens
            assert turn == 0 or one.reused_tokens > 0


def test_batch_gives_each_session_its_own_cache_back(backbone: Backbone) -> None:
    """After a batch a cache holds the same keys as after the same turn alone, no padding."""
    alone, together, other = SessionCache(), SessionCache(), SessionCache()
    ask(backbone, Question(INSTRUCTIONS[1], image(1, backbone), alone))
    ask(
        backbone,
        Question(INSTRUCTIONS[1], image(1, backbone), together),
        Question(INSTRUCTIONS[2], image(2, backbone), other),
    )
    assert len(alone) == len(together) > 0
    assert alone.byte_count == together.byte_count
    first, second = (cache.open(backbone).begin() for cache in (alone, together))
    assert first.rows.keys() == second.rows.keys() != set()
    for one, two in zip(first.rows.values(), second.rows.values(), strict=True):
        slots = torch.arange(len(alone)).expand(one.kv_heads, -1)
        for states, same in zip(one.open.tokens(slots), two.open.tokens(slots), strict=True):
            assert np.allclose(states, same, atol=1e-4)


def test_second_turn_computes_the_new_image_only(backbone: Backbone) -> None:
    """The same instruction is not computed twice, and the plan is that of a fresh session."""
    kept = SessionCache()
    first = ask(backbone, Question(INSTRUCTIONS[0], image(1, backbone), kept))[0]
    second = ask(backbone, Question(INSTRUCTIONS[0], image(2, backbone), kept))[0]
    fresh = ask(backbone, Question(INSTRUCTIONS[0], image(2, backbone), SessionCache()))[0]
    assert first.reused_tokens == 0
    assert second.reused_tokens == backbone.prompt(INSTRUCTIONS[0]).stable
    assert second.computed_tokens == fresh.computed_tokens - second.reused_tokens
    assert_same(second, fresh)


def test_other_instruction_reuses_what_it_shares(backbone: Backbone) -> None:
    """Only the beginning that both instructions share is kept; the plan is a fresh one's."""
    kept = SessionCache()
    ask(backbone, Question('put the red cube in the blue bin', image(1, backbone), kept))
    second = ask(backbone, Question('put the red ball away', image(1, backbone), kept))[0]
    fresh = ask(backbone, Question('put the red ball away', image(1, backbone), SessionCache()))
    assert 0 < second.reused_tokens < backbone.prompt('put the red ball away').stable
    assert_same(second, fresh[0])


def test_plan_with_steps_carries_a_latent(random: TendonBackbone) -> None:
    """The latent has the size that was promised, and other images give other ones."""
    backbone = LeaningBackbone(random, ' The', ' Plan', '.', ' cube')
    written = [
        ask(backbone, Question(INSTRUCTIONS[0], image(seed, backbone), SessionCache()))[0]
        for seed in (1, 2)
    ]
    assert [len(one.latent) for one in written] == [backbone.latent_size] * 2
    assert not np.allclose(written[0].latent, written[1].latent)


@pytest.mark.parametrize('word', [' bin', ' ball', ' red'])
def test_senseless_plans_are_corrected_or_named(random: TendonBackbone, word: str) -> None:
    """Whatever a model leans to, a draft either makes sense or comes with its fault."""
    backbone = LeaningBackbone(random, ' The', ',', ' Plan', word)
    questions = [Question(text, image(0, backbone), SessionCache()) for text in INSTRUCTIONS]
    written = ask(backbone, *questions)
    for one in written:
        assert fault_of(one.draft, backbone.language.vocabulary) == one.fault
        assert one.fault is None or one.latent == ()
    if word == ' bin':
        assert all('bin cannot be handled' in str(one.fault) for one in written)


def test_swapped_plan_is_refused_with_its_reason() -> None:
    """A model that insists on grasping a bin is not obeyed."""
    backbone = ScriptedBackbone(lambda instruction: SWAPPED)
    (written,) = ask(backbone, Question('into the bin', image(0, backbone), SessionCache()))
    assert written.fault == 'the blue bin cannot be handled'
    assert written.latent == ()


def test_guessing_changes_the_time_only(backbone: Backbone) -> None:
    """With and without guesses the plans are the same, alone and in a batch."""
    for count in (1, 3):
        both = []
        for guess in (False, True):
            questions = [
                Question(INSTRUCTIONS[row], image(row, backbone), SessionCache())
                for row in range(count)
            ]
            both.append(PlanGenerator(backbone, guess).generate(questions, Stopwatch()))
        for plain, guessed in zip(*both, strict=True):
            assert_same(plain, guessed)
            assert plain.computed_tokens == guessed.computed_tokens


@pytest.mark.parametrize('known', [False, True])
def test_right_guess_saves_forwards(known: bool) -> None:
    """A put plan takes five forwards if its words are those of the instruction, or of before."""
    backbone, cache = ScriptedBackbone(lambda instruction: PUT), SessionCache()
    instruction = 'red to blue' if known else 'please put the red cube in the blue bin'
    question = Question(instruction, image(0, backbone), cache)
    if known:
        ask(backbone, question)
        assert len(backbone.forwards) > 5
        backbone.forwards.clear()
    (written,) = ask(backbone, question)
    assert written.draft.task == 'put'
    assert len(backbone.forwards) == 5
    assert len(cache) == len(instruction) + 1 + len(ByteCodec().encode(PUT))


def test_wrong_guess_leaves_no_trace() -> None:
    """What was guessed and not written is not in the cache."""
    backbone, cache = ScriptedBackbone(lambda instruction: PUT), SessionCache()
    instruction = 'pick up the green ball, white bin, push'
    ask(backbone, Question(instruction, image(0, backbone), cache))
    assert len(cache) == len(instruction) + 1 + len(ByteCodec().encode(PUT))
    assert cache.open(backbone).get_seq_length() == len(cache)


def test_stages_are_timed_and_errors_clear_the_cache() -> None:
    """Vision, prefill and decode are measured; after an error the session starts afresh."""
    backbone, cache, stopwatch = ScriptedBackbone(), SessionCache(), Stopwatch()
    question = Question('go', image(0, backbone), cache)
    (written,) = PlanGenerator(backbone).generate([question], stopwatch)
    assert written.draft.task == 'pick'
    assert written.confidence > 0.9
    assert list(stopwatch.durations_ns) == ['vision', 'prefill', 'decode']
    assert len(cache) == len('go') + 1 + len(ByteCodec().encode(PICK))
    backbone.fail = RuntimeError('no')
    with pytest.raises(RuntimeError, match='no'):
        ask(backbone, question)
    assert len(cache) == 0
    assert ask(backbone, question)[0].reused_tokens == 0
