# SPDX-License-Identifier: Apache-2.0
"""Writes a network as an ONNX file, notes facts in it, and compares the two.

Knows no robot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
import warnings

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.errors import ConfigError
import onnx
import onnxruntime
import torch
from torch import nn, Tensor

OPSET = 18


class ParityError(ConfigError):
    """The exported file does not compute what the network computes."""

    def __init__(self, path: Path, difference: float, allowed: float) -> None:
        super().__init__(
            f'{path} differs from its network by {difference:.2g}; allowed: {allowed:g}')


def write(
    model: nn.Module, inputs: Mapping[str, Tensor], outputs: Sequence[str], path: Path
) -> None:
    """Write the graph; inputs are named as the arguments of ``model`` and in their order."""
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # the exporter warns about its own parts
        torch.onnx.export(
            model, tuple(inputs.values()), path, input_names=list(inputs),
            output_names=list(outputs), opset_version=OPSET, dynamo=True, external_data=False,
            verbose=False)


def note(path: Path, facts: Mapping[str, str]) -> None:
    """Replace what a file says of itself, and make sure that it names no folder."""
    file = onnx.load(path)
    del file.metadata_props[:]
    onnx.helper.set_model_props(file, dict(facts))
    graph = file.graph
    parts: list[Any] = [*graph.node, *graph.value_info, *graph.input, *graph.output,
                        *graph.initializer]
    for part in parts:
        del part.metadata_props[:]
        part.doc_string = ''
    onnx.checker.check_model(file)
    onnx.save(file, path)


def greatest_difference(
    model: nn.Module, path: Path, outputs: Sequence[str], draws: Iterable[Mapping[str, Tensor]],
    is_relative: bool = False,
) -> float:
    """Return by how much file and network differ at most over some inputs; NaN stays NaN.

    A relative difference counts as share of 1 and the value.
    """
    worst = 0.0
    for mine, theirs in _answers(model, path, outputs, draws):
        size = 1.0 + np.abs(mine) if is_relative else 1.0
        worst = float(np.maximum(worst, (np.abs(mine - theirs) / size).max()))
    return worst


def _answers(
    model: nn.Module, path: Path, outputs: Sequence[str], draws: Iterable[Mapping[str, Tensor]]
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Yield each output of network and file."""
    session = onnxruntime.InferenceSession(str(path), providers=['CPUExecutionProvider'])
    for inputs in draws:
        with torch.no_grad():
            expected = model(**inputs)
        got = session.run(
            list(outputs), {name: value.numpy() for name, value in inputs.items()})
        for mine, theirs in zip(expected, got, strict=True):
            yield mine.numpy(), theirs
