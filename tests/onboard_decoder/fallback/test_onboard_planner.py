# SPDX-License-Identifier: Apache-2.0
"""Promises of the small planner with its shipped weights, on pictures of the simulator."""

import threading
import time

import cv2
import numpy as np
from onboard_decoder.clock import ManualClock, MonotonicClock, to_ns
from onboard_decoder.config import RobotSettings
from onboard_decoder.errors import PlannerUnavailable
from onboard_decoder.fallback.heard_request import TooHard
from onboard_decoder.fallback.onboard_planner import OnboardPlanner, TOO_HARD
from onboard_decoder.image_codec import encode_jpeg
from onboard_decoder.plan import Outcome, Skill
from onboard_decoder.planner_port import Link, Remedy, Source, TurnAnswer, TurnFailure, TurnRequest
import pytest
from sim.entity import RADIUS_M

from tests.onboard_decoder.fallback.asked_planner import ask, MANIFEST, turn


def test_it_finds_what_it_is_asked_to_pick(planner, free_things):
    """Nearly always it goes to the thing that was named, to about a centimetre; else it asks."""
    errors, given = [], 0
    for thing, picture in free_things:
        found = ask(planner, f'pick up the {thing.colour} {thing.kind}', picture)
        if isinstance(found, TurnFailure):
            assert found.reason == TOO_HARD
            continue
        given += 1
        assert found.plan.outcome is Outcome.STEPS and found.plan.ends_holding
        x, y, _ = found.plan.steps[1].target_in_base_m
        errors.append(np.hypot(x - thing.x, y - thing.y))
    assert given >= 0.8 * len(free_things) and len(free_things) > 60
    assert np.median(errors) < 0.012
    assert np.mean(np.array(errors) < RADIUS_M['cube']) > 0.97


def test_it_turns_the_gripper_as_a_cube_lies(planner, free_things):
    """The fingers close across the sides of a cube, to some degrees."""
    off = []
    for thing, picture in [(t, p) for t, p in free_things if t.kind == 'cube']:
        found = ask(planner, f'pick up the {thing.colour} cube', picture)
        if isinstance(found, TurnAnswer):
            turned = found.plan.steps[1].tool_yaw_rad - thing.yaw
            off.append(abs((turned + np.pi / 4) % (np.pi / 2) - np.pi / 4))
    assert len(off) > 10
    assert np.median(off) < np.radians(8)


def test_it_refuses_what_is_not_there(planner, scenes):
    """Most absent things are refused by name; what is doubtful is left open, never invented."""
    refused, invented = 0, 0
    for scene, picture in scenes:
        here = {(thing.colour, thing.kind) for thing in scene.entities}
        colour, kind = next(
            (c, k) for c in ('red', 'green', 'blue', 'yellow', 'purple', 'orange')
            for k in ('ball', 'cube') if (c, k) not in here)
        found = ask(planner, f'pick up the {colour} {kind}', picture)
        if isinstance(found, TurnAnswer):
            refused += found.plan.outcome is Outcome.REFUSED
            invented += found.plan.outcome is not Outcome.REFUSED
            assert found.plan.reason == f'There is no {colour} {kind}.'
    assert refused >= 0.7 * len(scenes) and invented == 0


@pytest.mark.parametrize(('instruction', 'why'), [
    ('stack the red cube on the blue cube', 'stack'),
    ('push the red cube to the blue bin', 'push'),
    ('pick up the shiny red cube', 'shiny'),
    ('do not pick up the red cube', 'unknown words: not'),
    ('pick up the red cube and put the green ball in the blue bin', ''),
    ('pick up the cube', ''),
    ('pick up the red bin', ''),
    ('빨간 큐브를 집어', '빨간'),
    ('pick up the red cube ' * 10, 'words'),
    ('get the red ball into the blue bin', ''),
    ('?!', '0 words'),
])
def test_what_is_beyond_it_is_left_to_the_backbone(planner, scenes, instruction, why):
    """It says that it is too hard, and why, and that asking again will not help."""
    found = ask(planner, instruction, scenes[0][1])
    assert isinstance(found, TurnFailure) and found.reason == TOO_HARD
    assert why in found.message and found.remedy is Remedy.FIX
    assert isinstance(planner.heard(instruction), TooHard)


def test_home_and_stay_need_no_picture(planner):
    """Going home from elsewhere, being at home, and staying work in the dark."""
    dark = np.zeros((128, 128, 3), np.uint8)
    assert ask(planner, 'go home', dark).plan.outcome is Outcome.DONE
    assert ask(planner, 'hold still please', dark).plan.outcome is Outcome.DONE
    joints = MANIFEST.home.copy()
    joints[0] += 0.5
    found = ask(planner, 'go home', dark, joints=joints)
    assert found.plan.steps[-1].skill is Skill.HOME


def test_it_judges_by_the_robots_own_settings(model):
    """Who is at home for the robot is at home for the small planner."""
    dark = np.zeros((128, 128, 3), np.uint8)
    joints = MANIFEST.home.copy()
    joints[0] += 0.1
    outcomes = []
    for within_m in (0.01, 0.1):
        settings = RobotSettings().changed({'success.at_target_m': within_m})
        made = OnboardPlanner(MANIFEST, model, MonotonicClock(), settings)
        outcomes.append(ask(made, 'go home', dark, joints=joints).plan.outcome)
        made.close()
    assert outcomes == [Outcome.STEPS, Outcome.DONE]


def test_a_larger_image_gives_the_same_choice(planner, free_things):
    """A backbone that wants other images does not blind the small planner."""
    thing, picture = free_things[0]
    text = f'pick up the {thing.colour} {thing.kind}'
    large = cv2.resize(picture, (384, 384), interpolation=cv2.INTER_CUBIC)
    wanted = ask(planner, text, picture)
    assert isinstance(wanted, TurnAnswer)
    pending = planner.submit(TurnRequest(
        'large', text, {'front': encode_jpeg(large, 384, 384)}, tuple(MANIFEST.home.tolist()),
        7, 30.0))
    while (found := pending.poll()) is None:
        time.sleep(0.001)
    near = np.subtract(
        found.plan.steps[1].target_in_base_m, wanted.plan.steps[1].target_in_base_m)
    assert np.abs(near).max() < 0.01


def test_the_answer_says_where_it_comes_from(planner, free_things):
    """Source, the observation it rests on, and a confidence of at least the limit."""
    thing, picture = free_things[0]
    found = ask(planner, f'pick up the {thing.colour} {thing.kind}', picture)
    assert found.choice.source is Source.ONBOARD
    assert found.plan.certificate.freshest_epoch == 7
    assert 0.85 <= found.plan.confidence <= 1.0


def test_bad_turns_fail_and_the_next_is_answered(planner, free_things):
    """No image, no JPEG, another camera: each fails with its reason, and the thread lives."""
    thing, picture = free_things[0]
    text = f'pick up the {thing.colour} {thing.kind}'
    for images in ({}, {'front': b'no jpeg'}, {'side': b''}):
        pending = planner.submit(TurnRequest(
            'bad', text, images, tuple(MANIFEST.home.tolist()), 1, 30.0))
        while (found := pending.poll()) is None:
            time.sleep(0.001)
        assert isinstance(found, TurnFailure) and found.reason == 'bad_turn'
    assert isinstance(ask(planner, text, picture), TurnAnswer)


def test_an_error_while_it_listens_does_not_silence_it(model, free_things, monkeypatch):
    """The turn that follows is answered, or fails with a reason; the thread lives."""
    planner = OnboardPlanner(MANIFEST, model, MonotonicClock(), RobotSettings())
    thing, picture = free_things[0]
    text = f'pick up the {thing.colour} {thing.kind}'
    failed = threading.Event()

    def failing(instruction):
        failed.set()
        raise RuntimeError('nobody has thought of it')

    with monkeypatch.context() as patch:
        patch.setattr(planner._planner, 'request', failing)
        planner.listen(text)
        assert failed.wait(20)
        assert ask(planner, text, picture).reason == 'failed'

    assert isinstance(ask(planner, text, picture), TurnAnswer)
    planner.close()


def test_submitting_does_not_wait_and_a_late_result_is_dropped(model, free_things):
    """The plan is made in another thread; after the deadline it is a failure for ever."""
    clock = ManualClock(to_ns(1.0))
    planner = OnboardPlanner(MANIFEST, model, clock, RobotSettings())
    thing, picture = free_things[0]
    gate, plan = threading.Event(), planner._planner.plan
    planner._planner.plan = lambda *args: gate.wait(30) and plan(*args)
    pending = planner.submit(turn(f'pick up the {thing.colour}', picture, deadline_s=0.5))
    assert pending.poll() is None
    clock.advance(to_ns(0.6))
    assert pending.poll().reason == 'deadline_passed'
    gate.set()
    planner.close()
    assert pending.poll().reason == 'deadline_passed'


def test_a_closed_planner_takes_no_turn(model, free_things):
    """It says so at once."""
    planner = OnboardPlanner(MANIFEST, model, MonotonicClock(), RobotSettings())
    assert planner.state().link is Link.READY
    assert planner.state().grant_for('go home') is planner.grant
    planner.close()
    assert planner.state().link is Link.CLOSED
    with pytest.raises(PlannerUnavailable):
        planner.submit(turn('stay', free_things[0][1]))


def test_the_same_question_has_the_same_answer(planner, free_things):
    """Nothing is drawn at run time."""
    thing, picture = free_things[1]
    text = f'pick up the {thing.colour} {thing.kind}'
    plans = [ask(planner, text, picture, number=n).plan for n in range(3)]
    assert plans[0] == plans[1] == plans[2]
