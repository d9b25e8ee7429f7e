# SPDX-License-Identifier: Apache-2.0
"""The small planner moves as the backbone would: same camera, same heights, same ways."""

from cloud_backbone.embodiment import Camera, Embodiment
from cloud_backbone.grounding import Grounder
from cloud_backbone.plan_grammar import PlanDraft
from cloud_backbone.plan_vocabulary import Thing, Vocabulary
from hypothesis import given
from hypothesis import strategies as st
import numpy as np
from onboard_decoder.agent.camera_view import point_in_image
from onboard_decoder.fallback.heard_request import Named
from onboard_decoder.fallback.simple_steps import OutOfReach, SimpleSteps
from onboard_decoder.fallback.table_point import point_at_height
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.training.planner_export import KINDS
import pytest

MANIFEST = load_manifest('tendon_arm')
CAMERA = MANIFEST.cameras[0]
STEPS = SimpleSteps(MANIFEST)
BACKBONE = Grounder(
    Embodiment(
        MANIFEST.name, MANIFEST.joint_names,
        (Camera(
            CAMERA.name, CAMERA.width_px, CAMERA.height_px, CAMERA.vertical_fov_rad,
            CAMERA.camera_in_base_m, CAMERA.camera_to_base_wxyz,
        ),),
        MANIFEST.gripper.joint, MANIFEST.workspace.lower_m, MANIFEST.workspace.upper_m,
        MANIFEST.table_height_m,
    ),
    Vocabulary(),
)
THINGS = [kind for kind in KINDS if not kind.is_container]
BIN = next(kind for kind in KINDS if kind.is_container)
shares = st.floats(0.2, 0.8)
points = st.tuples(shares, shares)


def plain(steps):
    """What a step is, whoever made it."""
    return [
        (
            step.skill.name, getattr(step, 'target_in_base', getattr(step, 'target_in_base_m', 0)),
            step.gripper_opening, step.speed, step.success.name,
            getattr(step, 'thing', getattr(step, 'object_name', '')), step.point,
        )
        for step in steps
    ]


def same(ours, theirs):
    for mine, other in zip(plain(ours), plain(theirs), strict=True):
        assert mine[0] == other[0] and mine[2:] == other[2:]
        if mine[1] is not None:
            assert mine[1] == pytest.approx(other[1], abs=1e-6)
        else:
            assert other[1] is None


def taken(kind, point):
    named = Named('red', kind)
    spot = STEPS.spot(named, point)
    return spot, STEPS.take(spot)


@given(st.sampled_from(THINGS), points)
def test_a_pick_is_the_backbones_pick(kind, point):
    """For a thing that is not turned, the steps are equal, or both say that it is out of reach."""
    draft = PlanDraft('steps', Thing('red', kind.name), None, point, None, 'pick')
    theirs = BACKBONE.ground(draft)
    try:
        spot, steps = taken(kind, point)
    except OutOfReach as error:
        assert theirs.outcome.name == 'REFUSED' and theirs.reason == str(error)
        return
    same((*steps, STEPS.hold(spot)), theirs.steps)


@given(st.sampled_from(THINGS), points, points)
def test_a_put_is_the_backbones_put(kind, point, place):
    """The same for bringing a thing into a container."""
    draft = PlanDraft(
        'steps', Thing('red', kind.name), Thing('blue', 'bin'), point, place, 'put')
    theirs = BACKBONE.ground(draft)
    try:
        _, steps = taken(kind, point)
        down = STEPS.put_down(STEPS.spot(Named('blue', BIN), place))
    except OutOfReach:
        assert theirs.outcome.name == 'REFUSED'
        return
    same((*steps, *down), theirs.steps)


@given(points, st.floats(0.0, 0.1))
def test_the_way_back_from_the_image_is_the_way_there(point, height_m):
    """A point on a plane above the table is seen where it was read from."""
    found = point_at_height(CAMERA, point, height_m)
    assert found is not None
    assert point_in_image(CAMERA, np.array(found)) == pytest.approx(point, abs=1e-6)


def test_a_ray_that_never_comes_down_meets_no_table():
    """Above the horizon there is nothing to take."""
    assert point_at_height(CAMERA, (0.5, -3.0), 0.0) is None


def test_the_gripper_turns_as_the_thing_lies():
    """A turned cube is taken across its sides, and put down straight."""
    cube = next(kind for kind in KINDS if kind.name == 'cube')
    spot = STEPS.spot(Named('red', cube), (0.5, 0.5), yaw_rad=0.4)
    assert {step.tool_yaw_rad for step in STEPS.take(spot)} == {0.4}
    down = STEPS.put_down(STEPS.spot(Named('blue', BIN), (0.4, 0.5)))
    assert {step.tool_yaw_rad for step in down} == {0.0}


def test_both_sides_know_the_same_kinds():
    """Heights of the small planner's file are those of the backbone's vocabulary."""
    theirs = Vocabulary().kinds
    assert [kind.name for kind in KINDS] == list(theirs)
    for kind in KINDS:
        other = theirs[kind.name]
        assert (kind.label_height_m, kind.is_container) == (other.label_height_m, other.container)
        assert kind.grasp_height_m == other.grasp_height_m
