# SPDX-License-Identifier: Apache-2.0
"""Which policies are tried on which model families: a covering sample, or every pair.

TENDON_KV_PRODUCT=full takes every pair; the tests then run for minutes instead of seconds.
"""

import os
import random

from cloud_backbone.kv_cache.policy import policy_names

from tests.fakes.tiny_models import family_names

VARIABLE = 'TENDON_KV_PRODUCT'
CHOSEN = ('sinks', 'cake', 'veda', 'cake+squat4', 'veda+int8', 'pyramid+kivi2')
"""For every family: each way of reading attention, of sharing budgets, and of writing pages."""
SEED, FEW = 3, 4
NAMES = [name for name in policy_names() if name != 'full']


def is_full() -> bool:
    """Say whether every pair is wanted.

    Raises:
        ValueError: the environment variable says something unknown.
    """
    wanted = os.environ.get(VARIABLE, '')
    if wanted not in ('', 'full'):
        raise ValueError(f'{VARIABLE}={wanted!r} is not known; leave it unset, or use full')
    return wanted == 'full'


def pairs() -> list[tuple[str, str]]:
    """Return family and policy: all on Llama; the chosen ones and two more at random elsewhere."""
    generator = random.Random(SEED)
    rest = [name for name in NAMES if name not in CHOSEN]
    found = []
    for family in family_names():
        if is_full() or family == 'llama':
            found += [(family, name) for name in NAMES]
        else:
            found += [(family, name) for name in (*CHOSEN, *generator.sample(rest, 2))]
    return found


def few_pairs() -> list[tuple[str, str]]:
    """Return family and policy: some at random for each family, every policy at most once."""
    if is_full():
        return pairs()
    names = random.Random(SEED).sample(NAMES, len(NAMES))
    return [
        (family, name) for index, family in enumerate(family_names())
        for name in names[index * FEW : (index + 1) * FEW]
    ]
