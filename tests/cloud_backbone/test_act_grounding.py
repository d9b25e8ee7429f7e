# SPDX-License-Identifier: Apache-2.0
"""Acts become steps."""

from cloud_backbone.act import Act
from cloud_backbone.act_grounding import ActGrounder
from cloud_backbone.action_plan import Outcome, Skill
from cloud_backbone.plan_vocabulary import Thing, Vocabulary
from cloud_backbone.step_geometry import LOW_GRASP_M, SLOW
from cloud_backbone.task_memory import Manner, Tool
from fakes.oracle import embodiment_of
from onboard_decoder.manifest_yaml import load_manifest
import pytest

A, B, C = Thing('red', 'cube'), Thing('blue', 'bin'), Thing('green', 'cylinder')
HERE, THERE = (0.45, 0.5), (0.6, 0.55)


@pytest.fixture(scope='module')
def grounder() -> ActGrounder:
    """Return a grounder for the shipped arm."""
    return ActGrounder(embodiment_of(load_manifest('tendon_arm')), Vocabulary())


@pytest.mark.parametrize(('act', 'skills'), [
    (Act(Tool.GRASP, A, B, HERE, THERE), [Skill.REACH, Skill.GRASP, Skill.LIFT]),
    (Act(Tool.PLACE, A, B, None, THERE, holding=True),
     [Skill.MOVE, Skill.PLACE, Skill.LIFT, Skill.HOME]),
    (Act(Tool.STACK, A, C, None, THERE, holding=True),
     [Skill.MOVE, Skill.PLACE, Skill.LIFT, Skill.HOME]),
    (Act(Tool.PUSH, A, B, HERE, THERE),
     [Skill.REACH, Skill.REACH, Skill.PUSH, Skill.LIFT, Skill.HOME]),
    (Act(Tool.LOOK, A), [Skill.HOME]),
    (Act(Tool.RELEASE, A, holding=True), []),
])
def test_each_tool_takes_its_steps(grounder: ActGrounder, act: Act, skills: list[Skill]) -> None:
    """A call and its steps come together."""
    plan = grounder.ground(act)
    assert [step.skill for step in plan.steps] == skills
    assert plan.outcome is Outcome.STEPS
    assert plan.call is not None
    assert plan.call.tool is act.tool


def test_a_manner_changes_speed_or_height_and_nothing_else(grounder: ActGrounder) -> None:
    """Slowly is the same way at a third of the speed; low is the same grasp further down."""
    usual, slow, low = (
        grounder.ground(Act(Tool.GRASP, A, None, HERE, manner=manner)).steps for manner in Manner
    )
    assert [step.speed for step in slow] == [SLOW * step.speed for step in usual]
    assert [step.target_in_base for step in slow] == [step.target_in_base for step in usual]
    assert low[0] == usual[0]
    assert low[1].target_in_base is not None
    assert usual[1].target_in_base is not None
    assert low[1].target_in_base[2] == pytest.approx(LOW_GRASP_M)
    assert low[1].target_in_base[2] < usual[1].target_in_base[2]


@pytest.mark.parametrize(('act', 'outcome', 'said'), [
    (Act(Tool.DONE, A, holding=True), Outcome.DONE, 'done'),
    (Act(Tool.STOP, A), Outcome.REFUSED, 'no red cube'),
    (Act(Tool.STOP, A, B, HERE, THERE), Outcome.REFUSED, 'blue bin is taken'),
    (Act(Tool.ASK, A, B, HERE, THERE), Outcome.ASK, 'blue bin is taken'),
    (Act(Tool.GRASP, A, None, (0.5, 0.0)), Outcome.REFUSED, 'reach'),
])
def test_what_moves_nothing_says_why(
    grounder: ActGrounder, act: Act, outcome: Outcome, said: str
) -> None:
    """Ends, questions and what is out of reach come with a reason for people."""
    plan = grounder.ground(act)
    assert (plan.outcome, plan.steps) == (outcome, ())
    assert said in plan.reason
