# SPDX-License-Identifier: Apache-2.0
"""Promises of the rule that keeps what the last rows look at."""

from cloud_backbone.kv_cache.snapkv import SnapKV
import pytest
import torch

from tests.cloud_backbone.kv_cache.attention_rows import attention_rows, fresh, prompt


def test_the_mean_is_that_of_a_loop() -> None:
    """Before the window: mean of rows and heads, averaged over five neighbours, edges padded."""
    positions, queries = prompt(2, 40, 8)
    attention = attention_rows(positions, queries, group=3)
    snap = SnapKV()
    mean = snap.observe(fresh(snap, positions), attention, positions, queries)['mean']
    for head in range(2):
        plain = [attention[head, :, :, slot].mean().item() for slot in range(40)]
        for slot in range(32):
            near = [plain[j] for j in range(slot - 2, slot + 3) if 0 <= j < 32]
            assert mean[head, slot].item() == pytest.approx(sum(near) / 5, rel=0.01)


def test_slots_of_the_window_count_the_rows_that_see_them() -> None:
    """The last token, seen once, has that one weight as its mean."""
    positions, queries = prompt(1, 40, 8)
    attention = attention_rows(positions, queries, group=1)
    snap = SnapKV()
    mean = snap.observe(fresh(snap, positions), attention, positions, queries)['mean']
    assert mean[0, 39].item() == pytest.approx(attention[0, 0, 7, 39].item(), rel=0.01)
    assert mean[0, 36].item() == pytest.approx(attention[0, 0, 4:, 36].mean().item(), rel=0.01)


def test_a_later_window_weighs_as_many_steps() -> None:
    """An old slot moves as far as eight single rows would move it; a new one wholly."""
    snap = SnapKV(window=8, kernel=1)
    positions = torch.arange(20).expand(1, 20)
    columns = fresh(snap, positions)
    columns['mean'][:, :10] = 0.5
    attention = torch.zeros(1, 1, 8, 20)
    attention[..., 3], attention[..., 11] = 0.25, 0.125
    mean = snap.observe(columns, attention, positions, torch.arange(12, 20))['mean'].float()
    kept = (1 - 1 / 8) ** 8
    assert mean[0, 3].item() == pytest.approx(0.25 + kept * 0.25, rel=0.01)
    assert mean[0, 4].item() == pytest.approx(kept * 0.5, rel=0.01)
    assert mean[0, 11].item() == 0.125


def test_a_decoding_step_is_an_exponential_mean_without_pooling() -> None:
    """One row moves each mean by a 32nd of the way."""
    snap = SnapKV()
    positions = torch.arange(6).expand(1, 6)
    columns = {'mean': torch.full((1, 6), 0.5, dtype=torch.bfloat16)}
    attention = torch.zeros(1, 2, 1, 6)
    attention[:, 0, 0, 2] = 1
    mean = snap.observe(columns, attention, positions, torch.tensor([5]))['mean'].float()
    assert mean[0, 2].item() == 0.5
    assert mean[0, 1].item() == pytest.approx(0.5 * 31 / 32, rel=0.004)


def test_a_stored_mean_decays_to_nothing() -> None:
    """Half the bits do not keep a token alive that nothing looks at."""
    snap = SnapKV()
    positions = torch.arange(2).expand(1, 2)
    columns = {'mean': torch.tensor([[0.9, 1e-4]], dtype=torch.bfloat16)}
    for _ in range(500):
        columns = snap.observe(columns, torch.zeros(1, 1, 1, 2), positions, torch.tensor([1]))
    assert columns['mean'].max() < 1e-5


@pytest.mark.parametrize('kernel', [0, 2, -1])
def test_kernels_without_a_middle_are_refused(kernel: int) -> None:
    """The message names the kernel."""
    with pytest.raises(ValueError, match=f'kernel of {kernel}'):
        SnapKV(kernel=kernel)


def test_a_window_without_rows_is_refused() -> None:
    """The message names the window."""
    with pytest.raises(ValueError, match='window of 0 rows'):
        SnapKV(window=0)
