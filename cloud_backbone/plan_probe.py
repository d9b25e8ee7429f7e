# SPDX-License-Identifier: Apache-2.0
"""A whole answer as it may well be written, to see what of a prompt an answer looks at.

Cache policies rank the tokens of a prompt by what the newest rows look at. A row of the prompt
does not know yet what the answer needs; a likely answer, read once and taken back, does. Names
come from the instruction, and locations are the middle. Knows words and the plan grammar only.
"""

from __future__ import annotations

from cloud_backbone.constrained_decoding import PlanLanguage
from cloud_backbone.plan_grammar import Choice, LOCATION_TOKENS, moves, Reply
from cloud_backbone.plan_guess import best_guess

MIDDLE = 64


def likely_answer(language: PlanLanguage, hint: str) -> list[int]:
    """Return the tokens of an answer to an instruction.

    Args:
        language: of the model.
        hint: the instruction, or the answer of before.
    """
    tokens: list[int] = []
    said = ''
    steps = moves(language.vocabulary)
    reply: Reply | None = None
    while True:
        try:
            move = steps.send(reply)  # type: ignore[arg-type]
        except StopIteration:
            return tokens
        if isinstance(move, Choice):
            text = best_guess(move.sensible or move.texts, hint, said)
            reply, said = text, said + text
        else:
            text, reply = LOCATION_TOKENS[MIDDLE], 0.5
        tokens += language.codec.encode(text)
