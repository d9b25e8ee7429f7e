# SPDX-License-Identifier: Apache-2.0
"""How far a state is from its own exact computation, and how it becomes exact again."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cloud_backbone.kv_cache.policy import find_policy
from cloud_backbone.kv_state.exactness import Grade, NUMERIC
from cloud_backbone.kv_state.state_body import check_pixels, StateBody
import torch
from torch import Tensor


@dataclass(frozen=True)
class Divergence:
    """Answers of a state against those of a full computation of the same tokens."""

    kl: float
    """Mean KL(exact || held) of the next token [nat]."""
    argmax: tuple[int, int]
    """Likeliest token after the last one: exact, held."""
    flips: int
    """Places where the likeliest next token is another one."""
    places: int
    """Places that were compared."""
    max_abs_dlogit: float

    @property
    def agrees(self) -> bool:
        """Whether both choose the same after the last token."""
        return self.argmax[0] == self.argmax[1]


def likeliest(logits: Tensor, image_token: int | None) -> int:
    """Return the likeliest token (vocabulary,) that holds no place of an image."""
    if image_token is not None:
        logits = logits.clone()
        logits[image_token] = -torch.inf
    return int(logits.argmax())


def compare(exact: Tensor, held: Tensor) -> Divergence:
    """Compare logits (places, vocabulary), float32."""
    truth, guess = exact.log_softmax(-1), held.log_softmax(-1)
    kl = (truth.exp() * (truth - guess)).sum(-1)
    right, said = exact.argmax(-1), held.argmax(-1)
    return Divergence(
        max(float(kl.mean()), 0.0), (int(right[-1]), int(said[-1])),
        int((right != said).sum()), len(exact), float((exact - held).abs().max()),
    )


def verify(body: StateBody, name: str | None) -> Divergence:
    """Compute the state anew beside itself and compare; marks approximate segments as measured.

    Args:
        body: is not changed otherwise.
        name: compare after each token of this segment; None: after the last token of all.

    Raises:
        LayoutError: there is no such segment, or no token.
        MissingImage: an image has to be seen again and is not at hand.
        PoolFullError: there is no room for a second copy.
    """
    body.next_logits()
    end = body.tokens
    first = end - 1
    if name is not None:
        place = body.place(name)
        first = body.start(place)
        end = first + len(body.segments[place].tokens)
    held = logits_from(body, first, end)
    exact = _exact_logits(body, first, end)
    found = compare(exact, held)
    for place, segment in enumerate(body.segments):
        if segment.exactness.grade is Grade.APPROXIMATE:
            marked = replace(segment.exactness, measured=found.kl)
            body.set_segment(place, replace(segment, exactness=marked))
    return found


def logits_from(body: StateBody, first: int, end: int) -> Tensor:
    """Return what follows each of the tokens [first, end) (tokens, vocabulary), computed beside.

    The tokens of this range are computed anew, on what is held of the tokens before them.
    """
    twin = body.fork()
    try:
        twin.cut(end)
        twin.cut_cache(twin.whole(first))
        twin.record = []
        twin.catch_up()
        return torch.cat(twin.record)[-(end - first) :]
    finally:
        twin.clear()


def repair(body: StateBody) -> int:
    """Compute what edits have left approximate anew; return how many tokens that were.

    What a cache policy drops or encodes stays approximate.

    Raises:
        MissingImage: an image has to be seen again and is not at hand.
        PoolFullError: there is no page left; the state is as it was.
    """
    place = next((place for place, segment in enumerate(body.segments)
                  if not segment.exactness.exact
                  and segment.exactness.kind != body.policy.name), None)
    if place is None:
        return 0
    return _again(body, place)


def rehydrate(body: StateBody) -> int:
    """Compute everything from the tokens again; return how many there are.

    Raises:
        MissingImage: an image has to be seen again and is not at hand.
    """
    return _again(body, 0)


def _again(body: StateBody, place: int) -> int:
    """Compute all segments from ``place`` on anew; count the tokens."""
    first = body.held.reachable(min(body.start(place), len(body.held)))
    check_pixels(body.segments[place:])
    with body.all_or_nothing(first):
        body.cut_cache(first)
        fresh = [replace(segment, exactness=NUMERIC) for segment in body.segments[place:]]
        body.segments = (*body.segments[:place], *fresh)
        return body.catch_up()


def _exact_logits(body: StateBody, first: int, end: int) -> Tensor:
    """Return the logits of a full computation; exact segments are taken from what is held."""
    place = next((place for place, segment in enumerate(body.segments)
                  if not segment.exactness.exact), len(body.segments))
    lossy = not body.policy.lossless
    if lossy:
        twin = StateBody(body.model, body.pool, find_policy('full'), None)
        twin.segments = tuple(replace(one, exactness=NUMERIC) for one in body.segments)
    else:
        twin = body.fork()
    try:
        twin.cut(end)
        start = min(body.start(place), twin.whole(first))
        twin.cut_cache(0 if lossy else start)
        twin.record = []
        twin.catch_up()
        return torch.cat(twin.record)[-(end - first) :]
    finally:
        twin.clear()
