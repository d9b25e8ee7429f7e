# SPDX-License-Identifier: Apache-2.0
"""Fetches Gazebo Classic 11 from Debian 11 packages and unpacks it, without root.

The packages lie side by side in a folder of the user's cache, with their own libraries and
loader, so the system's own packages do not matter and are not touched. Needs apt-get, dpkg and a
mirror that still has Debian 11; about 245 MB are fetched and 740 MB kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
import os
from pathlib import Path
import shutil
import subprocess

from sim.errors import GazeboUnavailable

PACKAGES = ('gazebo', 'libgl1-mesa-dri')
SUITE = 'bullseye'
KEYRING = Path('/usr/share/keyrings/debian-archive-keyring.gpg')
UNUSED = ('doc', 'man', 'locale', 'icons', 'fonts', 'lintian')
FETCH_TIMEOUT_S = 900.0
VERSION = '11.1.0'
SYSTEM = 'usr/lib/x86_64-linux-gnu'
LIBRARIES = ('lib/x86_64-linux-gnu', 'usr/lib', *(
    f'{SYSTEM}{name}' for name in ('', '/blas', '/lapack', '/pulseaudio')))


def gazebo_root() -> Path:
    """Return where the unpacked tree is, or would be."""
    cache = Path(os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache')
    return Path(os.environ.get('TENDON_GAZEBO', cache / 'tendon' / 'gazebo')) / 'root'


def is_installed() -> bool:
    """True if the unpacked tree is whole."""
    return _path('gzserver').is_file()


def program(name: str) -> list[str]:
    """Return the beginning of a command line: a program of Gazebo under the tree's own loader.

    Args:
        name: 'gzserver' or 'gz'.
    """
    root = gazebo_root()
    libraries = ':'.join(str(root / folder) for folder in LIBRARIES)
    loader = root / 'lib/x86_64-linux-gnu/ld-2.31.so'
    return [str(loader), '--library-path', libraries, str(_path(name))]


def _path(name: str) -> Path:
    return gazebo_root() / 'usr/bin' / f'{name}-{VERSION}'


def install() -> Path:
    """Fetch and unpack where that has not been done; return the tree.

    Raises:
        GazeboUnavailable: a tool, the keyring, the mirror or a package is missing.
    """
    root = gazebo_root()
    if is_installed():
        return root
    for tool in ('apt-get', 'dpkg'):
        if shutil.which(tool) is None:
            raise GazeboUnavailable(f'there is no {tool} here')
    if not KEYRING.is_file():
        raise GazeboUnavailable(f'{KEYRING} is missing: install debian-archive-keyring')
    folder = root.parent
    shutil.rmtree(folder, ignore_errors=True)
    packages = _fetch(folder / 'apt')
    part = folder / 'part'
    with ThreadPoolExecutor() as workers:
        list(workers.map(lambda package: _unpack(package, part), packages))
    for name in UNUSED:
        shutil.rmtree(part / 'usr/share' / name, ignore_errors=True)
    part.rename(root)
    shutil.rmtree(folder / 'apt')
    return root


def _fetch(apt: Path) -> list[Path]:
    """Download the packages with all that they need, by an apt of their own; largest first."""
    for name in ('lists/partial', 'cache/archives/partial'):
        (apt / name).mkdir(parents=True)
    (apt / 'status').touch()
    source = f'deb [signed-by={KEYRING}] {_mirror()} {SUITE} main\n'
    (apt / 'sources.list').write_text(source, encoding='utf-8')
    (apt / 'apt.conf').write_text(_configuration(apt), encoding='utf-8')
    environment = {**os.environ, 'APT_CONFIG': str(apt / 'apt.conf')}
    _run('apt-get', '-qq', 'update', environment=environment)
    _run('apt-get', '-qq', '-y', '--download-only', 'install', *PACKAGES, environment=environment)
    packages = list((apt / 'cache/archives').glob('*.deb'))
    return sorted(packages, key=lambda package: -package.stat().st_size)


def _configuration(apt: Path) -> str:
    """Return settings that keep this apt apart from the system's."""
    return f"""
Dir::State "{apt}"; Dir::State::Lists "{apt}/lists"; Dir::State::status "{apt}/status";
Dir::Cache "{apt}/cache"; Dir::Etc::SourceList "{apt}/sources.list";
Dir::Etc::SourceParts "/dev/null"; Dir::Etc::Parts "/dev/null";
Dir::Etc::PreferencesParts "/dev/null"; APT::Architecture "amd64"; APT::Architectures {{"amd64";}};
APT::Install-Recommends "false"; APT::Sandbox::User ""; Acquire::Languages "none";
Acquire::Check-Valid-Until "false"; Acquire::Retries "3";
"""


def _mirror() -> str:
    """Return the mirror that this system uses, or the one that TENDON_DEBIAN_MIRROR names."""
    named = os.environ.get('TENDON_DEBIAN_MIRROR')
    if named:
        return named
    listed = _run('apt-get', 'indextargets', '--format', '$(REPO_URI)', 'Identifier: Packages',
                  'Component: main').split()
    mirrors = [uri for uri in listed if 'security' not in uri]
    if not mirrors:
        raise GazeboUnavailable('apt-get knows no mirror; set TENDON_DEBIAN_MIRROR to one')
    return mirrors[0]


def _unpack(package: Path, root: Path) -> None:
    _run('dpkg', '-x', str(package), str(root))


def _run(*command: str, environment: Mapping[str, str] | None = None) -> str:
    """Run to the end; return what it printed."""
    try:
        return subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True,
            timeout=FETCH_TIMEOUT_S,
        ).stdout
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or error.stdout or 'it printed nothing').strip().splitlines()
        raise GazeboUnavailable(f'{" ".join(command[:3])} failed: {lines[-1]}') from error
    except subprocess.TimeoutExpired as error:
        raise GazeboUnavailable(f'{command[0]} took over {FETCH_TIMEOUT_S:g} s') from error
