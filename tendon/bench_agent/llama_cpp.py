# SPDX-License-Identifier: Apache-2.0
"""llama.cpp's server in this process (package ``xllamacpp``), with its prefix reuse and slots.

It is given the bench's own weights as a GGUF file in single precision, and one thread. Its keys
and values have 16 bits, as by default.
"""

import json
from pathlib import Path
import tempfile
from typing import Any
import urllib.request

from tendon.bench_agent.arm import Cost, Step, timed
from tendon.bench_agent.script import Turn

INSTALL = 'pip install xllamacpp gguf'
CONTEXT = 4096
WAIT_S = 300.0
"""The longest that a request may take."""


class LlamaCpp:
    """One slot of the server.

    Args:
        weights: a GGUF file.
        threads: that it computes with.
    """

    name, maker = 'llama.cpp', 'llama.cpp'

    def __init__(self, weights: Path, threads: int = 1) -> None:
        import xllamacpp

        self._folder = tempfile.TemporaryDirectory()
        params = xllamacpp.CommonParams()
        params.model.path = str(weights)
        params.n_ctx, params.n_parallel, params.n_gpu_layers = CONTEXT, 1, 0
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.endpoint_slots, params.slot_save_path = True, f'{self._folder.name}/'
        params.port, params.warmup, params.verbosity, params.cache_ram_mib = 0, False, -1, 0
        self._server: Any = xllamacpp.Server(params)

    def take(self, turn: Turn) -> Step:
        cost = Cost()
        asked = {
            'prompt': list(turn.prompt), 'n_predict': 1, 'temperature': 0, 'cache_prompt': True,
            'return_tokens': True, 'id_slot': 0,
        }
        with timed(cost):
            answer = self._post('/completion', asked)
        return Step(cost, int(answer['timings']['prompt_n']), int(answer['tokens'][0]))

    def restart(self) -> Cost:
        cost = Cost()
        file = {'filename': 'session.bin'}
        self._post('/slots/0?action=save', file)
        self._post('/slots/0?action=erase', {})
        with timed(cost):
            self._post('/slots/0?action=restore', file)
        return cost

    def close(self) -> None:
        self._server = None
        self._folder.cleanup()

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(
            self._server.listening_address + path, json.dumps(body).encode(),
            {'Content-Type': 'application/json'},
        )
        with urllib.request.urlopen(request, timeout=WAIT_S) as reply:
            return json.load(reply)
