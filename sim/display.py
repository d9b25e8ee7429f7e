# SPDX-License-Identifier: Apache-2.0
"""The one place that imports MuJoCo, so that a missing display library gives a useful message.

Other modules write `from sim.display import mujoco`. Knows nothing about scenes or models.
"""

from __future__ import annotations

import os

from sim.errors import DisplayError

try:
    import mujoco as mujoco
except (ImportError, AttributeError, RuntimeError, OSError) as fault:
    if isinstance(fault, ModuleNotFoundError) and fault.name == 'mujoco':
        raise
    raise DisplayError(os.environ.get('MUJOCO_GL', ''), fault) from fault

__all__ = ['mujoco']
