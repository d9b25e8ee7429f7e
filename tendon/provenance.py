# SPDX-License-Identifier: Apache-2.0
"""What a figure was measured on: machine, versions, seed, commit."""

import os
from pathlib import Path
import platform
import subprocess

from tendon import __version__


def provenance(seed: int) -> dict[str, object]:
    """Return the facts that stand in each JSON line."""
    return {
        'machine': f'{_processor()} x{os.cpu_count()}',
        'python': platform.python_version(),
        'version': __version__,
        'commit': _commit(),
        'seed': seed,
    }


def _processor() -> str:
    try:
        lines = Path('/proc/cpuinfo').read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.split(':', 1)[1].strip() for line in lines if line.startswith('model name')]
    return names[0] if names else platform.machine()


def _commit() -> str | None:
    """Return the commit of the checkout that this package runs from, None outside of one."""
    try:
        return subprocess.run(
            ['git', 'rev-parse', '--short', 'HEAD'], cwd=Path(__file__).parent, check=True,
            capture_output=True, text=True, timeout=5,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
