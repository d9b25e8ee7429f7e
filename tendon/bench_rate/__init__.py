# SPDX-License-Identifier: Apache-2.0
"""``tendon bench rate``: does the command loop keep 50 Hz while everything else is busy.

Data path: cameras (three of them, the arm's and two that are made up) and burner (takes a core)
-> the whole system at work -> run (what the loop says of its own ticks).
"""
