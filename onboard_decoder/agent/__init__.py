# SPDX-License-Identifier: Apache-2.0
"""The agent: looks, asks the backbone, executes its steps, looks again. Never blocks."""
