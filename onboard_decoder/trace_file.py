# SPDX-License-Identifier: Apache-2.0
"""Latency traces as JSON lines, one per turn, flushed line by line."""

import json
from pathlib import Path
from typing import IO

from onboard_decoder.errors import ConfigError
from onboard_decoder.latency_budget import TurnTrace


class TraceFile:
    """Appends to one file."""

    def __init__(self, path: Path | str) -> None:
        """Open the file. Raises ConfigError where it cannot be written."""
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file: IO[str] = self.path.open('a', encoding='utf-8')
        except OSError as error:
            raise ConfigError(f'cannot write {self.path}: {error.strerror}') from error

    def write(self, trace: TurnTrace) -> None:
        """Append one turn."""
        self._file.write(json.dumps(trace.to_record(), ensure_ascii=False) + '\n')
        self._file.flush()

    def close(self) -> None:
        """Close the file; idempotent."""
        self._file.close()
