# SPDX-License-Identifier: Apache-2.0
"""All arms, one after another at each turn of a session, so that a busy moment hits all of them.

Arms that keep something take part in the first turns (``Size.race``), our exact one in all. Who
keeps nothing need not be asked at each turn: now and then, and in the last ones.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
import logging
from statistics import median

from tendon.bench_agent.arm import Arm, Step
from tendon.bench_agent.script import Event, Turn
from tendon.bench_agent.size import Size

EXACT, REPREFILL = 'exact', 're-prefill'
LASTING = (EXACT,)
SAMPLED = (REPREFILL,)


@dataclass
class Log:
    """What the turns of one arm took."""

    name: str
    maker: str
    steps: dict[int, Step] = field(default_factory=dict)
    """By turn."""
    failure: str = ''
    """Why it takes no part any more."""


@dataclass
class Race:
    """What was measured."""

    logs: dict[str, Log] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    """Of each turn."""
    lengths: list[int] = field(default_factory=list)
    """Tokens before the thought at each turn."""
    young: Log | None = None
    """An exact session that is at its early turns while ours is at its last ones."""

    def typical(self, name: str, turns: Iterable[int], wall: bool = False) -> float | None:
        """Return the median time to the first token [s]; None: the arm took none of the turns."""
        return typical(self.logs[name], turns, wall) if name in self.logs else None

    def computed(self, name: str, event: Event | None = None) -> list[tuple[int, int]]:
        """Return turn and tokens computed of the turns that the arm took, all or of one event."""
        log = self.logs.get(name)
        return [] if log is None else [
            (turn, step.computed) for turn, step in log.steps.items()
            if event is None or self.events[turn] is event
        ]

    def agreement(self, name: str) -> float | None:
        """Return in which share of the turns the first token is that of a full prefill."""
        mine, truth = self.logs[name].steps, self.logs[REPREFILL].steps
        both = [turn for turn in mine if turn in truth]
        same = sum(mine[turn].token == truth[turn].token for turn in both)
        return round(same / len(both), 3) if both else None


def typical(log: Log, turns: Iterable[int], wall: bool = False) -> float | None:
    """Return the median time to the first token [s] in those turns that an arm took."""
    steps = [log.steps[turn] for turn in turns if turn in log.steps]
    times = [step.cost.wall_s if wall else step.cost.cpu_s for step in steps]
    return median(times) if times else None


def race(
    arms: Sequence[Arm], turns: Iterable[Turn], size: Size,
    advance: Callable[[], None] = lambda: None, young: Arm | None = None,
) -> Race:
    """Put the arms through the turns; one that fails drops out and says why.

    Args:
        arms: all that take part; they are closed in the end.
        turns: of the session.
        size: who takes which turn.
        advance: called after each turn.
        young: begins beside the late turns and takes an early one at each of them, so that both
            are timed on the same machine at the same time.
    """
    found = Race({arm.name: Log(arm.name, arm.maker) for arm in arms})
    session = list(turns)
    if young is not None:
        found.young = Log(young.name, young.maker)
        arms = [*arms, young]
    for number, turn in enumerate(session):
        found.events.append(turn.event)
        found.lengths.append(len(turn.prompt))
        # Each turn begins with another arm: who comes first may find the machine warmer.
        first = number % len(arms)
        for arm in (*arms[first:], *arms[:first]):
            if arm is young and found.young is not None:
                _take_early(arm, number, session, size, found.young)
                continue
            log = found.logs[arm.name]
            if not log.failure and takes(arm.name, number, size):
                _take(arm, number, turn, log)
        advance()
    for arm in arms:
        arm.close()
    return found


def takes(name: str, number: int, size: Size) -> bool:
    """Say whether an arm takes part in a turn."""
    if name in SAMPLED:
        return number % size.sample == 0 or number >= size.turns - size.late
    return number < size.race or name in LASTING


def _take_early(
    arm: Arm, number: int, session: Sequence[Turn], size: Size, log: Log
) -> None:
    """Take the early turn that belongs to a late one; before the first, all that precedes it."""
    early = number - (size.turns - size.late) + size.early[0]
    if early == size.early[0]:
        arm.take(session[early - 1])
    if size.early[0] <= early < size.early[1]:
        log.steps[early] = arm.take(session[early])


def _take(arm: Arm, number: int, turn: Turn, log: Log) -> None:
    try:
        back = arm.restart() if turn.event is Event.RESTART else None
        step = arm.take(turn)
    except Exception as error:
        logging.getLogger(__name__).debug('%s failed', arm.name, exc_info=True)
        log.failure = f'{type(error).__name__}: {error}'.splitlines()[0]
        return
    if back is not None:
        step.cost.wall_s += back.wall_s
        step.cost.cpu_s += back.cpu_s
    log.steps[number] = step
