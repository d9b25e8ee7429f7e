# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from cloud_backbone.model.checkpoint import load_checkpoint, save_checkpoint
from cloud_backbone.model.distilled_vlm import TendonVlmForConditionalGeneration
from cloud_backbone.model.prompt import prompt_ids
import pytest
import torch
from torch import Tensor
from transformers import DynamicCache

from tests.cloud_backbone.model.tiny_model import tiny_model, tiny_tokenizer


@pytest.fixture(scope='module')
def model() -> TendonVlmForConditionalGeneration:
    return tiny_model()


@pytest.fixture(scope='module')
def ids(model: TendonVlmForConditionalGeneration) -> Tensor:
    return torch.tensor([prompt_ids(tiny_tokenizer(), model.config, 'lift the red cube')])


@pytest.fixture(scope='module')
def pixels() -> Tensor:
    return torch.rand(1, 3, 128, 128, generator=torch.Generator().manual_seed(0))


@torch.no_grad()
def test_features_stand_for_pixels(
    model: TendonVlmForConditionalGeneration, ids: Tensor, pixels: Tensor
) -> None:
    """Features computed before give the same logits as the pixels themselves."""
    features = model.get_image_features(pixels)
    assert features.shape == (1, model.config.image_seq_length, 256)
    one = model(input_ids=ids, pixel_values=pixels).logits
    assert torch.equal(one, model(input_ids=ids, image_features=features).logits)


@torch.no_grad()
def test_a_cache_changes_nothing(
    model: TendonVlmForConditionalGeneration, ids: Tensor, pixels: Tensor
) -> None:
    """Token by token with a cache gives the logits of the whole sequence at once."""
    whole = torch.cat([ids, torch.tensor([[300, 400, 500]])], dim=1)
    wanted = model(input_ids=whole, pixel_values=pixels, use_cache=False).logits[:, -4:]
    cache = DynamicCache()
    first = model(
        input_ids=ids, pixel_values=pixels, past_key_values=cache, use_cache=True, logits_to_keep=1
    )
    given = [first.logits]
    for token in (300, 400, 500):
        step = model(input_ids=torch.tensor([[token]]), past_key_values=cache, use_cache=True)
        given.append(step.logits)
    assert torch.allclose(torch.cat(given, dim=1), wanted, atol=1e-4)


@torch.no_grad()
def test_attention_functions_agree(ids: Tensor, pixels: Tensor) -> None:
    """The decoder gives the same with any attention function of the library."""
    model = tiny_model()
    one = model(input_ids=ids, pixel_values=pixels).logits
    model.model.language_model.set_attn_implementation('eager')
    assert torch.allclose(one, model(input_ids=ids, pixel_values=pixels).logits, atol=1e-4)


@torch.no_grad()
def test_generate_of_the_library_works(
    model: TendonVlmForConditionalGeneration, ids: Tensor, pixels: Tensor
) -> None:
    """Greedy generation by transformers starts with the likeliest token."""
    written = model.generate(input_ids=ids, pixel_values=pixels, max_new_tokens=3, do_sample=False)
    likeliest = model(input_ids=ids, pixel_values=pixels).logits[0, -1].argmax()
    assert written[0, ids.shape[1]] == likeliest


def test_images_must_fit_their_places(
    model: TendonVlmForConditionalGeneration, ids: Tensor, pixels: Tensor
) -> None:
    """Two images for one place are refused with both counts."""
    with pytest.raises(ValueError, match='28 image placeholders.*2 images'):
        model(input_ids=ids, pixel_values=pixels.expand(2, -1, -1, -1))


def test_pixels_of_a_wrong_size_are_refused(model: TendonVlmForConditionalGeneration) -> None:
    """An image of another size is refused with the size that the model wants."""
    with pytest.raises(ValueError, match='128, 128'):
        model.get_image_features(torch.zeros(1, 3, 64, 64))


@torch.no_grad()
def test_a_checkpoint_comes_back(
    model: TendonVlmForConditionalGeneration, ids: Tensor, pixels: Tensor, tmp_path: Path
) -> None:
    """A stored model answers the same, up to half precision, in single precision."""
    save_checkpoint(tmp_path, model, tiny_tokenizer())
    again, tokenizer = load_checkpoint(tmp_path)
    assert again.dtype == torch.float32 and model.dtype == torch.float32
    assert tokenizer.get_vocab() == tiny_tokenizer().get_vocab()
    one = model(input_ids=ids, pixel_values=pixels).logits
    assert torch.allclose(one, again(input_ids=ids, pixel_values=pixels).logits, atol=0.05)


def test_a_directory_without_model_is_refused(tmp_path: Path) -> None:
    """Loading from an empty directory names the file that is missing."""
    with pytest.raises(FileNotFoundError, match='config.json'):
        load_checkpoint(tmp_path)


@torch.no_grad()
def test_the_latent_has_its_size(model: TendonVlmForConditionalGeneration) -> None:
    """The latent of hidden states keeps their leading axes."""
    assert model.latent(torch.zeros(2, 3, 256)).shape == (2, 3, model.config.latent_size)


def test_start_values_are_repeatable() -> None:
    """The same seed gives the same new model, another seed another one."""
    one, same, other = tiny_model(1), tiny_model(1), tiny_model(2)
    pairs = zip(one.parameters(), same.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert not torch.equal(one.lm_head.weight, other.lm_head.weight)
