# SPDX-License-Identifier: Apache-2.0
"""Promises of grounding: from a point in the image to steps in the base frame."""

from dataclasses import replace

from cloud_backbone.action_plan import Outcome, Skill, Step, Success
from cloud_backbone.embodiment import Camera, Embodiment, Vector
from cloud_backbone.grounding import Grounder
from cloud_backbone.plan_grammar import PlanDraft, Point
from cloud_backbone.plan_vocabulary import Thing, Vocabulary
from cloud_backbone.projection import point_at_height, ray_in_base
import pytest

# The front camera of the arm in this repository.
FRONT = Camera(
    'front', 256, 256, 0.62831853, (1.10, 0.0, 0.80),
    (-0.23149713, 0.66813852, 0.66813852, -0.23149713),
)  # fmt: skip
ARM = Embodiment('arm', ('a', 'g'), (FRONT,), 'g', (0.10, -0.50, 0.005), (0.80, 0.50, 0.75))
CUBE, BALL = Thing('red', 'cube'), Thing('green', 'ball')
BASE, BIN = Thing('blue', 'cylinder'), Thing('white', 'bin')


def project(camera: Camera, place: Vector) -> Point:
    """Return where a place in base appears in the image, by search along both axes."""
    x = y = 0.5
    for _ in range(60):
        found = point_at_height(camera, (x, y), place[2])
        right = point_at_height(camera, (x + 1e-4, y), place[2])
        down = point_at_height(camera, (x, y + 1e-4), place[2])
        assert found and right and down
        a, b = (right[0] - found[0]) / 1e-4, (down[0] - found[0]) / 1e-4
        c, d = (right[1] - found[1]) / 1e-4, (down[1] - found[1]) / 1e-4
        dx, dy = place[0] - found[0], place[1] - found[1]
        x += (d * dx - b * dy) / (a * d - b * c)
        y += (a * dy - c * dx) / (a * d - b * c)
    return x, y


def ground(task: str, a: Thing, b: Thing | None = None, *, robot: Embodiment = ARM,
           at: Vector = (0.45, 0.10, 0.0), to: Vector = (0.50, -0.15, 0.0)):  # type: ignore[no-untyped-def]
    """Ground a plan for things that stand at these places."""
    kinds = Vocabulary().kinds

    def seen(thing: Thing, place: Vector) -> Point:
        height = robot.table_height + kinds[thing.kind].label_height_m
        return project(robot.camera, (place[0], place[1], height))

    draft = PlanDraft('steps', a, b, seen(a, at), seen(b, to) if b else None, task)
    return Grounder(robot, Vocabulary()).ground(draft)


def targets(steps: tuple[Step, ...]) -> list[Vector | None]:
    """Return rounded targets."""
    return [
        step.target_in_base and tuple(round(value, 4) for value in step.target_in_base)  # type: ignore[misc]
        for step in steps
    ]


def test_camera_looks_at_what_it_was_aimed_at() -> None:
    """The middle of the image is the place that the calibrated camera looks at."""
    found = point_at_height(FRONT, (0.5, 0.5), 0.0)
    assert found == pytest.approx((0.47, 0.0, 0.0), abs=2e-3)


def test_image_axes_follow_the_camera() -> None:
    """Right in the image is the robot's left hand seen from the front; down is farther out."""
    left, right = ray_in_base(FRONT, (0.0, 0.5)), ray_in_base(FRONT, (1.0, 0.5))
    assert left[1] < 0 < right[1]
    low = point_at_height(FRONT, (0.5, 0.9), 0.0)
    assert low is not None
    assert low[0] > 0.47


def test_wide_image_uses_square_pixels() -> None:
    """The horizontal view of a camera follows from its width, the vertical one is given."""
    wide = replace(FRONT, width_px=512)
    narrow_edge, wide_edge = ray_in_base(FRONT, (1.0, 0.5)), ray_in_base(wide, (1.0, 0.5))
    assert wide_edge[1] == pytest.approx(2 * narrow_edge[1])


def test_put_goes_down_on_the_thing_and_above_the_bin() -> None:
    """Reach, grasp, lift, move, place, lift, home, with the agreed heights."""
    plan = ground('put', CUBE, BIN)
    assert [step.skill for step in plan.steps] == [
        Skill.REACH, Skill.GRASP, Skill.LIFT, Skill.MOVE, Skill.PLACE, Skill.LIFT, Skill.HOME,
    ]  # fmt: skip
    assert targets(plan.steps) == [
        (0.45, 0.10, 0.20), (0.45, 0.10, 0.03), (0.45, 0.10, 0.20),
        (0.50, -0.15, 0.20), (0.50, -0.15, 0.095), (0.50, -0.15, 0.20), None,
    ]  # fmt: skip
    assert [step.gripper_opening for step in plan.steps] == [1, 0, 0, 0, 1, 1, 1]
    assert [step.success for step in plan.steps[1:5]] == [
        Success.HOLDING, Success.HOLDING, Success.HOLDING, Success.RELEASED,
    ]  # fmt: skip
    assert [step.thing for step in plan.steps[:4]] == ['red cube'] * 3 + ['white bin']


def test_stack_stands_on_the_top_of_the_other() -> None:
    """The tool lets go where the thing in it stands on the other, with a small gap."""
    plan = ground('stack', CUBE, BASE)
    assert plan.steps[4].skill is Skill.PLACE
    assert plan.steps[4].target_in_base[2] == pytest.approx(0.050 + 0.030 + 0.004)


def test_pick_ends_holding() -> None:
    """A pick ends above the table with the thing in the gripper."""
    plan = ground('pick', BALL)
    assert plan.steps[-1].skill is Skill.HOLD
    assert plan.steps[-1].gripper_opening == 0
    assert targets(plan.steps)[1:] == [(0.45, 0.1, 0.028), (0.45, 0.1, 0.2), (0.45, 0.1, 0.2)]


def test_push_starts_behind_and_ends_before_the_bin() -> None:
    """The closed gripper runs on the line through both, from behind the thing to the bin."""
    plan = ground('push', CUBE, BIN, at=(0.40, -0.10, 0.0), to=(0.40, 0.10, 0.0))
    assert [step.skill for step in plan.steps] == [
        Skill.REACH, Skill.REACH, Skill.PUSH, Skill.LIFT, Skill.HOME,
    ]  # fmt: skip
    assert targets(plan.steps)[:4] == [
        (0.40, -0.175, 0.20), (0.40, -0.175, 0.025), (0.40, -0.015, 0.025), (0.40, -0.015, 0.20),
    ]  # fmt: skip
    assert all(step.gripper_opening == 0 for step in plan.steps[:4])


def test_raised_table_raises_everything() -> None:
    """Heights count from the table of the embodiment."""
    raised = replace(ARM, table_height=0.1)
    plan = ground('pick', CUBE, robot=raised)
    assert targets(plan.steps)[:2] == [(0.45, 0.10, 0.30), (0.45, 0.10, 0.13)]


def test_target_outside_the_workspace_is_a_refusal() -> None:
    """What the arm may not reach is refused with place and limits, not moved to the edge."""
    plan = ground('put', CUBE, BIN, to=(0.50, -0.60, 0.0))
    assert plan.outcome is Outcome.REFUSED
    assert plan.steps == ()
    assert plan.reason.startswith('The white bin is out of reach: ')
    assert 'to (0.50, -0.60, 0.20) m' in plan.reason
    assert '(0.80, 0.50, 0.75) m' in plan.reason


def test_things_too_near_to_push_are_a_refusal() -> None:
    """A push needs a direction."""
    plan = ground('push', CUBE, BIN, at=(0.45, 0.0, 0.0), to=(0.47, 0.0, 0.0))
    assert plan.outcome is Outcome.REFUSED
    assert 'too near to push' in plan.reason


def test_point_above_the_horizon_is_a_refusal() -> None:
    """A camera that looks level sees things that stand nowhere on the table."""
    level = replace(FRONT, camera_to_base=(0.5, -0.5, 0.5, -0.5))
    robot = replace(ARM, cameras=(level,))
    draft = PlanDraft('steps', CUBE, None, (0.5, 0.1), None, 'pick')
    plan = Grounder(robot, Vocabulary()).ground(draft)
    assert plan.outcome is Outcome.REFUSED
    assert 'is not on the table' in plan.reason


@pytest.mark.parametrize(('apart_m', 'outcome'), [
    (0.0, Outcome.DONE), (0.12, Outcome.DONE), (0.16, Outcome.REFUSED),
])
def test_things_seen_apart_are_not_done(apart_m: float, outcome: Outcome) -> None:
    """Done contradicts two things that the same draft sees too far apart; the distance is said."""
    kinds = Vocabulary().kinds
    a, b = (
        project(FRONT, (0.45, y, kinds[thing.kind].label_height_m))
        for thing, y in ((CUBE, 0.0), (BIN, apart_m))
    )
    plan = Grounder(ARM, Vocabulary()).ground(PlanDraft('done', CUBE, BIN, a, b))
    assert plan.outcome is outcome
    assert ('0.16 m' in plan.reason) == (outcome is Outcome.REFUSED)


@pytest.mark.parametrize(('is_placed', 'outcome'), [
    (False, Outcome.DONE), (True, Outcome.REFUSED),
])
def test_what_was_put_into_a_container_is_seen_inside(is_placed: bool, outcome: Outcome) -> None:
    """Beside it is done for a push only."""
    kinds = Vocabulary().kinds
    a, b = (
        project(FRONT, (0.45, y, kinds[thing.kind].label_height_m))
        for thing, y in ((CUBE, 0.0), (BIN, 0.11))
    )
    plan = Grounder(ARM, Vocabulary()).ground(PlanDraft('done', CUBE, BIN, a, b), is_placed)
    assert plan.outcome is outcome


@pytest.mark.parametrize(('apart_m', 'outcome'), [(0.05, Outcome.DONE), (0.1, Outcome.REFUSED)])
def test_what_stands_on_a_thing_is_seen_near_it(apart_m: float, outcome: Outcome) -> None:
    """A stack that is done cannot be two things that stand beside each other."""
    base = Thing('green', 'cylinder')
    kinds = Vocabulary().kinds
    a, b = (
        project(FRONT, (0.45, y, kinds[thing.kind].label_height_m))
        for thing, y in ((CUBE, 0.0), (base, apart_m))
    )
    plan = Grounder(ARM, Vocabulary()).ground(PlanDraft('done', CUBE, base, a, b))
    assert plan.outcome is outcome


def test_absent_and_done_have_reasons_and_no_steps() -> None:
    """Both are plans, with words for people."""
    grounder = Grounder(ARM, Vocabulary())
    absent = grounder.ground(PlanDraft('refused', CUBE))
    done = grounder.ground(PlanDraft('done', CUBE, BIN, (0.5, 0.5), (0.5, 0.5)))
    assert (absent.outcome, absent.reason) == (Outcome.REFUSED, 'There is no red cube.')
    assert (done.outcome, done.steps) == (Outcome.DONE, ())
    assert 'red cube' in done.reason
