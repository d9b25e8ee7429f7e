# SPDX-License-Identifier: Apache-2.0
"""All numbers of the robot's behaviour that are no property of an arm, in one tree of settings.

Built once, at the entry point; a value out of its range is refused then. Numbers of an arm are in
its manifest.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar

from onboard_decoder.errors import SettingsError

Number = TypeVar('Number', int, float)
Setting = int | float | str


def bounded(default: Number, low: Number, high: Number, text: str) -> Number:
    """Declare a setting: its default, its range (both ends allowed), and what it means."""
    value: Number = field(default=default, metadata={'low': low, 'high': high, 'text': text})
    return value


def choice(default: str, allowed: tuple[str, ...], text: str) -> str:
    """Declare a setting that is one of a few words, and what it means."""
    value: str = field(default=default, metadata={'allowed': allowed, 'text': text})
    return value


class _Checked:
    """Refuses values outside what ``bounded`` and ``choice`` declared."""

    def __post_init__(self) -> None:
        for entry in fields(self):  # type: ignore[arg-type]
            value = getattr(self, entry.name)
            if 'allowed' in entry.metadata:
                _check_word(entry.name, value, entry.metadata['allowed'])
            else:
                _check_number(entry.name, value, entry.metadata, isinstance(entry.default, int))


def _check_word(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Refuse what is not one of the words."""
    if value not in allowed:
        raise SettingsError(name, value, f'one of {", ".join(allowed)}')


def _check_number(
    name: str, value: object, metadata: Mapping[str, float], must_be_whole: bool
) -> None:
    """Refuse what is no number of the range."""
    low, high = metadata['low'], metadata['high']
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise SettingsError(name, value, 'a number')
    if not low <= value <= high:
        raise SettingsError(name, value, f'in {low:g}..{high:g}')
    if must_be_whole and not isinstance(value, int):
        raise SettingsError(name, value, 'a whole number')


@dataclass(frozen=True)
class ChunkSettings(_Checked):
    """How chunks of joint targets are made and played."""

    decode_every_ticks: int = bounded(15, 8, 100, 'Ticks between two runs of the decoder')
    fade_ticks: int = bounded(
        10, 1, 50, 'Ticks in which the offset between two chunks fades out, at least'
    )
    fade_share: float = bounded(
        0.7, 0.05, 1.0, 'Share of each limit of a joint that a fade may take; else it lasts longer'
    )
    chunk_max_age_s: float = bounded(
        0.6, 0.02, 10.0,
        'How long a chunk is played where no newer one takes over, besides what it took itself [s]'
    )
    finger_off_s: float = bounded(
        0.1, 0.01, 2.0,
        'Fingers off by more than they move in this time: plan from where they are [s]'
    )
    lag_s: float = bounded(
        0.15, 0.02, 2.0,
        'Arm behind by half of what it moves in this time: play slower; by all of it: wait [s]'
    )
    decode_slow_s: float = bounded(0.02, 0.001, 1.0, 'A decoder run above this is a fault [s]')
    decode_window: int = bounded(20, 1, 1000, 'Runs that the delay estimate looks back on')
    follow_gain_per_s: float = bounded(
        12.0, 1.0, 50.0, 'How fast the commands close a distance to the chunk [1/s]'
    )


@dataclass(frozen=True)
class SuccessSettings(_Checked):
    """When a step counts as done."""

    at_target_m: float = bounded(0.012, 0.001, 0.2, 'Distance of the tool to its target [m]')
    remaining_s: float = bounded(0.08, 0.0, 2.0, 'What the decoder says is left of the step [s]')
    rest_ratio: float = bounded(
        0.02, 0.001, 0.5, 'At rest: no joint faster than this share of its limit'
    )
    settle_s: float = bounded(0.1, 0.0, 5.0, 'How long the condition must hold [s]')
    doubt_s: float = bounded(0.6, 0.0, 10.0, 'The same where the decoder expects more to come [s]')
    holding_margin: float = bounded(
        0.08, 0.0, 0.4, 'Holding: fingers at least this far, as opening, from closed and from open'
    )
    released_margin: float = bounded(
        0.15, 0.0, 0.5, 'Released: opening at least the wanted one less this'
    )
    lost_s: float = bounded(0.3, 0.02, 5.0, 'Fingers closed this long: the thing is lost [s]')


@dataclass(frozen=True)
class TaskLimits(_Checked):
    """Limits of one task: attempts, turns, time."""

    max_attempts: int = bounded(3, 1, 20, 'Plans that are executed for one instruction')
    max_turns: int = bounded(30, 1, 1000, 'Questions to the backbone for one instruction')
    max_task_s: float = bounded(
        180.0, 1.0, 86400.0, 'Time for one instruction; of mode react: for each of its trials [s]'
    )
    step_timeout_s: float = bounded(8.0, 0.1, 600.0, 'Time for one step [s]')
    turn_deadline_s: float = bounded(
        5.0, 0.02, 600.0, 'Time after which an answer is of no use [s]'
    )
    retry_first_s: float = bounded(0.2, 0.0, 60.0, 'Wait before the first repeated question [s]')
    retry_most_s: float = bounded(2.0, 0.0, 600.0, 'Longest wait between two questions [s]')
    planner_wait_s: float = bounded(
        60.0, 0.1, 86400.0, 'How long a task waits without a backbone, then gives up [s]'
    )
    look_wait_s: float = bounded(5.0, 0.1, 600.0, 'How long a task waits for a fresh image [s]')
    retreat_m: float = bounded(0.15, 0.0, 1.0, 'How far the tool goes up after a failed step [m]')


@dataclass(frozen=True)
class WatchdogLimits(_Checked):
    """Ages after which something counts as missing."""

    joints_stale_s: float = bounded(0.25, 0.02, 10.0, 'Age of the joints: brake [s]')
    image_stale_s: float = bounded(1.0, 0.02, 60.0, 'Age of the image when one is needed [s]')
    joints_frozen_s: float = bounded(
        0.15, 0.02, 10.0,
        'Joints the same to the last bit for this long, though led away: brake [s]'
    )
    joints_led_s: float = bounded(
        0.05, 0.005, 10.0, 'How far they must be led for that, as time at full speed [s]'
    )
    image_frozen_s: float = bounded(
        1.0, 0.1, 60.0, 'Images the same to the last bit for this long, though the tool moves [s]'
    )
    image_moved_m: float = bounded(0.15, 0.01, 10.0, 'How far it must move in them for that [m]')
    plan_late_s: float = bounded(0.25, 0.02, 60.0, 'A turn without an answer is late [s]')
    no_plan_s: float = bounded(5.0, 0.1, 600.0, 'A task without a plan for this long: a fault [s]')
    link_slow_s: float = bounded(
        0.1, 0.001, 10.0, 'Smoothed round trip to the backbone above this is a fault [s]'
    )
    silence_s: float = bounded(
        0.25, 0.12, 10.0, 'Backbone not heard for this long: silent [s]'
    )
    range_tolerance: float = bounded(
        0.25, 0.0, 10.0,
        'Measured joint beyond its limits by more than this share of its range: wrong unit'
    )


@dataclass(frozen=True)
class AgentSettings(_Checked):
    """How the agent works, and every limit of its loop; see ``agent.react_loop``."""

    mode: str = choice(
        'plan', ('plan', 'react'),
        'plan: whole plans, judged by a new look; react: one tool call after the other'
    )
    watch: str = choice(
        'off', ('off', 'repair', 'exact'),
        'What a change seen before contact does; off: nothing; repair: ask on while moving, stop '
        'if the choice changes; exact: stop and ask anew'
    )
    plan_ahead: str = choice(
        'on', ('off', 'on'), 'Ask the next question while the last of a motion plays'
    )
    ahead_most_s: float = bounded(
        0.4, 0.0, 5.0, 'Earliest moment of that, before the end of the motion [s]'
    )
    ahead_image_s: float = bounded(0.1, 0.0, 2.0, 'How long an image may be waited for then [s]')
    ahead_wait_s: float = bounded(
        0.5, 0.02, 10.0, 'How long such an answer waits for an image of the resting arm [s]'
    )
    max_trials: int = bounded(3, 1, 10, 'Trials of one instruction')
    max_steps: int = bounded(20, 1, 200, 'Tool calls of one trial')
    max_repeats: int = bounded(
        2, 1, 20, 'Times that a call that failed may be made while nothing changes in the image'
    )
    max_same_failures: int = bounded(3, 1, 50, 'Times that the same call may fail the same way')
    max_fruitless: int = bounded(5, 1, 50, 'Tool calls in a row without progress')
    max_bad_calls: int = bounded(2, 1, 20, 'Answers of one trial that are no tool call')
    max_refusals: int = bounded(3, 1, 20, 'Tool calls of one trial that are refused on board')
    max_overclaims: int = bounded(3, 1, 20, 'Claims of one trial that a second look denies')
    max_turns: int = bounded(80, 1, 10000, 'Questions to the backbone for one instruction')
    max_tokens: int = bounded(
        200000, 100, 10**9, 'Tokens that the backbone computes for one instruction'
    )
    tool_deadline_s: float = bounded(40.0, 0.5, 600.0, 'Time for one tool call [s]')
    ask_wait_s: float = bounded(60.0, 0.1, 86400.0, 'How long a person may take to answer [s]')
    reflect_wait_s: float = bounded(10.0, 0.1, 600.0, 'Time for the lesson of a trial [s]')
    scene_max_age_s: float = bounded(
        8.0, 0.05, 600.0, 'Age of the image that a call rests on, above which it is not begun [s]'
    )
    max_lessons: int = bounded(200, 1, 100000, 'Lessons that are kept')
    lessons_in_use: int = bounded(3, 0, 3, 'Lessons that a trial is given')
    watch_period_s: float = bounded(0.2, 0.02, 10.0, 'Time between two looks while moving [s]')
    watch_turns: int = bounded(4, 1, 100, 'Questions that one tool call may cause while moving')
    watch_wait_s: float = bounded(
        1.5, 0.02, 60.0, 'How long the arm waits before contact for such an answer [s]'
    )
    watch_target_m: float = bounded(
        0.015, 0.001, 0.2, 'A target that moves farther than this is another choice [m]'
    )
    watch_radius: float = bounded(
        0.08, 0.01, 1.0, 'What is watched around a target, as share of the image'
    )
    watch_share: float = bounded(
        0.06, 0.001, 1.0, 'Share of the pixels watched that must change to count'
    )


@dataclass(frozen=True)
class OffloadSettings(_Checked):
    """Who plans a turn, the backbone or the small planner; see ``fallback.offloading``."""

    mode: str = choice(
        'auto', ('cloud', 'auto', 'onboard'),
        'cloud: the backbone alone; auto: the small planner where the link is bad; onboard: the '
        'small planner alone'
    )
    min_confidence: float = bounded(
        0.85, 0.0, 1.0, 'Confidence below which the small planner leaves a turn to the backbone'
    )
    late_s: float = bounded(
        1.0, 0.05, 60.0, 'Backbone without an answer for this long: the small planner is asked [s]'
    )
    enter_s: float = bounded(
        0.8, 0.02, 60.0, 'Answer expected later than this: the small planner plans [s]'
    )
    leave_s: float = bounded(
        0.5, 0.01, 60.0, 'Answers expected sooner than this: the backbone plans again [s]'
    )
    dwell_s: float = bounded(
        3.0, 0.0, 600.0, 'How long they must be, without a break, before it does [s]'
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.leave_s > self.enter_s:
            raise SettingsError('leave_s', self.leave_s, f'at most enter_s, {self.enter_s:g}')


@dataclass(frozen=True)
class RobotSettings:
    """Everything that the robot's behaviour depends on besides its manifest."""

    chunks: ChunkSettings = field(default_factory=ChunkSettings)
    success: SuccessSettings = field(default_factory=SuccessSettings)
    limits: TaskLimits = field(default_factory=TaskLimits)
    watchdog: WatchdogLimits = field(default_factory=WatchdogLimits)
    agent: AgentSettings = field(default_factory=AgentSettings)
    offload: OffloadSettings = field(default_factory=OffloadSettings)

    def changed(self, values: Mapping[str, Setting]) -> 'RobotSettings':
        """Return a copy with settings replaced, named as 'limits.max_attempts'.

        Raises:
          SettingsError: for an unknown name or a value out of its range.
        """
        groups = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        for name, value in values.items():
            group, _, key = name.partition('.')
            if group not in groups or key not in {entry.name for entry in fields(groups[group])}:
                raise SettingsError(name, value, f'one of {", ".join(setting_names())}')
            groups[group] = replace(groups[group], **{key: value})
        return RobotSettings(**groups)


def setting_names() -> list[str]:
    """Return all names that ``RobotSettings.changed`` takes."""
    defaults = RobotSettings()
    return [
        f'{group.name}.{entry.name}'
        for group in fields(defaults)
        for entry in fields(getattr(defaults, group.name))
    ]
