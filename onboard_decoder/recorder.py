# SPDX-License-Identifier: Apache-2.0
"""Records a run as MCAP: images, joints, commands, the agent's events and the turns' latencies.

A thread of its own writes; callers only put into a bounded queue, and what does not fit is counted
and lost. Messages are JSON with a schema in the file; images are JPEG in it, as Foxglove's
CompressedImage. Stamps are of the robot's clock. Needs the package ``mcap``.
"""

import base64
from collections.abc import Mapping
import json
from pathlib import Path
import queue
import threading
from typing import Any

from onboard_decoder.clock import Clock, NS_PER_S
from onboard_decoder.errors import ConfigError
from onboard_decoder.image_codec import encode_jpeg, Image
from onboard_decoder.servo import Command

Fields = Mapping[str, Mapping[str, Any]]

_NUMBERS: Mapping[str, Any] = {'type': 'array', 'items': {'type': 'number'}}
_TEXTS: Mapping[str, Any] = {'type': 'array', 'items': {'type': 'string'}}
_TIME: Mapping[str, Any] = {
    'type': 'object', 'properties': {'sec': {'type': 'integer'}, 'nsec': {'type': 'integer'}}
}
_SCHEMAS: dict[str, Fields] = {
    'tendon.Joints': {'positions': _NUMBERS, 'velocities': _NUMBERS, 'names': _TEXTS},
    'tendon.Command': {'tick': {'type': 'integer'}, 'positions': _NUMBERS, 'velocities': _NUMBERS},
    'tendon.Event': {'event': {'type': 'string'}},
    'tendon.Latency': {'turn_id': {'type': 'string'}, 'stages_ns': {'type': 'object'}},
    'foxglove.CompressedImage': {
        'timestamp': _TIME, 'frame_id': {'type': 'string'}, 'format': {'type': 'string'},
        'data': {'type': 'string', 'contentEncoding': 'base64'},
    },
}


class Recorder:
    """Writes one file; every method returns at once."""

    def __init__(self, path: Path | str, clock: Clock, size: int = 2000) -> None:
        """Open the file. Raises ConfigError where it cannot be written or ``mcap`` is missing."""
        self.path = Path(path)
        try:
            from mcap.writer import Writer

            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open('wb')
        except ImportError as error:
            raise ConfigError("recording needs mcap; run: pip install 'tendon[report]'") from error
        except OSError as error:
            raise ConfigError(f'cannot record to {self.path}: {error.strerror}') from error
        self._clock, self._writer = clock, Writer(self._file)
        self._queue: queue.Queue[tuple[str, str, int, Any] | None] = queue.Queue(size)
        self._channels: dict[str, int] = {}
        self.lost_count = 0
        self._writer.start(profile='', library='tendon')
        self._thread = threading.Thread(target=self._run, name='recorder', daemon=True)
        self._thread.start()

    def joints(self, names: list[str], positions: list[float], velocities: list[float]) -> None:
        """Record measured joints."""
        record = {'names': names, 'positions': positions, 'velocities': velocities}
        self._put('/joints', 'tendon.Joints', record)

    def command(self, command: Command) -> None:
        """Record a command."""
        self._put('/command', 'tendon.Command', command)

    def image(self, camera: str, rgb: Image) -> None:
        """Record an image (height, width, 3) RGB; it is encoded by the recorder's thread."""
        self._put(f'/camera/{camera}', 'foxglove.CompressedImage', (camera, rgb))

    def write(self, event: Mapping[str, object]) -> None:
        """Record an event of the agent, plans among them."""
        self._put('/agent', 'tendon.Event', event)

    def latency(self, record: Mapping[str, Any]) -> None:
        """Record a turn's trace."""
        self._put('/latency', 'tendon.Latency', record)

    def close(self) -> None:
        """Write what is queued, finish the file; idempotent."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()

    def _put(self, topic: str, schema: str, content: Any) -> None:
        try:
            self._queue.put_nowait((topic, schema, self._clock.now_ns(), content))
        except queue.Full:
            self.lost_count += 1

    def _run(self) -> None:
        """Write until closed."""
        while (item := self._queue.get()) is not None:
            topic, schema, time_ns, content = item
            data = json.dumps(_as_record(content, time_ns)).encode()
            self._writer.add_message(self._channel(topic, schema), time_ns, data, time_ns)
        self._writer.finish()  # type: ignore[no-untyped-call]
        self._file.close()

    def _channel(self, topic: str, schema: str) -> int:
        """Return the channel of a topic; the first use registers it."""
        if topic not in self._channels:
            text = json.dumps({'type': 'object', 'properties': _SCHEMAS[schema]})
            schema_id = self._writer.register_schema(schema, 'jsonschema', text.encode())
            self._channels[topic] = self._writer.register_channel(topic, 'json', schema_id)
        return self._channels[topic]


def _as_record(content: Any, time_ns: int) -> Mapping[str, Any]:
    """Turn what was queued into JSON values."""
    if isinstance(content, Command):
        return {
            'tick': content.tick,
            'positions': content.positions.tolist(),
            'velocities': content.velocities.tolist(),
        }
    if isinstance(content, tuple):
        camera, rgb = content
        jpeg = encode_jpeg(rgb, rgb.shape[1], rgb.shape[0])
        return {
            'timestamp': {'sec': time_ns // NS_PER_S, 'nsec': time_ns % NS_PER_S},
            'frame_id': camera,
            'format': 'jpeg',
            'data': base64.b64encode(jpeg).decode(),
        }
    return dict(content)
