# SPDX-License-Identifier: Apache-2.0
"""Promises of the comparison between a network and its file."""

import math
from pathlib import Path

from onboard_decoder.training.onnx_writer import greatest_difference, note, write
import onnx
import pytest
import torch
from torch import nn, Tensor


class Scaled(nn.Module):
    """Gives its input times a number."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))

    def forward(self, given: Tensor) -> tuple[Tensor]:
        """Scale (1, 3)."""
        return (self.factor * given,)


def given(value: float) -> dict[str, Tensor]:
    """Return one input."""
    return {'given': torch.full((1, 3), value)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of a network that doubles."""
    file = tmp_path / 'doubling.onnx'
    write(Scaled(2.0).eval(), given(1.0), ['made'], file)
    return file


def test_a_file_that_computes_something_else_is_seen(path: Path) -> None:
    """The greatest difference over all inputs counts, absolute or as share of 1 and the value."""
    inputs = [given(1.0), given(-4.0), given(0.0)]

    assert greatest_difference(Scaled(2.0), path, ['made'], inputs) == 0.0
    assert greatest_difference(Scaled(3.0), path, ['made'], inputs) == pytest.approx(4.0)
    share = greatest_difference(Scaled(3.0), path, ['made'], inputs, is_relative=True)
    assert share == pytest.approx(4.0 / 13.0)


def test_a_value_that_is_not_a_number_is_no_agreement(path: Path) -> None:
    """NaN at one input is not hidden by the others."""
    inputs = [given(math.nan), given(1.0)]

    assert math.isnan(greatest_difference(Scaled(2.0), path, ['made'], inputs))


def test_facts_replace_those_before_and_no_folder_is_named(path: Path) -> None:
    """What the exporter left of its own is taken out."""
    note(path, {'robot': 'a', 'kind': 'old'})
    note(path, {'robot': 'b'})

    file = onnx.load(path)
    assert {entry.key: entry.value for entry in file.metadata_props} == {'robot': 'b'}
    assert not any(node.metadata_props or node.doc_string for node in file.graph.node)
