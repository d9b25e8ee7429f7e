# SPDX-License-Identifier: Apache-2.0
"""The wire between robot and backbone: the only code that both sides share.

The messages are generated from the .proto files at build time (``generate.py``) and never
committed. Two small modules stand beside them: ``protocol`` (versions and limits that both sides
must agree on) and ``latency`` (the stopwatch that fills a LatencyTrace).
"""
