# SPDX-License-Identifier: Apache-2.0
"""Promises of the policies that a server offers: all of them, in a form for short turns."""

from pathlib import Path

from cloud_backbone.cache_policies import GAINS_FILE, policies_of, ServedPolicies
from cloud_backbone.errors import StartError
from cloud_backbone.kv_cache.errors import PolicyError
from cloud_backbone.kv_cache.policy import policy_names
from cloud_backbone.kv_cache.squat_gains import SquatGains
from cloud_backbone.kv_cache.squat_table import SquatTable
import pytest
import torch


@pytest.mark.parametrize('name', policy_names())
def test_every_policy_is_served(name: str) -> None:
    """By its name; all but the full one leave nothing raw between turns."""
    policy = ServedPolicies().find(name)
    assert policy.name == name
    assert policy.lossless == (name == 'full')
    assert policy.whole == (name != 'full')


def test_unknown_policy_is_refused() -> None:
    """As everywhere."""
    with pytest.raises(PolicyError, match='squat9'):
        ServedPolicies().find('cake+squat9')


def test_shared_gains_cost_a_session_nothing(tmp_path: Path) -> None:
    """Sessions of a checkpoint with gains own none; those of another learn their own."""
    gains = SquatGains.from_gram(torch.eye(16).expand(2, -1, -1), 8)
    SquatTable('model', (gains,)).save(tmp_path / GAINS_FILE)
    for policies, owned in ((policies_of(tmp_path, 'model'), False), (ServedPolicies(), True)):
        (codec,) = policies.find('cake+squat4').codecs(0, 2, 16)
        assert (codec.learned_bytes(2) > 0) == owned


def test_gains_of_another_model_stop_the_start(tmp_path: Path) -> None:
    """With the file and a remedy; a checkpoint without gains is served too."""
    assert policies_of(tmp_path, 'mine').find('squat4').name == 'squat4'
    SquatTable('other', ()).save(tmp_path / GAINS_FILE)
    with pytest.raises(StartError, match='other.*mine.*remove the file'):
        policies_of(tmp_path, 'mine')


def test_shipped_gains_fit_the_shipped_model() -> None:
    """Its fingerprint is that of the checkpoint that they lie beside."""
    from cloud_backbone.config import SHIPPED_CHECKPOINT
    from cloud_backbone.model.checkpoint_files import fingerprint

    policies = policies_of(SHIPPED_CHECKPOINT, fingerprint(SHIPPED_CHECKPOINT))
    for name in ('squat4', 'oaken'):
        (codec,) = policies.find(name).codecs(5, 2, 64)
        assert codec.learned_bytes(2) == 0
