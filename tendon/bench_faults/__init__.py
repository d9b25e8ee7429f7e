# SPDX-License-Identifier: Apache-2.0
"""Breaks things under a running system, and measures how soon the robot sees and gets over it."""
