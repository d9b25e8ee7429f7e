# SPDX-License-Identifier: Apache-2.0
"""Any stock image-text-to-text checkpoint of transformers behind the interface of ``backbone``.

One session per forward. The image goes in as pixels with the prompt, so that every model handles
it in its own way; the vision stage is preparation only, and the encoder counts as prefill.
"""

from __future__ import annotations

from collections.abc import Sequence
import inspect
from pathlib import Path
import re
from typing import Any

from cloud_backbone.agent_words import entry_text, hand_text, lesson_text, read_lesson
from cloud_backbone.constrained_decoding import PlanLanguage
from cloud_backbone.errors import StartError
from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.compressed_cache import tentative_cache
from cloud_backbone.kv_cache.errors import CacheError
from cloud_backbone.kv_cache.hook import attach
from cloud_backbone.kv_cache.policy import Policy
from cloud_backbone.model.backbone import Chunk, Image, Prediction, Prompt, Scene
from cloud_backbone.model.checkpoint_files import fingerprint, load_model
from cloud_backbone.model.foreign_processor import load_processor
from cloud_backbone.model.text_codec import TokenizerCodec
from cloud_backbone.plan_vocabulary import Vocabulary
from cloud_backbone.task_memory import Purpose, TaskMemory
import numpy as np
from PIL import Image as PillowImage
import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

IMAGE_SIZE = (224, 224)
TEXT_INPUTS = ('input_ids', 'attention_mask', 'token_type_ids', 'mm_token_type_ids')
MARKUP = re.compile(r'[<>|]')
BRIEFING = (
    'You plan for a robot arm that sees this picture. A point is <x><y> with three digits each, '
    '000 to 127, from the top left. Answer in one of these forms only: '
    '" The red cube is at <042><069>, the blue bin at <101><050>. Plan: reach A, grasp A, lift, '
    'move B, place B, lift, home." or " There is no red cube. Stop." The instruction: '
)
AGENT_BRIEFING = (
    'You steer a robot arm that sees this picture, one call at a time. A point is <x><y> with '
    'three digits each, 000 to 127, from the top left. Tools: <look> <grasp> <place> <stack> '
    '<push> <release> <ask> <done> <stop>; <slowly> or <low> may follow. Answer in one of these '
    'forms only: " The red cube is at <042><069>, the blue bin at <101><050>.<grasp>" or '
    '"<holding> the red cube, the blue bin at <101><050>.<place>" or " There is no red '
    'cube.<look>", or after <trial_failed> "<lesson> the red cube<slips>". The goal: '
)


class ForeignBackbone:
    """A checkpoint of others, with its processor."""

    can_batch = False
    latent_size = 0
    has_agent_words = True
    """Such a model is told what the words mean."""

    def __init__(self, model: Any, processor: Any, vocabulary: Vocabulary, digest: str) -> None:
        self.language = PlanLanguage(vocabulary, TokenizerCodec(processor.tokenizer))
        self.fingerprint = digest
        self.image_size = IMAGE_SIZE
        self._model = model
        self._processor = processor
        parameters = inspect.signature(model.forward).parameters
        # The library renamed this argument between its releases 5.2 and 5.24.
        self._cache_name = 'cache' if 'cache' in parameters else 'past_key_values'
        self._keeps_logits = 'logits_to_keep' in parameters
        self.image_token: int | None = model.config.image_token_id
        self.network: torch.nn.Module | None = model
        self.processor = processor
        self._image_text = self._template('')
        self._prompts: dict[str, Prompt] = {}
        self.can_compress = _can_compress(model)

    @classmethod
    def load(cls, path: Path, *, threads: int, device: str) -> ForeignBackbone:
        """Read a checkpoint directory whose files are known to be there."""
        torch.set_num_threads(threads)
        model = load_model(path, device)
        return cls(model, load_processor(path), Vocabulary.load(path), fingerprint(path))

    def prompt(self, instruction: str, memory: TaskMemory | None = None) -> Prompt:
        """Return the checkpoint's own chat layout: text first, then the image."""
        said = MARKUP.sub(' ', instruction).strip()
        text = BRIEFING + said if memory is None else self._agent_text(said, memory)
        if text not in self._prompts:
            if len(self._prompts) >= 64:
                self._prompts.clear()
            self._prompts[text] = self._build(self._inputs(self._template(text), _blank()))
        return self._prompts[text]

    def _agent_text(self, instruction: str, memory: TaskMemory) -> str:
        vocabulary = self.language.vocabulary
        lessons = [lesson_text(read_lesson(text, vocabulary)) for text in memory.lessons]
        history = [entry_text(entry, vocabulary) for entry in memory.entries]
        hand = hand_text(memory.hand_holds, memory.purpose is Purpose.REFLECT)
        return '\n'.join([AGENT_BRIEFING + instruction, *lessons, *history, hand])

    def see(self, images: Sequence[Image]) -> list[Scene]:
        """Prepare the pixels of each image."""
        scenes = []
        for image in images:
            inputs = self._inputs(self._image_text, image)
            pixels = {name: value for name, value in inputs.items() if name not in TEXT_INPUTS}
            scenes.append(Scene({name: self._place(value) for name, value in pixels.items()}))
        return scenes

    def new_cache(self, pool: BlockPool, policy: Policy, budget_bytes: int | None) -> Cache:
        """Return an empty cache: a compressed one where the model allows it."""
        if self.can_compress:
            return tentative_cache(self._model.config, pool, policy, budget_bytes)
        cache = DynamicCache()
        # All of them from the start, so that whoever holds the cache can crop it at any time.
        layers = DynamicCache(config=self._model.config).layers
        cache.layers.extend(DynamicLayer() for _ in layers)
        return cache

    @torch.inference_mode()
    def forward(self, chunk: Chunk, cache: Cache) -> Prediction:
        """Run the model on one row."""
        (prompt,) = chunk.prompts
        arguments: dict[str, Any] = {self._cache_name: cache}
        if chunk.scenes is not None:
            arguments.update(chunk.scenes[0].tensors)
        if self._keeps_logits:
            arguments['logits_to_keep'] = chunk.predict
        output = self._model(
            input_ids=chunk.tokens.to(self._model.device),
            position_ids=_positions(chunk.positions, prompt).to(self._model.device),
            use_cache=True,
            **arguments,
        )
        return Prediction(output.logits[:, -chunk.predict :].cpu(), None)

    def latent(self, hidden: Tensor) -> list[float]:
        """Return nothing: such a checkpoint has no head for the decoder."""
        return []

    def _template(self, text: str) -> str:
        if not self._processor.chat_template:
            return f'{text}\n{self._processor.image_token}\nAnswer:'
        content = [{'type': 'text', 'text': text}, {'type': 'image'}]
        filled: str = self._processor.apply_chat_template(
            [{'role': 'user', 'content': content}], add_generation_prompt=True, tokenize=False
        )
        return filled

    def _inputs(self, text: str, image: Image) -> dict[str, Tensor]:
        picture = PillowImage.fromarray(image)
        return dict(self._processor(text=[text], images=[[picture]], return_tensors='pt'))

    def _build(self, inputs: dict[str, Tensor]) -> Prompt:
        tokens = inputs['input_ids'][0]
        image = (tokens == self._model.config.image_token_id).nonzero()
        if not len(image):
            raise StartError(
                'the checkpoint puts no image into its prompt: its chat template or processor '
                'does not know {"type": "image"}; give a checkpoint for image-text-to-text'
            )
        # Where all of the prompt sees all of it (prefix attention), an image changes the text too.
        stable = 0 if 'token_type_ids' in inputs else int(image[0, 0])
        return Prompt(tuple(tokens.tolist()), stable, self._rope(inputs))

    def _rope(self, inputs: dict[str, Tensor]) -> Tensor | None:
        """Return positions (axes, tokens) of models with several position axes."""
        index = getattr(getattr(self._model, 'model', None), 'get_rope_index', None)
        if index is None:
            return None
        known = inspect.signature(index).parameters
        given = {name: self._place(value) for name, value in inputs.items() if name in known}
        positions: Tensor = index(**given)[0]
        return positions[:, 0].cpu()

    def _place(self, tensor: Tensor) -> Tensor:
        dtype = self._model.dtype if tensor.is_floating_point() else tensor.dtype
        return tensor.to(self._model.device, dtype)


def _can_compress(model: Any) -> bool:
    """Let the model attend through compressed caches; say whether it does.

    Not where some layers are no plain attention over all tokens: such layers cannot take back
    what was guessed, and the library's growing cache can.
    """
    layers: list[Any] = DynamicCache(config=model.config).layers
    if not layers or any(type(layer) is not DynamicLayer for layer in layers):
        return False
    try:
        attach(model)
    except (CacheError, ValueError):
        return False
    return True


def _positions(positions: Tensor, prompt: Prompt) -> Tensor:
    """Return the positions that the model wants: (batch, tokens) or (axes, batch, tokens)."""
    rope = prompt.rope_positions
    if rope is None:
        return positions
    row = positions[0]
    known = rope.shape[1]
    after = int(rope.max()) + 1 + (row - known)
    inside = rope[:, row.clamp(max=known - 1)]
    return torch.where(row < known, inside, after)[:, None]


def _blank() -> Image:
    width, height = IMAGE_SIZE
    return np.zeros((height, width, 3), dtype=np.uint8)
