# SPDX-License-Identifier: Apache-2.0
"""Why there is no session with a backbone, as one sentence with a remedy.

Knows the status codes of gRPC; opens nothing.
"""

from dataclasses import dataclass

import grpc

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
    if 'refused' in lower:
        return f'nothing listens at {address}; start the backbone there with "tendon serve"'
    if 'http1' in lower or 'settings frame' in lower or 'handshake' in lower:
        return f'{address} listens but does not speak gRPC; check host and port'
    if 'dns' in lower or 'name' in lower and 'resol' in lower:
        return f'host of {address} is unknown; check its name'
    return f'backbone at {address} is gone: {details}'
