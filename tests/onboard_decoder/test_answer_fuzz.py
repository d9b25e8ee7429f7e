# SPDX-License-Identifier: Apache-2.0
"""Promises about answers that no sound backbone sends."""

import math
import time

from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from onboard_decoder import wire
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.planner_client import PlannerClient
from onboard_decoder.planner_port import TurnAnswer, TurnFailure
from protos import plan_pb2, planner_pb2
import pytest

from tests.fakes.scripted_planner import plan_of, ScriptedPlanner, step

ANY = st.floats(allow_nan=True, allow_infinity=True, width=32)
WHOLE = planner_pb2.TurnAnswer(
    turn_id='t', epoch=1,
    plan=plan_of(step('reach', (0.4, 0.0, 0.2)), step('grasp', (0.4, 0.0, 0.02)), latent=[0.5]),
)
BYTES = WHOLE.SerializeToString()


def check(answer):
    """Read an answer; what becomes a plan has finite numbers in their ranges only."""
    result = wire.from_answer(answer, 1, 2)
    assert isinstance(result, (TurnAnswer, TurnFailure))
    if isinstance(result, TurnAnswer):
        for part in result.plan.steps:
            assert all(map(math.isfinite, (part.speed, part.tool_yaw_rad, part.gripper_opening)))
            assert all(map(math.isfinite, part.target_in_base_m or ()))
            assert all(map(math.isfinite, part.point or ()))
            assert 0 < part.speed <= 1
        assert all(map(math.isfinite, (*result.plan.latent, result.plan.confidence)))
    wire.from_gap(answer)


def check_bytes(data):
    """The same with bytes, as far as they are a message at all."""
    try:
        answer = planner_pb2.TurnAnswer.FromString(data)
    except DecodeError:
        return
    check(answer)


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=200))
def test_random_bytes_are_a_plan_or_a_refusal(data):
    """Never an exception."""
    check_bytes(data)


@settings(deadline=None, max_examples=500)
@given(st.integers(0, len(BYTES) - 1), st.integers(0, 255), st.integers(0, len(BYTES)))
def test_a_sound_answer_with_a_wrong_byte_or_a_part_missing_is_a_plan_or_a_refusal(
    place, value, end
):
    """Wherever the damage is."""
    damaged = bytearray(BYTES)
    damaged[place] = value
    check_bytes(bytes(damaged))
    check_bytes(BYTES[:end])


@settings(deadline=None, max_examples=300)
@given(
    st.integers(-3, 20), st.integers(-3, 20), st.integers(-3, 20), st.lists(ANY, max_size=9),
    st.lists(ANY, min_size=7, max_size=7), st.booleans(), st.integers(-5, 40),
)
def test_any_values_in_a_sound_answer_are_a_plan_or_a_refusal(
    outcome, skill, success, latent, numbers, has_target, reason
):
    """Enums of later versions, NaN and infinity, and numbers out of their ranges."""
    part = plan_pb2.PlanStep(
        skill=skill, success=success, speed=numbers[0], gripper_opening=numbers[1],
        tool_yaw_rad=numbers[2],
    )
    if has_target:
        part.point.x, part.point.y = numbers[1:3]
        part.target_in_base_m.x, part.target_in_base_m.y, part.target_in_base_m.z = numbers[3:6]
    plan = plan_pb2.ActionPlan(
        outcome=outcome, steps=[part], latent=latent, confidence=numbers[6])
    check(planner_pb2.TurnAnswer(turn_id='t', plan=plan))
    error = planner_pb2.TurnError(reason=reason, remedy=skill, expected_entry=success)
    check(planner_pb2.TurnAnswer(turn_id='t', error=error))


@pytest.mark.parametrize('size', [(0, 128), (128, -1), (100_000, 128)])
def test_a_backbone_that_wants_no_possible_image_gets_no_session(size):
    """The robot says what was wanted, and goes on without."""
    with ScriptedPlanner(image_size=size) as planner, PlannerClient(
        planner.address, 'robot-1', load_manifest('tendon_arm')
    ) as client:
        deadline_s = time.monotonic() + 20.0
        while 'wants images of' not in client.state().reason:
            assert time.monotonic() < deadline_s, client.state().reason
            time.sleep(0.01)

        assert f'{size[0]}x{size[1]}' in client.state().reason
        assert client.state().grant is None
