# SPDX-License-Identifier: Apache-2.0
"""The composition root: the command line, and everything that needs robot, cloud and simulator.

The only package that imports all the others; none of them imports it.
"""

__version__ = '0.1.0'
