# SPDX-License-Identifier: Apache-2.0
"""How the wish to end a process reaches it: signals, as a flag that a loop looks at."""

import signal
from types import FrameType


class Ending:
    """Turns signals into a wish to end, so that the arm brakes before the graph is left."""

    def __init__(self) -> None:
        self.is_wanted = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._want)

    def ignore_further(self) -> None:
        """Let no signal that comes late change the exit status of a process that is done."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)

    def _want(self, number: int, frame: FrameType | None) -> None:
        self.is_wanted = True
