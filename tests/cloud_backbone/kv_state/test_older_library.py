# SPDX-License-Identifier: Apache-2.0

import os
from pathlib import Path
import subprocess
import sys

import pytest

ROOT = Path(__file__).resolve().parents[3]
OLDER = ROOT / '.venv' / 'older_transformers'
VERSION = '5.2.0'
PLACES = (
    'test_exact_edits.py::test_crop', 'test_exact_edits.py::test_commit_step',
    'test_exact_edits.py::test_rehydrate',
    'test_state_invariants.py::test_windows_lose_history',
    'test_approximate_edits.py::test_first_layer_is_exact',
)
"""What meets the differences between the versions: crops, windows, positions of images."""
CHECK = (
    'import sys, pytest; failed = pytest.main(sys.argv[1:]); import transformers; '
    f'sys.exit(failed or transformers.__version__ != {VERSION!r})'
)


@pytest.mark.skipif(
    not (OLDER / 'transformers').is_dir() and 'CI' not in os.environ,
    reason=f'make venv installs transformers {VERSION} into {OLDER.relative_to(ROOT)}',
)
def test_all_holds_with_the_oldest_transformers_too() -> None:
    """Sessions of segments do with the oldest version what they do with the newest."""
    folder = Path(__file__).parent
    paths = os.pathsep.join([str(OLDER), os.environ.get('PYTHONPATH', '')]).strip(os.pathsep)
    command = [sys.executable, '-c', CHECK, '-q', '-p', 'no:cacheprovider', '--no-header', '-k',
               'not checkpoint', *(str(folder / name) for name in PLACES)]
    run = subprocess.run(
        command, cwd=ROOT, env={**os.environ, 'PYTHONPATH': paths}, capture_output=True, text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-4000:]
    assert ' passed' in run.stdout
