# SPDX-License-Identifier: Apache-2.0
"""Is a text an address of a backbone? Looks nothing up.

Without this check gRPC would take a missing port as 443, and a port too large as another one.
"""

import re

from onboard_decoder.errors import SettingsError

_SCHEME = re.compile(r'(unix|unix-abstract|vsock|dns|ipv4|ipv6|xds):')
_HOST_PORT = re.compile(r'(\[[0-9A-Fa-f:.%\w]+\]|[^:\[\]/\s]+):(\d{1,5})')


def check_address(address: str) -> None:
    """Refuse what is no host:port; what names a scheme of gRPC is left to it.

    Raises:
      SettingsError: with the allowed form.
    """
    if _SCHEME.match(address):
        return
    found = _HOST_PORT.fullmatch(address)
    if found is None or not 0 < int(found[2]) < 65536:
        raise SettingsError(
            'backbone_address', address,
            'host:port with a port in 1..65535, an IPv6 address in brackets',
        )
