# SPDX-License-Identifier: Apache-2.0
"""Promises of the settings."""

from pathlib import Path
from typing import Any

from cloud_backbone.config import BackboneConfig, load_config
from cloud_backbone.errors import StartError
import pytest


def test_shipped_file_says_the_defaults(root: Path) -> None:
    """config/backbone.yaml shows every default as it is, apart from the checkpoint's place."""
    assert load_config(root / 'config' / 'backbone.yaml', {}) == BackboneConfig()


def test_overrides_replace_single_values(tmp_path: Path) -> None:
    """A dotted key changes one value and leaves the file's others alone."""
    path = tmp_path / 'b.yaml'
    path.write_text('port: 7\nlimits: {max_batch: 2, max_sessions: 3}\n')
    config = load_config(path, {'limits.max_batch': 5, 'threads': 2})
    assert (config.port, config.threads) == (7, 2)
    assert (config.limits.max_batch, config.limits.max_sessions) == (5, 3)


@pytest.mark.parametrize(
    ('overrides', 'message'),
    [
        ({'prot': 1}, 'unknown key prot; known are checkpoint, host, port'),
        ({'limits.max_sesions': 1}, r'unknown key limits\.max_sesions'),
        ({'port': '50251'}, "port is '50251', must be of type int"),
        ({'port': 70000}, 'port is 70000, allowed 0 to 65535'),
        ({'port': True}, 'must be of type int'),
        ({'limits': 3}, 'limits. must be a table'),
        ({'limits.max_batch': 0}, 'max_batch is 0, must be more than 0'),
        ({'cache.pool_bytes': 0}, 'cache.pool_bytes is 0, must be more than 0'),
        ({'cache.budget_bytes': -1}, 'cache.budget_bytes is -1, must be 0 or more'),
        ({'cache.budget_fraction': 1.5}, 'cache.budget_fraction is 1.5, allowed 0 to 1'),
        ({'cache.budget_bytes': 9, 'cache.budget_fraction': 0.5}, 'give one'),
        ({'host': '0.0.0.0'}, 'not loopback and there is no TLS'),
        ({'tls.certificate': 'x.pem'}, 'needs both certificate and key'),
        ({'tls.certificate': 'no.pem', 'tls.key': 'no.pem'}, "no such file 'no.pem'"),
        ({'tls.client_ca': 'ca.pem'}, 'client_ca needs a certificate'),
    ],
)
def test_wrong_settings_are_named(overrides: dict[str, Any], message: str) -> None:
    """A key that does not exist or a value that cannot be stops the start, and is named."""
    with pytest.raises(StartError, match=message):
        load_config(None, overrides)


@pytest.mark.parametrize('host', ['127.0.0.1', '127.3.2.1', 'localhost', '::1', '[::1]'])
def test_loopback_needs_no_permission(host: str) -> None:
    """Plain text is allowed where only this machine can reach it."""
    assert load_config(None, {'host': host}).host == host


def test_plain_text_elsewhere_must_be_asked_for_by_name() -> None:
    """Another host than loopback works without TLS only with insecure: true."""
    assert load_config(None, {'host': '0.0.0.0', 'insecure': True}).insecure


def test_broken_file_is_named(tmp_path: Path) -> None:
    """A file that is missing or no YAML is an error with its path."""
    with pytest.raises(StartError, match='missing.yaml'):
        load_config(tmp_path / 'missing.yaml', {})
    (tmp_path / 'broken.yaml').write_text('a: [1')
    with pytest.raises(StartError, match='broken.yaml'):
        load_config(tmp_path / 'broken.yaml', {})
