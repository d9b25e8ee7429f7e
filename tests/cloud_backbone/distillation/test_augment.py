# SPDX-License-Identifier: Apache-2.0
from cloud_backbone.distillation.augment import disturb_light, shift, turn_hues
import torch


def test_a_shift_moves_points_with_the_image() -> None:
    """A bright pixel is where its shifted point says."""
    pixels = torch.zeros(4, 3, 64, 64)
    pixels[:, :, 30, 20] = 1.0
    point = torch.tensor([20.5, 30.5]).expand(4, 1, 2) / 64
    moved, there = shift(pixels, point, torch.Generator().manual_seed(0))
    for image, (x, y) in zip(moved, (there[:, 0] * 64).long().tolist(), strict=True):
        assert image[0, y, x] == 1.0


def test_turned_hues_keep_grey_and_brightness() -> None:
    """Turning hues leaves grey as it is and says which images are still true."""
    grey = torch.full((8, 3, 4, 4), 0.4)
    turned, true = turn_hues(grey, 0.5, torch.Generator().manual_seed(1))
    assert torch.allclose(turned, grey, atol=1e-5)
    assert true.any() and not true.all()


def test_turned_hues_change_colour() -> None:
    """A red image that is not true any more is not red any more."""
    red = torch.zeros(16, 3, 2, 2)
    red[:, 0] = 0.6
    turned, true = turn_hues(red, 1.0, torch.Generator().manual_seed(2))
    assert not true.any()
    assert (turned - red).abs().amax(dim=(1, 2, 3)).median() > 0.2


def test_disturbed_images_stay_images() -> None:
    """Light changes keep all values from 0 to 1 and are repeatable."""
    pixels = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    one = disturb_light(pixels, torch.Generator().manual_seed(3))
    other = disturb_light(pixels, torch.Generator().manual_seed(3))
    assert torch.equal(one, other) and 0.0 <= one.min() and one.max() <= 1.0
