# SPDX-License-Identifier: Apache-2.0
"""Offline training of the model: eyes, teacher, student, distillation, evaluation.

Reads scene shards; imports nothing of the simulator that wrote them.
"""
