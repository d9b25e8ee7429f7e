# SPDX-License-Identifier: Apache-2.0
"""A state whose every step is on the disk before it is taken, and is taken once.

    look the step up in the ledger -> journal the step -> edit the state -> journal the answer

Whenever the process dies, ``open`` brings back the state of an uninterrupted run: the snapshot,
and the journalled steps done again. Knows no wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
import json
import logging
from pathlib import Path
from typing import Any

from cloud_backbone.errors import BackboneError
from cloud_backbone.kv_state.errors import Corrupt, StaleEpoch, StoreError
from cloud_backbone.kv_state.journal import Record
from cloud_backbone.kv_state.kv_state import KVState
from cloud_backbone.kv_state.ledger import digest_of, Ledger
from cloud_backbone.kv_state.operation import Operation
from cloud_backbone.kv_state.receipt import Receipt
from cloud_backbone.kv_state.restore import Fallback, restore, Target
from cloud_backbone.kv_state.snapshot import Belongings, take_snapshot
from cloud_backbone.kv_state.state_folder import StateFolder

LOG = logging.getLogger(__name__)
CHECKPOINT_STEPS = 64
"""Steps after which the journal makes way for a snapshot."""
STEP, ANSWER, FAILED = 'step', 'answer', 'failed'
TOKENIZER = 'tokenizer'
"""Key of the journal's head: whose token ids its steps are of."""


@dataclass
class JournalledState:
    """A state, its ledger and its folder; made by ``open``."""

    state: KVState
    ledger: Ledger
    folder: StateFolder
    target: Target
    checkpoint_steps: int = CHECKPOINT_STEPS
    reason: str = ''
    """Why tokens were computed anew when it was opened; empty: only journalled steps were."""
    words: Mapping[str, Any] = field(default_factory=dict)
    """The owner's own; kept with the next checkpoint."""

    @classmethod
    def open(
        cls, path: Path, target: Target, budget_bytes: int | None = None, *,
        fallback: Fallback = Fallback.REPREFILL, checkpoint_steps: int = CHECKPOINT_STEPS,
    ) -> JournalledState:
        """Go on where the folder ends; begin where it is new.

        Raises:
            Corrupt: what was promised is damaged, and cannot be made again.
            FingerprintMismatch: see ``restore``.
            StoreError: another process has the folder, or the disk refused.
        """
        folder, found = StateFolder.open(path, {TOKENIZER: target.fingerprint.tokenizer})
        try:
            if found.snapshot is None:
                state = KVState(
                    target.model, target.pool, target.policy, budget_bytes, gate=target.gate
                )
                opened = cls(state, Ledger(), folder, target, checkpoint_steps)
            else:
                back = restore(found.snapshot, target, fallback)
                owned = back.belongings
                opened = cls(
                    back.state, owned.ledger, folder, target, checkpoint_steps, back.reason,
                    owned.words,
                )
            opened._replay(found.records)
        except BaseException:
            folder.close()
            raise
        return opened

    @property
    def epoch(self) -> int:
        """Grows with each ``open``."""
        return self.folder.epoch

    def step(
        self, step_id: int, operation: Operation, epoch: int | None = None
    ) -> dict[str, Any]:
        """Take a step once, and return its answer: the same one however often it is sent.

        Args:
            step_id: steps are numbered from 0 on.
            operation: what to do.
            epoch: that the caller believes in; None: the present one.

        Raises:
            StaleEpoch: somebody else has taken the session up since.
            StepConflict: the id was taken with another operation; StepGap: steps are missing.
            BackboneError: the edit was refused; the state is as before, the id is free.
            StoreError: the disk refused; nothing was done.
        """
        if epoch is not None and epoch != self.epoch:
            raise StaleEpoch(epoch, self.epoch)
        digest = digest_of(operation.record())
        entry = self.ledger.look_up(step_id, digest)
        if entry is not None:
            return self._known(step_id, entry.reply)
        self.folder.record({STEP: step_id, **operation.record()}, operation.image)
        answer = self._do(step_id, digest, operation)
        if self.folder.records >= 2 * self.checkpoint_steps:
            self._try_checkpoint()
        return answer

    def checkpoint(self) -> None:
        """Put a snapshot in the place of the journal.

        Raises:
            StoreError: the disk refused; the journal goes on.
        """
        belongings = Belongings(self.epoch, self.ledger, words=self.words)
        self.folder.checkpoint(take_snapshot(self.state, self.target.fingerprint, belongings))

    def _try_checkpoint(self) -> None:
        """Put a snapshot in the place of the journal; where the disk refuses, it grows on."""
        try:
            self.checkpoint()
        except StoreError as error:
            LOG.warning('the journal of %s grows on: %s', self.folder.path, error)

    def close(self) -> None:
        """Let go of memory and folder; it can be opened again."""
        self.state.close()
        self.folder.close()

    def _known(self, step_id: int, reply: str | None) -> dict[str, Any]:
        if reply is None:  # long ago: only what the session expects now is of use
            return {STEP: step_id, 'next': self.ledger.expected}
        answer: dict[str, Any] = json.loads(reply)
        return answer

    def _do(self, step_id: int, digest: str, operation: Operation) -> dict[str, Any]:
        """Edit the state, and keep the answer."""
        try:
            receipt = operation.apply(self.state)
        except BackboneError as error:
            self.folder.record({FAILED: step_id, 'why': str(error)})
            raise
        answer = _answer(step_id, receipt)
        # The step is on the disk and done: whatever comes now, it is not done again.
        self._note(step_id, digest, answer)
        self.folder.record({ANSWER: step_id, 'reply': answer})
        return answer

    def _note(self, step_id: int, digest: str, answer: Mapping[str, Any]) -> None:
        self.ledger.take(step_id, digest)
        self.ledger.answer(step_id, json.dumps(answer))

    def _replay(self, records: tuple[Record, ...]) -> None:
        """Do the journalled steps again; one that died on its way is finished now."""
        steps: list[tuple[Record, Record | None]] = []
        for record in records:
            if STEP in record:
                steps.append((record, None))
            elif steps:
                steps[-1] = (steps[-1][0], record)
        for number, (record, outcome) in enumerate(steps):
            step_id, operation = record[STEP], self._operation(record)
            digest = digest_of(operation.record())
            if outcome is None and number == len(steps) - 1:
                self._finish(step_id, digest, operation)
            elif outcome is not None and ANSWER in outcome:
                operation.apply(self.state)
                if self.state.body.prefix_hash() != outcome['reply']['prefix_hash']:
                    raise Corrupt(f'{self.folder.path}: step {step_id}', 'it gave another state')
                self._note(step_id, digest, outcome['reply'])

    def _finish(self, step_id: int, digest: str, operation: Operation) -> None:
        """Take a step of which nobody knows how it ended; who sent it sends it again."""
        try:
            self._do(step_id, digest, operation)
        except BackboneError:
            return  # it was noted as failed, and its id is free

    def _operation(self, record: Record) -> Operation:
        sha256 = record['image']
        image = None if sha256 is None else self.folder.image(sha256)
        return Operation(record['do'], record['words'], image)


def _answer(step_id: int, receipt: Receipt) -> dict[str, Any]:
    """Return what is answered, without what differs from run to run."""
    return {
        STEP: step_id, 'next': step_id + 1, 'prefix_hash': receipt.prefix_hash,
        'computed': receipt.tokens_computed, 'reused': receipt.tokens_reused,
        'exactness': receipt.exactness.grade.name,
    }
