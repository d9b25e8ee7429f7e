# SPDX-License-Identifier: Apache-2.0
"""Who takes part: the policies that exist, and the peers that are installed."""

from dataclasses import dataclass

from cloud_backbone.kv_cache.policy import policy_names
from tendon.bench_kv.method import Method
from tendon.bench_kv.ours import Ours
from tendon.bench_kv.presses import has_kvpress, NAMES, press_methods
from tendon.bench_kv.size import Size
from tendon.bench_kv.stock_caches import missing_backends, stock_methods

EXTRA = "pip install 'tendon[bench]'"


@dataclass(frozen=True)
class Job:
    """One method at some budgets."""

    method: str
    shares: tuple[float | None, ...]


def find_method(name: str, with_tokenizer: bool) -> Method:
    """Return a method by name."""
    peers: list[Method] = [*stock_methods(), *press_methods(with_tokenizer)]
    return next((peer for peer in peers if peer.name == name), Ours(name))


def known_methods() -> set[str]:
    """Return the names of all that can take part here without a tokenizer."""
    peers: list[Method] = [*stock_methods(), *press_methods(with_tokenizer=False)]
    return {*policy_names(), *(peer.name for peer in peers)}


def draw_jobs(size: Size, with_tokenizer: bool) -> list[Job]:
    """Return what is to be judged; what takes longest comes first."""
    known = policy_names()
    middle = size.shares[len(size.shares) // 2]
    shares: tuple[float | None, ...] = size.shares
    peers: list[Method] = [*press_methods(with_tokenizer), *stock_methods()]
    jobs = [Job(peer.name, shares if peer.takes_share else (None,)) for peer in reversed(peers)]
    jobs += [Job(name, shares) for name in size.all_shares if name in known]
    jobs += [Job(name, (middle,)) for name in size.middle if name in known]
    return [*jobs, *(Job(name, (None,)) for name in size.codecs if name in known)]


def missing_peers() -> dict[str, str]:
    """Return the peers that are not installed, each with its remedy."""
    gone = [*missing_backends(), *([] if has_kvpress() else [*NAMES, 'KVzip'])]
    return dict.fromkeys(gone, EXTRA)
