# SPDX-License-Identifier: Apache-2.0

"""What can go wrong on the robot's side, one class per reaction of the caller.

::

    OnboardError
    |-- ConfigError                 fix the file, then start again
    |   |-- ManifestError           the robot's manifest contradicts itself
    |   |-- SettingsError           a setting is out of its range
    |   `-- DecoderMismatch         decoder and manifest are of different robots
    |-- ObservationError            drop this message, report it, go on
    |   |-- JointsRefused           joint message unusable
    |   `-- ImageRefused            image unusable
    |-- InstructionRefused          tell the person who asked
    |-- PlanRefused                 the backbone's plan breaks the contract: ask again
    |-- ChunkRefused                the decoder's output is unusable: brake
    `-- PlannerUnavailable          no session now: hold, try later

Every class builds its own message with the value and the allowed values.
"""

from collections.abc import Iterable


class OnboardError(Exception):
    """Base of all errors of this package."""


class ConfigError(OnboardError):
    """Something that only a person can fix, before the start."""


class ManifestError(ConfigError):
    """The manifest is unreadable or contradicts itself."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f'manifest, {where}: {problem}')


class SettingsError(ConfigError):
    """A setting is out of its range."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        super().__init__(f'setting {name} is {value!r}; it must be {allowed}')


class DecoderMismatch(ConfigError):
    """The decoder was trained for another robot than the manifest describes."""

    def __init__(self, what: str, decoder: object, manifest: object) -> None:
        super().__init__(
            f'decoder and manifest differ in {what}: decoder has {decoder}, manifest has '
            f'{manifest}; use the decoder of this robot or train one with "tendon distill"'
        )


class ObservationError(OnboardError):
    """One message from the robot's sensors is unusable."""


class JointsRefused(ObservationError):
    """A joint message is unusable."""

    @classmethod
    def missing(cls, missing: Iterable[str], got: Iterable[str]) -> 'JointsRefused':
        """Some joints of the manifest are not in the message."""
        return cls(f'joints {_list(missing)} are missing; the message has {_list(got)}')

    @classmethod
    def not_finite(cls, joint: str, value: float) -> 'JointsRefused':
        """A value is NaN or infinite."""
        return cls(f'joint {joint} is {value}; it must be finite')

    @classmethod
    def out_of_range(
        cls, joint: str, value: float, lower: float, upper: float, unit: str
    ) -> 'JointsRefused':
        """A value is so far outside the limits that its unit must be wrong."""
        return cls(
            f'joint {joint} is {value:.4g}; its range is {lower:.4g} to {upper:.4g} {unit}: '
            f'is the driver publishing another unit?'
        )

    @classmethod
    def wrong_width(cls, what: str, got: int, names: int) -> 'JointsRefused':
        """An array does not match the list of names."""
        return cls(f'{got} {what} for {names} joint names')


class ImageRefused(ObservationError):
    """An image is unusable."""


class InstructionRefused(OnboardError):
    """An instruction, or an answer to the robot's question, cannot be taken."""

    def __init__(self, problem: str, limit: int, what: str = 'instruction') -> None:
        super().__init__(f'{what} {problem}; it must have 1 to {limit} characters of text')


class StopPressed(InstructionRefused):
    """An instruction came while the emergency stop is pressed."""

    def __init__(self, instruction: str) -> None:
        OnboardError.__init__(
            self, f'instruction {instruction!r} is refused: the emergency stop is pressed; '
            'release it (false on the topic estop), then say it again'
        )


class PlanRefused(OnboardError):
    """A plan breaks the contract of the wire."""

    def __init__(self, problem: str) -> None:
        super().__init__(f'plan refused: {problem}')


class ChunkRefused(OnboardError):
    """A chunk of joint targets is unusable."""

    def __init__(self, problem: str) -> None:
        super().__init__(f'chunk refused: {problem}')


class PlannerUnavailable(OnboardError):
    """There is no session with a backbone now."""

    def __init__(self, reason: str) -> None:
        super().__init__(f'no backbone: {reason}')


def _list(names: Iterable[str]) -> str:
    """Names for a sentence."""
    return ', '.join(names) or 'none'
