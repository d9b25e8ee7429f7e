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
        """Return a chunk whose first row is due ``delay_s`` and one period from now.

        With a tail the motion begins where the tail has led by then, and leaves it softly; the
        tail's rows until then are the chunk's frozen prefix, which the caller has already.

        Args:
          step: what to do.
          joints: measured positions in the manifest's order, (joints,); with a tail where they
            are led now, but for fingers that a thing stops.
          velocities: the same, per second, (joints,).
          delay_s: time from now until the chunk is used [s].
          latent: what the backbone gave for the decoder; empty where there is none.
          tail: rows of the chunk that is being played, from now on, (ticks, joints); None where
            nothing plays.

        Raises:
          ChunkRefused: if the step cannot be decoded.
        """
        ...
