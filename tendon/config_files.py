# SPDX-License-Identifier: Apache-2.0
"""Where the files of ``config/`` are: in the checkout, or where pip or colcon put them."""

from pathlib import Path
import sys


def config_file(name: str) -> Path | None:
    """Return the path of a file of ``config/``, or None if it was not installed."""
    package = Path(__file__).resolve().parent
    folders = [package.parent / 'config', Path(sys.prefix) / 'share' / 'tendon' / 'config']
    # colcon installs to <prefix>/lib/python3.x/site-packages and <prefix>/share.
    folders += [parent / 'share' / 'tendon' / 'config' for parent in package.parents[1:5]]
    return next((folder / name for folder in folders if (folder / name).is_file()), None)
