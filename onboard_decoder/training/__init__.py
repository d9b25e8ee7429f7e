# SPDX-License-Identifier: Apache-2.0
"""Offline: how the onboard decoder is trained, exported and checked. Needs torch.

Data path: dataset (demonstrations from files) -> decoder_model (network) -> train -> export (ONNX
with metadata) -> closed_loop (does it arrive) -> model_card. Nothing here runs on a robot.
"""
