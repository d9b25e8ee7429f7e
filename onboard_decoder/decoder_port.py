# SPDX-License-Identifier: Apache-2.0
"""What the robot needs of a decoder: one step and fresh joints in, a chunk of joint targets out.

``plan_decoder`` does it with a trained network; a test may draw straight lines.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.plan import PlanStep

Array = NDArray[np.float64]


class Decoded(Protocol):
    """A decoder's answer."""

    @property
    def positions(self) -> Array:
        """Absolute joint targets at the control period, (horizon, joints)."""
        ...

    @property
    def remaining_s(self) -> float:
        """Time until the step is finished [s]."""
        ...


class DecoderPort(Protocol):
    """Turns a step into joint targets."""

    def decode(
        self,
        step: PlanStep,
        joints: Array,
        velocities: Array,
        delay_s: float,
        latent: Sequence[float] = (),
        tail: Array | None = None,
    ) -> Decoded:
        """Return a chunk whose first target is used ``delay_s`` after the joints were measured.

        Args:
          step: what to do.
          joints: measured positions in the manifest's order, (joints,).
          velocities: measured velocities, (joints,).
          delay_s: time from the measurement to the use of the first target [s].
          latent: what the backbone gave for the decoder; empty where there is none.
          tail: what is left of the chunk that is being played, (ticks, joints), from the tick on
            at which the new chunk's first target is due; None to decode freely.

        Raises:
          ChunkRefused: if the step cannot be decoded.
        """
        ...
