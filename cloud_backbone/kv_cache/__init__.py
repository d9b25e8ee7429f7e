# SPDX-License-Identifier: Apache-2.0
"""The compressed key-value cache: codecs, scorers and budgets over pages of one shared pool."""
