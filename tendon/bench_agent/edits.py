# SPDX-License-Identifier: Apache-2.0
"""Approximate edits against exact ones: what they do to the next token, and what they save.

Each case is a turn of the script with its thought begun; something before the thought changes,
and the next token is asked for.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import ceil
from statistics import mean

from cloud_backbone.kv_state.gate import OPEN
from cloud_backbone.kv_state.kv_state import KVState
from cloud_backbone.kv_state.replacing import Mode, partial, RECOMPUTE, STALE
from cloud_backbone.kv_state.transformers_model import TransformersModel
from tendon.bench_agent.ours import step
from tendon.bench_agent.script import Script, Turn
from tendon.bench_agent.size import Size
from tendon.bench_kv.subject import Subject

FRESH = (8, 32)
"""Tokens behind the change that a partial edit computes anew."""
MODES: dict[str, Mode] = {
    'stale': STALE, **{f'first {fresh}': partial(fresh) for fresh in FRESH},
}
Edit = Callable[[KVState, Turn, Mode], int]
"""Edits a state towards another turn; returns the tokens that it computed."""


@dataclass
class Effects:
    """What one edit did, case by case."""

    kl: list[float] = field(default_factory=list)
    """Of the next token, exact against edited [nat]."""
    flips: list[bool] = field(default_factory=list)
    """Whether another token is the likeliest."""
    tokens: list[int] = field(default_factory=list)
    exact: list[int] = field(default_factory=list)
    """Tokens that the exact edit computes."""

    def summary(self) -> dict[str, float]:
        """Return means, and the 95th percentile."""
        kl = sorted(self.kl)
        return {
            'kl': round(mean(kl), 5), 'kl_p95': round(kl[ceil(0.95 * len(kl)) - 1], 5),
            'flips': round(mean(self.flips), 4), 'tokens': round(mean(self.tokens), 1),
            'tokens_exact': round(mean(self.exact), 1),
        }


def measure_edits(subject: Subject, size: Size, seed: int) -> dict[str, dict[str, float]]:
    """Return what each approximate edit does, by what is edited and how."""
    model, found = TransformersModel(subject.model), dict[str, Effects]()
    for old, new in _cases(subject, size, seed):
        base = KVState(model, gate=OPEN)
        step(base, old)
        base.append('scratch', old.thought)
        for what, edit in EDITS.items():
            exact = base.fork()
            cost = edit(exact, new, RECOMPUTE)
            tried = {how: (edit, mode) for how, mode in MODES.items()}
            if what == 'scene':
                tried['old one left'] = (_contradict, RECOMPUTE)
            for how, (way, mode) in tried.items():
                edited = base.fork()
                effects = found.setdefault(f'{what}: {how}', Effects())
                effects.tokens.append(way(edited, new, mode))
                effects.exact.append(cost)
                _compare(exact, edited, effects)
                edited.close()
            exact.close()
        base.close()
    return {name: effects.summary() for name, effects in found.items()}


def _cases(subject: Subject, size: Size, seed: int) -> Iterator[tuple[Turn, Turn]]:
    """Yield turns, each with another one that what changes is taken from."""
    turns = list(Script(subject.encode, size, seed).turns())
    for case in range(size.edits):
        old = turns[(case * 7 + size.memory // 2) % len(turns)]
        yield old, turns[(case * 7 + size.memory // 2 + len(turns) // 2) % len(turns)]


def _compare(exact: KVState, edited: KVState, effects: Effects) -> None:
    truth, said = exact.next_logits().log_softmax(-1), edited.next_logits().log_softmax(-1)
    effects.kl.append(max(float((truth.exp() * (truth - said)).sum()), 0.0))
    effects.flips.append(bool(truth.argmax() != said.argmax()))


def _scene(state: KVState, new: Turn, mode: Mode) -> int:
    """The scene changes under a thought that goes on."""
    return state.replace('scene', new.scene, mode).tokens_computed


def _contradict(state: KVState, new: Turn, mode: Mode) -> int:
    """The new scene comes behind the old one, and the thought is read again."""
    thought = state.segments[-1].tokens
    state.crop(state.mark('scratch'))
    computed = state.append('scene', new.scene).tokens_computed
    return computed + state.append('scratch', thought).tokens_computed


def _lesson(state: KVState, new: Turn, mode: Mode) -> int:
    """A lesson comes before the history."""
    held = next(one.tokens for one in state.segments if one.name == 'lessons')
    return state.replace('lessons', held + new.lessons[:len(held)], mode).tokens_computed


def _mend(state: KVState, new: Turn, mode: Mode) -> int:
    """One entry in the middle of the history says something else."""
    held = next(one.tokens for one in state.segments if one.name == 'history')
    entry = new.history[-1]
    at = len(held) // len(entry) // 2 * len(entry)
    mended = held[:at] + entry + held[at + len(entry):]
    return state.replace('history', mended, mode).tokens_computed


def _compact(state: KVState, new: Turn, mode: Mode) -> int:
    """The older half of the history becomes one entry."""
    held = next(one.tokens for one in state.segments if one.name == 'history')
    entry = new.history[-1]
    at = len(held) // len(entry) // 2 * len(entry)
    return state.replace('history', entry + held[at:], mode).tokens_computed


EDITS: dict[str, Edit] = {
    'scene': _scene, 'lesson': _lesson, 'entry': _mend, 'compaction': _compact,
}
