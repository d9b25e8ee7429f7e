# SPDX-License-Identifier: Apache-2.0
"""Which variable of the environment would send others through a proxy to a host.

Tendon itself takes no proxy. Knows names of variables; opens nothing.
"""

from collections.abc import Mapping

PROXIES = ('grpc_proxy', 'https_proxy', 'http_proxy')
EXCEPTIONS = ('no_grpc_proxy', 'no_proxy')
LOOPBACK = ('localhost', '127.0.0.1', '::1')


def proxy_variable(host: str, environment: Mapping[str, str]) -> str:
    """Return the first variable that names a proxy for a host; empty if there is none."""
    if host in LOOPBACK or any(_fits(host, entry) for entry in _exceptions(environment)):
        return ''
    spellings = (spelling for name in PROXIES for spelling in (name, name.upper()))
    return next((name for name in spellings if environment.get(name)), '')


def _exceptions(environment: Mapping[str, str]) -> list[str]:
    named = (environment.get(name) or environment.get(name.upper()) or '' for name in EXCEPTIONS)
    return [entry.strip() for value in named for entry in value.split(',') if entry.strip()]


def _fits(host: str, entry: str) -> bool:
    """Say whether an exception is for a host: its name, a domain that it is in, or all."""
    domain = entry.removeprefix('*').removeprefix('.').lower()
    return entry == '*' or host.lower() == domain or host.lower().endswith(f'.{domain}')
