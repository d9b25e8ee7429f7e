# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

from onboard_decoder.agent.task_result import TaskOutcome
from onboard_decoder.planner_port import Link
from onboard_decoder.task_memory import Manner, Purpose
import pytest

from tests.onboard_decoder.agent.react_world import (
    DONE,
    grasp,
    LOOK,
    place,
    push,
    PUT,
    ReactWorld,
    YES,
)
from tests.onboard_decoder.gantry import gantry

TARGETS = [[0.5, 0.1], [0.5, 0.14]]


@pytest.fixture
def manifest(tmp_path):
    """The gantry."""
    return gantry(tmp_path)


def make(manifest, watch, acts=None, **settings):
    """A world with a thing at the first target."""
    world = ReactWorld(manifest, acts or [grasp(), DONE], {
        'agent.watch': watch, **{f'agent.{key}': value for key, value in settings.items()}})
    world.with_thing().arm.thing_at = TARGETS[0]
    world.touched = []
    world.each_step = touching
    return world


def touching(world):
    """Note where the fingers go down."""
    if world.arm.positions[2] < 0.05:
        world.touched.append(tuple(world.arm.positions[:2].round(2)))


def move_the_thing(world, value=250):
    """Change the image around the target."""
    world.image = world.image.copy()
    world.image[9:16, 12:20] = value


def while_reaching(world):
    """Run until the arm is on its way."""
    world.run(lambda robot: robot.status().step == 'reach' and not robot.is_at_rest)
    return world


def test_a_thing_that_is_moved_on_the_way_is_taken_from_where_it_is(manifest):
    """The arm stops before contact, notes it, and takes up the newer choice."""
    world = make(manifest, 'repair')
    world.port.revisions = [grasp(y=0.14)]
    world.robot.ask('pick the red cube')
    move_the_thing(while_reaching(world))

    assert world.run().result.outcome is TaskOutcome.DONE
    assert world.results() == [('grasp', 'stopped'), ('grasp', 'held')]
    assert set(world.touched) <= {(0.5, y / 100) for y in range(13, 16)}
    revising = [turn for turn in world.port.turns if turn.revises]
    assert (revising[0].revises, len(revising)) == ('turn-1', 1)
    assert revising[0].memory == world.port.turns[0].memory
    assert world.events('entry')[0]['code'] == 'revised'


def test_without_a_watch_the_arm_goes_where_the_thing_was(manifest):
    """The comparison: an old image is acted on to its end."""
    world = make(manifest, 'off')
    world.robot.ask('pick the red cube')
    move_the_thing(while_reaching(world))
    world.run()

    assert not [turn for turn in world.port.turns if turn.revises]
    assert set(world.touched) <= {(0.5, y / 100) for y in range(9, 12)}


def test_the_same_choice_on_a_newer_image_upgrades_the_certificate(manifest):
    """The arm does not stop, and the same change is not asked about again."""
    world = make(manifest, 'repair')
    world.port.revisions = [replace(grasp(y=0.104), call=grasp(manner=Manner.LOW).call)]
    world.robot.ask('pick the red cube')
    move_the_thing(while_reaching(world))
    world.run()

    assert world.results() == [('grasp', 'held')]
    (certificate,) = world.events('certificate')
    assert certificate['revises'] == 'turn-1'
    assert certificate['freshest_epoch'] > world.events('turn')[0]['observation_epoch']
    assert len([turn for turn in world.port.turns if turn.revises]) == 1


def test_in_mode_exact_any_change_stops_the_arm_and_asks_anew(manifest):
    """No question while moving: the next one is about a resting arm."""
    world = make(manifest, 'exact', [grasp(), grasp(y=0.14), DONE])
    world.robot.ask('pick the red cube')
    move_the_thing(while_reaching(world))
    world.run()

    assert world.results() == [('grasp', 'stopped'), ('grasp', 'held')]
    assert not [turn for turn in world.port.turns if turn.revises]


@pytest.mark.parametrize(('watch', 'count'), [('repair', 1), ('exact', 0)])
def test_a_thing_moved_during_the_thought_is_noticed(manifest, watch, count):
    """Repair acts at once and asks on; exact does not act on the old image at all."""
    world = make(manifest, watch, [grasp(), grasp(y=0.14), DONE])
    world.port.revisions = [grasp(y=0.14)]
    world.port._delay_s = 0.4
    world.robot.ask('pick the red cube')
    world.until_state('think')
    for _ in range(5):
        world.step()
    move_the_thing(world)
    world.run()

    assert world.is_done
    assert set(world.touched) <= {(0.5, y / 100) for y in range(13, 16)}
    assert len([turn for turn in world.port.turns if turn.revises]) == count


@pytest.mark.parametrize('answer', [None, 'overloaded', LOOK])
def test_without_a_good_answer_nothing_is_touched(manifest, answer):
    """None in time, a failure, another tool: the arm stops before contact and looks anew."""
    world = make(manifest, 'repair', watch_wait_s=0.5)
    world.port.revisions = [answer]
    world.robot.ask('pick the red cube')
    move_the_thing(while_reaching(world))
    world.run(lambda robot: world.results())

    assert world.results() == [('grasp', 'stopped')]
    assert world.touched == []
    world.run(limit_s=90)


def test_a_change_that_nobody_can_judge_stops_the_arm(manifest):
    """The link is gone: hold, and ask when it is back."""
    world = make(manifest, 'repair')
    world.robot.ask('pick the red cube')
    while_reaching(world).port.link = Link.DEGRADED
    move_the_thing(world)
    world.run(lambda robot: world.results())
    assert world.results() == [('grasp', 'stopped')]
    world.until_state('hold')
    world.port.link = Link.READY

    assert world.run().result.outcome is TaskOutcome.DONE


def test_an_image_that_never_rests_does_not_keep_the_arm_from_working(manifest):
    """Questions are bounded per call, and rate-limited."""
    world = make(manifest, 'repair', [grasp(), place(), DONE], watch_turns=3)
    world.port.revisions = [
        lambda turn: place() if turn.memory.hand_holds else grasp()]

    def flicker(world):
        value = world.clock.now_ns() // 20_000_000 * 83 % 256
        move_the_thing(world, value)
        world.image[2:8, 3:10] = value

    world.each_step = flicker
    world.robot.ask(PUT)

    assert world.run(limit_s=90).result.outcome is TaskOutcome.DONE
    asked = [event['t_s'] for event in world.events('turn') if event.get('revises')]
    assert 1 <= len(asked) <= 6
    assert min(b - a for a, b in zip(asked, asked[1:], strict=False)) >= 0.19


def test_the_last_look_is_taken_before_contact(manifest):
    """Moved when the arm is above it already: it is seen, and not touched where it was."""
    world = make(manifest, 'repair')
    world.port.revisions = [grasp(y=0.14)]
    world.robot.ask('pick the red cube')
    world.run(lambda robot: robot.status().step_index == 1)
    move_the_thing(world)

    assert world.run().result.outcome is TaskOutcome.DONE
    assert world.results() == [('grasp', 'stopped'), ('grasp', 'held')]
    assert set(world.touched) <= {(0.5, y / 100) for y in range(13, 16)}


def test_a_camera_that_falls_silent_keeps_the_arm_from_touching(manifest):
    """Without a last look there is no contact."""
    world = make(manifest, 'repair', watch_wait_s=0.5)
    world.robot.ask('pick the red cube')
    while_reaching(world).has_images = False

    assert world.run().result.end.value == 'no_image'
    assert (world.results(), world.touched) == ([('grasp', 'stopped')], [])


def test_a_watch_is_over_at_contact(manifest):
    """What the hand itself changes in the image is no news."""
    world = make(manifest, 'repair', [grasp(), DONE])
    world.robot.ask('pick the red cube')
    world.run(lambda robot: world.arm.positions[2] < 0.15)
    move_the_thing(world)
    world.run()

    assert world.results() == [('grasp', 'held')]
    assert not world.events('change_seen')
    assert world.port.scripts[Purpose.CHECK] == [YES]


def test_from_among_the_things_the_arm_goes_up_before_it_goes_elsewhere(manifest):
    """A push that is stopped low: lift first, then the newer choice."""
    farther = replace(push(), steps=tuple(
        replace(step, point=(0.5, 0.5), target_in_base_m=step.target_in_base_m and (
            step.target_in_base_m[0], 0.16, step.target_in_base_m[2]))
        for step in push().steps))
    near = replace(push(), steps=tuple(replace(s, point=(0.5, 0.5)) for s in push().steps))
    world = make(manifest, 'repair', [near, DONE])
    world.port.revisions = [farther]
    world.robot.ask(PUT)
    world.run(lambda robot: robot.status().step_index == 1 and world.arm.positions[2] < 0.15)
    move_the_thing(world)
    world.until_state('hold')
    heights = []
    world.each_step = lambda world: heights.append(world.arm.positions[2])
    world.run(lambda robot: len(world.results()) == 2)

    assert world.results() == [('push', 'stopped'), ('push', 'pushed')]
    assert world.events('retreat')[0]['skills'] == ['lift']
    assert max(heights) > 0.2


def test_stops_one_after_the_other_come_to_an_end(manifest):
    """In mode exact, before a scene that never rests: after some stops a call is let through."""
    acts = [lambda turn: DONE if turn.memory.hand_holds else grasp()]
    world = make(manifest, 'exact', acts, watch_turns=3)
    world.each_step = lambda world: move_the_thing(
        world, world.clock.now_ns() // 20_000_000 * 83 % 256)
    world.robot.ask('pick the red cube')
    world.run(limit_s=120)

    results = world.results()
    assert results == [('grasp', 'stopped')] * (len(results) - 1) + [('grasp', 'held')]
    assert len(results) <= 4
    assert len(world.events('objection')) <= 9
