# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
import sys
from unittest import mock

from cloud_backbone.kv_cache import compiled_kernel, kernel_build
import pytest
from setuptools import Distribution

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def told():
    """What setup.py tells setuptools."""
    values = {}
    with mock.patch('setuptools.setup', values.update):
        source = (ROOT / 'setup.py').read_text(encoding='utf-8')
        exec(compile(source, str(ROOT / 'setup.py'), 'exec'), {
            '__file__': str(ROOT / 'setup.py'), '__name__': 'setup',
        })
    return values


def compiler(folder, script):
    """Write a compiler that is a shell script, and return its command."""
    path = folder / 'compiler'
    path.write_text(f'#!/bin/sh\n{script}\n')
    path.chmod(0o755)
    return str(path)


def test_no_compiler_is_a_sentence(monkeypatch, tmp_path):
    """A machine without a compiler gets a reason, and no library."""
    monkeypatch.setenv('CXX', '/nonexistent')
    assert '/nonexistent cannot be used' in kernel_build.build(tmp_path / 'library.so')

    monkeypatch.delenv('CXX')
    monkeypatch.setenv('PATH', str(tmp_path))
    assert 'no C++ compiler' in kernel_build.build(tmp_path / 'library.so')
    assert not list(tmp_path.iterdir())


def test_a_failing_compiler_is_quoted_and_the_old_library_stays(monkeypatch, tmp_path):
    """What the compiler says is passed on; the library that was there is not touched."""
    monkeypatch.setenv('CXX', compiler(tmp_path, 'echo "x.cc:1: error: no such" >&2; exit 1'))
    library = tmp_path / 'library.so'
    library.write_text('old')

    assert 'error: no such' in kernel_build.build(library)
    assert library.read_text() == 'old'


def test_processors_other_than_x86_get_one_set_of_loops(monkeypatch, tmp_path):
    """Options of x86 are given to compilers for x86 only; the library replaces the old one."""
    log = tmp_path / 'log'
    script = f"""echo "$@" >> {log}
[ "$1" = -dumpmachine ] && echo "$MACHINE" && exit
while [ "$1" != -o ]; do shift; done; echo new > "$2" """
    monkeypatch.setenv('CXX', compiler(tmp_path, script))
    library = tmp_path / 'library.so'
    for machine, compiled, options in (
        ('aarch64-linux-gnu', 1, False), ('x86_64-linux-gnu', 3, True),
    ):
        monkeypatch.setenv('MACHINE', machine)
        log.write_text('')
        library.write_text('old')

        assert kernel_build.build(library) is None
        assert library.read_text() == 'new\n'
        lines = log.read_text().splitlines()
        assert sum(' -c ' in line for line in lines) == compiled
        assert any('-mavx' in line for line in lines) == options
        assert any('-DTENDON_X86' in line for line in lines) == options


def test_installation_goes_on_without_a_compiler(told, monkeypatch, tmp_path, capsys):
    """The build says in one sentence that torch serves, and does not fail."""
    monkeypatch.setenv('CXX', '/nonexistent')
    command = told['cmdclass']['build_ext'](Distribution({'ext_modules': told['ext_modules']}))
    command.build_lib, command.build_temp = str(tmp_path), str(tmp_path)
    command.ensure_finalized()

    command.build_extension(command.extensions[0])

    said = capsys.readouterr().err
    assert said.count('\n') == 1 and 'torch serves' in said
    assert command.extensions[0].optional
    assert not list(tmp_path.rglob('*.so'))


def test_setup_builds_what_python_loads(told):
    """The file that setup.py makes has the name that is looked for, whatever Python runs."""
    command = told['cmdclass']['build_ext'](Distribution({'ext_modules': told['ext_modules']}))
    command.ensure_finalized()

    made = command.get_ext_filename(command.extensions[0].name)
    assert ROOT / made == compiled_kernel.LIBRARY
    assert sys.implementation.cache_tag not in made


def test_source_distributions_hold_all_sources(told):
    """Every file of the kernel is compiled or included by one that is."""
    (extension,) = told['ext_modules']
    here = {str(path.relative_to(ROOT)) for path in kernel_build.SOURCES.iterdir()}

    assert {*extension.sources, *extension.depends} == here
