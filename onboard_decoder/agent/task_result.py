# SPDX-License-Identifier: Apache-2.0
"""How tasks and trials end, and the codes of what went wrong. Plain values."""

from dataclasses import dataclass
from enum import Enum


class TaskOutcome(Enum):
    """How a task ended."""

    DONE = 'done'
    REFUSED = 'refused'
    FAILED = 'failed'
    STOPPED = 'stopped'


class TrialEnd(Enum):
    """Why a trial ended; each reason has its own word."""

    HELD = 'held'  # done: the gripper holds it
    CONFIRMED = 'confirmed'  # done: a second look agrees
    REFUSED = 'refused'  # the agent stopped before it tried anything
    GAVE_UP = 'gave_up'  # the agent stopped later
    UNANSWERED = 'unanswered'  # the agent stopped because no person answered
    STEP_LIMIT = 'step_limit'
    EXHAUSTED = 'exhausted'  # the same again, and nothing changes
    NO_PROGRESS = 'no_progress'
    BAD_CALLS = 'bad_calls'
    REFUSALS = 'refusals'
    OVERCLAIM = 'overclaim'
    TURN_LIMIT = 'turn_limit'
    TOKEN_LIMIT = 'token_limit'
    TIME_LIMIT = 'time_limit'
    NO_IMAGE = 'no_image'
    NO_ANSWER = 'no_answer'
    STOPPED = 'stopped'  # by a person, or by another instruction


class FailureCode(Enum):
    """What was wrong with one step; a step that failed has exactly one."""

    STALE = 'perception_stale'
    ORDER = 'planning_order'  # the pre-condition of the tool did not hold
    FORMAT = 'format'
    UNREACHABLE = 'motion_unreachable'
    MOTION = 'motion_failed'
    TIMEOUT = 'motion_timeout'
    MISS = 'grasp_miss'
    SLIP = 'grasp_slip'
    DROP = 'grasp_drop'
    REVISED = 'revised'  # stopped before contact, because the choice changed
    LINK = 'link'
    SAFETY = 'safety'  # a person stopped the arm
    PERSON = 'person'  # no answer
    OVERCLAIM = 'overclaim'
    BUDGET = 'budget'


@dataclass(frozen=True, slots=True)
class Task:
    """One instruction; ``number`` tells tasks of one robot apart."""

    number: int
    instruction: str


@dataclass(frozen=True, slots=True)
class TaskResult:
    """A task that is over.

    ``attempts`` counts executed plans in mode plan and trials in mode react. What follows
    ``duration_s`` is of mode react: why the last trial ended, how many tool calls all trials had,
    and how many claims to be done a second look denied.
    """

    instruction: str
    outcome: TaskOutcome
    reason: str
    attempts: int
    turns: int
    duration_s: float
    end: TrialEnd | None = None
    steps: int = 0
    overclaims: int = 0
