# SPDX-License-Identifier: Apache-2.0
"""setup.py, package.xml, pyproject.toml and the documents say the same."""

from importlib import import_module
from pathlib import Path
import re
import sys
from unittest import mock
import xml.etree.ElementTree as ElementTree

import pytest
import tendon

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope='module')
def metadata():
    """What setup.py tells setuptools."""
    told = {}
    with mock.patch('setuptools.setup', lambda **values: told.update(values)):
        with mock.patch.object(sys, 'path', [str(ROOT), *sys.path]):
            source = (ROOT / 'setup.py').read_text(encoding='utf-8')
            exec(compile(source, str(ROOT / 'setup.py'), 'exec'), {
                '__file__': str(ROOT / 'setup.py'), '__name__': 'setup',
            })
    return told


def project(requirement):
    """Name of a requirement, as an index writes it."""
    return re.match(r'[\w.-]+', requirement).group().lower().replace('_', '-')


def test_name_version_and_licence_agree(metadata):
    """Pip, colcon, ROS and the code know one name, one version, one licence."""
    package = ElementTree.parse(ROOT / 'package.xml').getroot()

    for tag, key in (('name', 'name'), ('version', 'version'), ('license', 'license'),
                     ('description', 'description'), ('maintainer', 'maintainer')):
        assert package.findtext(tag) == metadata[key]
    assert package.find('maintainer').get('email') == metadata['maintainer_email']
    assert tendon.__version__ == metadata['version']
    assert (ROOT / 'resource' / metadata['name']).exists()
    assert 'Apache License' in (ROOT / 'LICENSE').read_text(encoding='utf-8')


def test_console_scripts_exist(metadata):
    """Every command leads to a function."""
    for script in metadata['entry_points']['console_scripts']:
        module, function = script.partition(' = ')[2].split(':')
        if module in ('onboard_decoder.onboard_node', 'sim.arm_node'):
            pytest.importorskip('rclpy')
        assert callable(getattr(import_module(module), function))


def test_all_is_every_extra(metadata):
    """The extra that make installs leaves out only the peers of the benches, which conflict."""
    extras = dict(metadata['extras_require'])
    extras.pop('bench')
    extras.pop('peers')
    everything = set(extras.pop('all'))

    assert everything == {requirement for extra in extras.values() for requirement in extra}


def test_every_dependency_is_explained(metadata):
    """docs/dependencies.md has a row for each, with the range that setup.py asks for."""
    text = (ROOT / 'docs' / 'dependencies.md').read_text(encoding='utf-8')
    rows = dict(re.findall(r'^\| `([\w.-]+)` \| `([^|`]*)` \|', text, re.MULTILINE))
    extras = metadata['extras_require']
    asked = {
        *metadata['install_requires'], *extras['all'], *extras['bench'], *extras['peers'],
    }

    for requirement in asked:
        specifier = re.sub(r'^[\w.-]+(\[\w+\])?', '', requirement.partition(';')[0]).strip()
        assert rows.get(project(requirement)) == specifier, requirement
    assert set(rows) == {project(requirement) for requirement in asked}


def test_constraints_lie_in_the_ranges(metadata):
    """What the tests ran with is what setup.py allows."""
    specifiers = pytest.importorskip('packaging.requirements')
    lines = (ROOT / 'constraints.txt').read_text().splitlines()
    found = [re.match(r'([\w.-]+)==([\w.]+)', line) for line in lines]
    pinned = [(project(pair[1]), pair[2]) for pair in found if pair]
    assert pinned

    for text in {*metadata['install_requires'], *metadata['extras_require']['all']}:
        requirement = specifiers.Requirement(text)
        for name, number in pinned:
            if name == project(requirement.name):
                assert requirement.specifier.contains(number), text


def test_every_package_and_data_file_is_installed(metadata):
    """No sub-package is forgotten, and the launch and config files are data files."""
    here = {
        '.'.join(path.parent.relative_to(ROOT).parts)
        for package in ('cloud_backbone', 'onboard_decoder', 'protos', 'sim', 'tendon')
        for path in (ROOT / package).rglob('__init__.py')
    }
    installed = {name for _, names in metadata['data_files'] for name in names}

    assert set(metadata['packages']) == here
    for folder in ('launch', 'config'):
        files = {f'{folder}/{path.name}' for path in (ROOT / folder).iterdir() if path.is_file()}
        assert files <= installed
