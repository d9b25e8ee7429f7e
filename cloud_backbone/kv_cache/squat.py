# SPDX-License-Identifier: Apache-2.0
"""SQuat: key errors are pushed where no query looks. Pages are those of KIVI.

Wang et al., "SQuat: Subspace-orthogonal KV Cache Quantization", COLM 2025. With the queries Q
(rows, d) that share a KV head, keys are quantised a block of g channels at a time; the error e of
the blocks done is made up for in the channels R still to do:

    min e^T M e      k_R += -M_RR^-1 M_RE e_E      scale and minimum measured after each update

    paper    M = I + lam Qhat^T Qhat,   Qhat = diag(s_1..s_r) V_r^T of the SVD of Q
    gram     M = C + ridge tr(C) / d I,   C = Q^T Q / rows                               (default)

Changed, and why:
    - Metric. lam does not scale with the prompt: the longer it is, the less I weighs. The mean
      Gram has a ridge that falls with rows / d instead, and needs no rank to be chosen.
    - Gains. The paper keeps inverses of M; only the gains -M_RR^-1 M_RE are needed, in float16.
    - Later turns. The metric is built back from the gains and their pivots, so nothing else is
      kept between turns, and it moves on as the mean over all queries seen.
    - Order. An error is made up for in later channels only. Queries of trained models look most at
      the channels that the rotary code turns slowest, so the gram form begins with those.
    - g. The paper's 64 does nothing for heads of 64 channels: one block leaves nothing to correct.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Literal

from cloud_backbone.kv_cache.codec import Codec
from cloud_backbone.kv_cache.errors import CacheError
from cloud_backbone.kv_cache.kivi import KiviCodec, LARGEST, quantize, restore
from cloud_backbone.kv_cache.squat_gains import eye_like, factor, metric_of, ridged, SquatGains
import torch
from torch import Tensor

Form = Literal['gram', 'paper']
FORMS = ('gram', 'paper')
LARGEST_PRODUCT = 1e30
LEAST_RIDGE, MOST_RIDGE = 0.03, 1.0
LEAST_GIVEN, MOST_GIVEN = 1e-3, 1e6


class SquatCodec(KiviCodec):
    """KIVI with error feedback between the channels of a key; plain KIVI until it has learned."""

    def __init__(
        self,
        head_dim: int,
        kv_heads: int,
        bits: int,
        slots: int = 32,
        form: Form = 'gram',
        channel_block: int = 8,
        ridge: float | None = None,
        rank: int = 20,
        lam: float = 0.001,
        gains: SquatGains | None = None,
    ) -> None:
        """Build the codec of one layer.

        Args:
            head_dim: channels of a head.
            kv_heads: KV heads of the layer.
            bits: 2 or 4.
            slots: slots of a block.
            form: the metric, 'gram' or 'paper'.
            channel_block: g, channels that are rounded together; divides head_dim.
            ridge: of the gram form; None lets it fall from 1 to 0.03 as rows / head_dim grows.
            rank: r of the paper form.
            lam: of the paper form; 0 makes it KIVI.
            gains: a table shared with other sessions; nothing is learned on top of it.
        """
        super().__init__(head_dim, bits, slots)
        _check_options(form, ridge, rank, lam)
        self.form, self.ridge, self.rank, self.lam = form, ridge, rank, lam
        self.shared = gains is not None
        self.gains = gains or SquatGains.none(
            kv_heads, head_dim, channel_block, slow_first=form == 'gram'
        )
        self.gains.check(kv_heads, head_dim)
        self.pivots: Tensor | None = None
        self.rows = 0

    def learn(self, queries: Tensor) -> None:
        """Add queries (kv_heads, rows, head_dim) to the metric; not if any is not finite."""
        rows = queries.shape[1]
        if self.shared or not rows or not self.gains.elements or self._is_flat():
            return
        queries = queries.float()[..., self.gains.order]
        product = (queries.mT @ queries).double()
        if not (product.abs() < LARGEST_PRODUCT).all():
            return
        product += self._seen()
        self.rows += rows
        table, pivots = factor(self._metric(product), self.gains.channel_block)
        self.gains = replace(self.gains, table=table)
        self.pivots = pivots

    def encode_key(self, key: Tensor) -> Tensor:
        if not self.shared and self.pivots is None:
            return super().encode_key(key)
        order = self.gains.order
        work = self._blocks(key)[..., order].clamp(-LARGEST, LARGEST)
        done = [self._round(work, block) for block in range(self.gains.blocks)]
        back = order.argsort()
        return self._key_page(
            *(torch.cat(parts, dim=-1)[..., back] for parts in zip(*done, strict=True))
        )

    def nbytes(self) -> int:
        """Bytes of the gains and their pivots; of a shared table none."""
        if self.pivots is None:
            return 0
        return self.gains.nbytes() + self.pivots.nbytes

    def learned_bytes(self, kv_heads: int) -> int:
        """Bytes of gains and pivots, learned or not; of a shared table none."""
        if self.shared:
            return 0
        gains = self.gains
        return gains.nbytes() + 4 * kv_heads * gains.blocks * gains.channel_block**2

    def fork(self) -> Codec:
        """Return a copy; what was learned is replaced, never changed."""
        return copy(self)

    def tensors(self) -> dict[str, Tensor]:
        """Return what was learned, for a file; of shared gains a digest."""
        if self.shared:
            return {'digest': self.gains.digest()}
        if self.pivots is None:
            return {}
        rows = torch.tensor([self.rows], dtype=torch.int64)
        return {**self.gains.tensors(), 'pivots': self.pivots, 'rows': rows}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Take back what ``tensors`` returned.

        Raises:
            CacheError: the tensors are of another layer, or broken.
        """
        if not tensors:
            return
        if self.shared:
            if not torch.equal(tensors.get('digest', self.gains.table), self.gains.digest()):
                raise CacheError('the pages were made with other gains than those of this model')
            return
        gains = SquatGains.from_tensors(tensors)
        gains.check(self.gains.table.shape[0], self.head_dim)
        size = gains.channel_block
        shape = (gains.table.shape[0], gains.blocks, size, size)
        pivots, rows = tensors.get('pivots'), int(tensors.get('rows', 0))
        if pivots is None or pivots.shape != shape or not pivots.isfinite().all() or rows < 1:
            raise CacheError(f'pivots of {rows} rows are broken, or are not {shape}')
        self.gains, self.pivots, self.rows = gains, pivots.float(), rows

    def _round(self, work: Tensor, block: int) -> tuple[Tensor, Tensor, Tensor]:
        """Quantise one block of channels and correct those after it, in place."""
        size = self.gains.channel_block
        start, stop = block * size, (block + 1) * size
        current = work[..., start:stop]
        codes, scale, minimum = quantize(current, self.bits, -2)
        if stop < self.head_dim:
            error = restore(codes, scale, minimum) - current
            gain = self.gains.block(block).to(work)
            rest = work[..., stop:]
            rest += (error.flatten(1, 2) @ gain).view_as(rest)
            # What no page can hold would be passed on as error, and grow.
            rest.clamp_(-LARGEST, LARGEST)
        return codes, scale, minimum

    def _is_flat(self) -> bool:
        """Whether the metric is I whatever the queries."""
        return self.form == 'paper' and (self.lam == 0 or self.rank == 0)

    def _seen(self) -> Tensor | float:
        """Return Q^T Q of the queries seen, as far as the metric keeps it."""
        if self.pivots is None:
            return 0.0
        metric = metric_of(self.gains, self.pivots)
        if self.form == 'paper':
            return _positive((metric - eye_like(metric)) / self.lam)
        ridge = self._ridge_now()
        # tr(M) is (1 + ridge) tr(C).
        spread = metric.diagonal(dim1=-2, dim2=-1).mean(-1)[:, None, None] * ridge / (1 + ridge)
        return _positive(metric - spread * eye_like(metric)) * self.rows

    def _metric(self, product: Tensor) -> Tensor:
        """Return M (kv_heads, head_dim, head_dim) of Q^T Q."""
        if self.form == 'paper':
            strength, axes = torch.linalg.eigh(product)
            strength, axes = strength[:, -self.rank:].clamp(min=0), axes[..., -self.rank:]
            return eye_like(product) + self.lam * (axes * strength[:, None]) @ axes.mT
        return ridged(product / self.rows, self._ridge_now())

    def _ridge_now(self) -> float:
        if self.ridge is not None:
            return self.ridge
        return min(MOST_RIDGE, max(LEAST_RIDGE, self.head_dim / self.rows))


def _check_options(form: str, ridge: float | None, rank: int, lam: float) -> None:
    if form not in FORMS:
        raise CacheError(f'SQuat has no form {form!r}; known are {FORMS}')
    if ridge is not None and not LEAST_GIVEN <= ridge <= MOST_GIVEN:
        raise CacheError(f'ridge {ridge} is not between {LEAST_GIVEN} and {MOST_GIVEN}')
    if rank < 0 or not 0 <= lam <= MOST_GIVEN:
        raise CacheError(f'rank {rank} is below 0, or lam {lam} not between 0 and {MOST_GIVEN}')


def _positive(matrix: Tensor) -> Tensor:
    """Return a symmetric matrix without its negative directions, which rounding has made."""
    strength, axes = torch.linalg.eigh(matrix)
    return (axes * strength.clamp(min=0)[:, None]) @ axes.mT
