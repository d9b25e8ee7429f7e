# SPDX-License-Identifier: Apache-2.0
"""Shares a number of slots among layers, exact to the slot.

PyramidKV: Cai et al., PyramidKV: Dynamic KV Cache Compression based on Pyramidal Information
Funneling, 2024, arXiv:2406.02069. CAKE: Qin et al., CAKE: Cascading and Adaptive KV Cache Eviction
with Layer Preferences, ICLR 2025, arXiv:2503.12491. Both weigh the layers:

    pyramid  w_0 = 2 - 1/beta, w_(L-1) = 1/beta, evenly spaced in between; the mean is 1
    CAKE     w_l = the layer's preference
    budget_l = clip(lambda w_l, floor_l, cap_l), lambda such that the budgets sum to the total

Changed, and why: the papers round each share down and clip it afterwards, which loses slots. Here
each slot in turn goes to the layer whose w / (2 held + 1) is the largest (Sainte-Lague), layers at
their cap left out. Unlike rounding by largest remainders, this never takes from the new to give
to the old: as further layers come, no layer's budget grows. The best b of the best b' by a stored
score are then the best b, so evicting layer by layer ends where evicting once would.
"""

from __future__ import annotations

from collections.abc import Sequence
import heapq
import math

LEAST_WEIGHT, MOST_WEIGHT = 1e-200, 1e200
"""Beyond these a weight divided by a number of slots would leave the range of numbers."""


def uniform(layers: int) -> list[float]:
    """Return equal weights."""
    return [1.0] * layers


def pyramid(layers: int, beta: float = 20.0) -> list[float]:
    """Return falling weights of mean 1, the last 1 / beta.

    Args:
        layers: how many.
        beta: 1 is uniform, infinity is the steepest pyramid.
    """
    if not beta >= 1:
        raise ValueError(f'a pyramid of beta {beta}; at least 1 is needed')
    if layers < 2:
        return uniform(layers)
    first, last = 2 - 1 / beta, 1 / beta
    return [first + (last - first) * layer / (layers - 1) for layer in range(layers)]


def share(
    total: int, weights: Sequence[float], caps: Sequence[int], floors: Sequence[int]
) -> list[int]:
    """Return the slots of each layer: min(total, sum(caps)) in all.

    Args:
        total: slots to share.
        weights: how much each layer wants; one that is zero, negative, NaN or infinite counts as
            the mean of the others, which is an equal share.
        caps: the most that each layer can use.
        floors: the least that each layer gets; a floor above its cap counts as the cap.

    Raises:
        ValueError: the floors sum to more than the total, or the arguments do not fit together.
    """
    floors = [min(floor, cap) for floor, cap in zip(floors, caps, strict=True)]
    if len(weights) != len(caps) or min([*floors, *caps], default=0) < 0:
        raise ValueError(f'weights {weights}, caps {caps} and floors {floors} do not fit together')
    if total < sum(floors):
        raise ValueError(f'{total} slots to share, the floors {floors} need {sum(floors)}')
    total = min(total, sum(caps))
    usable = _usable(weights)
    # The first slots are handed out at once, few enough that none of them is a slot too many
    # whatever the rounding; the rest, a few per layer, go one by one.
    sure = max(total - 2 * len(caps), sum(floors))
    held = [
        min(max(math.floor(part + 0.5), floor), cap) if sure > sum(floors) else floor
        for part, floor, cap in zip(_fill(sure, usable, caps, floors), floors, caps, strict=True)
    ]
    return _hand_out(total - sum(held), usable, caps, held)


def cascade_budgets(
    total: int,
    preferences: Sequence[float],
    caps: Sequence[int],
    floors: Sequence[int] | None = None,
) -> list[int]:
    """Return the slots of the layers computed so far; with each further layer none grows.

    Args:
        total: slots of all layers.
        preferences: those of the layers so far, each positive and finite.
        caps: the most that each of them can use.
        floors: the least that each of them gets; none by default.

    Raises:
        ValueError: a preference is not positive and finite: what stands in for it would change
            with each further layer.
    """
    for preference in preferences:
        if not (preference > 0 and math.isfinite(preference)):
            raise ValueError(f'a preference of {preference}; positive and finite is needed')
    return share(total, preferences, caps, [0] * len(caps) if floors is None else floors)


def _usable(weights: Sequence[float]) -> list[float]:
    """Return the weights with a defined value for those that have none."""
    good = [min(max(w, LEAST_WEIGHT), MOST_WEIGHT) for w in weights if 0 < w < math.inf]
    middle = math.fsum(good) / len(good) if good else 1.0
    return [
        min(max(w, LEAST_WEIGHT), MOST_WEIGHT) if 0 < w < math.inf else middle for w in weights
    ]


def _fill(
    total: int, weights: Sequence[float], caps: Sequence[int], floors: Sequence[int]
) -> list[float]:
    """Return clip(lambda w, floor, cap) that sums to the total, not rounded.

    Each round holds the layers that leave their bounds on the heavier side, and shares anew.
    """
    parts = [0.0] * len(caps)
    free = list(range(len(caps)))
    while free:
        rest = total - math.fsum(parts[i] for i in range(len(caps)) if i not in free)
        largest = max(weights[i] for i in free)
        scale = rest / math.fsum(weights[i] / largest for i in free)
        for i in free:
            parts[i] = scale * (weights[i] / largest)
        over = [i for i in free if parts[i] > caps[i]]
        under = [i for i in free if parts[i] < floors[i]]
        excess = math.fsum(parts[i] - caps[i] for i in over)
        lack = math.fsum(floors[i] - parts[i] for i in under)
        held = over if excess >= lack else under
        if not held:
            break
        bounds = caps if held is over else floors
        for i in held:
            parts[i] = float(bounds[i])
        free = [i for i in free if i not in held]
    return parts


def _hand_out(
    slots: int, weights: Sequence[float], caps: Sequence[int], held: Sequence[int]
) -> list[int]:
    """Give slots one by one to the layer of the largest w / (2 held + 1), of equals the first."""
    budgets = list(held)
    queue = [
        (-weights[i] / (2 * budgets[i] + 1), i) for i in range(len(caps)) if budgets[i] < caps[i]
    ]
    heapq.heapify(queue)
    for _ in range(slots):
        _, i = queue[0]
        budgets[i] += 1
        if budgets[i] < caps[i]:
            heapq.heapreplace(queue, (-weights[i] / (2 * budgets[i] + 1), i))
        else:
            heapq.heappop(queue)
    return budgets
