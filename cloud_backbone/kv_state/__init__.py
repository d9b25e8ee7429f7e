# SPDX-License-Identifier: Apache-2.0
"""The cache as an agent's memory: named segments, each edit with its exactness and its price."""
