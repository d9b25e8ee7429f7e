# SPDX-License-Identifier: Apache-2.0
"""Promises of the doctor's checks on TCP, proxies and the steady clock."""

import itertools
from pathlib import Path

import pytest
from tendon.doctor_finding import State
from tendon.doctor_network import CLOCK_SPAN_S, proxy, steady_clock, tcp


def machine(folder: Path, congestion: str, slow_start: str) -> Path:
    """Write a machine's settings of TCP."""
    (folder / 'tcp_congestion_control').write_text(f'{congestion}\n')
    (folder / 'tcp_slow_start_after_idle').write_text(f'{slow_start}\n')
    return folder


@pytest.mark.parametrize(('congestion', 'slow_start', 'state'), [
    ('cubic', '1', State.WARNING), ('reno', '1', State.WARNING), ('cubic', '0', State.OK),
    ('bbr', '1', State.OK), ('bbr', '0', State.OK),
])
def test_tcp_that_forgets_in_pauses_is_a_warning(
    tmp_path: Path, congestion: str, slow_start: str, state: State
) -> None:
    """Either setting is enough to keep the window."""
    found = tcp(machine(tmp_path, congestion, slow_start))
    assert found.state is state
    assert congestion in found.detail
    assert state is State.OK or 'tcp_slow_start_after_idle=0' in found.remedy


def test_a_machine_without_these_settings_is_not_judged(tmp_path: Path) -> None:
    """There is no guess about what cannot be read."""
    assert tcp(tmp_path).state is State.SKIPPED


@pytest.mark.parametrize('environment', [
    {}, {'https_proxy': ''}, {'https_proxy': 'x', 'no_proxy': 'a.example, cloud.example'},
    {'http_proxy': 'x', 'no_proxy': '.example'}, {'http_proxy': 'x', 'no_proxy': '*'},
    {'HTTPS_PROXY': 'x', 'NO_PROXY': '*.example'},
    {'grpc_proxy': 'x', 'no_grpc_proxy': 'cloud.example', 'no_proxy': 'other'},
])
def test_a_way_without_a_proxy_is_right(environment: dict[str, str]) -> None:
    """No variable, or an exception for the backbone's host."""
    assert proxy('cloud.example', environment).state is State.OK


@pytest.mark.parametrize('environment', [
    {'https_proxy': 'http://user:secret@proxy:3128'}, {'grpc_proxy': 'x', 'no_proxy': 'other'},
    {'HTTP_PROXY': 'x'}, {'http_proxy': 'x', 'no_proxy': ' , '},
])
def test_a_proxy_in_the_way_is_a_warning(environment: dict[str, str]) -> None:
    """It names the variable, never what it holds, and says how to except the host."""
    found = proxy('cloud.example', environment)
    assert found.state is State.WARNING
    assert next(iter(environment)) in found.detail
    assert 'secret' not in found.detail + found.remedy
    assert found.remedy.startswith('export no_proxy=')
    assert found.remedy.endswith('cloud.example')


def looked_at(tmp_path: Path, took_s: float, took_raw_s: float, name: str = 'tsc') -> object:
    """Check a clock that shows these times between two looks."""
    source = tmp_path / 'source'
    source.write_text(name)
    steady, raw = itertools.count(5.0, took_s), itertools.count(9.0, took_raw_s)
    return steady_clock(source, lambda: next(steady), lambda: next(raw), lambda span_s: None)


def test_a_clock_that_runs_as_the_hardware_does_is_right(tmp_path: Path) -> None:
    """A slew of 500 parts in a million, as chrony does it, is no fault."""
    found = looked_at(tmp_path, CLOCK_SPAN_S, CLOCK_SPAN_S * 1.0005)
    assert found.state is State.OK  # type: ignore[attr-defined]


@pytest.mark.parametrize(('took_s', 'raw_s', 'name'), [
    (0.0, 0.2, 'tsc'), (-0.1, 0.2, 'tsc'), (0.25, 0.2, 'tsc'), (0.2, 0.2, 'acpi_pm'),
    (0.2, 0.2, 'jiffies'),
])
def test_a_clock_that_stands_jumps_or_is_coarse_is_a_warning(
    tmp_path: Path, took_s: float, raw_s: float, name: str
) -> None:
    """Every deadline of the robot rests on it."""
    found = looked_at(tmp_path, took_s, raw_s, name)
    assert found.state is State.WARNING  # type: ignore[attr-defined]
    assert name in found.detail and found.remedy  # type: ignore[attr-defined]


def test_this_machine_has_a_steady_clock() -> None:
    """The check reads real clocks; where they cannot be named it still compares them."""
    assert steady_clock(Path('/nowhere')).detail.startswith('source unknown')
