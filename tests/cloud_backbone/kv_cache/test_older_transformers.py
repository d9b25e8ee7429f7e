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
    'test_families.py', 'test_policy_product.py', 'test_batches.py',
    'test_sessions.py::test_cropped_tokens_leave_no_trace',
    'test_kv_errors.py::test_crop_counts_as_the_librarys_does',
)
"""What meets the differences between the versions: models, masks, steps, beams and crops."""
CHECK = (
    'import sys, pytest; failed = pytest.main(sys.argv[1:]); import transformers; '
    f'sys.exit(failed or transformers.__version__ != {VERSION!r})'
)


@pytest.mark.skipif(
    not (OLDER / 'transformers').is_dir() and 'CI' not in os.environ,
    reason=f'make venv installs transformers {VERSION} into {OLDER.relative_to(ROOT)}',
)
def test_all_holds_with_the_oldest_transformers_too() -> None:
    """Families, batches and sessions do with the oldest version what they do with the newest."""
    folder = Path(__file__).parent
    paths = os.pathsep.join([str(OLDER), os.environ.get('PYTHONPATH', '')]).strip(os.pathsep)
    command = [sys.executable, '-c', CHECK, '-q', '-p', 'no:cacheprovider', '--no-header',
               *(str(folder / name) for name in PLACES)]
    run = subprocess.run(
        command, cwd=ROOT, env={**os.environ, 'PYTHONPATH': paths}, capture_output=True, text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-4000:]
    assert ' passed' in run.stdout
    assert 'skipped' not in run.stdout
