# SPDX-License-Identifier: Apache-2.0
"""What the bench asks of whoever keeps a session between turns, and what a turn costs there."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
import time
from typing import Protocol

from tendon.bench_agent.script import Turn


@dataclass
class Cost:
    """Time that something took; filled in when it ends."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    """Of all threads of this process: what other processes do does not count. All arms compute
    with one thread, so that an idle machine would take this long."""


@contextmanager
def timed(cost: Cost) -> Iterator[None]:
    """Add the time that the block takes."""
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    yield
    cost.wall_s += time.perf_counter() - wall_s
    cost.cpu_s += time.process_time() - cpu_s


@dataclass(frozen=True)
class Step:
    """What one turn took until its first token was known."""

    cost: Cost
    computed: int
    """Tokens that went through the model."""
    token: int
    """The likeliest one."""
    nbytes: int | None = None
    """Of all keys and values that are held afterwards [B]; None: nobody tells."""
    repaired: int = 0
    """Tokens that were computed anew afterwards, while the arm moves."""


class Arm(Protocol):
    """A way of keeping a session."""

    name: str
    maker: str
    """Whose it is: tendon, transformers, llama.cpp or vLLM."""

    def take(self, turn: Turn) -> Step:
        """Read what is new in this turn and say its first token; then read its thought."""

    def restart(self) -> Cost:
        """Lose everything that was not stored, and bring back what was.

        Returns:
            What bringing it back took; storing it is not part of that.
        """

    def close(self) -> None:
        """Give everything back."""
