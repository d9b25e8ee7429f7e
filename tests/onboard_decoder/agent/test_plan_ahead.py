# SPDX-License-Identifier: Apache-2.0
import random

import numpy as np
from onboard_decoder.agent.task_result import TaskOutcome, TrialEnd
from onboard_decoder.config import RobotSettings
from onboard_decoder.planner_port import Link
from onboard_decoder.task_memory import Purpose, StepResult
import pytest
from tendon.standstill import Standstill

from tests.onboard_decoder.agent.react_world import (
    ASK,
    DONE,
    grasp,
    NO,
    place,
    push,
    PUT,
    ReactWorld,
    release,
    STOP,
)
from tests.onboard_decoder.gantry import DONE as SEEN_DONE
from tests.onboard_decoder.gantry import gantry, Lockstep, put_plan

DELAYS_S = (0.086, 0.16, 0.25, 0.5)
SEVERAL = (grasp(), place(), grasp(), place(), grasp(), release(), push(), DONE)
SETTLE_MS = 1e3 * RobotSettings().success.settle_s


@pytest.fixture(scope='module')
def manifest(tmp_path_factory):
    """The gantry."""
    return gantry(tmp_path_factory.mktemp('gantry'))


def react(manifest, acts, ahead='on', delay_s=0.16, **more):
    """A world in mode react, with something to hold."""
    standstill = Standstill()
    world = ReactWorld(
        manifest, list(acts), {'agent.plan_ahead': ahead, **more.pop('settings', {})},
        sinks=[standstill], delay_s=delay_s, **more,
    )
    world.standstill = standstill
    return world.with_thing()


def carry_out(world, jitter_s=0.0, seed=0):
    """Run a task; every question takes the delay and up to a jitter more."""
    rng, delay_s = random.Random(seed), world.port._delay_s

    def each_step(world):
        world.port._delay_s = delay_s + jitter_s * rng.random()

    world.each_step = each_step
    world.robot.ask(PUT)
    for _ in range(6000):
        world.step()
        world.standstill.tick(world.clock.now_ns() / 1e9, world.robot.is_at_rest)
        assert 'chunk_expired' not in [fault.value for fault in world.robot.faults]
        if world.robot.result is not None:
            return world.robot.result
    raise AssertionError(world.robot.status().to_json())


def ahead(world):
    """Whether each answer that was asked for ahead was used, and why not."""
    return [(event['is_used'], event['reason']) for event in world.events('ahead')]


@pytest.mark.parametrize('jitter_s', [0.0, 0.1])
@pytest.mark.parametrize('delay_s', DELAYS_S)
def test_a_late_backbone_never_starves_the_arm(manifest, delay_s, jitter_s):
    """No tick of a step is without a target, and the arm stands for less time than without."""
    worlds = {mode: react(manifest, SEVERAL, mode, delay_s) for mode in ('off', 'on')}
    for world in worlds.values():
        assert carry_out(world, jitter_s).outcome is TaskOutcome.DONE
        assert world.robot.status().starved_ticks == 0

    waits = {mode: float(np.median(world.standstill.ms)) for mode, world in worlds.items()}
    assert len(worlds['on'].standstill.ms) == len(worlds['off'].standstill.ms) == 6
    assert waits['on'] < waits['off']
    assert worlds['on'].results() == worlds['off'].results()


@pytest.mark.parametrize('delay_s', DELAYS_S[:3])
def test_an_answer_in_time_costs_the_arm_no_more_than_to_settle(manifest, delay_s):
    """Up to 250 ms; what is left is the proof that the motion is over, and the first chunk."""
    period_ms = 1e3 * manifest.control_period_s
    world = react(manifest, SEVERAL, delay_s=delay_s)
    carry_out(world)

    # The question of the first motion does not know yet how long answers take.
    assert np.median(world.standstill.ms) <= SETTLE_MS + 4 * period_ms
    assert any(is_used for is_used, _ in ahead(world))


def test_no_entry_is_sent_that_turns_out_otherwise(manifest):
    """Every memory is the beginning of what the trial came to, over all delays and slips."""
    for seed in range(6):
        rng = random.Random(seed)
        world = react(manifest, [grasp(), place()] * 3 + [DONE], delay_s=rng.choice(DELAYS_S))

        def lose(world, rng=rng):
            if rng.random() < 0.01:
                world.arm.thing_m = rng.choice([0.0, 0.02])

        world.each_step = lose
        world.robot.ask(PUT)
        world.run(limit_s=200)
        trials = {}
        for event in world.events('entry'):
            trials.setdefault(event['trial'], []).append(event['result'])
        for turn in world.port.turns:
            sent = [entry.result.value for entry in turn.memory.entries]
            assert sent == trials.get(turn.memory.trial, [])[: len(sent)]


def test_the_entry_is_there_before_the_question(manifest):
    """A place is written down once it has let go, on the way home; and only once."""
    world = react(manifest, [grasp(), place(), DONE], delay_s=0.25)
    world.robot.ask(PUT)
    world.run(lambda robot: len(world.port.turns) == 3)

    assert world.robot.status().step == 'home'
    assert not world.robot.is_at_rest
    assert [entry.result for entry in world.port.turns[-1].memory.entries] == [
        StepResult.HELD, StepResult.PLACED]
    assert world.run().result.end is TrialEnd.CONFIRMED
    assert world.results() == [('grasp', 'held'), ('place', 'placed')]


def test_a_thing_that_moves_meanwhile_makes_the_answer_void(manifest):
    """It is asked for again with an image of the resting arm, which costs what it always costs."""
    world = react(manifest, [grasp(), grasp(y=0.3), place(), DONE], delay_s=0.25)
    world.robot.ask(PUT)
    world.run(lambda robot: len(world.port.turns) == 2)
    world.port.scripts[Purpose.ACT] = [place(), DONE]
    world.image = world.image // 2

    assert world.run().result.outcome is TaskOutcome.DONE
    assert ahead(world)[0] == (False, '100% of the image has changed')
    assert world.results() == [('grasp', 'held'), ('place', 'placed')]


def test_a_thing_lost_meanwhile_makes_the_answer_void(manifest):
    """The next question says that the hand is empty."""
    world = react(manifest, [grasp(), place(), STOP], delay_s=0.25)
    world.robot.ask(PUT)
    world.run(lambda robot: len(world.port.turns) == 2)
    assert world.port.turns[1].memory.hand_holds
    world.arm.thing_m = 0.0
    world.run(lambda robot: len(world.port.turns) == 3)

    assert ahead(world) == [(False, 'something else has happened')]
    assert not world.port.turns[2].memory.hand_holds
    assert world.results() == [('grasp', 'held')]


@pytest.mark.parametrize('plan', [STOP, ASK], ids=['stop', 'ask'])
def test_nothing_that_ends_a_task_or_calls_a_person_is_decided_ahead(manifest, plan):
    """Both need an image in which no arm hides anything."""
    world = react(manifest, [grasp(), plan], delay_s=0.1, settings={'agent.max_trials': 1})
    world.robot.ask(PUT)
    world.run(lambda robot: world.events('ahead'))

    (event,) = world.events('ahead')
    assert (event['is_used'], 'decided at rest' in event['reason']) == (False, True)
    assert world.robot.status().phase in ('observe', 'think')


def test_a_claim_made_ahead_is_judged_by_a_second_look_at_rest(manifest):
    """The look is a turn of its own about an image that was taken after the claim."""
    world = react(manifest, [grasp(), place(), DONE], looks=[NO], delay_s=0.16,
                  settings={'agent.max_trials': 1, 'agent.max_overclaims': 1})
    world.robot.ask(PUT)
    result = world.run().result

    assert ahead(world)[-1] == (True, '')
    assert (result.outcome, result.end) == (TaskOutcome.FAILED, TrialEnd.OVERCLAIM)
    act, check = world.port.turns[-2:]
    assert check.memory.purpose is Purpose.CHECK
    assert check.observation_epoch > act.observation_epoch


def test_a_link_that_breaks_meanwhile_costs_a_new_question(manifest):
    """Whatever becomes of the one under way."""
    world = react(manifest, [grasp(), None, place(), DONE], settings={
        'limits.turn_deadline_s': 0.2})
    world.robot.ask(PUT)
    world.run(lambda robot: len(world.port.turns) == 2)
    world.port.link = Link.DEGRADED
    for _ in range(150):
        world.step()
    world.port.link = Link.READY

    assert world.run().result.outcome is TaskOutcome.DONE
    assert ahead(world)[0] == (False, 'no answer')


def test_the_last_question_of_a_task_is_asked_at_rest(manifest):
    """One that may have to be repeated must not use up the limit."""
    world = react(manifest, [grasp(), place(), DONE], settings={'agent.max_turns': 2})
    world.robot.ask(PUT)
    world.run()

    assert len(world.port.turns) == 2
    assert not world.events('ahead')


def test_off_asks_only_about_a_resting_arm(manifest):
    """As many questions as without it, and none while the arm moves."""
    world = react(manifest, [grasp(), place(), DONE], 'off')
    world.robot.ask(PUT)
    asked = 0
    while world.robot.result is None:
        world.step()
        assert len(world.port.turns) == asked or world.robot.is_at_rest
        asked = len(world.port.turns)

    assert asked == 4
    assert not world.events('ahead')


@pytest.mark.parametrize(('answer', 'is_used'), [
    (put_plan((0.5, 0.5)), True), (SEEN_DONE, False), (put_plan(), False),
], ids=['plan', 'done', 'plan without points'])
def test_mode_plan_asks_on_the_way_home_from_a_failure(manifest, answer, is_used):
    """Another plan is begun with at once; that all is done is seen at rest.

    So is where a thing lies now, for a plan that does not say where it was seen.
    """
    world = Lockstep(manifest, [put_plan(), answer], RobotSettings(), delay_s=0.16)
    world.robot.ask(PUT)
    world.run(lambda robot: robot.status().phase == 'retreating')
    world.run(lambda robot: [e for e in robot.events if e['event'] == 'ahead'])

    (event,) = [e for e in world.robot.events if e['event'] == 'ahead']
    assert event['is_used'] == is_used
    assert (world.robot.status().phase == 'acting') == is_used
