# SPDX-License-Identifier: Apache-2.0
import json

from onboard_decoder.agent.transcript import RecentEvents, Transcript

from tests.onboard_decoder.gantry import DONE, gantry, Lockstep, pick_plan


def test_each_event_is_on_disk_at_once(tmp_path):
    """A crash after the write loses nothing; a second run appends."""
    path = tmp_path / 'runs' / 'transcript.jsonl'
    for number in range(2):
        transcript = Transcript(path)
        transcript.write({'event': 'task', 'number': number})
        assert len(path.read_text().splitlines()) == number + 1
        transcript.close()
        transcript.close()
        transcript.write({'event': 'late'})

    assert [json.loads(line)['number'] for line in path.read_text().splitlines()] == [0, 1]


def test_a_task_can_be_read_from_its_transcript(tmp_path):
    """Instruction, question, plan with targets, steps and result, in order."""
    transcript = Transcript(tmp_path / 't.jsonl')
    world = Lockstep(gantry(tmp_path), [pick_plan(), DONE], sinks=[transcript])
    world.arm.thing_m, world.arm.thing_below_m = 0.02, 0.05
    world.robot.ask('pick it')
    world.run()
    transcript.close()

    events = [json.loads(line) for line in (tmp_path / 't.jsonl').read_text().splitlines()]

    kinds = [event['event'] for event in events]
    assert kinds == ['task', 'turn', 'answer', 'step', 'step', 'step', 'step', 'result']
    assert events[2]['steps'][0]['target_in_base_m'] == [0.5, 0.1, 0.2]
    assert events[-1]['outcome'] == 'done'
    assert events == [json.loads(json.dumps(event)) for event in world.robot.events]


def test_memory_forgets_the_oldest():
    """It does not grow for ever."""
    recent = RecentEvents(size=2)
    for number in range(5):
        recent.write({'number': number})

    assert [event['number'] for event in recent.list()] == [3, 4]
