# SPDX-License-Identifier: Apache-2.0
import math

from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from onboard_decoder.errors import PlanRefused
from onboard_decoder.plan import Outcome, Skill
from onboard_decoder.planner_port import Remedy, TurnAnswer, TurnFailure
from onboard_decoder.wire import from_answer, from_plan
from protos import plan_pb2, planner_pb2
import pytest

from tests.fakes.scripted_planner import plan_of, step

GOOD = plan_of(
    step('reach', (0.4, 0.0, 0.2), thing='red cube'), step('hold'), step('home'), latent=[0.1]
)


def is_executable(plan):
    """Every number is one that the robot may act on."""
    return all(
        (s.target_in_base_m is None or all(map(math.isfinite, s.target_in_base_m)))
        and math.isfinite(s.tool_yaw_rad)
        and 0 <= s.gripper_opening <= 1 and 0 < s.speed <= 1
        for s in plan.steps
    ) and all(map(math.isfinite, plan.latent))


def test_a_good_plan_is_read_whole():
    """Skill, target, thing and latent; steps without target where that is allowed."""
    plan = from_plan(GOOD)

    assert [s.skill for s in plan.steps] == [Skill.REACH, Skill.HOLD, Skill.HOME]
    assert plan.steps[0].target_in_base_m == (0.4, 0.0, 0.2)
    assert plan.steps[0].object_name == 'red cube'
    assert plan.steps[1].target_in_base_m is None
    assert plan.latent == pytest.approx((0.1,))


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=8))
def test_damaged_bytes_give_an_executable_plan_or_a_refusal(damage):
    """Nothing between the two, whatever the wire did."""
    data = bytearray(GOOD.SerializeToString())
    for position, value in damage:
        data[position % len(data)] = value
    try:
        message = plan_pb2.ActionPlan.FromString(bytes(data))
    except DecodeError:
        return
    try:
        plan = from_plan(message)
    except PlanRefused:
        return

    assert is_executable(plan)
    assert (plan.outcome is Outcome.STEPS) == bool(plan.steps)


@pytest.mark.parametrize(('change', 'words'), [
    ({'outcome': 0}, 'outcome 0 is unknown'),
    ({'outcome': 99}, 'outcome 99 is unknown'),
    ({'outcome': plan_pb2.PLAN_OUTCOME_DONE}, 'outcome done with 3 steps'),
    ({'latent': [math.inf]}, 'latent is not finite'),
])
def test_plans_that_contradict_themselves_are_refused(change, words):
    """Each with its own sentence."""
    plan = plan_pb2.ActionPlan()
    plan.CopyFrom(GOOD)
    for name, value in change.items():
        if name == 'latent':
            plan.latent[:] = value
        else:
            setattr(plan, name, value)

    with pytest.raises(PlanRefused, match=words):
        from_plan(plan)


def test_an_answer_without_plan_or_error_is_a_failure():
    """An empty message is no plan."""
    empty = from_answer(planner_pb2.TurnAnswer(turn_id='t'), 1, 2)
    good = from_answer(planner_pb2.TurnAnswer(turn_id='t', plan=GOOD), 1, 2)

    assert isinstance(empty, TurnFailure)
    assert isinstance(good, TurnAnswer)
    assert (good.sent_ns, good.received_ns) == (1, 2)


def test_a_reason_of_a_later_version_is_a_failure_like_others():
    """It has a number where the others have a name; message and remedy are read."""
    error = planner_pb2.TurnError(
        reason=99, remedy=planner_pb2.REMEDY_FIX_REQUEST, message='too wide'
    )
    failure = from_answer(planner_pb2.TurnAnswer(turn_id='t', error=error), 1, 2)

    assert (failure.reason, failure.message) == ('reason 99', 'too wide')
    assert failure.remedy is Remedy.FIX
