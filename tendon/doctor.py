# SPDX-License-Identifier: Apache-2.0
"""Says what this machine has and lacks, one line and one remedy each.

Runs the checks of ``doctor_checks`` one by one; a check that breaks is a finding, not a crash.
"""

from rich.console import Console
from rich.table import Table
from tendon.doctor_checks import CHECKS, Finding, State

COLOURS = {State.OK: 'green', State.WARNING: 'yellow', State.FAILURE: 'red'}


def run() -> int:
    """Check, print, and return 0, or 1 if anything that is needed is missing."""
    console = Console()
    with console.status('checking ...'):
        findings = [examine(name) for name in CHECKS]
    console.print(table_of(findings))
    failures = [finding for finding in findings if finding.state is State.FAILURE]
    if failures:
        names = ', '.join(finding.name for finding in failures)
        console.print(f'[bold red]Not ready[/bold red]: {names}.')
        return 1
    console.print('[bold green]Ready[/bold green]: try tendon demo.')
    return 0


def examine(name: str) -> Finding:
    """Run one check; an error of it is a failure with its own text."""
    try:
        return CHECKS[name]()
    except Exception as error:
        text = str(error).strip().splitlines() or ['']
        return Finding(name, State.FAILURE, f'{type(error).__name__}: {text[0]}')


def table_of(findings: list[Finding]) -> Table:
    """Draw the findings; remedies only where something is wrong."""
    table = Table('check', 'state')
    for column in ('found', 'remedy'):
        table.add_column(column, overflow='fold')  # a path must stay whole to be copied
    for finding in findings:
        colour = COLOURS[finding.state]
        table.add_row(
            finding.name, f'[{colour}]{finding.state.value}[/{colour}]', finding.detail,
            '' if finding.state is State.OK else finding.remedy,
        )
    return table
