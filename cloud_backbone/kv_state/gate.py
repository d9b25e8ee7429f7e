# SPDX-License-Identifier: Apache-2.0
"""Which approximate edits a model may be edited with: those that were measured and found good.

A calibration holds, for one model, how far answers after each kind of edit were from those of a
full computation. Knows no edit and measures nothing; ``calibration`` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
import json

from cloud_backbone.kv_state.errors import ApproxRefused, StateError

KL_LIMIT = 0.1
"""Default for the 95th percentile of the divergence [nat]."""
FLIP_LIMIT = 0.02
"""Default for the share of decisions that come out otherwise."""


@dataclass(frozen=True)
class Effect:
    """What an edit of one kind did to answers."""

    cases: int
    kl_p95: float
    """95th percentile of KL(exact || edited) of the next token [nat]."""
    flip_rate: float
    """Share of cases whose decision was another one."""


@dataclass(frozen=True)
class Calibration:
    """Effects of edits on one model, '<operation> <kind>' -> effect."""

    fingerprint: str
    """Of the model."""
    effects: Mapping[str, Effect] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return it as text."""
        effects = {kind: asdict(effect) for kind, effect in self.effects.items()}
        return json.dumps({'fingerprint': self.fingerprint, 'effects': effects}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Calibration:
        """Read what ``to_json`` wrote.

        Raises:
            StateError: it is no such text.
        """
        try:
            read = json.loads(text)
            effects = {kind: Effect(**effect) for kind, effect in read['effects'].items()}
            return cls(str(read['fingerprint']), effects)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StateError(f'this is no calibration of edits: {error}') from error


@dataclass(frozen=True)
class Gate:
    """Lets approximate edits through, or not."""

    calibration: Calibration | None = None
    """None: nothing was measured, and nothing approximate is allowed."""
    kl_limit: float = KL_LIMIT
    """Of ``kl_p95`` [nat]."""
    flip_limit: float = FLIP_LIMIT
    """Of ``flip_rate``."""
    unmeasured: bool = False
    """Whether kinds that were never measured are allowed."""

    def check(self, fingerprint: str, operation: str, kind: str) -> None:
        """Refuse an edit that is not known to be good.

        Args:
            fingerprint: of the model that is edited; one without a name was never measured.
            operation: replace, drop or move.
            kind: of its mode.

        Raises:
            ApproxRefused: it was measured to be too far off, or never.
        """
        name = f'{operation} {kind}'
        known = self.calibration
        effect = None
        if known is not None and fingerprint and known.fingerprint == fingerprint:
            effect = known.effects.get(name)
        if effect is None:
            if not self.unmeasured:
                raise ApproxRefused(name, None, self.kl_limit)
            return
        if not effect.kl_p95 <= self.kl_limit:
            raise ApproxRefused(name, effect.kl_p95, self.kl_limit)
        if not effect.flip_rate <= self.flip_limit:
            raise ApproxRefused(name, effect.flip_rate, self.flip_limit)


CLOSED = Gate()
"""Allows exact edits only."""
OPEN = Gate(unmeasured=True)
"""Allows every edit that was not found to be bad; for measurements and for those who know."""
