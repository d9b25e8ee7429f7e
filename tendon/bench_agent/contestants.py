# SPDX-License-Identifier: Apache-2.0
"""Who takes part: our two arms, those of transformers, and the peers that are installed."""

from collections.abc import Callable
import importlib.util
from pathlib import Path

from tendon.bench_agent import llama_cpp, vllm_cpu
from tendon.bench_agent.arm import Arm
from tendon.bench_agent.gguf_file import unpack
from tendon.bench_agent.ours import Exact, Stale
from tendon.bench_agent.size import Size
from tendon.bench_agent.stock import Dynamic, Reprefill
from tendon.bench_agent.subjects import QUANTIZED, single_precision
from tendon.bench_kv.smollm2 import PACKAGE
from tendon.bench_kv.subject import Subject


def torch_arms(subject: Subject, size: Size) -> list[Arm]:
    """Return the arms that compute with the model itself."""
    model = subject.model
    return [Exact(model, size.most), Stale(model, size.most), Reprefill(model), Dynamic(model)]


def peers(subject: Subject) -> tuple[list[Arm], dict[str, str]]:
    """Return the peers that run here, and what to do about each of the others.

    Args:
        subject: SmolLM2 with the folder of its weights; None there: no peer can load it.
    """
    folder, found, missing = subject.folder, list[Arm](), dict[str, str]()
    if folder is None:
        return found, missing
    makers: dict[str, tuple[tuple[str, ...], str, Callable[[Path], Arm]]] = {
        'llama.cpp': (('xllamacpp', 'gguf', PACKAGE), llama_cpp.INSTALL, _llama),
        'vLLM': (('vllm',), vllm_cpu.INSTALL, vllm_cpu.Vllm),
    }
    for name, (needs, install, make) in makers.items():
        if not all(importlib.util.find_spec(module) for module in needs):
            missing[name] = install
            continue
        try:
            found.append(make(folder))
        except Exception as error:
            missing[name] = f'{install} (now: {type(error).__name__}: {error})'.splitlines()[0]
    return found, missing


def _llama(folder: Path) -> Arm:
    package = importlib.util.find_spec(PACKAGE)
    assert package is not None and package.origin is not None, 'looked for before'
    source = Path(package.origin).parent / QUANTIZED
    return llama_cpp.LlamaCpp(unpack(source, single_precision(folder)))
