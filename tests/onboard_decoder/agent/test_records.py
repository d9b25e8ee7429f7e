# SPDX-License-Identifier: Apache-2.0
import json

from onboard_decoder.agent.records import remembered
from onboard_decoder.agent.transcript import Transcript
from onboard_decoder.task_memory import Purpose, StepResult, TaskMemory
import pytest

from tests.onboard_decoder.agent.react_world import grasp, PUT, ReactWorld
from tests.onboard_decoder.agent.test_reflexion import act, only_low
from tests.onboard_decoder.gantry import gantry


def lines(path):
    """Events of a file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_transcript_rebuilds_what_every_turn_rested_on(tmp_path):
    """Cut at any turn, what is before it gives the memory that the turn was sent with."""
    transcript = Transcript(tmp_path / 't.jsonl')
    world = ReactWorld(gantry(tmp_path), [act], sinks=[transcript])
    world.each_step = only_low
    world.robot.ask(PUT)
    world.run()
    transcript.close()

    events = lines(tmp_path / 't.jsonl')
    places = [number for number, event in enumerate(events) if event['event'] == 'turn']
    assert len(places) == len(world.port.turns) > 5
    for place, turn in zip(places, world.port.turns, strict=True):
        told = remembered(events[:place], turn.memory.purpose)
        assert told.instruction == PUT
        assert (told.memory.trial, told.memory.lessons) == (turn.memory.trial, turn.memory.lessons)
        assert told.memory.entries == turn.memory.entries
        assert told.memory.hand_holds == turn.memory.hand_holds
        assert not told.is_over
    assert remembered(events).is_over


def test_only_the_last_task_counts(tmp_path):
    """A second instruction begins with an empty memory."""
    world = ReactWorld(gantry(tmp_path), [grasp()]).with_thing()
    world.robot.ask(PUT)
    world.run(lambda robot: world.results())
    world.robot.ask('pick the green ball')
    world.step()

    told = remembered(world.robot.events, Purpose.REFLECT)

    assert told.instruction == 'pick the green ball'
    assert told.memory == TaskMemory(purpose=Purpose.REFLECT)


def test_a_call_that_was_cut_off_is_in_the_transcript(tmp_path):
    """What a person stopped is known to whoever reads on."""
    world = ReactWorld(gantry(tmp_path), [grasp()])
    world.robot.ask(PUT)
    world.run(lambda robot: robot.status().step == 'reach' and not robot.is_at_rest)
    world.robot.stop()
    world.step()

    (entry,) = remembered(world.robot.events).memory.entries
    assert entry.result is StepResult.STOPPED
    assert world.events('entry')[0]['code'] == 'safety'


def test_a_transcript_with_a_hole_is_refused(tmp_path):
    """A memory with a missing step would be a wrong one."""
    world = ReactWorld(gantry(tmp_path), [grasp(y=0.3)], {'agent.max_trials': 1})
    world.robot.ask(PUT)
    world.run()
    entries = [event for event in world.robot.events if event['event'] == 'entry']
    events = [event for event in world.robot.events if event is not entries[0]]

    with pytest.raises(ValueError, match='step 2 of trial 1 where step 1'):
        remembered(events)
    assert remembered([]) is None
