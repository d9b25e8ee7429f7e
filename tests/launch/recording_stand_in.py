# SPDX-License-Identifier: Apache-2.0
"""A stand-in for ROS 2 launch that starts nothing and records what would be started.

Not the real ``launch``: it knows only the constructs that our launch files use, with the rules of
the real one. Where it is stricter it is so on purpose: an unknown argument is an error here.
``installed_as_launch`` puts it into ``sys.modules`` for the time of a test.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
import importlib.util
from pathlib import Path
import sys
from types import ModuleType
from typing import Any
from unittest import mock

from tests.launch.recorded_values import (
    Command,
    FindPackagePrefix,
    FindPackageShare,
    IfCondition,
    LaunchConfiguration,
    ParameterValue,
    PathJoinSubstitution,
    Process,
    Recording,
    text,
    UnlessCondition,
)


class Action:
    """One entry of a launch description."""

    def __init__(self, *, condition: IfCondition | None = None) -> None:
        self._condition = condition

    def visit(self, recording: Recording) -> None:
        """Record it where its condition holds."""
        if self._condition is None or self._condition.holds(recording):
            self.record(recording)

    def record(self, recording: Recording) -> None:
        """Record it."""
        raise NotImplementedError


class DeclareLaunchArgument(Action):
    """An argument with its default and, perhaps, its only values."""

    def __init__(
        self, name: str, *, default_value: Any = None, description: str,
        choices: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        self.name, self._default, self.description = name, default_value, description
        self.choices = choices

    def record(self, recording: Recording) -> None:
        """Take the given value, else the default; refuse what is no choice."""
        recording.declared.setdefault(self.name, self)
        value = recording.configurations.get(self.name, recording.given.get(self.name))
        if value is None:
            assert self._default is not None, f'argument {self.name} is required'
            value = text(self._default, recording)
        if self.choices is not None and value not in self.choices:
            raise ValueError(f'{self.name} is {value!r}; choices: {", ".join(self.choices)}')
        recording.configurations[self.name] = value


class SetEnvironmentVariable(Action):
    """A variable of all processes that come later."""

    def __init__(self, name: str, value: Any) -> None:
        super().__init__()
        self._name, self._value = name, value

    def record(self, recording: Recording) -> None:
        """Keep it."""
        recording.environment[self._name] = text(self._value, recording)


class LogInfo(Action):
    """A line for people."""

    def __init__(self, *, msg: Any, condition: IfCondition | None = None) -> None:
        super().__init__(condition=condition)
        self._message = msg

    def record(self, recording: Recording) -> None:
        """Keep it."""
        recording.log.append(text(self._message, recording))


class ExecuteProcess(Action):
    """A program that is no ROS node."""

    def __init__(
        self, *, cmd: Sequence[Any], name: str, output: str = 'log',
        condition: IfCondition | None = None,
    ) -> None:
        super().__init__(condition=condition)
        self._command, self._name = cmd, name

    def record(self, recording: Recording) -> None:
        """Record the process."""
        program, *arguments = (text(part, recording) for part in self._command)
        recording.processes.append(Process(self._name, program, arguments))


class Node(Action):
    """A ROS node; found in PREFIX/lib/PACKAGE only, as by the real one."""

    def __init__(
        self, *, package: str, executable: str, name: str, namespace: Any = '',
        parameters: Sequence[Any] = (), remappings: Sequence[tuple[Any, Any]] = (),
        arguments: Sequence[Any] = (), output: str = 'log',
        condition: IfCondition | None = None,
    ) -> None:
        super().__init__(condition=condition)
        self._program = f'PREFIX/lib/{package}/{executable}'
        self._name, self._namespace, self._arguments = name, namespace, arguments
        self._parameters, self._remappings = parameters, remappings

    def record(self, recording: Recording) -> None:
        """Record the process."""
        recording.processes.append(Process(
            self._name, self._program, [text(part, recording) for part in self._arguments],
            text(self._namespace, recording),
            [_parameters(entry, recording) for entry in self._parameters],
            {text(old, recording): text(new, recording) for old, new in self._remappings},
            is_node=True,
        ))


class PythonLaunchDescriptionSource:
    """A launch file in Python."""

    def __init__(self, launch_file_path: Any) -> None:
        self.path = launch_file_path


class IncludeLaunchDescription(Action):
    """Another launch file; as with the real one, its arguments stay set afterwards."""

    def __init__(
        self, source: PythonLaunchDescriptionSource, *,
        launch_arguments: Iterable[tuple[str, Any]] = (), condition: IfCondition | None = None,
    ) -> None:
        super().__init__(condition=condition)
        self._source, self._arguments = source, list(launch_arguments)

    def record(self, recording: Recording) -> None:
        """Carry the other file out in the same recording."""
        path = Path(text(self._source.path, recording))
        if path.parts[0] == 'PREFIX':
            recording.foreign['/'.join(path.parts[2:])] = {
                name: text(value, recording) for name, value in self._arguments}
            return
        recording.included.append(path.name)
        for name, value in self._arguments:
            recording.configurations[name] = text(value, recording)
        entities = load(path).entities
        known = {entry.name for entry in entities if isinstance(entry, DeclareLaunchArgument)}
        unknown = {name for name, _ in self._arguments} - known
        assert not unknown, f'{path.name} declares no {unknown}'
        for entity in entities:
            entity.visit(recording)


@dataclass
class LaunchDescription:
    """Entries in order."""

    entities: Sequence[Action]


def _parameters(entry: Any, recording: Recording) -> Path | dict[str, Any]:
    if not isinstance(entry, Mapping):
        return Path(text(entry, recording))
    return {
        name: value.typed(recording) if isinstance(value, ParameterValue) else value
        for name, value in entry.items()
    }


def load(path: Path) -> LaunchDescription:
    """Run a launch file and return its description."""
    spec = importlib.util.spec_from_file_location(path.name.replace('.', '_'), path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    description = module.generate_launch_description()
    assert isinstance(description, LaunchDescription)
    return description


def record(path: Path, **given: str) -> Recording:
    """Carry a launch file out as ``ros2 launch`` would with these arguments."""
    recording = Recording(path.parents[1], given)
    with installed_as_launch():
        for entity in load(path).entities:
            entity.visit(recording)
    unknown = set(given) - set(recording.declared)
    assert not unknown, f'{path.name} declares no {unknown}'
    return recording


MODULES = {
    'launch': [LaunchDescription],
    'launch.action': [Action],
    'launch.actions': [
        DeclareLaunchArgument, ExecuteProcess, IncludeLaunchDescription, LogInfo,
        SetEnvironmentVariable,
    ],
    'launch.conditions': [IfCondition, UnlessCondition],
    'launch.launch_description_sources': [PythonLaunchDescriptionSource],
    'launch.substitutions': [Command, LaunchConfiguration, PathJoinSubstitution],
    'launch_ros': [],
    'launch_ros.actions': [Node],
    'launch_ros.parameter_descriptions': [ParameterValue],
    'launch_ros.substitutions': [FindPackagePrefix, FindPackageShare],
}


@contextmanager
def installed_as_launch() -> Iterator[None]:
    """Let ``import launch`` find this stand-in."""
    modules = {}
    for name, classes in MODULES.items():
        modules[name] = ModuleType(name, 'recording stand-in of the tests')
        for entry in classes:
            setattr(modules[name], entry.__name__, entry)
    with mock.patch.dict(sys.modules, modules):
        yield
