# SPDX-License-Identifier: Apache-2.0
"""How a link behaves, by name; read from ``config/links.yaml``. Knows numbers, moves no packet."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from tendon.config_files import config_file
from tendon.errors import BadRequest
import yaml

FILE = 'links.yaml'
MAX_DELAY_MS = 10_000.0


@dataclass(frozen=True)
class Direction:
    """One way of a link.

    Attributes:
      delay_ms: on the air, for every packet [ms].
      jitter_ms: mean of an exponential extra [ms]; packets never overtake each other.
      loss: share of the packets that are lost on the air, 0 to below 1.
      burst: mean number of packets that are lost in a row, 1 or more.
      rate_mbit_s: how fast packets leave [Mbit/s]; 0 is unlimited.
      queue_bytes: what may wait to leave; a packet that finds the queue full is dropped.
    """

    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    loss: float = 0.0
    burst: float = 1.0
    rate_mbit_s: float = 0.0
    queue_bytes: int = 1 << 18

    def __post_init__(self) -> None:
        _check('delay_ms', self.delay_ms, 0.0, MAX_DELAY_MS)
        _check('jitter_ms', self.jitter_ms, 0.0, MAX_DELAY_MS)
        _check('loss', self.loss, 0.0, 0.9)
        _check('burst', self.burst, 1.0, 1000.0)
        _check('rate_mbit_s', self.rate_mbit_s, 0.0, 1e5)
        _check('queue_bytes', self.queue_bytes, 1500, 1 << 30)
        # Between two bursts there is at least one packet that gets through.
        if self.loss > self.burst * (1.0 - self.loss):
            raise BadRequest(
                f'loss {self.loss:g} in bursts of {self.burst:g} cannot be; '
                f'allowed: a burst of {self.loss / (1.0 - self.loss):g} or more'
            )


@dataclass(frozen=True)
class LinkProfile:
    """Both ways of a link, seen from the robot, and how long it goes away when it is cut.

    ``outage_s`` is 0 for a link that is never cut by itself.
    """

    name: str
    what: str = ''
    up: Direction = field(default_factory=Direction)
    down: Direction = field(default_factory=Direction)
    outage_s: float = 0.0

    def __post_init__(self) -> None:
        _check('outage_s', self.outage_s, 0.0, 600.0)

    def record(self) -> dict[str, Any]:
        """Return all numbers as plain values; ``from_record`` reads them."""
        return asdict(self)


def from_record(record: Mapping[str, Any]) -> LinkProfile:
    """Read a profile from plain values.

    Raises:
      BadRequest: for unknown names and values out of range.
    """
    _known('link', record, LinkProfile)
    parts = {
        way: _direction(way, record[way]) for way in ('up', 'down') if way in record
    }
    try:
        return LinkProfile(**{**record, **parts})
    except TypeError as error:
        raise BadRequest(f'link {record.get("name")!r}: {error}') from error


def load_profiles(path: Path | None = None) -> dict[str, LinkProfile]:
    """Read the profiles of a file; None takes the one that comes with Tendon.

    Raises:
      BadRequest: if it is not there or holds something else.
    """
    path = path or config_file(FILE)
    if path is None:
        raise BadRequest(f'config/{FILE} is not installed')
    try:
        record = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise BadRequest(f'cannot read {path}: {error}') from error
    links = record.get('links') if isinstance(record, dict) else None
    if not isinstance(links, dict) or not all(isinstance(v, dict) for v in links.values()):
        raise BadRequest(f'{path} must hold a mapping "links" of names to mappings')
    return {str(name): from_record({'name': str(name), **entry}) for name, entry in links.items()}


def profile_named(name: str, path: Path | None = None) -> LinkProfile:
    """Return one of the profiles of a file, see ``load_profiles``.

    Raises:
      BadRequest: if there is no such profile, with the names of those that there are.
    """
    profiles = load_profiles(path)
    if name not in profiles:
        raise BadRequest(f'link is {name!r}; allowed: {", ".join(profiles)}')
    return profiles[name]


def _direction(way: str, record: object) -> Direction:
    if not isinstance(record, dict):
        raise BadRequest(f'{way} is {record!r}; it must be a mapping')
    _known(way, record, Direction)
    return Direction(**record)


def _known(where: str, record: Mapping[str, Any], kind: Any) -> None:
    names = [entry.name for entry in fields(kind)]
    unknown = [name for name in record if name not in names]
    if unknown:
        raise BadRequest(f'{where} has {", ".join(unknown)}; allowed: {", ".join(names)}')


def _check(name: str, value: object, lowest: float, highest: float) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not lowest <= float(value) <= highest:  # type: ignore[arg-type]
        raise BadRequest(f'{name} is {value!r}; allowed: {lowest:g} to {highest:g}')
