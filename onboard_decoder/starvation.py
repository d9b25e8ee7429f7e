# SPDX-License-Identifier: Apache-2.0
"""Counts ticks at which a step was being run and the command loop had nothing to aim at.

Knows whether steps are run and whether a tick had a target; knows neither chunks nor joints. The
first ticks of a run, before its first chunk, do not count, nor do those at which the arm brakes.
"""


class Starvation:
    """Two threads write: the agent calls ``expect``, the command loop calls ``saw``."""

    def __init__(self) -> None:
        self.count = 0
        self._runs = 0
        # One value for both threads to read at once: the number of the run, None between runs.
        self._run: int | None = None
        self._fed_run: int | None = None

    def expect(self, is_running: bool) -> None:
        """Say whether a step is being run; call it before what is played is dropped."""
        if not is_running:
            self._run = None
        elif self._run is None:
            self._runs += 1
            self._run = self._runs

    def saw(self, has_target: bool) -> None:
        """Note one tick."""
        run = self._run
        if has_target:
            self._fed_run = run
        elif run is not None and run == self._fed_run:
            self.count += 1

    def braked(self) -> None:
        """Note a tick at which the arm had to brake, whatever there was to aim at."""
        self._fed_run = None
