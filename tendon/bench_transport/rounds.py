# SPDX-License-Identifier: Apache-2.0
"""What every client of the bench does: say that it is ready, then make as many calls as told.

Needs numpy alone, so that the environments of peers can run it.
"""

from collections.abc import Callable
import json
import sys
import time
from typing import Any

import numpy as np

HEIGHT, WIDTH, JOINTS, HORIZON = 480, 640, 7, 50
SEED = 7  # of the picture, which is always the same


def picture() -> Any:
    """Return a picture (480, 640, 3) uint8: smooth, with edges and the noise of a camera."""
    rng = np.random.default_rng(SEED)
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    layers = [128 + 60 * np.sin(x / 80 + k) + 50 * np.cos(y / 60 - k) for k in range(3)]
    smooth = np.stack(layers, axis=-1)
    for _ in range(6):
        top, left = rng.integers(0, HEIGHT - 90), rng.integers(0, WIDTH - 90)
        smooth[top:top + 80, left:left + 80] = rng.integers(0, 255, 3)
    return np.clip(smooth + rng.normal(0, 3, smooth.shape), 0, 255).astype(np.uint8)


def joints() -> Any:
    """Return joint positions (7,) float32."""
    return np.linspace(-0.5, 0.5, JOINTS, dtype=np.float32)


def chunk() -> Any:
    """Return what a policy without thought answers, (50, 7) float32."""
    return np.tile(joints(), (HORIZON, 1))


def serve_rounds(call: Callable[[], Any]) -> None:
    """Make calls as asked on standard input, one number a line; print how long they took [ms].

    ``call`` returns a chunk (50, 7).
    """
    print('ready', flush=True)
    for line in sys.stdin:
        took_ms = []
        for _ in range(int(line)):
            began_s = time.perf_counter()
            answer = call()
            took_ms.append((time.perf_counter() - began_s) * 1e3)
            if np.shape(answer) != (HORIZON, JOINTS):
                raise ValueError(f'chunk has shape {np.shape(answer)}, not {(HORIZON, JOINTS)}')
        print(json.dumps(took_ms), flush=True)
