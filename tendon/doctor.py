# SPDX-License-Identifier: Apache-2.0
"""Says what this machine, its way to the backbone and its ROS graph have and lack.

One line and one remedy each. Runs the checks of ``doctor_checks``, ``doctor_network``,
``doctor_backbone`` and ``doctor_graph``; a check that breaks is a finding, not a crash.
"""

from collections.abc import Callable, Iterable

from protos.protocol import DEFAULT_PORT
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from tendon.doctor_checks import CHECKS
from tendon.doctor_finding import Finding, State

COLOURS = {
    State.OK: 'green', State.WARNING: 'yellow', State.FAILURE: 'red', State.SKIPPED: 'dim',
}
Check = Callable[[], Finding | Iterable[Finding]]


def run(backbone: str | None = None) -> int:
    """Check, print, and return 0, or 1 if anything that is needed is missing.

    Args:
      backbone: host:port that the robot is to use; None looks for one on this machine.
    """
    console = Console()
    findings: list[Finding] = []
    with console.status('checking ...') as status:
        for name, check in checks(backbone).items():
            status.update(f'checking {name} ...')
            findings += examine(name, check)
    console.print(table_of(findings))
    failures = [finding for finding in findings if finding.state is State.FAILURE]
    if failures:
        names = ', '.join(finding.name for finding in failures)
        console.print(f'[bold red]Not ready[/bold red]: {names}.')
        return 1
    console.print('[bold green]Ready[/bold green]: try tendon demo.')
    return 0


def checks(backbone: str | None) -> dict[str, Check]:
    """Return all checks by name, in the order in which they are made."""
    # Imported here: a machine that lacks gRPC or ROS must still hear about the rest.
    def there() -> Finding:
        from tendon.doctor_backbone import backbone as check
        return check(address, backbone is not None)

    def clocks() -> Finding:
        from tendon.doctor_backbone import clock_offset
        return clock_offset(address)

    def way() -> Finding:
        from tendon.doctor_network import proxy
        return proxy(address.rpartition(':')[0].strip('[]'))

    def graph() -> list[Finding]:
        from tendon.doctor_graph import graph_findings
        return graph_findings()

    address = backbone or f'127.0.0.1:{DEFAULT_PORT}'
    further: dict[str, Check] = {
        'proxy': way, 'backbone': there, 'clocks': clocks, 'joints and camera': graph,
    }
    return {**CHECKS, **further}


def examine(name: str, check: Check) -> list[Finding]:
    """Run one check; an error of it is a failure with its own text."""
    try:
        found = check()
    except Exception as error:
        text = str(error).strip().splitlines() or ['']
        return [Finding(name, State.FAILURE, f'{type(error).__name__}: {text[0]}')]
    return [found] if isinstance(found, Finding) else list(found)


def table_of(findings: list[Finding]) -> Table:
    """Draw the findings; remedies only where there is something to do."""
    table = Table('check', 'state')
    for column in ('found', 'remedy'):
        table.add_column(column, overflow='fold')  # a path must stay whole to be copied
    for finding in findings:
        colour = COLOURS[finding.state]
        table.add_row(
            finding.name, f'[{colour}]{finding.state.value}[/{colour}]', escape(finding.detail),
            '' if finding.state is State.OK else escape(finding.remedy),
        )
    return table
