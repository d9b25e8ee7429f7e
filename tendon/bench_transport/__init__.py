# SPDX-License-Identifier: Apache-2.0
"""Round trips from picture to chunk, ours and those of peers, side by side on loopback."""
