# SPDX-License-Identifier: Apache-2.0
"""How fast a chunk may be played: an arm that cannot follow is waited for, not run away from.

The commands of a lagging arm would get ever farther ahead of it, and of what is planned from it;
and an arm that touches something would be pushed ever harder. Knows joints; nothing of chunks.
"""

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.manifest import Manifest

Array = NDArray[np.float64]

# Share of the tolerated lag up to which nothing is slowed.
_FREE = 0.5
# Never quite standing still, so that a new chunk can take over.
_LEAST = 0.03


class PaceKeeper:
    """Compares what was commanded with what was measured."""

    def __init__(self, manifest: Manifest, lag_s: float) -> None:
        """Tolerate a lag as far as each joint moves in a time [s] at its highest speed."""
        self._tolerance = lag_s * manifest.column('max_velocity')
        # Fingers are kept apart by what they hold; that is no lag.
        self._tolerance[manifest.gripper_index] = np.inf

    def is_behind(self, commanded: Array, measured: Array) -> bool:
        """Say whether the arm lags so far that it would be waited for, (joints,) each."""
        return bool((np.abs(measured - commanded) > _FREE * self._tolerance).any())

    def pace(self, commanded: Array, measured: Array, heading: Array) -> float:
        """Return how much of a tick may be consumed per tick.

        Args:
          commanded: positions that were commanded last, (joints,).
          measured: positions of the arm, (joints,).
          heading: velocities of the chunk that is being played, (joints,); on the way back to the
            arm nothing is slowed.
        """
        lags = (measured - commanded) / self._tolerance
        worst = int(np.abs(lags).argmax())
        if heading[worst] * lags[worst] > 0:
            return 1.0
        return min(1.0, max(_LEAST, (1.0 - abs(float(lags[worst]))) / (1.0 - _FREE)))
