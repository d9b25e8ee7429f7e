# SPDX-License-Identifier: Apache-2.0
"""Is this the same question? A digest over all that a turn asks.

Epoch and deadline may differ when a robot asks again, and so may which entries of its history it
sends along. Knows turns only.
"""

from __future__ import annotations

import hashlib
import json

from cloud_backbone.messages import Turn


def digest_of_turn(turn: Turn) -> str:
    """Return the SHA-256 of a question, in hexadecimal."""
    memory = turn.memory
    task = None if memory is None else [
        memory.trial, memory.task_number, memory.purpose.value, memory.hand_holds,
        memory.first_entry + len(memory.entries), list(memory.lessons),
    ]
    images = {name: hashlib.sha256(jpeg).hexdigest() for name, jpeg in turn.images.items()}
    asked = [
        turn.instruction, turn.observation_epoch, images,
        [repr(position) for position in turn.joint_positions], turn.revises, task,
    ]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
