# SPDX-License-Identifier: Apache-2.0
"""The gains of SQuat: how the rounding error of some channels is made up for in later ones.

With M = U U^T, U upper triangular, and V = U^-1, the gain of block E on the remaining channels R
is U_EE V_ER = -(M_RR^-1 M_RE)^T: one Cholesky factor and one triangular inverse for all blocks.
The gains and the pivots D_E = U_EE U_EE^T give M back: with T^-1 the unit matrix plus the gains
right of its diagonal blocks, M = T D T^T. M may be of channels in another order than those of a
head: gains say in which. Knows neither queries nor pages.
"""

from __future__ import annotations

from dataclasses import dataclass
import hashlib

from cloud_backbone.kv_cache.errors import CacheError
import torch
from torch import Tensor

LARGEST = torch.finfo(torch.float16).max
ROUNDING = 1e-9
TINY = 1e-20


@dataclass(frozen=True, eq=False)
class SquatGains:
    """Gains of the KV heads of one layer; may be shared by sessions."""

    table: Tensor
    """float16 (kv_heads, elements): the gains (channel_block, remaining) of all blocks in turn."""
    head_dim: int
    channel_block: int
    slow_first: bool = False
    """Whether channels are taken by :func:`slow_channels_first`, else as they lie."""

    @classmethod
    def none(
        cls, kv_heads: int, head_dim: int, channel_block: int, slow_first: bool = False
    ) -> SquatGains:
        """Return gains of 0, which correct nothing."""
        if channel_block < 1 or head_dim < 1 or head_dim % channel_block:
            raise CacheError(f'channel_block {channel_block} does not divide head_dim {head_dim}')
        elements = head_dim * (head_dim - channel_block) // 2
        table = torch.zeros(1, 1, dtype=torch.float16).expand(kv_heads, elements)
        return cls(table, head_dim, channel_block, slow_first)

    @classmethod
    def from_gram(cls, gram: Tensor, channel_block: int, ridge: float = 0.03) -> SquatGains:
        """Return the gains of the mean Gram of queries (kv_heads, head_dim, head_dim)."""
        head_dim = gram.shape[-1]
        cls.none(1, head_dim, channel_block)
        order = slow_channels_first(head_dim)
        table, _ = factor(ridged(gram[:, order][:, :, order].double(), ridge), channel_block)
        return cls(table, head_dim, channel_block, slow_first=True)

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> SquatGains:
        """Take back what ``tensors`` returned; whatever else is in there is not read.

        Raises:
            CacheError: the tensors contradict each other, or are not finite.
        """
        if missing := {'gains', 'shape'} - tensors.keys():
            raise CacheError(f'gains lack {", ".join(sorted(missing))}')
        table, shape = tensors['gains'], tensors['shape'].tolist()
        if len(shape) != 2 or table.dim() != 2 or not table.isfinite().all():
            raise CacheError(f'gains {tuple(table.shape)} of head and block {shape} are broken')
        empty = cls.none(table.shape[0], *shape)
        if empty.table.shape != table.shape:
            raise CacheError(f'gains {tuple(table.shape)} do not fit head and block {shape}')
        return cls(table.half(), shape[0], shape[1], 'slow_first' in tensors)

    def tensors(self) -> dict[str, Tensor]:
        """Return tensors for a file."""
        shape = torch.tensor([self.head_dim, self.channel_block])
        named = {'gains': self.table.contiguous(), 'shape': shape}
        return named | ({'slow_first': torch.ones(1)} if self.slow_first else {})

    def digest(self) -> Tensor:
        """Return the SHA-256 of the table as bytes (32,), uint8."""
        table = self.table.contiguous().view(torch.uint8).numpy()
        return torch.tensor(list(hashlib.sha256(table).digest()), dtype=torch.uint8)

    @property
    def order(self) -> Tensor:
        """Channels as the gains take them, int64 (head_dim,)."""
        return (slow_channels_first if self.slow_first else torch.arange)(self.head_dim)

    @property
    def elements(self) -> int:
        """Gains of one KV head: head_dim^2 / 2 (1 - channel_block / head_dim)."""
        return int(self.table.shape[1])

    @property
    def blocks(self) -> int:
        """Blocks of channels."""
        return self.head_dim // self.channel_block

    def block(self, index: int) -> Tensor:
        """Return the gains of one block, float16 (kv_heads, channel_block, remaining)."""
        size = self.channel_block
        start = size * (index * self.head_dim - size * index * (index + 1) // 2)
        remaining = self.head_dim - (index + 1) * size
        return self.table[:, start:start + size * remaining].unflatten(1, (size, remaining))

    def check(self, kv_heads: int, head_dim: int) -> None:
        """Refuse gains of another shape of layer.

        Raises:
            CacheError: other heads or another width.
        """
        if (self.table.shape[0], self.head_dim) != (kv_heads, head_dim):
            raise CacheError(
                f'gains are of {self.table.shape[0]} heads of {self.head_dim} channels, '
                f'not of {kv_heads} of {head_dim}'
            )

    def nbytes(self) -> int:
        """Bytes of the table."""
        return self.table.numel() * self.table.element_size()


def slow_channels_first(head_dim: int) -> Tensor:
    """Return channels int64 (head_dim,) by how slowly the rotary code turns them.

    Pairs lie half a head apart, as in the models of transformers. Where a head is not rotated, or
    in part, this is an order like any other.
    """
    half = head_dim // 2
    return torch.arange(2 * half).view(2, half).flip(1).mT.flatten()


def ridged(gram: Tensor, ridge: float) -> Tensor:
    """Return C + ridge tr(C) / d I; where C is zero, a multiple of I."""
    spread = ridge * gram.diagonal(dim1=-2, dim2=-1).mean(-1).clamp(min=TINY)
    return gram + spread[:, None, None] * eye_like(gram)


def eye_like(matrix: Tensor) -> Tensor:
    """Return the unit matrix of the last axes."""
    return torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)


def factor(metric: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Split M (kv_heads, d, d), positive definite and not zero, into gains and pivots.

    Returns:
        Gains float16 (kv_heads, elements); pivots float32 (kv_heads, d / size, size, size).
    """
    metric = metric.double()
    # Rounding must not make it indefinite.
    largest = metric.diagonal(dim1=-2, dim2=-1).amax(-1)[:, None, None]
    eye = eye_like(metric)
    metric = metric + ROUNDING * largest * eye
    # The factor of the mirrored matrix, mirrored back, is upper triangular.
    upper = torch.linalg.cholesky(metric.flip(-1, -2)).flip(-1, -2)
    inverse = torch.linalg.solve_triangular(upper, eye.expand_as(upper), upper=True)
    gains, pivots = [], []
    for start in range(0, upper.shape[-1], size):
        stop = start + size
        corner = upper[:, start:stop, start:stop]
        gains.append((corner @ inverse[:, start:stop, stop:]).flatten(1))
        pivots.append(corner @ corner.mT)
    table = torch.cat(gains, dim=1).clamp(-LARGEST, LARGEST)
    return table.half(), torch.stack(pivots, dim=1).float()


def metric_of(gains: SquatGains, pivots: Tensor) -> Tensor:
    """Put M float64 (kv_heads, d, d) together again from its gains and pivots."""
    size, width = gains.channel_block, gains.head_dim
    eye = torch.eye(width, dtype=torch.float64, device=pivots.device)
    unit = eye.repeat(pivots.shape[0], 1, 1)
    diagonal = torch.zeros_like(unit)
    for index in range(gains.blocks):
        start, stop = index * size, (index + 1) * size
        unit[:, start:stop, stop:] = gains.block(index).double()
        diagonal[:, start:stop, start:stop] = pivots[:, index].double()
    lift = torch.linalg.solve_triangular(unit, eye.expand_as(unit), upper=True)
    return lift @ diagonal @ lift.mT
