# SPDX-License-Identifier: Apache-2.0
"""A server for the wire format of openpi 0.1.2, whose own server is not on PyPI.

One websocket message each way, packed with msgpack; metadata on connecting; timing in the answer.
Prints its port.
"""

import asyncio
import time
from typing import Any

from openpi_client import msgpack_numpy
from tendon.bench_transport.rounds import chunk
from websockets.asyncio.server import serve, ServerConnection


async def _answer(connection: ServerConnection) -> None:
    packer, actions = msgpack_numpy.Packer(), chunk()
    await connection.send(packer.pack({}))
    async for message in connection:
        began_s = time.monotonic()
        msgpack_numpy.unpackb(message)
        answer: dict[str, Any] = {'actions': actions}
        answer['server_timing'] = {'infer_ms': (time.monotonic() - began_s) * 1e3}
        await connection.send(packer.pack(answer))


async def _serve() -> None:
    async with serve(_answer, '127.0.0.1', 0, compression=None, max_size=None) as server:
        print(next(iter(server.sockets)).getsockname()[1], flush=True)
        await asyncio.get_running_loop().create_future()


if __name__ == '__main__':
    try:
        asyncio.run(_serve())
    except KeyboardInterrupt:
        pass
