# SPDX-License-Identifier: Apache-2.0
"""How smooth is the way from one chunk to the next: ours and other rules over the same chunks."""
