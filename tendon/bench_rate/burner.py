# SPDX-License-Identifier: Apache-2.0
"""Keeps one core busy with matrix products until a signal ends it."""

import numpy as np


def main() -> None:
    """Multiply for ever."""
    numbers = np.random.default_rng(0).standard_normal((256, 256))
    try:
        while True:
            numbers = np.tanh(numbers @ numbers)
    except KeyboardInterrupt:
        pass


if __name__ == '__main__':
    main()
