# SPDX-License-Identifier: Apache-2.0
"""Begins with the weights of an earlier decoder file, so that training again takes minutes.

Weights are found by name. A layer that takes more inputs than it did ignores the new ones at
first. Knows no data.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onboard_decoder.errors import ConfigError
import onnx
from onnx import numpy_helper
import torch
from torch import nn


class EarlierDecoderError(ConfigError):
    """The file has no weights for this network."""

    def __init__(self, path: Path, name: str, found: object) -> None:
        super().__init__(
            f'{path}: weights {name} are {found}; a decoder.onnx of the same sizes is needed')


def begin_with(model: nn.Module, path: Path) -> None:
    """Copy what the file has; parameters that it does not know stay as they are.

    Raises:
      EarlierDecoderError: a weight has another shape, or none has a known name.
    """
    stored = {part.name: numpy_helper.to_array(part)
              for part in onnx.load(path).graph.initializer}
    known = [name for name, _ in model.named_parameters() if name in stored]
    if not known:
        raise EarlierDecoderError(path, next(model.named_parameters())[0], 'missing')
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name not in stored:
                continue
            values = torch.from_numpy(np.array(stored[name]))
            width = values.shape[-1]
            if values.shape[:-1] != parameter.shape[:-1] or width > parameter.shape[-1]:
                raise EarlierDecoderError(path, name, tuple(values.shape))
            parameter.zero_()
            parameter[..., :width] = values
