# SPDX-License-Identifier: Apache-2.0
"""The closed sets of words that a plan may use, and the heights of the things they name.

Knows what a checkpoint's ``grammar.json`` says. Knows no tokenizer, no image and no robot.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
import json
from pathlib import Path
from typing import Any

GRAMMAR_FILE = 'grammar.json'
OBJECT_COLOURS = ('red', 'green', 'blue', 'yellow', 'purple', 'orange')
ALL_COLOURS = (*OBJECT_COLOURS, 'white', 'black')


@dataclass(frozen=True)
class Kind:
    """One kind of thing, what may be done with it, and its heights above the table [m]."""

    name: str
    colours: tuple[str, ...]
    label_height_m: float
    """Height of the point that a location in the image means."""
    grasp_height_m: float
    """Height of the tool when the gripper closes."""
    top_height_m: float
    """Height of the top, where another thing can stand."""
    graspable: bool = True
    support: bool = False
    """Something may be stacked on it."""
    stackable: bool = False
    """It may be stacked on a support."""
    pushable: bool = False
    container: bool = False

    def __post_init__(self) -> None:
        """Refuse heights that cannot be: a thing is between 0 and 0.5 m high."""
        for field in ('label_height_m', 'grasp_height_m', 'top_height_m'):
            value = getattr(self, field)
            if not 0.0 <= value <= 0.5:
                raise ValueError(f'kind {self.name!r}: {field} is {value}, allowed 0 to 0.5')


DEFAULT_KINDS = (
    Kind('cube', OBJECT_COLOURS, 0.022, 0.030, 0.044, True, True, True, True),
    Kind('ball', OBJECT_COLOURS, 0.022, 0.028, 0.044, True),
    Kind('cylinder', OBJECT_COLOURS, 0.025, 0.035, 0.050, True, True, True, True),
    Kind('bin', ALL_COLOURS, 0.025, 0.025, 0.050, False, container=True),
)


@dataclass(frozen=True, order=True)
class Thing:
    """A colour and a kind: the name of one thing in a scene."""

    colour: str
    kind: str

    def __str__(self) -> str:
        """Name in words, for example ``red cube``."""
        return f'{self.colour} {self.kind}'


class Vocabulary:
    """All kinds and colours that a plan can name."""

    def __init__(self, kinds: Iterable[Kind] = DEFAULT_KINDS) -> None:
        self.kinds = {kind.name: kind for kind in kinds}
        self.things = tuple(
            Thing(colour, kind.name) for kind in self.kinds.values() for colour in kind.colours
        )
        self._by_name = {str(thing): thing for thing in self.things}

    @classmethod
    def load(cls, directory: Path | str) -> Vocabulary:
        """Read ``grammar.json`` of a checkpoint; without the file, the default vocabulary."""
        path = Path(directory) / GRAMMAR_FILE
        if not path.is_file():
            return cls()
        try:
            entries = json.loads(path.read_text(encoding='utf-8'))['kinds']
            return cls(_kind(entry) for entry in entries)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f'{path} is no grammar: {error}') from error

    def save(self, directory: Path | str) -> None:
        """Write ``grammar.json`` into a checkpoint directory."""
        kinds = [{**kind.__dict__, 'colours': list(kind.colours)} for kind in self.kinds.values()]
        path = Path(directory) / GRAMMAR_FILE
        path.write_text(json.dumps({'version': 1, 'kinds': kinds}, indent=1), encoding='utf-8')

    def kind_of(self, thing: Thing) -> Kind:
        """Return the kind of a thing. Raises KeyError for a kind outside the vocabulary."""
        return self.kinds[thing.kind]

    def thing(self, name: str) -> Thing:
        """Return the thing with this name. Raises ValueError for an unknown one."""
        if name not in self._by_name:
            raise ValueError(f'unknown thing {name!r}; known are {", ".join(self._by_name)}')
        return self._by_name[name]


def _kind(entry: dict[str, Any]) -> Kind:
    return Kind(**{**entry, 'colours': tuple(entry['colours'])})
