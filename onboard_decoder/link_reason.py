# SPDX-License-Identifier: Apache-2.0
"""Why there is no session with a backbone, as one sentence with a remedy.

Knows the status codes of gRPC, what it says of ports that are not its own, and the variables that
name proxies; opens nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
import os

import grpc
from onboard_decoder.proxy_variables import proxy_variable

_PLAIN = '{address} speaks plain text and this robot TLS; take its TLS port, or go without'
_OTHER = (
    '{address} speaks another protocol than gRPC, as web servers and proxies do; check the port'
)
_MUTE = '{address} listens but does not speak gRPC; check host and port'
_HUNG_UP = '{address} listens but hangs up on plain text; is it a port for TLS?'
_NO_WAY = 'no way to {address}; check network, firewall and address'
# What is in the details, in small letters, and what that means; the first that fits counts.
_SIGNS = (
    (('refused',), 'nothing listens at {address}; start the backbone there with "tendon serve"'),
    (('wrong_version_number',), _PLAIN),
    (('certificate_verify_failed',), 'the certificate of {address} is from nobody that this robot '
     'trusts; give it the certificate of the authority'),
    (('hostname verification',), 'the certificate of {address} is for another name; use the name '
     'that it is for'),
    (('expected settings frame',), _OTHER),
    (('http1',), _OTHER),
    (('settings frame',), _MUTE),
    (('handshake',), _MUTE),
    (('failed to connect', 'socket closed'), _HUNG_UP),
    (('failed to connect', 'reset by peer'), _HUNG_UP),
    (('unreachable',), _NO_WAY),
    (('no route',), _NO_WAY),
    (('failed to connect', 'timed out'), _NO_WAY),
    (('failed to connect', 'timeout'), _NO_WAY),
    (('resolving',), 'host of {address} is unknown; check its name'),
    (('resolution',), 'host of {address} is unknown; check its name'),
)

_REFUSED = (
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
)


@dataclass(frozen=True, slots=True)
class LinkReason:
    """One sentence, and whether trying again soon can help."""

    text: str
    is_final: bool = False


def explain(error: grpc.RpcError, address: str) -> LinkReason:
    """Return why a stream to ``address`` failed."""
    code = error.code() if isinstance(error, grpc.Call) else None
    details = (error.details() if isinstance(error, grpc.Call) else None) or ''
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return LinkReason(
            f'{address} is a gRPC server but no Tendon backbone; check host and port', True
        )
    if code in _REFUSED:
        return LinkReason(f'backbone at {address} refused this robot: {details}', True)
    if code is grpc.StatusCode.UNAVAILABLE:
        return LinkReason(_unavailable(details, address))
    name = code.name if code is not None else type(error).__name__
    return LinkReason(f'stream to {address} broke: {name}: {details}')


def _unavailable(details: str, address: str) -> str:
    """Return the sentence for a server that cannot be reached."""
    lower = details.lower()
    for sign, sentence in _SIGNS:
        if all(word in lower for word in sign):
            return sentence.format(address=address) + _past_proxy(address)
    return f'backbone at {address} is gone: {details}'


def _past_proxy(address: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return a hint where a proxy is set that others would take to this address, else nothing."""
    host = address.rpartition(':')[0].strip('[]')
    name = proxy_variable(host, environment)
    if not name:
        return ''
    return (
        f' (Tendon does not take the proxy of {name}, {_without_password(environment[name])}: the '
        'backbone must be reachable without it)'
    )


def _without_password(proxy: str) -> str:
    """Return a proxy's address without the user's name and password."""
    scheme, separator, rest = proxy.rpartition('://')
    return f'{scheme}{separator}{rest.rpartition("@")[2]}'
