# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

from onboard_decoder.agent.task_result import TaskOutcome, TrialEnd
from onboard_decoder.plan import ActionPlan, Outcome, PlanStep, Skill
from onboard_decoder.planner_port import Link
from onboard_decoder.task_memory import HistoryEntry, Purpose, StepResult, Tool, ToolCall
import pytest

from tests.onboard_decoder.agent.react_world import (
    ASK,
    DONE,
    grasp,
    LOOK,
    NO,
    place,
    push,
    PUT,
    ReactWorld,
    release,
    STOP,
)
from tests.onboard_decoder.gantry import gantry


@pytest.fixture
def manifest(tmp_path):
    """The gantry."""
    return gantry(tmp_path)


def test_calls_are_carried_out_one_by_one_and_remembered(manifest):
    """Grasp, place, claim, second look; each turn knows what came of all calls before."""
    world = ReactWorld(manifest, [grasp(), place(), DONE]).with_thing()
    world.robot.ask(PUT)

    result = world.run().result

    assert (result.outcome, result.end) == (TaskOutcome.DONE, TrialEnd.CONFIRMED)
    assert (result.attempts, result.steps, result.turns) == (1, 2, 4)
    assert world.results() == [('grasp', 'held'), ('place', 'placed')]
    memories = [turn.memory for turn in world.port.turns]
    assert [len(memory.entries) for memory in memories] == [0, 1, 2, 2]
    assert [memory.hand_holds for memory in memories] == [False, True, False, False]
    assert [memory.purpose for memory in memories] == [Purpose.ACT] * 3 + [Purpose.CHECK]
    assert memories[1].entries == (HistoryEntry(1, grasp().call, StepResult.HELD),)


def test_a_pick_is_done_by_what_the_fingers_feel(manifest):
    """The second look sees nothing in the hand, and is overruled."""
    pick = replace(grasp(), call=ToolCall(Tool.GRASP, 'red cube'))
    world = ReactWorld(manifest, [pick, DONE], looks=[STOP]).with_thing()
    world.robot.ask('pick the red cube')

    result = world.run().result

    assert (result.outcome, result.end) == (TaskOutcome.DONE, TrialEnd.HELD)
    assert world.arm.has_thing


def test_a_hand_that_holds_does_not_make_a_put_done(manifest):
    """A second look that would carry on denies the claim."""
    world = ReactWorld(manifest, [grasp(), DONE, place(), DONE], looks=[NO, *[DONE] * 2])
    world.with_thing().robot.ask(PUT)

    result = world.run().result

    assert (result.outcome, result.overclaims) == (TaskOutcome.DONE, 1)
    assert world.results() == [
        ('grasp', 'held'), ('done', 'refused'), ('look', 'seen'), ('place', 'placed')
    ]


def test_a_claim_that_nobody_confirms_is_never_done(manifest):
    """Whatever the backbone says of itself."""
    settings = {'agent.max_trials': 2, 'agent.max_overclaims': 2}
    world = ReactWorld(manifest, [DONE], looks=[NO], settings=settings)
    world.robot.ask(PUT)

    result = world.run(limit_s=120).result

    assert (result.outcome, result.end) == (TaskOutcome.FAILED, TrialEnd.OVERCLAIM)
    assert (result.attempts, result.overclaims) == (2, 4)
    assert len(world.events('overclaim')) == 4


def test_a_missed_grasp_gets_out_of_the_way_and_is_told(manifest):
    """The next image is taken from home, and the next turn knows."""
    world = ReactWorld(manifest, [grasp(), grasp(y=0.2), place(), DONE])
    world.robot.ask(PUT)
    world.until_state('reset')
    world.until_state('observe')
    assert abs(world.arm.positions[2] - manifest.home[2]) < 0.02
    world.with_thing()

    assert world.run().result.outcome is TaskOutcome.DONE
    assert world.results()[:2] == [('grasp', 'missed'), ('grasp', 'held')]
    assert world.port.turns[1].memory.entries[0].result is StepResult.MISSED


@pytest.mark.parametrize(('step', 'tool'), [('lift', 'grasp'), ('move', 'place')])
def test_a_thing_lost_on_the_way_has_slipped(manifest, step, tool):
    """Lifting or carrying."""
    world = ReactWorld(manifest, [grasp(), place()]).with_thing()
    world.robot.ask(PUT)
    world.run(lambda robot: robot.status().step == step and world.arm.positions[2] > 0.06)
    world.arm.thing_m = 0.0
    world.until_state('reset')

    assert world.results()[-1] == (tool, 'slipped')


def test_a_thing_lost_above_the_place_fell(manifest):
    """The fingers close on nothing on the way down: it is not reported as placed."""
    world = ReactWorld(manifest, [grasp(), place(), STOP], {'agent.max_trials': 1}).with_thing()
    world.robot.ask(PUT)
    world.run(lambda robot: robot.status().step == 'place')
    world.arm.thing_m = 0.0

    def slow(world):
        if world.robot.status().step == 'place' and world.arm.positions[3] > 0.001:
            world.arm.positions[3] = 0.0

    world.each_step = slow
    world.run(lambda robot: world.results()[-1][0] == 'place')

    assert world.results()[-1] == ('place', 'fell')


def test_every_tool_has_its_result(manifest):
    """Push, look, release and a question that a person answers."""
    world = ReactWorld(manifest, [push(), LOOK, ASK, grasp(), release(), STOP],
                       {'agent.max_trials': 1})
    world.robot.ask(PUT)
    world.run(lambda robot: robot.question)
    world.with_thing()
    assert world.questions == ['Please clear the blue bin.']
    assert world.robot.status().question == world.questions[0]
    world.robot.answer('done')
    world.run()

    assert world.results() == [
        ('push', 'pushed'), ('look', 'seen'), ('ask', 'cleared'), ('grasp', 'held'),
        ('release', 'released'),
    ]
    assert world.robot.result.end is TrialEnd.GAVE_UP


def test_looking_does_not_drop_what_is_held(manifest):
    """The robot keeps its fingers shut, whatever the plan of a look says."""
    world = ReactWorld(manifest, [grasp(), LOOK, place(), DONE]).with_thing()
    world.robot.ask(PUT)

    assert world.run().result.outcome is TaskOutcome.DONE
    assert [turn.memory.hand_holds for turn in world.port.turns][1:3] == [True, True]


def test_a_thing_that_is_not_there_is_refused(manifest):
    """Look once more, then stop: nothing was touched, so nothing failed."""
    world = ReactWorld(manifest, [LOOK, STOP])
    world.robot.ask(PUT)

    result = world.run().result

    assert (result.outcome, result.reason) == (TaskOutcome.REFUSED, 'There is no red cube.')
    assert (result.end, result.attempts) == (TrialEnd.REFUSED, 1)


@pytest.mark.parametrize(('plan', 'code', 'words'), [
    (place(), 'planning_order', 'the gripper holds nothing'),
    (grasp(x=0.95), 'motion_unreachable', 'outside the workspace'),
])
def test_what_the_interlocks_forbid_does_not_move_the_arm(manifest, plan, code, words):
    """It becomes an entry of its own, with code and reason; three of them end the trial."""
    world = ReactWorld(manifest, [plan], {
        'agent.max_trials': 1, 'agent.max_repeats': 20, 'agent.max_same_failures': 20})
    world.robot.ask(PUT)
    world.until_state('reset')

    entries = world.events('entry')
    assert [entry['result'] for entry in entries] == ['refused'] * 3
    assert (entries[0]['code'], words in entries[0]['reason']) == (code, True)
    assert world.decoder.calls == 0
    assert world.run().result.end is TrialEnd.REFUSALS


def test_a_full_hand_grasps_nothing_else(manifest):
    """Pre-conditions are measured, not believed."""
    world = ReactWorld(manifest, [grasp(), grasp(y=0.3), DONE], looks=[DONE]).with_thing()
    world.robot.ask('pick the red cube')
    world.run()

    assert world.results() == [('grasp', 'held'), ('grasp', 'refused')]


def test_an_old_image_is_not_acted_on(manifest):
    """The robot looks again instead, and the memory has no trace of it."""
    world = ReactWorld(manifest, [grasp(), DONE], {'agent.scene_max_age_s': 0.5}, looks=[DONE])
    world.port._delay_s = 0.7
    world.with_thing().robot.ask('pick the red cube')
    world.run(lambda robot: world.events('objection'))
    world.port._delay_s = 0.1
    world.port.scripts[Purpose.ACT].insert(0, grasp())
    world.run()

    assert world.events('objection')[0]['code'] == 'perception_stale'
    assert world.results() == [('grasp', 'held')]


@pytest.mark.parametrize('plan', [
    ActionPlan(Outcome.STEPS, (PlanStep(Skill.HOME),)),
    ActionPlan(Outcome.STEPS, (PlanStep(Skill.HOME),), call=ToolCall(Tool.GRASP, 'red cube')),
    ActionPlan(Outcome.STEPS, grasp().steps, call=ToolCall(Tool.GRASP)),
    ActionPlan(Outcome.ASK, call=ToolCall(Tool.ASK)),
    ActionPlan(Outcome.ASK, grasp().steps, call=ToolCall(Tool.ASK, question='Move it?')),
    ActionPlan(Outcome.STEPS, grasp().steps, call=ToolCall(Tool.GRASP, 'red\x00cube')),
    ActionPlan(Outcome.STEPS, grasp().steps + place().steps, call=grasp().call),
    ActionPlan(Outcome.STEPS, grasp().steps * 2, call=grasp().call),
    ActionPlan(Outcome.STEPS, grasp().steps + push().steps, call=push().call),
    ActionPlan(Outcome.REFUSED, call=release().call),
    ActionPlan(Outcome.DONE, call=ToolCall(Tool.LOOK)),
    ActionPlan(Outcome.DONE, call=ToolCall(Tool.STOP)),
    ActionPlan(Outcome.REFUSED, call=ToolCall(Tool.DONE)),
])
def test_answers_that_are_no_tool_call_are_counted_and_end_the_trial(manifest, plan):
    """Nothing moves."""
    world = ReactWorld(manifest, [plan], {'agent.max_trials': 1})
    world.robot.ask(PUT)
    world.until_state('reset')

    assert world.decoder.calls == 0
    assert world.run().result.end is TrialEnd.BAD_CALLS


def test_the_wait_for_the_link_is_one_phase(manifest):
    """Images that become old meanwhile do not show: people would read of two things in turn."""
    world = ReactWorld(manifest, [DONE])
    world.port.link = Link.CONNECTING
    world.robot.ask(PUT)
    world.until_state('hold')
    ends_ns, seen = world.clock.now_ns() + 5 * 10**9, set()
    world.each_step = lambda world: seen.add(world.robot.status().phase)

    world.run(lambda robot: world.clock.now_ns() > ends_ns)

    assert seen == {'hold'}
    world.each_step = lambda world: None
    world.port.link = Link.READY
    assert world.run().result.outcome is TaskOutcome.DONE
