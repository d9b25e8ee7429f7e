# SPDX-License-Identifier: Apache-2.0
"""Cache policies in the form that the server uses: for contexts of a hundred tokens.

The forms of ``policy`` are for thousands of tokens: blocks and rings of 32 slots would be more
than a small budget, and gains that each session learns cost more than all its tokens. Here blocks
are small, nothing stays raw between turns, and what codecs have to learn is shared by all sessions
of a model.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cloud_backbone.errors import StartError
from cloud_backbone.kv_cache.cake import Cake
from cloud_backbone.kv_cache.codec import Codec
from cloud_backbone.kv_cache.errors import CalibrationError
from cloud_backbone.kv_cache.oaken import OakenCodec
from cloud_backbone.kv_cache.oaken_calibration import OakenCalibration
from cloud_backbone.kv_cache.policy import find_policy, MakeCodec, Policy
from cloud_backbone.kv_cache.replay import Replay
from cloud_backbone.kv_cache.squat import SquatCodec
from cloud_backbone.kv_cache.squat_table import SquatTable
import torch

GAINS_FILE = Path('kv_cache') / 'squat.safetensors'
"""Where a checkpoint directory keeps SQuat's gains."""
THRESHOLDS_FILE = Path('kv_cache') / 'oaken.json'
"""Where it keeps Oaken's thresholds."""
WINDOW = 40
"""Rows that rank the prompt: those of a likely answer, and few more."""
BLOCK = 24
"""Slots of a block that is written as a whole: the fewer, the more of it are scales."""
KEEPING_BLOCK = 16
"""The same where nothing is dropped: the more, the more of the last one are empty."""
FINE_BLOCK = 8
"""Slots of a block of single slots, where fewer cost nothing."""
RECENT = 2
"""Newest tokens of a prompt that stay: the first of the answer hangs on them."""


FULL = Policy(spare=4)
"""Keeps all as it is; pages of a usual turn stay for the next turn."""


class ServedPolicies:
    """Finds policies for one model.

    Args:
        gains: of SQuat for this model; None: each session learns its own.
        thresholds: of Oaken for this model; None: each session learns its own.
    """

    def __init__(
        self, gains: SquatTable | None = None, thresholds: OakenCalibration | None = None
    ) -> None:
        self._gains, self._thresholds = gains, thresholds

    def find(self, name: str) -> Policy:
        """Return the policy of a name.

        Raises:
            PolicyError: there is none of that name.
        """
        policy = find_policy(name)
        if policy.lossless:
            return FULL
        codec = name.rpartition('+')[2]
        block = FINE_BLOCK
        if codec.startswith(('kivi', 'squat')):
            block = BLOCK if policy.scorer is not None else KEEPING_BLOCK
        make = policy.make_codec
        if codec.startswith('squat') and self._gains is not None:
            make = _with_gains(self._gains, int(codec[-1]))
        if codec == 'oaken' and self._thresholds is not None:
            make = _with_thresholds(self._thresholds)
        scorer = policy.scorer
        if isinstance(scorer, Cake):
            # Neighbours of a token about one thing are about other things: no pooling.
            scorer = Cake(window=WINDOW, kernel=1)
        if isinstance(scorer, Replay):
            # A likely answer is the rehearsal, and all it looks at is near.
            scorer = Replay(near=1)
        return replace(
            policy, scorer=scorer, make_codec=make, block=block, recent=RECENT, sinks=0,
            whole=True, raw_dtype=torch.float16,
        )


def policies_of(checkpoint: Path, model: str) -> ServedPolicies:
    """Return the policies of a checkpoint directory, with what was calibrated for it.

    Raises:
        StartError: a calibration is broken, or of another model.
    """
    gains, thresholds = checkpoint / GAINS_FILE, checkpoint / THRESHOLDS_FILE
    try:
        return ServedPolicies(
            SquatTable.load(gains, model=model) if gains.is_file() else None,
            OakenCalibration.load(thresholds, model=model) if thresholds.is_file() else None,
        )
    except CalibrationError as error:
        raise StartError(f'{error}; or remove the file') from error


def _with_gains(gains: SquatTable, bits: int) -> MakeCodec:
    def make(layer: int, kv_heads: int, head_dim: int, slots: int) -> Codec:
        return SquatCodec(head_dim, kv_heads, bits, slots, gains=gains.layers[layer])

    return make


def _with_thresholds(thresholds: OakenCalibration) -> MakeCodec:
    def make(layer: int, kv_heads: int, head_dim: int, slots: int) -> Codec:
        return OakenCodec(head_dim, slots, thresholds[layer])

    return make
