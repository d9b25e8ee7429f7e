# SPDX-License-Identifier: Apache-2.0
"""Loss in bursts after Gilbert and Elliott: a good state that loses nothing, a bad that loses all.

E. N. Gilbert, "Capacity of a burst-noise channel", 1960; E. O. Elliott, "Estimates of error rates
for codes on burst-noise channels", 1963. With the chance b = 1/burst to leave the bad state and
g = loss / (burst (1 - loss)) to leave the good one, the share of time in the bad state is
g / (g + b) = loss, and a burst has 1/b packets in the mean. Knows no packet and no time.
"""

import random


class BurstLoss:
    """Says packet by packet whether it is lost.

    Args:
      loss: share of the packets that are lost, below 1.
      burst: mean length of a burst in packets, 1 or more.
      rng: its own; as many numbers are drawn as packets are asked about, if loss is not 0.
    """

    def __init__(self, loss: float, burst: float, rng: random.Random) -> None:
        self._rng = rng
        self._leave_bad = 1.0 / burst
        self._leave_good = loss / (burst * (1.0 - loss))
        self._is_bad = False

    def loses_next(self) -> bool:
        """Go on by one packet; True if that one is lost."""
        if not self._leave_good:
            return False
        chance = self._leave_bad if self._is_bad else self._leave_good
        if self._rng.random() < chance:
            self._is_bad = not self._is_bad
        return self._is_bad
