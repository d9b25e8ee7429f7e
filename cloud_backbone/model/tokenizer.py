# SPDX-License-Identifier: Apache-2.0
"""The tokenizer: byte-level BPE that spells any text, plus location, agent and special tokens.

Training is deterministic: the same texts in the same order give the same file. Every word of
a plan is one token. Knows the words of plans; knows no model.
"""

from __future__ import annotations

from collections.abc import Iterable

from cloud_backbone.agent_words import AGENT_TOKENS
from cloud_backbone.model.configuration import COLOURS, KINDS
from cloud_backbone.model.general_words import GENERAL_WORDS
from cloud_backbone.plan_grammar import compose, LOCATION_TOKENS, PlanDraft, SKELETONS
from cloud_backbone.plan_vocabulary import Thing
from tokenizers import AddedToken, decoders, models, pre_tokenizers, Tokenizer, trainers
from transformers import PreTrainedTokenizerFast

SPECIAL_TOKENS = ('<pad>', '<bos>', '<eos>', '<image>', '<image_start>', '<image_end>')
PAD, BOS, EOS, IMAGE, IMAGE_START, IMAGE_END = range(len(SPECIAL_TOKENS))
VOCABULARY = 1792
WORD_WEIGHT = 200


def train_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Train on instructions; plan words and general robot words are added to them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(LOCATION_TOKENS),
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    corpus = [*texts, *_general_texts(), *(_plan_texts() * WORD_WEIGHT)]
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in LOCATION_TOKENS])
    trained = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token='<pad>',
        bos_token='<bos>',
        eos_token='<eos>',
        extra_special_tokens={
            'image_token': '<image>',
            'image_start_token': '<image_start>',
            'image_end_token': '<image_end>',
        },
        clean_up_tokenization_spaces=False,
    )
    add_agent_words(trained)
    return trained


def add_agent_words(tokenizer: PreTrainedTokenizerFast) -> None:
    """Add the agent's words to a tokenizer that was trained without them."""
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in AGENT_TOKENS])


def word_id(tokenizer: PreTrainedTokenizerFast, word: str) -> int:
    """Return the id of one plan word with the space before it.

    Raises:
        ValueError: the tokenizer spells the word with several tokens.
    """
    ids = tokenizer.encode(f' {word}', add_special_tokens=False)
    if len(ids) != 1:
        raise ValueError(f'the word {word!r} takes {len(ids)} tokens, but a plan word must take 1')
    return int(ids[0])


def location_start(tokenizer: PreTrainedTokenizerFast) -> int:
    """Return the id of the first location token; the others follow it."""
    return int(tokenizer.convert_tokens_to_ids(LOCATION_TOKENS[0]))


def _general_texts() -> list[str]:
    return [f' {word}' for word in GENERAL_WORDS]


def _plan_texts() -> list[str]:
    """Return texts with every word that a plan may hold, without its locations."""
    point = (0.0, 0.0)
    texts = []
    for colour in COLOURS:
        for kind in KINDS:
            thing = Thing(colour, kind)
            texts.append(compose(PlanDraft('refused', thing)))
            for task in SKELETONS:
                texts.append(compose(PlanDraft('steps', thing, thing, point, point, task)))
            texts.append(compose(PlanDraft('done', thing, thing, point, point)))
    return [text.replace(LOCATION_TOKENS[0], '') for text in texts]
