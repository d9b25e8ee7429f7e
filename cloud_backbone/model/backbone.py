# SPDX-License-Identifier: Apache-2.0
"""What the service asks of any vision-language model, and how a checkpoint becomes one.

Knows the interface; the models stand beside it. Tokens are counted from the begin token on:
``position`` 0, 1, 2 ... whatever a model makes of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from cloud_backbone.constrained_decoding import PlanLanguage
from cloud_backbone.errors import StartError
from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.policy import Policy
from cloud_backbone.sighting import Sighting
from cloud_backbone.task_memory import TaskMemory
import numpy as np
from numpy.typing import NDArray
from torch import nn, Tensor
from transformers.cache_utils import Cache

Image = NDArray[np.uint8]
"""RGB image (height, width, 3)."""


@dataclass(frozen=True)
class Prompt:
    """All tokens before the answer, image placeholders included."""

    tokens: tuple[int, ...]
    stable: int
    """How many of the first tokens depend on the instruction alone, not on the image."""
    rope_positions: Tensor | None = None
    """Positions by axis (axes, tokens) for models that place image tokens in space."""
    parts: tuple[tuple[str, int], ...] = ()
    """Name and number of tokens of each segment, in order; together they are all tokens."""
    vital: tuple[int, int] | None = None
    """First place and last place + 1 of what no policy may drop before the answer is written."""


@dataclass(frozen=True)
class Scene:
    """One image as the model wants it: named tensors, each with a leading batch axis of 1."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    sightings: tuple[Sighting, ...] = ()
    """What the eyes say is in it, where the model has eyes that say so."""


@dataclass(frozen=True)
class Chunk:
    """Tokens to compute in one forward; rows are padded on the left."""

    tokens: Tensor
    """Token ids (batch, tokens)."""
    positions: Tensor
    """Position of each token in its sequence (batch, tokens)."""
    mask: Tensor | None
    """True where a token may look (batch, 1, tokens, slots); None means plain causal."""
    prompts: Sequence[Prompt]
    scenes: Sequence[Scene] | None = None
    """The images, where the tokens hold their placeholders."""
    predict: int = 1
    """After how many of the last tokens the next one is predicted."""


@dataclass(frozen=True)
class Prediction:
    """What follows the last tokens of each row."""

    logits: Tensor
    """Scores of the token after each of the last ones (batch, predict, vocabulary)."""
    hidden: Tensor | None
    """States of the last tokens (batch, predict, hidden), where the model shows them."""


class Backbone(Protocol):
    """A model that sees and writes. All methods run on one thread, without gradients."""

    language: PlanLanguage
    fingerprint: str
    image_size: tuple[int, int]
    """Width and height of the images it wants [px]."""
    latent_size: int
    image_token: int | None
    """Id of the tokens that hold the place of an image."""
    network: nn.Module | None
    """The model itself, where it is one of torch: what snapshots of its caches rest on."""
    processor: Any
    """Its tokenizer, or its processor with the tokenizer inside, if there is one."""
    can_batch: bool
    """Whether rows of several sessions may share a forward; their caches are compressed ones."""
    can_compress: bool
    """Whether caches may have other policies than ``full``, and budgets."""

    has_agent_words: bool
    """Whether it was taught the agent's words, and can take a memory."""

    def prompt(self, instruction: str, memory: TaskMemory | None = None) -> Prompt:
        """Return the tokens that ask for a plan, or, with a memory, for the next act.

        Raises:
            ValueError: the memory is not in the agent's language.
        """

    def see(self, images: Sequence[Image]) -> list[Scene]:
        """Encode images of ``image_size``."""

    def new_cache(self, pool: BlockPool, policy: Policy, budget_bytes: int | None) -> Cache:
        """Return an empty cache for one session; what is new in it may be taken back."""

    def forward(self, chunk: Chunk, cache: Cache) -> Prediction:
        """Append the chunk to the cache and predict what follows it."""

    def latent(self, hidden: Tensor) -> list[float]:
        """Return the latent (latent_size,) of the last plan token's state (hidden,)."""


def load_backbone(directory: Path | str, *, threads: int = 1, device: str = 'cpu') -> Backbone:
    """Load any image-text-to-text checkpoint directory.

    Raises:
        StartError: it is no such directory, or its files are broken; the message says what to do.
    """
    # Imported here: the interface must not depend on the models behind it.
    from cloud_backbone.model.checkpoint_files import check_files, model_type
    from cloud_backbone.model.foreign_backbone import ForeignBackbone
    from cloud_backbone.model.tendon_backbone import TendonBackbone

    path = Path(directory)
    check_files(path)
    kind = TendonBackbone if model_type(path) == 'tendon_vlm' else ForeignBackbone
    try:
        return kind.load(path, threads=threads, device=device)
    except ValueError as error:
        raise StartError(f'{path} does not fit together: {error}') from error
