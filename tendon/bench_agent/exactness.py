# SPDX-License-Identifier: Apache-2.0
"""Our state after each exact operation, against a prefill of the same tokens without a cache.

Judges by the largest difference of any logit, and by the tokens that greedy decoding writes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cloud_backbone.kv_state.kv_state import KVState
from tendon.bench_agent.ours import step
from tendon.bench_agent.restoring import Keeper
from tendon.bench_agent.script import Script, Turn
from tendon.bench_agent.size import Size
from tendon.bench_agent.stock import prefill
from tendon.bench_kv.model_calls import rows
from tendon.bench_kv.subject import Subject
from torch import Tensor
from transformers import DynamicCache

Operation = Callable[[KVState, Turn], KVState]
"""Does its part with a state that holds a turn; returns the state to judge."""


@dataclass
class Distance:
    """The worst of all cases of one operation."""

    logits: float = 0.0
    """Largest difference of a logit."""
    tokens: int = 0
    """Greedy tokens that differ, of all cases together."""


def distances(
    subject: Subject, size: Size, seed: int, folder: Path
) -> dict[str, Distance]:
    """Return how far each operation is from a prefill.

    Args:
        subject: the model, in single precision.
        size: how many cases, how many tokens.
        seed: of the script.
        folder: where sessions may be stored.
    """
    turns = list(Script(subject.encode, size, seed).turns())[:size.race]
    keeper = Keeper(subject.model, folder, size.most)
    operations = {**OPERATIONS, 'restore': _restore(keeper)}
    found = {name: Distance() for name in operations}
    for case in range(size.checks):
        number = (case + 1) * (len(turns) - 1) // size.checks
        for name, operation in operations.items():
            state = keeper.new_state()
            step(state, turns[number - 1])
            judged = operation(state, turns[number])
            _judge(subject.model, judged, size.greedy, found[name])
            for one in {id(state): state, id(judged): judged}.values():
                one.close()
    return found


def _judge(model: Any, state: KVState, count: int, worst: Distance) -> None:
    tokens = [token for segment in state.segments for token in segment.tokens]
    difference = float((state.next_logits() - prefill(model, tokens)).abs().max())
    worst.logits = max(worst.logits, difference)
    truth = greedy(model, tokens, count)
    worst.tokens += sum(
        mine != its for mine, its in zip(state.greedy(count), truth, strict=True)
    )


def greedy(model: Any, tokens: Sequence[int], count: int) -> list[int]:
    """Write the likeliest tokens behind ``tokens`` with a cache of transformers."""
    cache, said = DynamicCache(), list[int]()
    logits: Tensor = rows(model, cache, tokens, 0, keep=1)[-1]
    for _ in range(count):
        said.append(int(logits.argmax()))
        logits = rows(model, cache, said[-1:], len(tokens) + len(said) - 1, keep=1)[-1]
    return said


def _append(state: KVState, turn: Turn) -> KVState:
    state.append('scratch', turn.thought)
    return state


def _crop(state: KVState, turn: Turn) -> KVState:
    state.append('scratch', turn.thought)
    state.crop(state.mark('scene'))
    return state


def _commit(state: KVState, turn: Turn) -> KVState:
    state.append('scratch', turn.thought)
    step(state, turn)
    return state


def _fork(state: KVState, turn: Turn) -> KVState:
    child = state.fork()
    # What the parent does now must not reach the child.
    state.crop(state.mark('history'))
    state.append('history', turn.thought)
    child.append('scratch', turn.thought[::-1])
    return child


def _restore(keeper: Keeper) -> Operation:
    def operation(state: KVState, turn: Turn) -> KVState:
        keeper.store(state)
        return keeper.bring_back()
    return operation


OPERATIONS: dict[str, Operation] = {
    'append': _append, 'crop': _crop, 'commit_step': _commit, 'fork': _fork,
}
