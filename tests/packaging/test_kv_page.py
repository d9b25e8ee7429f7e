# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/kv_cache.md run as they stand."""

from pathlib import Path
import re
from typing import Any

from cloud_backbone.kv_cache.errors import CacheError
from cloud_backbone.kv_cache.hook import detach
from cloud_backbone.model.distilled_vlm import CACHE_NAME
import pytest
import torch

from tests.fakes.tiny_models import make_family, text

PAGE = Path(__file__).resolve().parents[2] / 'docs' / 'kv_cache.md'


def examples() -> list[str]:
    """Return the Python of the page, for this version of transformers."""
    page = PAGE.read_text(encoding='utf-8')
    blocks = re.findall(r'^```python\n(.*?)^```', page, re.MULTILINE | re.DOTALL)
    return [block.replace('cache=cache', f'{CACHE_NAME}=cache') for block in blocks]


def test_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    """A model writes through the cache, reads twice; pool, pin, fork and crop do as is said."""
    use, twice, parts = examples()
    model, ids = make_family('llama').model, text(40)
    told: dict[str, Any] = {
        'model': model, 'inputs': {'input_ids': ids}, 'tokens': ids[0].tolist(), 'torch': torch,
    }
    try:
        exec(use, told)
        assert f'{told["cache"].get_seq_length()} tokens seen' in capsys.readouterr().out
        assert told['cache'].nbytes() <= 4_000_000
        exec(twice, told)
        assert len(told['session']) == 40
        told['session'].close()
        exec(parts, told)
        assert told['pool'].used_bytes == 0
        assert told['session'].pins == [(0, 12)] == told['branch'].sessions[0].pins
    finally:
        detach(model)


def test_errors_of_the_page_exist() -> None:
    """Each error that the page speaks of is one of the cache's."""
    named = set(re.findall(r'`(\w+Error)`', PAGE.read_text(encoding='utf-8')))
    known = {error.__name__ for error in CacheError.__subclasses__()}

    assert named and named <= known
