# SPDX-License-Identifier: Apache-2.0
"""How much the bench measures: the full size, and one of seconds for tests."""

from dataclasses import dataclass

MAX_LESSONS = 3


@dataclass(frozen=True)
class Size:
    """Lengths in tokens, and counts."""

    system: int
    """Begin token and tools."""
    goal: int
    lesson: int
    entry: int
    """What one step adds to the history."""
    scene: int
    """What is replaced at each step."""
    thought: int
    turns: int
    """Of a session."""
    race: int
    """Of its first turns: those in which every arm takes part."""
    early: tuple[int, int]
    """First turn and last turn + 1 of what the late turns are compared with, from 0 on."""
    late: int
    """How many of the last turns are late."""
    memory: int
    """Entries of the history that are kept; then the older half becomes one."""
    lessons_every: int
    mend_every: int
    """Turns between two corrections in the middle of the history."""
    restart_every: int
    sample: int
    """Of the turns outside of the race and the late ones, each so manieth is prefilled anew."""
    checks: int
    """Cases of each exactness check."""
    greedy: int
    """Tokens that are written after each of them."""
    edits: int
    """Cases of each approximate edit."""
    stored: int
    """Tokens of the session that is restored."""
    rounds: int
    """Repetitions where one call is timed; the median counts."""

    @property
    def most(self) -> int:
        """Tokens of the longest turn, what is written after it included."""
        lessons, entries = MAX_LESSONS * self.lesson, (self.memory + 1) * self.entry
        written = max(self.thought, 2 * self.greedy)
        return self.system + self.goal + lessons + entries + self.scene + written


FULL = Size(
    system=384, goal=24, lesson=30, entry=45, scene=200, thought=16, turns=200, race=40,
    early=(10, 30), late=20, memory=24, lessons_every=30, mend_every=9, restart_every=32,
    sample=5, checks=2, greedy=64, edits=24, stored=2048, rounds=7,
)
QUICK = Size(
    system=40, goal=12, lesson=10, entry=12, scene=24, thought=6, turns=24, race=24,
    early=(4, 10), late=6, memory=6, lessons_every=9, mend_every=7, restart_every=11,
    sample=2, checks=1, greedy=8, edits=3, stored=256, rounds=2,
)
