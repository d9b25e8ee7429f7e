# SPDX-License-Identifier: Apache-2.0
"""What the agent did, as append-only JSON lines, flushed line by line: a crash leaves evidence.

Knows files; the events' meaning is with whoever writes them. ``records`` reads them back.
"""

from collections import deque
from collections.abc import Mapping
import json
from pathlib import Path
from typing import IO, Protocol

Event = Mapping[str, object]


class EventSink(Protocol):
    """Takes events."""

    def write(self, event: Event) -> None:
        """Keep one event."""
        ...


class Transcript:
    """One file of events."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file: IO[str] | None = self.path.open('a', encoding='utf-8')

    def write(self, event: Event) -> None:
        """Append one line and flush it; nothing happens after ``close``."""
        if self._file is not None:
            self._file.write(json.dumps(event, ensure_ascii=False) + '\n')
            self._file.flush()

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._file is not None:
            self._file.close()
            self._file = None


class RecentEvents:
    """The newest events, in memory."""

    def __init__(self, size: int = 2000) -> None:
        self._events: deque[Event] = deque(maxlen=size)

    def write(self, event: Event) -> None:
        """Keep one event, forget the oldest."""
        self._events.append(event)

    def list(self) -> list[Event]:
        """Return what is kept, oldest first."""
        return list(self._events)
