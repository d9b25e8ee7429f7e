# SPDX-License-Identifier: Apache-2.0
"""A codec made up for the test of CONTRIBUTING.md: 16 bits a number, in a page format of its own.

No compiled loop knows the format, so torch decodes it.
"""

from __future__ import annotations

from cloud_backbone.kv_cache.raw import RawCodec
import torch


class ToyCode(RawCodec):
    """bfloat16[slots, head_dim] is a page."""

    layout = 'toy'

    def __init__(self, head_dim: int, slots: int = 32) -> None:
        super().__init__(head_dim, torch.bfloat16, slots)
