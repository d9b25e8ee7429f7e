# SPDX-License-Identifier: Apache-2.0
import base64
import json

from mcap.reader import make_reader
import numpy as np
from onboard_decoder.clock import ManualClock
from onboard_decoder.errors import ConfigError
from onboard_decoder.image_codec import decode_compressed
from onboard_decoder.recorder import Recorder
from onboard_decoder.servo import Command
import pytest


def messages(path):
    """Read a file as topic -> list of records."""
    found = {}
    with path.open('rb') as stream:
        for schema, channel, message in make_reader(stream).iter_messages():
            assert schema.encoding == 'jsonschema'
            found.setdefault(channel.topic, []).append(json.loads(message.data))
    return found


def test_everything_that_was_recorded_is_read_back(tmp_path):
    """Joints, commands, images, events and latencies, each under its topic with a schema."""
    path = tmp_path / 'runs' / 'run.mcap'
    recorder = Recorder(path, ManualClock(5_000_000_000))
    image = np.full((24, 32, 3), 90, np.uint8)
    recorder.joints(['a', 'b'], [1.0, 2.0], [0.0, 0.0])
    recorder.command(Command(7, np.ones(2), np.zeros(2), np.ones(2), 0.0))
    recorder.image('front', image)
    recorder.write({'event': 'answer', 'steps': [{'skill': 'reach'}]})
    recorder.latency({'turn_id': 't1', 'stages_ns': {'decode': 5}})
    recorder.close()
    recorder.close()

    found = messages(path)

    assert found['/joints'][0]['names'] == ['a', 'b']
    assert found['/command'][0] == {'tick': 7, 'positions': [1.0, 1.0], 'velocities': [0.0, 0.0]}
    assert found['/agent'][0]['steps'] == [{'skill': 'reach'}]
    assert found['/latency'][0]['stages_ns'] == {'decode': 5}
    picture = found['/camera/front'][0]
    assert picture['timestamp'] == {'sec': 5, 'nsec': 0}
    jpeg = base64.b64decode(picture['data'])
    assert np.abs(decode_compressed(jpeg).astype(int) - image).max() < 5


def test_a_full_queue_loses_records_and_never_blocks(tmp_path):
    """What does not fit is counted."""
    recorder = Recorder(tmp_path / 'run.mcap', ManualClock(), size=3)
    image = np.zeros((1000, 1000, 3), np.uint8)

    for _ in range(50):
        recorder.image('front', image)
    recorder.close()

    written = len(messages(tmp_path / 'run.mcap')['/camera/front'])
    assert recorder.lost_count > 0
    assert written + recorder.lost_count == 50


def test_a_path_that_cannot_be_written_is_refused_at_once(tmp_path):
    """Before the robot starts, with the path."""
    (tmp_path / 'file').write_text('')

    with pytest.raises(ConfigError, match='cannot record to'):
        Recorder(tmp_path / 'file' / 'run.mcap', ManualClock())
