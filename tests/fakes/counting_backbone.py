# SPDX-License-Identifier: Apache-2.0
"""A model whose answers prove what it saw: the thing counts the steps, the place sums them up.

A lesson is about what was grasped for last.
"""

from __future__ import annotations

from functools import cache
import re
from typing import Any
import zlib

from cloud_backbone.agent_words import entry_text
from cloud_backbone.plan_vocabulary import Vocabulary
from cloud_backbone.task_memory import HistoryEntry

from tests.fakes.scripted_backbone import ByteCodec, ScriptedBackbone
from tests.fakes.task_words import PLAN

THINGS = ('red cube', 'green ball', 'blue cylinder', 'yellow cube', 'purple ball')
VOCABULARY = Vocabulary()
_GRASPED = re.compile(r'<grasp> the (\w+ \w+)')


def proof_of(said: str, steps: int) -> str:
    """Return the act that follows a history of so many steps."""
    total = zlib.crc32(said.encode())
    thing = THINGS[steps % len(THINGS)]
    return f' The {thing} is at <{total % 128:03d}><{total // 128 % 128:03d}>.<grasp>'


def history_text(entries: tuple[HistoryEntry, ...]) -> str:
    """Return a history as the model sees it."""
    return ''.join(entry_text(entry, VOCABULARY) for entry in entries)


def _script(prompt: str) -> str:
    if '<agent>' not in prompt:
        return PLAN
    if '<trial_failed>' in prompt:
        thing = [THINGS[0], *_GRASPED.findall(prompt)][-1]
        return f'<lesson> the {thing}<slips>'
    said = '<did>' + prompt.split('<did>', 1)[1] if '<did>' in prompt else ''
    said = said.rsplit('<hand_', 1)[0]
    return proof_of(said, said.count('<did>'))


class CachedCodec(ByteCodec):
    """Compiles each grammar once."""

    def matcher(self, grammar: str) -> Any:
        """Return a matcher at the beginning of a Lark grammar."""
        return _matcher(grammar).fork()


@cache
def _matcher(grammar: str) -> Any:
    return ByteCodec().matcher(grammar)


def counting_backbone() -> ScriptedBackbone:
    """Return the model."""
    model = ScriptedBackbone(_script)
    model.language.codec = CachedCodec()
    return model
