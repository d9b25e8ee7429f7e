# SPDX-License-Identifier: Apache-2.0
"""Measures what each kind of approximate edit does to the answers of one model.

Every case is edited both ways, then asked the same question. Knows edits and gates; what cases are
typical of a robot's day is up to the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.compressed_cache import DEFAULT_POOL_BYTES
from cloud_backbone.kv_state.errors import StateError
from cloud_backbone.kv_state.gate import Calibration, Effect, OPEN
from cloud_backbone.kv_state.kv_state import KVState
from cloud_backbone.kv_state.replacing import Edit, Mode, RECOMPUTE
from cloud_backbone.kv_state.segment import Segment
from cloud_backbone.kv_state.state_model import StateModel
from cloud_backbone.kv_state.verifying import compare
import torch


@dataclass(frozen=True)
class EditCase:
    """One session before an edit, the edit, and what is asked behind it."""

    segments: tuple[Segment, ...]
    name: str
    """Of the segment that is edited."""
    new: Segment | None = None
    """Replaces it; None: it is dropped, or moved."""
    index: int | None = None
    """Where it is moved to; None: it is replaced or dropped."""
    question: tuple[int, ...] = ()
    """Tokens appended to the last segment after the edit."""

    @property
    def operation(self) -> str:
        """The name under which its effect is kept."""
        if self.new is not None:
            return 'replace'
        return 'drop' if self.index is None else 'move'


def calibrate(
    model: StateModel, cases: Iterable[EditCase], modes: Sequence[Mode], decides: int = 1,
) -> Calibration:
    """Return the effects of approximate modes on some cases.

    Args:
        model: that is edited.
        cases: the more and the more typical, the better; a hundred tell a flip rate of a percent.
        modes: all but RECOMPUTE; ERRATUM is measured where something is replaced.
        decides: next tokens that make up a decision.

    Raises:
        StateError: no case, or a decision of no token.
    """
    if decides < 1:
        raise StateError(f'a decision has 1 token or more, not {decides}')
    pool = BlockPool(DEFAULT_POOL_BYTES)
    found: dict[str, list[tuple[float, bool]]] = {}
    for case in cases:
        truth = _answered(model, pool, case, RECOMPUTE, decides)
        for mode in modes:
            if mode.edit is Edit.ERRATUM and case.new is None:
                continue
            said = _answered(model, pool, case, mode, decides)
            kl = compare(truth[0][None], said[0][None]).kl
            name = f'{case.operation} {mode.kind}'
            found.setdefault(name, []).append((kl, truth[1] != said[1]))
    if not found:
        raise StateError('no case: there is nothing to measure')
    return Calibration(model.fingerprint, _effects(found))


def _effects(found: Mapping[str, list[tuple[float, bool]]]) -> dict[str, Effect]:
    return {
        name: Effect(
            len(pairs), float(torch.tensor([kl for kl, _ in pairs]).quantile(0.95)),
            sum(flipped for _, flipped in pairs) / len(pairs),
        )
        for name, pairs in found.items()
    }


def _answered(
    model: StateModel, pool: BlockPool, case: EditCase, mode: Mode, decides: int
) -> tuple[torch.Tensor, list[int]]:
    """Return logits and decision after an edit and the question."""
    state = KVState(model, pool, gate=OPEN)
    try:
        for one in case.segments:
            state.append(one.name, one.tokens, epoch=one.epoch, image=one.image)
        if case.new is not None:
            new = case.new
            state.replace(case.name, new.tokens, mode, epoch=new.epoch, image=new.image)
        elif case.index is not None:
            state.move(case.name, case.index, mode)
        else:
            state.drop(case.name, mode)
        last = state.segments[-1].name
        state.append(last, case.question)
        return state.next_logits(), state.greedy(decides, last)
    finally:
        state.close()
