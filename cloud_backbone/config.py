# SPDX-License-Identifier: Apache-2.0
"""Settings of the server: frozen, checked when built, read from YAML once.

A key that does not exist is an error, and so is a value that cannot be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
import ipaddress
from pathlib import Path
from typing import Any, get_type_hints, TypeVar

from cloud_backbone.errors import StartError
from protos.protocol import DEFAULT_PORT
import yaml

SHIPPED_CHECKPOINT = Path(__file__).resolve().parent / 'checkpoints' / 'tabletop'
STORE_SCHEMES = ('redis', 'rediss')
Settings = TypeVar('Settings')


@dataclass(frozen=True)
class TlsConfig:
    """Files in PEM; empty means none. With ``client_ca``, robots must show a certificate."""

    certificate: str = ''
    key: str = ''
    client_ca: str = ''

    def __post_init__(self) -> None:
        """Refuse a certificate without key, and files that are not there."""
        _require(bool(self.certificate) == bool(self.key), 'tls needs both certificate and key')
        _require(
            bool(self.certificate) or not self.client_ca, 'tls.client_ca needs a certificate too'
        )
        for name in ('certificate', 'key', 'client_ca'):
            path = getattr(self, name)
            _require(not path or Path(path).is_file(), f'tls.{name}: no such file {path!r}')


@dataclass(frozen=True)
class LimitsConfig:
    """How much the server takes on."""

    max_sessions: int = 64
    session_ttl_s: float = 600.0
    """After this time without a stream a session may be put away."""
    spill_after_s: float = 60.0
    """After this time without a turn a session's cache is moved out of memory."""
    max_pending_turns: int = 4
    """Of one session."""
    max_waiting_turns: int = 64
    """Of all sessions together."""
    stored_answers: int = 64
    """Of one session."""
    max_batch: int = 8
    hello_timeout_s: float = 10.0
    drain_s: float = 5.0
    """How long a shutdown waits for turns under way."""
    state_keep_s: float = 7 * 24 * 3600.0
    """Sessions in state_dir that nobody took up for so long are forgotten."""

    def __post_init__(self) -> None:
        """Refuse limits that let nothing through."""
        for entry in fields(self):
            value = getattr(self, entry.name)
            _require(value > 0, f'limits.{entry.name} is {value}, must be more than 0')


@dataclass(frozen=True)
class CacheConfig:
    """How sessions keep keys and values, where a robot does not say."""

    policy: str = 'full'
    pool_bytes: int = 1 << 30
    """Of all sessions together, and of the turns that are being computed [B]."""
    host_bytes: int = 256 << 20
    """Of caches that left the pool and have no state_dir to go to [B]; 0: they are dropped."""
    budget_bytes: int = 0
    """Of one session between turns [B]; 0: no limit."""
    budget_fraction: float = 0.0
    """The same as a share of what a usual turn takes in half precision; 0: no limit."""

    def __post_init__(self) -> None:
        """Refuse a pool of nothing, and two budgets."""
        _require(
            self.pool_bytes > 0, f'cache.pool_bytes is {self.pool_bytes}, must be more than 0'
        )
        _require(
            self.host_bytes >= 0, f'cache.host_bytes is {self.host_bytes}, must be 0 or more'
        )
        _require(
            self.budget_bytes >= 0, f'cache.budget_bytes is {self.budget_bytes}, must be 0 or more'
        )
        _require(
            0.0 <= self.budget_fraction <= 1.0,
            f'cache.budget_fraction is {self.budget_fraction}, allowed 0 to 1',
        )
        _require(
            not (self.budget_bytes and self.budget_fraction),
            'cache has both budget_bytes and budget_fraction; give one',
        )


@dataclass(frozen=True)
class BackboneConfig:
    """Everything that the server can be told."""

    checkpoint: str = str(SHIPPED_CHECKPOINT)
    host: str = '127.0.0.1'
    port: int = DEFAULT_PORT
    """0 picks a free one."""
    insecure: bool = False
    """Allow other hosts than loopback without TLS."""
    threads: int = 1
    device: str = 'cpu'
    state_dir: str = ''
    """A directory of this server alone, where sessions outlive it; empty: they end with it."""
    snapshot_store: str = ''
    """A folder, or the address of a Redis or Valkey server, that several backbones share: there
    the calls Snapshot and Restore keep sessions; empty: they use state_dir."""
    tls: TlsConfig = field(default_factory=TlsConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    cache: CacheConfig = field(default_factory=CacheConfig)

    def __post_init__(self) -> None:
        """Refuse values that cannot be, and plain text on a network that was not asked for."""
        _require(0 <= self.port <= 65535, f'port is {self.port}, allowed 0 to 65535')
        _require(1 <= self.threads <= 256, f'threads is {self.threads}, allowed 1 to 256')
        _require(
            self.insecure or bool(self.tls.certificate) or is_loopback(self.host),
            f'host {self.host} is not loopback and there is no TLS: set tls.certificate and '
            'tls.key, or allow plain text with insecure: true',
        )
        scheme, separator, _ = self.snapshot_store.partition('://')
        _require(
            not separator or scheme in STORE_SCHEMES,
            f'snapshot_store is {shown_store(self.snapshot_store)!r}, allowed are a folder, '
            'redis://host:6379/0, and rediss:// for TLS',
        )


def shown_store(place: str) -> str:
    """Return the address of a store without user and password."""
    scheme, separator, rest = place.partition('://')
    return f'{scheme}://{rest.rpartition("@")[2]}' if separator else place


def is_loopback(host: str) -> bool:
    """Say whether only this machine can reach a host name or address."""
    try:
        return ipaddress.ip_address(host.strip('[]')).is_loopback
    except ValueError:
        return host == 'localhost'


def load_config(path: Path | str | None, overrides: Mapping[str, Any]) -> BackboneConfig:
    """Read a YAML file, if there is one, and replace what ``overrides`` names.

    Args:
        path: YAML file with the keys of BackboneConfig, nested as there.
        overrides: values by dotted key, for example ``limits.max_batch``.

    Raises:
        StartError: the file cannot be read, or a key or value is wrong.
    """
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = yaml.safe_load(Path(path).read_text(encoding='utf-8')) or {}
        except (OSError, yaml.YAMLError) as error:
            raise StartError(f'cannot read {path}: {error}') from error
    for key, value in overrides.items():
        *sections, name = key.split('.')
        section = values
        for part in sections:
            section = section.setdefault(part, {})
        section[name] = value
    return _build(BackboneConfig, values, '')


def _build(kind: type[Settings], values: Any, where: str) -> Settings:
    if not isinstance(values, dict):
        raise StartError(f'{where or "the configuration"} must be a table, is {values!r}')
    hints = get_type_hints(kind)
    unknown = sorted(str(key) for key in set(values) - set(hints))
    if unknown:
        raise StartError(
            f'unknown key {where}{unknown[0]}; known are '
            + ', '.join(f'{where}{name}' for name in hints)
        )
    return kind(**{key: _value(hints[key], value, where + key) for key, value in values.items()})


def _value(kind: Any, value: Any, where: str) -> Any:
    if is_dataclass(kind):
        return _build(kind, value, f'{where}.')  # type: ignore[arg-type]
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise StartError(f'{where} is {value!r}, must be of type {kind.__name__}')
    return value


def _require(allowed: bool, message: str) -> None:
    if not allowed:
        raise StartError(message)
