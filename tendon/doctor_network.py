# SPDX-License-Identifier: Apache-2.0
"""Checks of ``tendon doctor`` on the way to the backbone: TCP of this machine, proxies, clocks.

Each reads what it looks at from where it is told, so that it can be shown good and bad machines.
"""

from collections.abc import Callable, Mapping
import os
from pathlib import Path
import time

from onboard_decoder.proxy_variables import proxy_variable
from tendon.doctor_finding import Finding, State

TCP_FOLDER = Path('/proc/sys/net/ipv4')
CLOCK_FILE = Path('/sys/devices/system/clocksource/clocksource0/current_clocksource')
# They keep the window of a connection that was idle, whatever the other setting says.
KEEPS_WINDOW = ('bbr',)
# They count interrupts, or are read over a slow bus: milliseconds off, or microseconds a look.
POOR_CLOCKS = ('jiffies', 'refined-jiffies', 'pit', 'acpi_pm')
CLOCK_SPAN_S = 0.2
CLOCK_TOLERANCE = 1e-3


def tcp(folder: Path = TCP_FOLDER) -> Finding:
    """TCP does not start slowly again after each pause."""
    try:
        congestion = (folder / 'tcp_congestion_control').read_text().strip()
        slow_start = (folder / 'tcp_slow_start_after_idle').read_text().strip()
    except OSError as error:
        return Finding(
            'TCP', State.SKIPPED, f'{folder} cannot be read: {error.strerror}',
            'switch slow start after idle off, see docs/deployment.md',
        )
    if congestion in KEEPS_WINDOW or slow_start == '0':
        return Finding(
            'TCP', State.OK, f'{congestion}, slow start after idle {_on_off(slow_start)}'
        )
    return Finding(
        'TCP', State.WARNING,
        f'{congestion} forgets its window in pauses; the pings of the stream prevent those, but '
        'nothing else does',
        "sudo sysctl -w net.ipv4.tcp_slow_start_after_idle=0, on the backbone's machine too",
    )


def proxy(host: str, environment: Mapping[str, str] = os.environ) -> Finding:
    """No proxy variable catches gRPC on its way to the backbone."""
    name = proxy_variable(host, environment)
    if not name:
        return Finding('proxy', State.OK, f'no proxy variable is in the way to {host}')
    # Not its value: that may hold a password.
    return Finding(
        'proxy', State.WARNING,
        f'{name} would catch grpcurl and health probes; Tendon goes past it, so {host} must be '
        'reachable directly',
        f'export no_proxy={",".join(filter(None, [environment.get("no_proxy"), host]))}',
    )


def steady_clock(
    source: Path = CLOCK_FILE,
    now_s: Callable[[], float] = time.monotonic,
    raw_s: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_MONOTONIC_RAW),
    sleep: Callable[[float], None] = time.sleep,
) -> Finding:
    """The clock of all deadlines runs, and about as fast as the hardware's own."""
    try:
        name = source.read_text().strip()
    except OSError:
        name = 'unknown'
    first_s, first_raw_s = now_s(), raw_s()
    sleep(CLOCK_SPAN_S)
    took_s, took_raw_s = now_s() - first_s, raw_s() - first_raw_s
    # Two readings are never of the same moment; a process may be put aside between them.
    is_off = abs(took_s - took_raw_s) > CLOCK_TOLERANCE + CLOCK_TOLERANCE * CLOCK_SPAN_S
    if took_s <= 0 or is_off:
        return Finding(
            'steady clock', State.WARNING,
            f'source {name}: {took_s:.4f} s went by while the hardware counted {took_raw_s:.4f} s',
            'wait until chrony or ntpd has stopped slewing; in a virtual machine, see the host',
        )
    if name in POOR_CLOCKS:
        return Finding(
            'steady clock', State.WARNING, f'source {name} is coarse or slow to read',
            'boot with clocksource=tsc, if dmesg does not call it unstable',
        )
    return Finding('steady clock', State.OK, f'source {name}')


def _on_off(value: str) -> str:
    return 'off' if value == '0' else 'on'
