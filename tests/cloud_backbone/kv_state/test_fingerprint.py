# SPDX-License-Identifier: Apache-2.0
"""Promises of fingerprints: whatever changes what keys mean is told apart, and named."""

import copy
from dataclasses import fields, replace
import json
from types import SimpleNamespace
from typing import Any

from cloud_backbone.kv_state.errors import FingerprintMismatch
from cloud_backbone.kv_state.fingerprint import Fingerprint, fingerprint_of, MEANING
import pytest
import torch

from tests.cloud_backbone.model.tiny_model import tiny_tokenizer
from tests.fakes.small_policies import small_policy
from tests.fakes.tiny_models import make_family

TOOLS = {'tools': ['look', 'grasp']}


class Pictures:
    """Settings of an image processor."""

    def __init__(self, side: int = 32) -> None:
        self.side = side

    def to_dict(self) -> dict[str, Any]:
        return {'size': self.side}


def model() -> Any:
    """Return a model that may be changed."""
    return copy.deepcopy(make_family('llama').model)


def processor(template: str = 'hello', side: int = 32, tokenizer: Any = None) -> Any:
    """Return what a checkpoint has beside its model."""
    return SimpleNamespace(
        tokenizer=tokenizer or tiny_tokenizer(), chat_template=template,
        image_processor=Pictures(side),
    )


def make(**changes: Any) -> Fingerprint:
    """Return the fingerprint of a small model, with some of its parts changed."""
    given = {
        'model': model(), 'policy': small_policy('cake+squat4'), 'processor': processor(),
        'tools': TOOLS, **changes,
    }
    return fingerprint_of(given.pop('model'), given.pop('policy'), given.pop('processor'), **given)


def with_weight() -> Any:
    changed = model()
    changed.model.layers[1].mlp.up_proj.weight.data[3, 5] += 1e-3
    return changed


def with_config(**values: Any) -> Any:
    changed = model()
    for name, value in values.items():
        setattr(changed.config, name, value)
    return changed


def other_tokenizer() -> Any:
    changed = copy.deepcopy(tiny_tokenizer())
    changed.add_tokens(['elephant'])
    return changed


class Adapter:
    """Settings of a low-rank adapter."""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def to_dict(self) -> dict[str, Any]:
        return {'r': self.rank}


def with_adapter() -> Any:
    changed = model()
    changed.peft_config = {'robot': Adapter(4)}
    return changed


@pytest.mark.parametrize(('field', 'changes'), [
    ('weights', lambda: {'model': with_weight()}),
    ('config', lambda: {'model': with_config(rms_norm_eps=1e-3)}),
    ('tokenizer', lambda: {'processor': processor(tokenizer=other_tokenizer())}),
    ('chat_template', lambda: {'processor': processor(template='good day')}),
    ('tool_schema', lambda: {'tools': {'tools': ['grasp', 'look']}}),
    ('image_processor', lambda: {'processor': processor(side=64)}),
    ('adapters', lambda: {'model': with_adapter()}),
    ('dtype', lambda: {'model': model().to(torch.bfloat16), 'weights': make().weights}),
    ('cache_policy', lambda: {'policy': small_policy('cake')}),
    ('cache_policy', lambda: {'policy': small_policy('cake+squat4', recent=3)}),
])
def test_what_changes_is_named_with_both_values(field: str, changes: Any) -> None:
    """The refusal names the first field that differs, and what both sides have."""
    mine, theirs = make(), make(**changes())
    with pytest.raises(FingerprintMismatch, match=field) as caught:
        mine.check(theirs)
    assert caught.value.field == field
    assert caught.value.want == getattr(mine, field)
    assert caught.value.got == getattr(theirs, field)
    differing = {one.name for one in fields(mine)
                 if getattr(mine, one.name) != getattr(theirs, one.name)}
    assert differing == {field}


def test_rope_parameters_are_told_apart() -> None:
    """Another base of the rotary positions is another fingerprint, beside another config."""
    changed = with_config(rope_parameters={'rope_type': 'default', 'rope_theta': 5e5})
    assert make().rope != make(model=changed).rope


@pytest.mark.parametrize('field', ['kv_layout', 'library'])
def test_versions_are_compared(field: str) -> None:
    """Another layout of the cache or another major version of the library is refused."""
    mine = make()
    with pytest.raises(FingerprintMismatch, match=f'{field} .* served is {field} other'):
        mine.check(replace(mine, **{field: 'other'}))


def test_same_things_have_the_same_fingerprint() -> None:
    """A copy, and one that went through a file, is no mismatch; nor is another place on disk."""
    mine = make()
    mine.check(make())
    mine.check(make(model=with_config(_name_or_path='/elsewhere')))
    mine.check(Fingerprint.from_words(json.loads(json.dumps(mine.words()))))


def test_only_what_tokens_mean_forbids_to_compute_them_anew() -> None:
    """Other weights leave the meaning of token ids as it is; another tokenizer does not."""
    mine = make()
    for field in fields(mine):
        other = replace(mine, **{field.name: 'other'})
        if field.name in MEANING:
            with pytest.raises(FingerprintMismatch, match=field.name):
                mine.check_meaning(other)
        else:
            mine.check_meaning(other)


def test_unknown_field_of_an_older_file_is_a_mismatch() -> None:
    """A snapshot that does not say what it was made with is not taken to fit."""
    words = make().words()
    del words['tool_schema']
    with pytest.raises(FingerprintMismatch, match='tool_schema unknown'):
        Fingerprint.from_words(words).check(make())
