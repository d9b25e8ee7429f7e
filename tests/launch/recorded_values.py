# SPDX-License-Identifier: Apache-2.0
"""What the recording stand-in of launch records, and how it evaluates texts.

Substitutions and conditions follow the rules of the real ones; none of this is ROS code.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml


@dataclass
class Recording:
    """What one launch file would do.

    Attributes:
      share: stands for <prefix>/share/tendon; the prefix is called 'PREFIX'.
      given: arguments of the command line.
      foreign: launch files of other packages that would be included, with their arguments.
    """

    share: Path
    given: dict[str, str]
    configurations: dict[str, str] = field(default_factory=dict)
    declared: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    processes: list['Process'] = field(default_factory=list)
    included: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    foreign: dict[str, dict[str, str]] = field(default_factory=dict)

    def process(self, name: str) -> 'Process':
        """Return the only process of this name."""
        (found,) = [process for process in self.processes if process.name == name]
        return found


@dataclass
class Process:
    """One process. ``parameters`` come in order: files and tables, later ones win."""

    name: str
    executable: str
    arguments: list[str]
    namespace: str = ''
    parameters: list[Path | dict[str, Any]] = field(default_factory=list)
    remappings: dict[str, str] = field(default_factory=dict)
    is_node: bool = False

    def command(self, folder: Path) -> list[str]:
        """Return arguments for a real process; tables become files, as the real launch does."""
        if not self.is_node:
            return self.arguments
        ros = ['--ros-args', '-r', f'__node:={self.name}']
        if self.namespace:
            ros += ['-r', f'__ns:=/{self.namespace.strip("/")}']
        for number, entry in enumerate(self.parameters):
            path = entry
            if isinstance(entry, dict):
                path = folder / f'{self.name}_{number}.yaml'
                path.write_text(yaml.safe_dump({'/**': {'ros__parameters': entry}}))
            ros += ['--params-file', str(path)]
        for old, new in self.remappings.items():
            ros += ['-r', f'{old}:={new}']
        return [*self.arguments, *ros]


class Substitution:
    """Something that becomes text when the launch file is carried out."""

    def perform(self, recording: Recording) -> str:
        """Return the text."""
        raise NotImplementedError


class LaunchConfiguration(Substitution):
    """Value of an argument."""

    def __init__(self, variable_name: str) -> None:
        self._name = variable_name

    def perform(self, recording: Recording) -> str:
        """Return the value. Raises KeyError if nobody declared it before."""
        return recording.configurations[self._name]


class PathJoinSubstitution(Substitution):
    """Parts of a path."""

    def __init__(self, substitutions: Iterable[Any]) -> None:
        self._parts = list(substitutions)

    def perform(self, recording: Recording) -> str:
        """Return the path."""
        return str(Path(*(text(part, recording) for part in self._parts)))


class Command(Substitution):
    """What a command prints; it is not run."""

    def __init__(self, command: Any) -> None:
        self._command = command

    def perform(self, recording: Recording) -> str:
        """Return the command itself, marked as one."""
        return f'$({text(self._command, recording)})'


class FindPackageShare(Substitution):
    """Folder with the data of a package."""

    def __init__(self, package: str) -> None:
        self.package = package

    def perform(self, recording: Recording) -> str:
        """Return the folder; of other packages a name that no test mistakes for one."""
        if self.package != 'tendon':
            return f'PREFIX/share/{self.package}'
        return str(recording.share)


class FindPackagePrefix(FindPackageShare):
    """Folder that a package was installed to."""

    def perform(self, recording: Recording) -> str:
        """Return a name that no test mistakes for a folder."""
        return 'PREFIX'


class IfCondition:
    """Holds where its text is true."""

    wanted = True

    def __init__(self, predicate_expression: Any) -> None:
        self._text = predicate_expression

    def holds(self, recording: Recording) -> bool:
        """Evaluate as the real one does: true, 1, false and 0 are the only words."""
        value = text(self._text, recording).lower()
        assert value in ('true', '1', 'false', '0'), f'no condition: {value!r}'
        return (value in ('true', '1')) is self.wanted


class UnlessCondition(IfCondition):
    """Holds where its text is false."""

    wanted = False


class ParameterValue:
    """A parameter of a stated type."""

    def __init__(self, value: Any, *, value_type: type) -> None:
        self._value, self._type = value, value_type

    def typed(self, recording: Recording) -> Any:
        """Return the value. Raises ValueError if it is not of the type."""
        said = text(self._value, recording)
        if self._type is str:
            return said
        value = yaml.safe_load(said)
        if type(value) is not self._type:
            raise ValueError(f'{said!r} is no {self._type.__name__}')
        return value


def text(value: Any, recording: Recording) -> str:
    """Evaluate text, a substitution, or a list of them."""
    if isinstance(value, Substitution):
        return value.perform(recording)
    if isinstance(value, str):
        return value
    return ''.join(text(part, recording) for part in value)
