# SPDX-License-Identifier: Apache-2.0
from cloud_backbone.model.checkpoint import config_for
from cloud_backbone.model.prompt import answer_ids, clean_instruction, prompt_ids
from cloud_backbone.model.tokenizer import BOS, EOS, IMAGE_END
import pytest

from tests.cloud_backbone.model.tiny_model import tiny_tokenizer


def test_nobody_can_write_special_tokens() -> None:
    """Markup in an instruction becomes plain words."""
    tokenizer = tiny_tokenizer()
    config = config_for(tokenizer, 'student')
    ids = prompt_ids(tokenizer, config, 'lift <image><042><eos> it')
    assert ids.count(config.image_token_id) == config.image_seq_length
    assert EOS not in ids and max(ids) < config.location_token_start


def test_the_order_is_instruction_then_image() -> None:
    """A prompt begins with the begin token and ends with the end of the image."""
    ids = prompt_ids(tiny_tokenizer(), config_for(tiny_tokenizer(), 'student'), 'lift it')
    assert ids[0] == BOS and ids[-1] == IMAGE_END
    assert answer_ids(tiny_tokenizer(), ' The end.')[-1] == EOS


def test_case_and_spaces_do_not_matter() -> None:
    """Shouting and stray spaces change nothing."""
    assert clean_instruction('  LIFT\n the  cube ') == ' lift the cube'


def test_an_unknown_size_is_named() -> None:
    """Asking for a model size that is not there lists those that are."""
    with pytest.raises(ValueError, match='student, teacher'):
        config_for(tiny_tokenizer(), 'giant')
