# SPDX-License-Identifier: Apache-2.0
"""Real-time chunking: a new chunk that grows out of the one that is being played.

K. Black, M. Galliker, S. Levine: Real-Time Execution of Action Chunking Flow Policies, 2025,
arXiv 2506.07339, equations 2 to 5. A chunk is drawn from noise in a few steps. At each of them
the policy says which chunk it sees in the noise, and that is pulled to the tail of the old chunk:
nearly fully at first, less and less over the overlap:

    seen = denoise(A, tau)
    v    = (seen - A) / (1 - tau) + pull(tau) * mask * (tail - seen)
    A   += v / steps                                 tau from 0, noise, to 1, the chunk

What is changed, and why. The pull is multiplied by the identity in place of the Jacobian of
``seen``: that takes forward passes alone, so that it runs where there are no gradients (ONNX
Runtime). And pull(tau) is 1 / (1 - tau) in place of min(5, (1 - tau) / (tau r^2)), which is of the
same size. So ``A`` stays on the way from the noise to a chunk, as in training, and the last step
ends at ``seen + mask * (tail - seen)``: with a mask of 1 at the tail itself, where the paper's
weight leaves 15 % of the distance, a step at the end of the frozen prefix.

Knows arrays; no network, robot or tick.
"""

from __future__ import annotations

from collections.abc import Callable
import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Denoise = Callable[[Array, float], Array]

STEPS = 5


def soft_mask(horizon: int, overlap: int) -> Array:
    """Return how much each row is pulled to the old chunk, (horizon,).

    Row 0 is the first behind the frozen prefix. The weights fall from nearly 1 to 0, which is
    reached after ``overlap`` rows; none is pulled where that is 0.
    """
    left = np.clip((overlap - np.arange(horizon)) / (overlap + 1), 0.0, 1.0)
    return np.asarray(left * np.expm1(left) / math.expm1(1.0))


def guided(
    denoise: Denoise, noise: Array, tail: Array | None, mask: Array, steps: int = STEPS
) -> Array:
    """Return a chunk (horizon, joints) that leaves the old one softly.

    Args:
      denoise: takes a noisy chunk (horizon, joints) and tau in [0, 1); returns the chunk that the
        policy sees in it, of the same shape.
      noise: the chunk at tau 0, (horizon, joints); the same noise gives the same chunk.
      tail: what the old chunk would do, (horizon, joints); None to draw freely.
      mask: how much of it counts, 0 to 1, (horizon, joints) or (horizon, 1).
      steps: passes, 1 or more.
    """
    chunk = noise
    for number in range(steps):
        tau = number / steps
        seen = denoise(chunk, tau)
        if tail is not None:
            seen = seen + mask * (tail - seen)
        chunk = chunk + (seen - chunk) / ((1 - tau) * steps)
    return chunk
