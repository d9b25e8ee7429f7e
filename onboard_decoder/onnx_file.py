# SPDX-License-Identifier: Apache-2.0
"""Opens an ONNX file for a robot: on one thread that never spins, so that others keep theirs."""

from __future__ import annotations

from pathlib import Path

import onnxruntime


class NotOnnx(Exception):
    """The file cannot be opened as a network; the text says why."""


def open_onnx(file: Path) -> onnxruntime.InferenceSession:
    """Open a file that is there. Raises NotOnnx."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry('session.intra_op.allow_spinning', '0')
    options.add_session_config_entry('session.inter_op.allow_spinning', '0')
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(
            str(file), options, providers=['CPUExecutionProvider'])
    except Exception as error:  # onnxruntime's own errors share no base but Exception
        raise NotOnnx(str(error)) from error
