# SPDX-License-Identifier: Apache-2.0
"""Real-time scheduling on Linux: for the process and, higher, for the thread of the command loop.

Putting only the loop's thread above all others is not enough: it then waits for the interpreter's
lock while a thread of normal priority that holds it is pushed aside. Where the system does not
allow it the robot runs on, says so once, and shows it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
import logging
import os
from pathlib import Path
import sys

log = logging.getLogger(__name__)

SWITCH_INTERVAL_S = 0.0005


@dataclass
class Priority:
    """A SCHED_FIFO priority, 1 to 99; 0 leaves things as they are. ``state`` is for people."""

    level: int
    state: str = field(default='not asked for', init=False)

    def take(self, threads: Sequence[int] = (0,)) -> bool:
        """Give it to the calling thread or to others; what they start later inherits it."""
        if self.level == 0:
            return False
        try:
            for thread in threads:
                os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(self.level))
        except (PermissionError, OSError, AttributeError) as error:
            self.state = f'SCHED_FIFO {self.level} refused: {error}'
            log.warning('%s; ticks may come late under load. Run as root or raise rtprio in '
                        '/etc/security/limits.conf', self.state)
            return False
        self.state = f'SCHED_FIFO {self.level}'
        return True


def prepare_process(level: int) -> Priority:
    """Make Python change threads sooner; raise all threads of the process that exist so far."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    priority = Priority(level)
    priority.take([int(task.name) for task in Path('/proc/self/task').iterdir()])
    return priority
