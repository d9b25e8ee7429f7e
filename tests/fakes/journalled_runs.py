# SPDX-License-Identifier: Apache-2.0
"""Runs of a state with a journal, what is seen of them, and death at any call to the disk."""

from collections.abc import Callable
from functools import cache
import os
from pathlib import Path
import signal
from typing import Any

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_state.fingerprint import fingerprint_of
from cloud_backbone.kv_state.journalled_state import JournalledState
from cloud_backbone.kv_state.operation import Operation
from cloud_backbone.kv_state.restore import Target
from cloud_backbone.kv_state.segment import SegmentImage
from cloud_backbone.kv_state.transformers_model import TransformersModel

from tests.fakes.small_policies import small_policy
from tests.fakes.tiny_models import make_family, text

CHECKPOINT_STEPS = 3
"""So that a run of a few steps has snapshots in its middle and records after the last."""


@cache
def served(name: str) -> tuple[Any, TransformersModel]:
    """Return a model, always the same one."""
    family = make_family(name)
    return family, TransformersModel(family.model)


def target(name: str = 'llama', policy: str = 'full', **more: Any) -> Target:
    """Return what states are opened for; each with a pool of its own."""
    family, model = served(name)
    chosen = small_policy(policy)
    pool = more.get('pool') or BlockPool(1 << 24)
    return Target(model, pool, chosen, fingerprint_of(family.model, chosen, weights='known'))


def words(count: int, seed: int) -> list[int]:
    return text(count, seed)[0].tolist()


def plan(name: str = 'llama') -> list[Operation]:
    """Return the steps of one task."""
    start = dict(served(name)[0].start)
    places = start.pop('input_ids')[0].tolist() if start else []
    start.pop('mm_token_type_ids', None)
    image = SegmentImage('cd' * 32, start) if start else None
    steps = [Operation('append', {'name': 'goal', 'tokens': words(9, 0)})]
    for step in range(1, 6):
        scene = {'scene': [*places, *words(4, 20 + step)], 'epoch': step}
        steps.append(Operation('commit_step', {'history': words(6, 10 + step), **scene}, image))
    steps.append(Operation('append', {'name': 'scratch', 'tokens': words(3, 30)}))
    return steps


def opened(path: Path, **more: Any) -> JournalledState:
    """Take a folder up."""
    return JournalledState.open(path, target(**more), checkpoint_steps=CHECKPOINT_STEPS)


def seen(one: JournalledState) -> dict[str, Any]:
    """Return all that can be seen of a state and its ledger."""
    return {
        'segments': one.state.segments, 'certificate': one.state.certificate(),
        'ledger': one.ledger.state(),
        'logits': one.state.next_logits().tolist() if len(one.state) else None,
        'bytes': one.state.stats().byte_count,
    }


def run(path: Path, steps: list[Operation], **more: Any) -> list[dict[str, Any]]:
    """Return what is seen before the first step and after each one, uninterrupted."""
    one = opened(path, **more)
    found = [seen(one)]
    for number, operation in enumerate(steps):
        one.step(number, operation)
        found.append(seen(one))
    one.close()
    return found


class Death:
    """Kills the process at one of the calls by which it changes the disk.

    A write may die before it, with a part of the bytes written, or with all of them.
    """

    def __init__(self, call: int, share: float) -> None:
        self.left, self.share = call, share

    def install(self, patch: Callable[[Any, str, Any], None]) -> None:
        for module, name in ((os, 'write'), (os, 'fsync'), (os, 'replace'), (Path, 'unlink')):
            patch(module, name, self._mortal(getattr(module, name), name))

    def _mortal(self, real: Any, name: str) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                if name == 'write' and self.share:
                    real(given[0], given[1][: int(len(given[1]) * self.share)])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*given, **named)

        return call


def in_child(work: Callable[[], None]) -> bool:
    """Run something in a child process; say whether it was killed."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)
