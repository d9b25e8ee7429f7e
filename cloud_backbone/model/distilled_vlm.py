# SPDX-License-Identifier: Apache-2.0
"""The distilled vision-language model: our eyes, the Llama decoder of transformers, two heads.

The decoder is the library's own, so each of its cache classes and attention functions works.
Knows tokens, not text; `prompt` says in what order they come.
"""

from __future__ import annotations

from dataclasses import dataclass
import inspect
from typing import Any

from cloud_backbone.model.configuration import TendonVlmConfig
from cloud_backbone.model.object_tokens import ImageTokens, ObjectTokens, WordTable
from cloud_backbone.model.vision_encoder import VisionEncoder
from torch import nn, Tensor
from transformers import LlamaModel, PreTrainedModel
from transformers.cache_utils import Cache
from transformers.generation import GenerationMixin
from transformers.modeling_outputs import BaseModelOutputWithPast, CausalLMOutputWithPast

# The library renamed this argument and output field between its releases 5.2 and 5.24.
_SIGNATURE = inspect.signature(LlamaModel.forward).parameters
CACHE_NAME = 'cache' if 'cache' in _SIGNATURE else 'past_key_values'


@dataclass
class TendonVlmOutput(CausalLMOutputWithPast):  # type: ignore[misc]
    """Logits (batch, kept, vocabulary), the cache, and hidden states (batch, kept, hidden)."""

    last_hidden_state: Tensor | None = None


class TendonVlmPreTrainedModel(PreTrainedModel):  # type: ignore[misc]
    """What both model classes share: configuration and supported features."""

    config: TendonVlmConfig
    config_class = TendonVlmConfig
    base_model_prefix = 'model'
    input_modalities = ('image', 'text')
    supports_gradient_checkpointing = True
    _no_split_modules = ['LlamaDecoderLayer', 'Block']
    _supports_flash_attn = True
    _supports_sdpa = True
    _supports_flex_attn = True
    _supports_attention_backend = True

    def _init_weights(self, module: nn.Module) -> None:
        """Keep the start values that each module gave itself."""


class TendonVlmModel(TendonVlmPreTrainedModel):
    """Vision encoder, object tokens and decoder, without the heads."""

    def __init__(self, config: TendonVlmConfig) -> None:
        super().__init__(config)
        self.vision_tower = VisionEncoder(config.vision_config)
        self.object_tokens = ObjectTokens(config, self.vision_tower)
        self.language_model = LlamaModel(config.text_config)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """Return the word table."""
        return self.language_model.embed_tokens  # type: ignore[no-any-return]

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the word table."""
        self.language_model.embed_tokens = value

    def words(self) -> WordTable:
        """Return the word vectors that object tokens borrow."""
        table = self.language_model.embed_tokens.weight
        return WordTable(table[self.config.colour_token_ids], table[self.config.kind_token_ids])

    def see(self, pixel_values: Tensor) -> ImageTokens:
        """Encode images (batch, 3, side, side), RGB 0 to 1, and say what is in them."""
        seen: ImageTokens = self.object_tokens(self.vision_tower(pixel_values), self.words())
        return seen

    def embed(self, input_ids: Tensor, image_features: Tensor | None) -> Tensor:
        """Return token vectors (batch, tokens, hidden), images put in their places.

        Raises:
            ValueError: the placeholders do not match the image tokens.
        """
        vectors: Tensor = self.language_model.embed_tokens(input_ids)
        place = input_ids == self.config.image_token_id
        if image_features is None:
            return vectors
        if int(place.sum()) != image_features.shape[0] * image_features.shape[1]:
            raise ValueError(
                f'input_ids has {int(place.sum())} image placeholders, but there are '
                f'{image_features.shape[0]} images of {image_features.shape[1]} tokens'
            )
        return vectors.masked_scatter(place[..., None], image_features.to(vectors.dtype))

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        pixel_values: Tensor | None = None,
        image_features: Tensor | None = None,
        use_cache: bool | None = None,
        cache: Cache | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPast:
        """Run the decoder; images come as pixels or as features computed before."""
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError('give exactly one of input_ids and inputs_embeds')
        if pixel_values is not None and image_features is not None:
            raise ValueError('give at most one of pixel_values and image_features')
        if pixel_values is not None:
            image_features = self.see(pixel_values).tokens
        if inputs_embeds is None:
            assert input_ids is not None
            inputs_embeds = self.embed(input_ids, image_features)
        elif image_features is not None:
            raise ValueError('images need input_ids, which say where they belong')
        kwargs[CACHE_NAME] = past_key_values if cache is None else cache
        return self.language_model(
            inputs_embeds=inputs_embeds,
            attention_mask=attention_mask,
            position_ids=position_ids,
            use_cache=use_cache,
            **kwargs,
        )


class TendonVlmForConditionalGeneration(TendonVlmPreTrainedModel, GenerationMixin):  # type: ignore[misc]
    """The whole model: next-token logits and the latent for the onboard decoder."""

    def __init__(self, config: TendonVlmConfig) -> None:
        super().__init__(config)
        text = config.text_config
        self.model = TendonVlmModel(config)
        self.lm_head = nn.Linear(text.hidden_size, text.vocab_size, bias=False)
        self.latent_head = nn.Linear(text.hidden_size, config.latent_size)
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """Return the word table."""
        return self.model.get_input_embeddings()

    def get_output_embeddings(self) -> nn.Module:
        """Return the output head."""
        return self.lm_head

    def get_image_features(self, pixel_values: Tensor) -> Tensor:
        """Return image tokens (batch, image_tokens, hidden) of RGB images, 0 to 1."""
        return self.model.see(pixel_values).tokens

    def latent(self, hidden: Tensor) -> Tensor:
        """Return the latent (..., latent_size) of the hidden state (..., hidden).

        The hidden state is that of the last plan token, the one before the end token.
        """
        latent: Tensor = self.latent_head(hidden)
        return latent

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        pixel_values: Tensor | None = None,
        image_features: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        cache: Cache | None = None,
        **kwargs: Any,
    ) -> TendonVlmOutput:
        """Return logits of the last `logits_to_keep` tokens, or of all (0), or of an index."""
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            pixel_values=pixel_values,
            image_features=image_features,
            use_cache=use_cache,
            cache=past_key_values if cache is None else cache,
            **kwargs,
        )
        # -0 is 0, so that keeping 0 keeps all of them
        keep = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        hidden = outputs.last_hidden_state[:, keep]
        return TendonVlmOutput(
            logits=self.lm_head(hidden),
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
            last_hidden_state=hidden,
            **{CACHE_NAME: getattr(outputs, CACHE_NAME)},
        )

    def prepare_inputs_for_generation(
        self, *args: Any, pixel_values: Tensor | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Give the image to the first step only; later steps find it in the cache."""
        inputs: dict[str, Any] = super().prepare_inputs_for_generation(*args, **kwargs)
        ids = inputs.get('input_ids')
        if ids is not None and bool((ids == self.config.image_token_id).any()):
            inputs['pixel_values'] = pixel_values
        return inputs
