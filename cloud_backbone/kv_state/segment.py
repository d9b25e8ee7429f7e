# SPDX-License-Identifier: Apache-2.0
"""Named parts of a session's tokens, and the chain of hashes that says what they are.

Token ids and the hashes of images are always kept: the cache can be made from them again.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
import hashlib

from cloud_backbone.kv_state.exactness import Exactness, NUMERIC
from torch import Tensor

LAYOUT = ('system', 'goal', 'lessons', 'history', 'scene', 'scratch')
"""Segments of a session in their order: what changes least comes first."""
STABLE = ('system', 'goal', 'lessons')
"""Segments that no policy may drop tokens of, where the budget can hold them."""


@dataclass(frozen=True)
class SegmentImage:
    """The image of a segment; its places are among the segment's tokens."""

    sha256: str
    """Of the image as it was received, in hexadecimal digits."""
    tensors: Mapping[str, Tensor] | None = field(default=None, compare=False, repr=False)
    """The model's own inputs that show it; None: known by its hash alone."""


@dataclass(frozen=True)
class Segment:
    """A named run of tokens."""

    name: str
    tokens: tuple[int, ...]
    epoch: int | None = None
    """The observation that it shows; None: it shows none."""
    image: SegmentImage | None = None
    exactness: Exactness = NUMERIC
    """Of its keys and values."""


def count_tokens(segments: Iterable[Segment]) -> int:
    """Count the tokens of some segments."""
    return sum(len(segment.tokens) for segment in segments)


def chain_hash(segments: Sequence[Segment]) -> str:
    """Return the hash of names, token ids and images, in hexadecimal digits.

    Each link covers the one before it, so that equal hashes mean equal prefixes.
    """
    link = b''
    for segment in segments:
        if segment.tokens:
            digest = hashlib.sha256(link)
            image = '' if segment.image is None else segment.image.sha256
            digest.update(f'{segment.name}\0{image}\0'.encode())
            digest.update(array('q', segment.tokens).tobytes())
            link = digest.digest()
    return link.hex()


def image_span(segment: Segment, image_token: int | None) -> tuple[int, int] | None:
    """Return the first place of a segment's image and the last one + 1; None: it has none."""
    if image_token is None or image_token not in segment.tokens:
        return None
    backwards = segment.tokens[::-1].index(image_token)
    return segment.tokens.index(image_token), len(segment.tokens) - backwards


def lacking_pixels(segments: Iterable[Segment]) -> Segment | None:
    """Return the first segment whose image is known by its hash alone, if there is one."""
    return next((segment for segment in segments
                 if segment.image is not None and segment.image.tensors is None), None)


def first_tokens(segments: Iterable[Segment], tokens: int) -> tuple[Segment, ...]:
    """Return segments that hold the first ``tokens`` tokens, the last one shortened."""
    kept, left = list[Segment](), tokens
    for segment in segments:
        if left <= 0:
            break
        part = segment.tokens[:left]
        kept.append(segment if len(part) == len(segment.tokens) else replace(segment, tokens=part))
        left -= len(part)
    return tuple(kept)
