# SPDX-License-Identifier: Apache-2.0
"""What a check of ``tendon doctor`` found."""

from dataclasses import dataclass
from enum import Enum


class State(Enum):
    """How a check went; only a failure keeps ``tendon demo`` from running."""

    OK = 'ok'
    WARNING = 'warning'
    FAILURE = 'missing'
    SKIPPED = 'skipped'


@dataclass(frozen=True)
class Finding:
    """What one check found; ``remedy`` says what to do, also about a check that was skipped."""

    name: str
    state: State
    detail: str
    remedy: str = ''
