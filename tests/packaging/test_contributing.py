# SPDX-License-Identifier: Apache-2.0
"""The six steps of CONTRIBUTING.md to a new KV method: each is true, and together they suffice."""

import os
from pathlib import Path
import re
import shutil
import subprocess
import sys

from cloud_backbone.kv_cache.policy import policy_names
import pytest

ROOT = Path(__file__).resolve().parents[2]
TOYS = Path(__file__).parent / 'toy_method'
TABLES = ('cloud_backbone/kv_cache', 'tendon', 'tests/cloud_backbone/kv_cache', 'docs')
"""Folders that hold what the steps change."""
ENTRIES = {
    'policy.py': {
        '_SCORERS': "'toyrule': {'scorer': ToyRule()}",
        '_CODECS': "'toycode': lambda layer, heads, width, slots: ToyCode(width, slots)",
    },
    'test_scorer_contract.py': {'SCORERS': 'ToyRule()'},
    'test_codec_contract.py': {'CODECS': "'toycode': (ToyCode, 0.003)"},
    'test_families.py': {'CODEC_ERRORS': "'toycode': 0.01"},
    'size.py': {'MIDDLE': "'toyrule'", 'CODECS': "'toycode'"},
}
"""What goes into which table of which file."""
IMPORTS = (
    'from cloud_backbone.kv_cache.toy_code import ToyCode\n'
    'from cloud_backbone.kv_cache.toy_rule import ToyRule\n'
)


def section() -> str:
    """Return what CONTRIBUTING.md says about a new method."""
    text = (ROOT / 'CONTRIBUTING.md').read_text(encoding='utf-8')
    found = re.search(r'^## Adding a KV method\n(.*?)^## ', text, re.MULTILINE | re.DOTALL)
    assert found, 'CONTRIBUTING.md has no section about a KV method'
    return found[1]


def steps() -> list[str]:
    """Return its steps."""
    return re.findall(r'^\d+\. (.*?)(?=^\d+\. |\n\n|\Z)', section(), re.MULTILINE | re.DOTALL)


def code_of(step: str) -> tuple[list[Path], list[str]]:
    """Return the files and the names that a step sets as code; commands are tested elsewhere."""
    spans = re.findall(r'`([^`]+)`', step)
    files = [Path(span) for span in spans if '/' in span and '<' not in span]
    return files, [span for span in spans if re.fullmatch(r'\w+', span)]


def rows(page: str) -> set[str]:
    """Return the names that the tables of a page explain, each in the first cell of a row."""
    cells = re.findall(r'^\| (`[^|]*`) \|', page, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r'`([\w-]+)`', cell)}


def add(root: Path, path: Path, table: str, entry: str) -> None:
    """Put an entry first into a table of a file, with the imports that it needs."""
    text = (root / path).read_text(encoding='utf-8')
    text, count = re.subn(
        rf'^({table}\b[^=\n]*= [\[{{(])', lambda head: f'{head[1]}{entry}, ', text, count=1,
        flags=re.MULTILINE,
    )
    assert count == 1, f'{path} has no table {table}'
    if 'Toy' in entry and IMPORTS not in text:
        text = re.sub(r'^(?=from cloud_backbone)', IMPORTS, text, count=1, flags=re.MULTILINE)
    (root / path).write_text(text, encoding='utf-8')


@pytest.fixture(scope='module')
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the packages in which somebody has followed the steps, for both kinds."""
    root = tmp_path_factory.mktemp('copy')
    ignored = shutil.ignore_patterns('__pycache__', 'checkpoints', 'kernel')
    for folder in ('cloud_backbone', *TABLES[1:]):
        shutil.copytree(ROOT / folder, root / folder, ignore=ignored)
    for name in ('toy_rule', 'toy_code'):
        shutil.copy(TOYS / f'{name}.py', root / TABLES[0] / f'{name}.py')
    shutil.copy(TOYS / 'check_toys.py', root / TABLES[2] / 'test_toys.py')
    for step in steps()[2:]:
        files, names = code_of(step)
        for path in files:
            for table, entry in ENTRIES[path.name].items() if path.name in ENTRIES else ():
                assert table in names, f'no step speaks of {table} in {path}'
                add(root, path, table, entry)
    return root


def test_there_are_six_steps() -> None:
    """As many as the page says."""
    assert len(steps()) == 6
    assert [int(number) for number in re.findall(r'^(\d)\. ', section(), re.MULTILINE)] == [
        1, 2, 3, 4, 5, 6,
    ]


def test_what_the_steps_name_exists() -> None:
    """Each file is there, and each name stands in a file of its step."""
    for number, step in enumerate(steps(), 1):
        files, names = code_of(step)
        assert all((ROOT / path).exists() for path in files), f'step {number}'
        texts = [(ROOT / path).read_text(encoding='utf-8') for path in files if path.suffix]
        for name in names:
            found = [text for text in texts if re.search(rf'\b{re.escape(name)}\b', text)]
            assert found, f'step {number} speaks of {name}, which no file of it has'


def test_every_table_of_the_steps_is_tried() -> None:
    """The toys go into each table that the steps name."""
    told = {name for step in steps()[2:] for name in code_of(step)[1] if name.isupper()}

    assert told == {table for tables in ENTRIES.values() for table in tables}


def test_the_page_explains_every_method() -> None:
    """docs/kv_cache.md has one row for each scorer and codec, and none for what is not there."""
    page = (ROOT / 'docs' / 'kv_cache.md').read_text(encoding='utf-8')
    methods = {part for name in policy_names() for part in name.split('+')}

    assert rows(page) == methods


@pytest.mark.slow
def test_a_method_added_by_the_steps_works(copy: Path) -> None:
    """It keeps the contracts, has a policy and combinations, serves a model, and is benched."""
    folder = copy / TABLES[2]
    files = ('test_scorer_contract.py', 'test_codec_contract.py', 'test_toys.py')
    environment = {**os.environ, 'PYTHONPATH': f'{copy}{os.pathsep}{ROOT}', 'OMP_NUM_THREADS': '1'}
    done = subprocess.run(
        [sys.executable, '-m', 'pytest', '-q', '-rA', '-k', 'toy', '-p', 'no:cacheprovider',
         '-c', os.devnull, f'--rootdir={copy}', *(str(folder / name) for name in files)],
        cwd=copy, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.findall(r'^PASSED \S*?(\w+\.py)::\S*\[.*toy', done.stdout, re.M | re.I)
    assert set(passed) == set(files)
