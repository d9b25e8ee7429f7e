# SPDX-License-Identifier: Apache-2.0
from cloud_backbone.model.configuration import COLOURS, KINDS
from cloud_backbone.model.tokenizer import location_start, train_tokenizer, word_id
from cloud_backbone.plan_grammar import compose, LOCATION_TOKENS, PlanDraft
from cloud_backbone.plan_vocabulary import Thing
import pytest
from transformers import PreTrainedTokenizerFast

TEXTS = [' put the red cube in the blue bin', ' stack it, please!']


@pytest.fixture(scope='module')
def tokenizer() -> PreTrainedTokenizerFast:
    return train_tokenizer(TEXTS)


@pytest.mark.parametrize('text', [' Türöffner 99%', ' 机器人', ' put thee rde kube', '\n\ttabs'])
def test_it_spells_any_text(tokenizer: PreTrainedTokenizerFast, text: str) -> None:
    """Decoding gives back every text, also in scripts that training never saw."""
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


def test_plan_words_are_one_token(tokenizer: PreTrainedTokenizerFast) -> None:
    """Every colour and kind is one token, and each has its own."""
    ids = [word_id(tokenizer, word) for word in (*COLOURS, *KINDS)]
    assert len(set(ids)) == len(COLOURS) + len(KINDS)


def test_a_split_word_is_named(tokenizer: PreTrainedTokenizerFast) -> None:
    """Asking for the token of a word that takes several says so."""
    with pytest.raises(ValueError, match='quixotically'):
        word_id(tokenizer, 'quixotically')


def test_locations_are_tokens_in_a_row(tokenizer: PreTrainedTokenizerFast) -> None:
    """The 128 location tokens follow each other."""
    first = location_start(tokenizer)
    ids = tokenizer.convert_tokens_to_ids(list(LOCATION_TOKENS))
    assert ids == list(range(first, first + len(LOCATION_TOKENS)))


def test_a_plan_survives(tokenizer: PreTrainedTokenizerFast) -> None:
    """A plan text with locations is the same after encoding and decoding."""
    draft = PlanDraft(
        'steps', Thing('red', 'cube'), Thing('blue', 'bin'), (0.1, 0.2), (0.3, 0.9), 'put'
    )
    text = compose(draft)
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


def test_training_is_repeatable(tokenizer: PreTrainedTokenizerFast) -> None:
    """The same texts give the same tokenizer."""
    again = train_tokenizer(TEXTS)
    assert again.backend_tokenizer.to_str() == tokenizer.backend_tokenizer.to_str()
