# SPDX-License-Identifier: Apache-2.0
"""Compiles ``kernel/`` into one library, at build time; ``setup.py`` runs this file by its path.

The library serves every processor of its family: on x86-64 the loops are compiled for SSE2, AVX2
and AVX-512, and the library chooses when it runs. Needs a compiler for C++17 that understands
GCC's options; its name is taken from CXX, if set. ``python kernel_build.py`` does it by hand.
"""

from __future__ import annotations

import os
from pathlib import Path
import shlex
import shutil
import subprocess
import sys
import tempfile

SOURCES = Path(__file__).resolve().parent / 'kernel'
COMPILERS = ('c++', 'g++', 'clang++')
OPTIONS = (
    '-std=c++17', '-O3', '-fPIC', '-fvisibility=hidden', '-fno-exceptions', '-fno-rtti',
    '-ffp-contract=fast', '-Wall', '-Wextra', '-Wno-psabi',
)
PROCESSORS = {
    4: (),
    8: ('-mavx2', '-mfma'),
    16: (
        '-mavx512f', '-mavx512bw', '-mavx512vl', '-mavx512dq', '-mfma',
        '-mprefer-vector-width=512',
    ),
}
"""Floats of a vector, and the options for processors that have such."""
_TIMEOUT_S = 300


def build(target: Path) -> str | None:
    """Compile and link; the library replaces an old one in one step, since that may be in use.

    Returns:
        None, or a sentence that says why there is no library.
    """
    compiler = _compiler()
    if compiler is None:
        return 'there is no C++ compiler; set CXX to one'
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            _compile(compiler, Path(folder))
            os.replace(Path(folder) / 'library', target)
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or '').strip().splitlines() or ['it says nothing']
        reason = next((line for line in lines if 'error' in line), lines[-1])
        return f'{compiler[0]} failed: {reason}'
    except (OSError, subprocess.TimeoutExpired) as error:
        return f'{compiler[0]} cannot be used: {error}'
    return None


def _compiler() -> list[str] | None:
    """Return the words of the compiler's command."""
    if os.environ.get('CXX'):
        return shlex.split(os.environ['CXX'])
    return next(([name] for name in COMPILERS if shutil.which(name)), None)


def _compile(compiler: list[str], folder: Path) -> None:
    """Write folder/library."""
    x86 = _run([*compiler, '-dumpmachine']).startswith(('x86_64', 'amd64'))
    objects = []
    for lanes, options in PROCESSORS.items():
        if x86 or not options:
            objects.append(str(folder / f'{lanes}.o'))
            told = [*OPTIONS, *options, f'-DTENDON_LANES={lanes}']
            _run([*compiler, *told, '-c', str(SOURCES / 'attention.cc'), '-o', objects[-1]])
    macro = ['-DTENDON_X86'] if x86 else []
    dispatch = str(SOURCES / 'dispatch.cc')
    library = str(folder / 'library')
    _run([*compiler, *OPTIONS, *macro, '-shared', dispatch, *objects, '-o', library])


def _run(command: list[str]) -> str:
    """Return what a command prints."""
    return subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=_TIMEOUT_S
    ).stdout


if __name__ == '__main__':
    sys.exit(build(SOURCES.parent / '_kernel.so'))
