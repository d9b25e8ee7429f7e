# SPDX-License-Identifier: Apache-2.0
"""Rules of the repository that no linter knows."""

import ast
from pathlib import Path
import re
import subprocess

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ('cloud_backbone', 'onboard_decoder', 'protos', 'sim', 'tendon')
LONGEST_FILE = 300
LONGEST_FUNCTION = 40
HEADER = '# SPDX-License-Identifier: Apache-2.0\n'


def sources(*folders):
    """All Python files that people wrote."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob('*.py')):
            if '_pb2' not in path.name:
                yield path


def named(path):
    """Path as a test id."""
    return str(path.relative_to(ROOT))


ALL = [*sources(*PACKAGES, 'tests', 'launch'), ROOT / 'setup.py']


@pytest.mark.parametrize('path', ALL, ids=named)
def test_file_has_licence_and_bearable_length(path):
    """First line is the licence; no file is longer than 300 lines."""
    text = path.read_text(encoding='utf-8')

    assert text.startswith(HEADER)
    assert text.count('\n') <= LONGEST_FILE


def test_functions_are_short():
    """No function of the packages is longer than 40 lines without its docstring."""
    long = []
    for path in sources(*PACKAGES):
        for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                first = node.body[1 if ast.get_docstring(node) and len(node.body) > 1 else 0]
                if node.end_lineno - first.lineno + 1 > LONGEST_FUNCTION:
                    long.append(f'{named(path)}:{node.lineno} {node.name}')

    assert not long


def test_tests_state_their_promise():
    """Every test has a docstring of its own."""
    silent = [
        f'{named(path)}:{node.lineno} {node.name}'
        for path in sources('tests') if path.name.startswith('test_')
        for node in ast.walk(ast.parse(path.read_text(encoding='utf-8')))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.name.startswith('test_') and not ast.get_docstring(node)
    ]

    assert not silent


def test_test_files_have_names_of_their_own():
    """Test files lie in folders that are no packages, so each name exists once."""
    names = [path.name for path in (ROOT / 'tests').rglob('test_*.py')]

    assert sorted(names) == sorted(set(names))


def test_nothing_is_pickled():
    """No module of the packages imports or calls anything that unpickles."""
    found = [
        f'{named(path)}:{number}: {line.strip()}'
        for path in sources(*PACKAGES)
        for number, line in enumerate(path.read_text(encoding='utf-8').splitlines(), start=1)
        if re.search(r'\b(import|from) (pickle|dill|cloudpickle|shelve|joblib|marshal)\b', line)
        or re.search(r'pickle\.loads?\(|allow_pickle=True|yaml\.(unsafe_|full_)?load\(', line)
    ]

    assert not found


def test_torch_loads_weights_only():
    """Every torch.load refuses code."""
    calls = [
        (named(path), node)
        for path in sources(*PACKAGES)
        for node in ast.walk(ast.parse(path.read_text(encoding='utf-8')))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == 'torch.load'
    ]

    for where, call in calls:
        told = {word.arg: ast.unparse(word.value) for word in call.keywords}
        assert told.get('weights_only') == 'True', f'{where}:{call.lineno}'


def test_generated_code_is_not_committed():
    """Message classes are made at build time from the .proto files."""
    tracked = subprocess.run(
        ['git', 'ls-files', '*_pb2*'], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if tracked.returncode != 0:
        pytest.skip('not a git checkout')

    assert tracked.stdout == ''
