# SPDX-License-Identifier: Apache-2.0
"""Promises of constrained decoding: any logits give a plan, good logits give the right one."""

from cloud_backbone.constrained_decoding import PlanLanguage, PlanWriter
from cloud_backbone.plan_grammar import compose, fault_of, parse, PlanDraft, value_of
from cloud_backbone.plan_vocabulary import Thing, Vocabulary
from cloud_backbone.token_trie import build_trie
import pytest
import torch

from tests.fakes.scripted_backbone import ByteCodec, LOCATION, VOCABULARY


class SpellingCodec:
    """One token per byte and no location tokens."""

    location_ids = None

    def encode(self, text: str) -> list[int]:
        """Return bytes."""
        return list(text.encode())


LANGUAGE = PlanLanguage(Vocabulary(), ByteCodec())
SPELLING = PlanLanguage(Vocabulary(), SpellingCodec())
PUT = PlanDraft(
    'steps',
    Thing('red', 'cube'),
    Thing('blue', 'bin'),
    (value_of(3), value_of(70)),
    (value_of(127), value_of(64)),
    'put',
)


def write(language: PlanLanguage, text: str) -> tuple[PlanWriter, list[int], int]:
    """Let a model write that wants this text; return writer, tokens and number of forwards."""
    wanted = list(language.codec.encode(text))
    writer = PlanWriter(language)
    tokens, forwards = list(writer.opening), 0
    while writer.draft is None:
        logits = torch.zeros(VOCABULARY)
        logits[wanted[len(tokens)]] = 30.0
        tokens += writer.choose(logits)
        forwards += 1
    return writer, tokens, forwards


@pytest.mark.parametrize('language', [LANGUAGE, SPELLING])
def test_model_that_knows_the_text_writes_it(language: PlanLanguage) -> None:
    """The tokens are exactly those of the text, with and without location tokens."""
    writer, tokens, _ = write(language, compose(PUT))
    assert tokens == list(language.codec.encode(compose(PUT)))
    assert writer.draft is not None
    assert compose(writer.draft) == compose(PUT)
    assert writer.draft.a_point == pytest.approx(PUT.a_point)
    assert writer.confidence == pytest.approx(1.0, abs=1e-3)


def test_forced_tokens_cost_no_forward() -> None:
    """A plan of more than a hundred tokens takes as many forwards as there are choices."""
    writer, tokens, forwards = write(LANGUAGE, compose(PUT))
    assert len(tokens) > 100
    assert forwards == len(writer.probabilities) <= 16


@pytest.mark.parametrize('language', [LANGUAGE, SPELLING])
@pytest.mark.parametrize('strict', [False, True])
def test_any_logits_give_a_plan(language: PlanLanguage, strict: bool) -> None:
    """Noise in, a text of the language out; led strictly, one that makes sense."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(60):
        writer = PlanWriter(language, strict)
        while writer.draft is None:
            writer.choose(torch.randn(VOCABULARY, generator=generator) * 5)
        text = compose(writer.draft)
        assert compose(parse(text, language.vocabulary)) == text
        assert not strict or fault_of(writer.draft, language.vocabulary) is None
        assert 0.0 <= writer.confidence <= 1.0


def test_location_is_finer_than_a_bin() -> None:
    """Two equal neighbours mean the line between them; far bins have no say."""
    writer, _, _ = write_until_location()
    logits = torch.full((VOCABULARY,), -30.0)
    logits[LOCATION + 40] = logits[LOCATION + 41] = 10.0
    logits[LOCATION + 100] = 9.0
    writer.choose(logits)
    writer.choose(logits)
    finish(writer)
    assert writer.draft is not None
    assert writer.draft.a_point == pytest.approx((41 / 128, 41 / 128))


def test_location_at_the_edge_stays_inside() -> None:
    """The first and last bin are reachable."""
    for index in (0, 127):
        writer, _, _ = write_until_location()
        logits = torch.full((VOCABULARY,), -30.0)
        logits[LOCATION + index] = 10.0
        writer.choose(logits)
        writer.choose(logits)
        finish(writer)
        assert writer.draft is not None
        assert writer.draft.a_point == pytest.approx((value_of(index),) * 2)


def write_until_location() -> tuple[PlanWriter, int, int]:
    """Return a writer that wants a location next."""
    writer = PlanWriter(LANGUAGE)
    wanted, tokens = list(ByteCodec().encode(' The red cube is at ')), len(writer.opening)
    while tokens < len(wanted):
        logits = torch.zeros(VOCABULARY)
        logits[wanted[tokens]] = 30.0
        tokens += len(writer.choose(logits))
    return writer, tokens, 0


def finish(writer: PlanWriter) -> None:
    """Say done."""
    for text in ('.', 'D'):
        if writer.draft is None:
            logits = torch.zeros(VOCABULARY)
            logits[ord(text)] = 30.0
            writer.choose(logits)


def test_confidence_is_the_mean_over_free_choices() -> None:
    """Forced tokens count for nothing; a coin toss at one choice lowers the mean."""
    writer = PlanWriter(LANGUAGE)
    while writer.draft is None:
        writer.choose(torch.zeros(VOCABULARY))
    assert writer.confidence < 0.05
    assert len(writer.probabilities) == len([p for p in writer.probabilities if p > 0])


def test_trie_refuses_what_it_cannot_tell_apart() -> None:
    """A text whose tokens begin another's, or that has none, is an error of the grammar."""
    for texts in (('ab', 'abc'), ('',)):
        with pytest.raises(ValueError, match='empty or begin another'):
            build_trie(texts, SpellingCodec().encode)
