# SPDX-License-Identifier: Apache-2.0
"""The steps of CONTRIBUTING.md to a KV method and to a tool: each is true; they suffice."""

import os
from pathlib import Path
import re
import shutil
import subprocess
import sys

from cloud_backbone.distillation.turns import TOOL_WEIGHTS
from cloud_backbone.kv_cache.policy import policy_names
from cloud_backbone.task_memory import Tool
from onboard_decoder.agent.tools import TOOLS
from onboard_decoder.task_memory import Tool as OnboardTool
from protos import plan_pb2
import pytest

ROOT = Path(__file__).resolve().parents[2]
METHOD, TOOL = 'KV method', 'tool'
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
STOP, TAP_WORD = "    STOP = 'stop'\n", "    TAP = 'tap'\n"
TAP = {
    'protos/plan.proto': ('  TOOL_STOP = 9;\n', '  TOOL_STOP = 9;\n  TOOL_TAP = 10;\n'),
    'cloud_backbone/task_memory.py': (STOP, STOP + TAP_WORD),
    'onboard_decoder/task_memory.py': (STOP, STOP + TAP_WORD),
    'onboard_decoder/agent/tools.py': ('    Tool.ASK: ToolSpec(', (
        "    Tool.TAP: ToolSpec('Touch a thing.', ('object_name',), Hand.EMPTY, Skill.PUSH,\n"
        '                       (StepResult.PUSHED, *_MOTION)),\n    Tool.ASK: ToolSpec('
    )),
    'onboard_decoder/agent/effects.py': (
        '    Tool.PUSH: _pushed,\n', '    Tool.PUSH: _pushed,\n    Tool.TAP: _pushed,\n'
    ),
    'onboard_decoder/agent/trial.py': ('Tool.PUSH, ', 'Tool.PUSH, Tool.TAP, '),
    'cloud_backbone/act.py': ('(<look> | <grasp>', '(<look> | <tap> | <grasp>'),
    'cloud_backbone/agent_words.py': (
        'if call.tool is Tool.GRASP else', 'if call.tool in (Tool.GRASP, Tool.TAP) else'
    ),
    'cloud_backbone/act_grounding.py': ('        assert act.b is not None\n', (
        '        if act.tool is Tool.TAP:\n'
        '            reach, touch, _ = geometry.take(geometry.spot(act.a, act.a_point))\n'
        '            touch = Step(Skill.PUSH, touch.target_in_base, touch.thing, touch.point)\n'
        '            return [reach, touch, HOME]\n        assert act.b is not None\n'
    )),
    'cloud_backbone/distillation/turns.py': ("'push': 1.5,", "'push': 1.5, 'tap': 1.0,"),
}
"""A toy of a tool: in each file what stands there, and what stands there afterwards."""


def section(new: str) -> str:
    """Return what CONTRIBUTING.md says about something new."""
    text = (ROOT / 'CONTRIBUTING.md').read_text(encoding='utf-8')
    found = re.search(rf'^## Adding a {new}\n(.*?)^## ', text, re.MULTILINE | re.DOTALL)
    assert found, f'CONTRIBUTING.md has no section about a {new}'
    return found[1]


def steps(new: str = METHOD) -> list[str]:
    """Return its steps."""
    return re.findall(
        r'^\d+\. (.*?)(?=^\d+\. |\n\n|\Z)', section(new), re.MULTILINE | re.DOTALL
    )


def code_of(step: str) -> tuple[list[Path], list[str]]:
    """Return the files and the names that a step sets as code; commands are tested elsewhere."""
    spans = re.findall(r'`([^`]+)`', step)
    files = [Path(span) for span in spans if '/' in span and not re.search(r'[< ]', span)]
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


def run_tests(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run tests against the packages in a folder; what is not there is taken from here."""
    environment = {**os.environ, 'PYTHONPATH': f'{root}{os.pathsep}{ROOT}', 'OMP_NUM_THREADS': '1'}
    return subprocess.run(
        [sys.executable, '-m', 'pytest', '-q', '-p', 'no:cacheprovider', '-c', os.devnull,
         f'--rootdir={root}', *arguments],
        cwd=root, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )


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


@pytest.mark.parametrize('new', [METHOD, TOOL])
def test_there_are_six_steps(new: str) -> None:
    """As many as the page says."""
    assert len(steps(new)) == 6
    assert [int(number) for number in re.findall(r'^(\d)\. ', section(new), re.MULTILINE)] == [
        1, 2, 3, 4, 5, 6,
    ]


@pytest.mark.parametrize('new', [METHOD, TOOL])
def test_what_the_steps_name_exists(new: str) -> None:
    """Each file is there, and each name stands in a file of its step."""
    for number, step in enumerate(steps(new), 1):
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

    done = run_tests(copy, '-rA', '-k', 'toy', *(str(folder / name) for name in files))

    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.findall(r'^PASSED \S*?(\w+\.py)::\S*\[.*toy', done.stdout, re.M | re.I)
    assert set(passed) == set(files)


def test_every_tool_is_where_the_steps_put_it() -> None:
    """The wire, both sides, the table of docs/agent.md and the training know the same tools."""
    page = (ROOT / 'docs' / 'agent.md').read_text(encoding='utf-8')
    table = re.search(r'^## Tools\n\n(.*?)\n\n', page, re.MULTILINE | re.DOTALL)
    assert table, 'docs/agent.md has no table of tools'
    names = {tool.value for tool in Tool}

    assert [tool.name for tool in OnboardTool] == [tool.name for tool in Tool]
    assert {word.removeprefix('TOOL_').lower() for word in plan_pb2.Tool.keys()} == {
        'unspecified', *names,
    }
    assert {tool.value for tool in TOOLS} == rows(table[1]) == names
    assert set(TOOL_WEIGHTS) == {'lesson', *names}


@pytest.mark.slow
def test_a_tool_added_by_the_steps_works(tmp_path: Path) -> None:
    """It may be written, goes over the wire, gets steps, is let through, and is measured."""
    ignored = shutil.ignore_patterns('__pycache__', 'checkpoints', 'kernel')
    told = {str(path) for step in steps(TOOL) for path in code_of(step)[0]}
    for folder in ('cloud_backbone', 'onboard_decoder', 'protos'):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    for name, (old, new) in TAP.items():
        text = (tmp_path / name).read_text(encoding='utf-8')
        assert name in told and text.count(old) == 1, f'{name}: {old}'
        (tmp_path / name).write_text(text.replace(old, new), encoding='utf-8')
    generate = [sys.executable, str(tmp_path / 'protos' / 'generate.py')]
    subprocess.run(generate, check=True, timeout=60)
    shutil.copy(Path(__file__).parent / 'toy_tool' / 'check_tap.py', tmp_path / 'test_tap.py')
    shutil.copy(ROOT / 'tests/onboard_decoder/agent/test_effects.py', tmp_path)

    done = run_tests(tmp_path, 'test_tap.py', 'test_effects.py')

    assert done.returncode == 0, done.stdout + done.stderr
