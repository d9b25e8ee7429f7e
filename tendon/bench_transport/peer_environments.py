# SPDX-License-Identifier: Apache-2.0
"""Where the peers' environments are, and how they are made; they cannot share one with us.

openpi-client wants numpy 1, lerobot Python 3.12 and 5 GB. Neither is ever installed by a run.
"""

import os
from pathlib import Path
import subprocess

from tendon.errors import BadRequest

MAKE = {
    'openpi': (
        'python3.11 -m venv {place} && {place}/bin/pip install '
        '"openpi-client==0.1.2" typing_extensions "numpy<2"'
    ),
    'lerobot': 'python3.12 -m venv {place} && {place}/bin/pip install "lerobot[async]==0.6.1"',
}
_MODULE = {'openpi': 'openpi_client', 'lerobot': 'lerobot'}
_PROBE_S = 60.0


def default_place(peer: str) -> Path:
    """Return the folder of a peer's environment in the user's cache."""
    cache = os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache'
    return Path(cache) / 'tendon' / 'peers' / peer


def how_to_make(peer: str) -> str:
    """Return the commands that make a peer's environment where it is looked for."""
    return MAKE[peer].format(place=default_place(peer))


def find_python(peer: str, asked: Path | None) -> Path | None:
    """Return the interpreter of a peer, None where it is not installed.

    Raises:
      BadRequest: the interpreter that was asked for does not exist, or lacks the peer.
    """
    python = asked or default_place(peer) / 'bin' / 'python'
    if _has(python, _MODULE[peer]):
        return python.absolute()
    if asked is not None:
        raise BadRequest(f'{asked} is no Python with {peer}; make one: {how_to_make(peer)}')
    return None


def _has(python: Path, module: str) -> bool:
    """Say whether an interpreter is there and finds a package."""
    probe = f'import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)'
    try:
        return subprocess.run(
            [str(python), '-c', probe], capture_output=True, timeout=_PROBE_S, check=False
        ).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False
