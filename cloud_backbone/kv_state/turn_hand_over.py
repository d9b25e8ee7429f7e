# SPDX-License-Identifier: Apache-2.0
"""A cache lent to someone who computes turns himself: what can be reused, and what came back.

The server runs forwards of many sessions at once; a state only says where each begins, and
records what it holds afterwards. Knows no model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cloud_backbone.kv_state.errors import LayoutError
from cloud_backbone.kv_state.exactness import NUMERIC, worst
from cloud_backbone.kv_state.segment import count_tokens, image_span, Segment, STABLE
from cloud_backbone.kv_state.state_body import StateBody
import torch
from torch import Tensor


def begin(body: StateBody, wanted: Sequence[Segment]) -> int:
    """Crop to what these segments begin with; return how many of their tokens are held.

    An image is reused only whole and with the same hash, a segment that lost tokens only whole,
    and a stable one that lost tokens not at all. The last token is never among them.
    """
    wanted = [segment for segment in wanted if segment.tokens]
    shared = min(_common(body, wanted), max(count_tokens(wanted) - 1, 0))
    shared = body.whole(min(shared, len(body.held)))
    shared = body.held.reachable(_behind_losses(body, shared))
    body.cut(shared)
    for place, (mine, given) in enumerate(zip(body.segments, wanted, strict=False)):
        image = mine.image if given.image is None or given.image.tensors is None else given.image
        if mine.epoch is not None and given.epoch is not None:
            body.taint.rename(mine.epoch, given.epoch)  # the same pixels, seen again
        body.set_segment(place, replace(mine, epoch=given.epoch, image=image))
    return shared


def hold(body: StateBody, held: Sequence[Segment], spots: Tensor | None) -> int:
    """Record that the cache holds these segments now; return how many tokens are new.

    Args:
        body: after ``begin`` and the forwards that followed it.
        held: all segments; their classes are found out here.
        spots: rotary positions (axes, tokens) of all tokens; None: as the model lays them out.

    Raises:
        LayoutError: the cache holds another number of tokens.
    """
    segments = tuple(segment for segment in held if segment.tokens)
    total, known = count_tokens(segments), body.tokens
    if len(body.held) != total:
        raise LayoutError(f'the cache holds {len(body.held)} tokens, told were {total}')
    classes = {one.name: one.exactness for one in body.segments}
    past = NUMERIC
    first = 0
    laid = list[Segment]()
    for segment in segments:
        end = first + len(segment.tokens)
        past = worst(past, classes.get(segment.name, NUMERIC))
        laid.append(replace(segment, exactness=past))
        if end > known:
            at = max(first, known)
            epochs = () if segment.epoch is None else (segment.epoch,)
            body.taint.extend(at, frozenset(epochs))
            _learn(body, segment, at - first, at, spots)
        first = end
    body.segments, body.logits = tuple(laid), None
    body.held.remember()
    starts = {body.start(place) for place in range(len(laid))}
    body.held.forget_others({*starts, total})
    body.settle()
    return total - known


def _learn(
    body: StateBody, segment: Segment, done: int, first: int, spots: Tensor | None
) -> None:
    """Learn the rotary positions of a segment behind its first ``done`` tokens."""
    tokens = segment.tokens[done:]
    if spots is None:
        found = body.model.spots(tokens, segment.image, body.next_spot(first))
    else:
        found = spots[:, first : first + len(tokens)]
    body.rope.extend(first, torch.as_tensor(found).long())


def _common(body: StateBody, wanted: Sequence[Segment]) -> int:
    """Count the first tokens that the table and these segments share."""
    shared = 0
    for one, other in zip(body.segments, wanted, strict=False):
        if one.name != other.name:
            break
        same = 0
        for token, given in zip(one.tokens, other.tokens, strict=False):
            if token != given:
                break
            same += 1
        if one.image != other.image:
            spans = [span for span in (image_span(part, body.model.image_token)
                                       for part in (one, other)) if span is not None]
            same = min([same, *(span[0] for span in spans)])
        shared += same
        if same < len(one.tokens) or same < len(other.tokens):
            break
    return shared


def _behind_losses(body: StateBody, shared: int) -> int:
    """Return a length up to ``shared`` that cuts no segment with lost tokens."""
    for place, segment in enumerate(body.segments):
        first = body.start(place)
        end = first + len(segment.tokens)
        if first >= shared:
            break
        cut = shared < end
        if (cut or segment.name in STABLE) and not body.holds(first, min(end, len(body.held))):
            return first
    return shared
