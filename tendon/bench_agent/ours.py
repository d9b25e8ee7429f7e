# SPDX-License-Identifier: Apache-2.0
"""Our arms: a state of named segments that is edited exactly, and one edited in place."""

from pathlib import Path
import tempfile
from typing import Any

from cloud_backbone.kv_state.kv_state import KVState
from cloud_backbone.kv_state.replacing import STALE
from cloud_backbone.kv_state.segment import Segment
from tendon.bench_agent.arm import Cost, Step, timed
from tendon.bench_agent.restoring import Keeper
from tendon.bench_agent.script import Tokens, Turn


def segments_of(turn: Turn, number: int = 0) -> tuple[Segment, ...]:
    """Return what a turn holds before its thought; the scene is observation ``number``."""
    return (
        Segment('system', turn.system), Segment('goal', turn.goal),
        Segment('lessons', turn.lessons), Segment('history', turn.told),
        Segment('scene', turn.scene, epoch=number),
    )


def step(state: KVState, turn: Turn, number: int = 0) -> None:
    """Bring a state to a turn: keep the first tokens that are still true, compute the rest."""
    held = tokens_of(state)
    told = held.get('history', ())
    if turn.told[:len(told)] == told and held.get('lessons') == turn.lessons:
        state.commit_step(turn.told[len(told):], turn.scene, epoch=number)
        return
    wanted = segments_of(turn, number)
    state.begin(wanted)
    held = tokens_of(state)
    for segment in wanted:
        rest = segment.tokens[len(held.get(segment.name, ())):]
        state.append(segment.name, rest, epoch=segment.epoch)


def tokens_of(state: KVState) -> dict[str, Tokens]:
    """Return the tokens of each segment."""
    return {segment.name: segment.tokens for segment in state.segments}


class Exact:
    """Every edit computes what it changes, and all that stands behind it.

    Args:
        model: of transformers.
        tokens: of the longest turn.
    """

    name, maker = 'exact', 'tendon'

    def __init__(self, model: Any, tokens: int) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._keeper = Keeper(model, Path(self._folder.name), tokens)
        self._state = self._keeper.new_state()
        self._number = 0

    def take(self, turn: Turn) -> Step:
        cost, before = Cost(), self._state.stats().tokens_computed
        self._number += 1
        with timed(cost):
            self.edit(self._state, turn, self._number)
            token = int(self._state.next_logits().argmax())
        computed = self._state.stats().tokens_computed - before
        repaired = self._state.repair().tokens_computed
        self._state.append('scratch', turn.thought)
        return Step(cost, computed, token, self._state.stats().byte_count, repaired)

    def edit(self, state: KVState, turn: Turn, number: int) -> None:
        """Bring the state to a turn."""
        step(state, turn, number)

    def restart(self) -> Cost:
        cost = Cost()
        self._keeper.store(self._state)
        self._state.close()
        with timed(cost):
            self._state = self._keeper.bring_back()
        return cost

    def close(self) -> None:
        self._state.close()
        self._folder.cleanup()


class Stale(Exact):
    """What stands behind an edit is kept as it is, and computed anew after the first token."""

    name = 'approximate'

    def edit(self, state: KVState, turn: Turn, number: int) -> None:
        held = tokens_of(state)
        if 'scene' in held:
            state.crop(state.mark('scene'))
            told = tuple(token for entry in turn.history[:-1] for token in entry)
            for name, tokens in (('lessons', turn.lessons), ('history', told)):
                if tokens != held[name]:
                    state.replace(name, tokens, STALE)
        step(state, turn, number)
