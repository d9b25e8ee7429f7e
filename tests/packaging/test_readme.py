# SPDX-License-Identifier: Apache-2.0
"""What the documents name exists: paths, commands, options, make targets, launch files."""

from pathlib import Path
import re
import shlex

import pytest
from tendon.cli import app
from typer.main import get_command

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / name for name in ('README.md', 'CONTRIBUTING.md', 'CHANGELOG.md')),
    *sorted((ROOT / 'docs').glob('*.md')),
]
FOLDERS = (
    'cloud_backbone', 'onboard_decoder', 'protos', 'sim', 'tendon', 'tests', 'launch', 'config',
    'docs', 'resource', 'urdf', 'worlds', '.ci',
)
ROOT_FILES = r'[A-Z]+\.md|LICENSE|Makefile|setup\.(?:py|cfg)|pyproject\.toml|\w+\.(?:xml|txt|yaml)'
COMMANDS = get_command(app)
each_page = pytest.mark.parametrize('page', PAGES, ids=lambda page: page.name)


def code_of(text):
    """Everything that is set as code: lines of blocks, then spans."""
    blocks = re.findall(r'^```\w*\n(.*?)^```', text, re.MULTILINE | re.DOTALL)
    rest = re.sub(r'^```.*?^```', '', text, flags=re.MULTILINE | re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    return [*lines, *re.findall(r'`([^`\n]+)`', rest)]


def paths_of(text):
    """Paths of this repository: what begins with one of its folders, and what is linked to."""
    words = [word.rstrip('.,:;)') for code in code_of(text) for word in code.split()]
    folders = '|'.join(re.escape(folder) for folder in FOLDERS)
    named = [word for word in words if re.fullmatch(rf'(?:{folders})/[\w./*-]*', word)]
    return named, re.findall(r'\]\((?!https?:|#)([^)#]+)', text)


def commands_of(text):
    """Lines of code that call ``tendon``, as words, without comments."""
    lines = [re.sub(r'^\.venv/bin/', '', code) for code in code_of(text)]
    return [shlex.split(line, comments=True) for line in lines if re.match(r'tendon \w', line)]


def find(words):
    """The command that some words call, and the words behind its name."""
    command, rest = COMMANDS, list(words[1:])
    while hasattr(command, 'commands'):  # a group
        name = rest.pop(0)
        assert name in command.commands, f'{" ".join(words)}: there is no command {name}'
        command = command.commands[name]
    return command, rest


@each_page
def test_every_path_exists(page):
    """A file or folder that a document names or links to is there."""
    named, linked = paths_of(page.read_text(encoding='utf-8'))

    missing = [path for path in named if not list(ROOT.glob(path.rstrip('/')))]
    missing += [path for path in linked if not (page.parent / path).exists()]
    assert not missing


@each_page
def test_every_command_and_option_exists(page):
    """What a document tells people to type, the command line takes."""
    for words in commands_of(page.read_text(encoding='utf-8')):
        command, rest = find(words)
        if command.context_settings.get('ignore_unknown_options'):
            continue  # it hands options on to a node or server
        known = {option for entry in command.params for option in entry.opts} | {'--help'}
        given = {word.partition('=')[0] for word in rest if word.startswith('--')}
        assert given <= known, ' '.join(words)


@each_page
def test_every_make_target_and_launch_file_exists(page):
    """Targets are those of the Makefile, launch files and executables those that are installed."""
    makefile = (ROOT / 'Makefile').read_text(encoding='utf-8')
    targets = set(re.findall(r'^(\w+):', makefile, re.MULTILINE))
    scripts = re.findall(r"'(\w+) = [\w.]+:main'", (ROOT / 'setup.py').read_text())

    for code in code_of(page.read_text(encoding='utf-8')):
        for call in re.findall(r'^make ([^#]*)', code):
            words = [word for word in shlex.split(call) if '=' not in word]
            assert set(words) <= targets, code
        for name in re.findall(r'^ros2 launch tendon (\S+)', code):
            assert (ROOT / 'launch' / name).is_file(), code
        for name in re.findall(r'^ros2 run tendon (\S+)', code):
            assert name in scripts, code


def test_every_command_is_in_the_table():
    """The README leaves no command out."""
    text = (ROOT / 'README.md').read_text(encoding='utf-8')
    rows = set(re.findall(r'^\| `tendon ([\w -]+)` \|', text, re.MULTILINE))

    names = set()
    for name, command in COMMANDS.commands.items():
        inner = getattr(command, 'commands', None)
        names |= {name} if inner is None else {f'{name} {part}' for part in inner}
    assert rows == names


def tree_of(text):
    """Paths of the tree in the README; an entry's folder is the nearest one of less indent."""
    block = re.search(r'^## The tree\n+```\n(.*?)^```', text, re.MULTILINE | re.DOTALL)[1]
    folders = []
    for line in block.splitlines():
        indent, name = re.match(r'( *)(\S+)', line).groups()
        folders = [(depth, folder) for depth, folder in folders if depth < len(indent)]
        path = '/'.join([*(folder for _, folder in folders), name.rstrip('/')])
        yield path
        if name.endswith('/'):
            folders.append((len(indent), name.rstrip('/')))


def test_the_tree_is_true():
    """Each line of the README's tree is a file or folder, and no top folder is left out."""
    named = list(tree_of((ROOT / 'README.md').read_text(encoding='utf-8')))

    assert [path for path in named if not (ROOT / path).exists()] == []
    assert set(FOLDERS) <= {path.partition('/')[0] for path in named}
    files = {path.name for path in ROOT.iterdir() if re.fullmatch(ROOT_FILES, path.name)}
    assert files <= set(named)


@each_page
def test_pages_speak_of_the_project_only(page):
    """No page holds an address of one person's machine."""
    assert not re.search(r'(?<![\w.])/(work|tmp|root|home)/', page.read_text(encoding='utf-8'))
