# SPDX-License-Identifier: Apache-2.0
"""Errors of the simulation.

SimError
├── DisplayError      no off-screen rendering on this machine; the message names the remedy
├── GazeboUnavailable Gazebo cannot be had or started here; the message says why
├── GazeboLost        a running Gazebo ended or fell silent
├── SceneError        a scene that cannot be drawn or shown
└── CommandError      a joint command that the arm cannot take
"""

from __future__ import annotations

from collections.abc import Sequence


class SimError(Exception):
    """Base of all errors that the simulation raises on purpose."""


class DisplayError(SimError):
    """Off-screen rendering does not work here."""

    def __init__(self, back_end: str, cause: object) -> None:
        super().__init__(
            f'off-screen rendering with MUJOCO_GL={back_end!r} failed ({cause}). '
            'Install the software renderer: '
            'sudo apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri, '
            'or: sudo apt-get install libosmesa6 and set MUJOCO_GL=osmesa. '
            'Set the variable before anything imports mujoco.'
        )


class GazeboUnavailable(SimError):
    """Gazebo cannot be had, or not be started, on this machine."""

    def __init__(self, why: str) -> None:
        super().__init__(f'no Gazebo: {why}')


class GazeboLost(SimError):
    """A Gazebo that was running ended or fell silent."""

    def __init__(self, what: str) -> None:
        super().__init__(f'Gazebo is lost: {what}')


class SceneError(SimError):
    """A value of a scene is outside what the simulation offers."""

    def __init__(self, what: str, value: object, allowed: Sequence[object] | str) -> None:
        choices = allowed if isinstance(allowed, str) else ', '.join(str(a) for a in allowed)
        super().__init__(f'{what} is {value!r}; allowed: {choices}')


class CommandError(SimError):
    """A joint command is refused."""

    def __init__(self, what: str, value: object, allowed: Sequence[object] | str) -> None:
        choices = allowed if isinstance(allowed, str) else ', '.join(str(a) for a in allowed)
        super().__init__(f'joint command refused: {what} is {value!r}; allowed: {choices}')
