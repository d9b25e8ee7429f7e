# SPDX-License-Identifier: Apache-2.0
"""Peers, each run by the Python of an environment of its own; what is here needs only numpy."""
