# SPDX-License-Identifier: Apache-2.0
"""Dataclasses as JSON and back, by their type hints: what is written to disk of a session.

Knows dataclasses, enums, tuples, tables and simple values; knows none of the classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
import types
from typing import Any, get_args, get_origin, get_type_hints, TypeVar, Union

Data = TypeVar('Data')


def to_plain(value: Any) -> Any:
    """Return what JSON can hold; enums by name."""
    if is_dataclass(value):
        return {entry.name: to_plain(getattr(value, entry.name)) for entry in fields(value)}
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, (tuple, list)):
        return [to_plain(part) for part in value]
    if isinstance(value, Mapping):
        return {key: to_plain(part) for key, part in value.items()}
    return value


def from_plain(kind: type[Data], plain: Any) -> Data:
    """Return the value of a type that ``to_plain`` made plain.

    Raises:
        ValueError: it is none of this type.
    """
    try:
        value: Data = _read(kind, plain)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f'{plain!r:.200} is no {getattr(kind, "__name__", kind)}') from error
    return value


def _read(kind: Any, plain: Any) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if plain is None:
            return None
        return _read(next(one for one in inner if one is not type(None)), plain)
    if origin is tuple:
        kinds = inner[:1] * len(plain) if inner[-1] is ... else inner
        return tuple(_read(one, part) for one, part in zip(kinds, plain, strict=True))
    if origin is dict:
        return {key: _read(inner[1], part) for key, part in plain.items()}
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        make: Any = kind
        return make(**{key: _read(hints[key], part) for key, part in plain.items()})
    if issubclass(kind, Enum):
        return kind[plain]
    if kind is float and type(plain) is int:
        return float(plain)
    if type(plain) is not kind:
        raise TypeError(f'{plain!r} is no {kind.__name__}')
    return plain
