# SPDX-License-Identifier: Apache-2.0
"""Load the processor of a foreign checkpoint, without its video part where that cannot load.

The video processors of transformers need torchvision; a robot's still images do not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cloud_backbone.errors import StartError
from transformers import AutoConfig, AutoProcessor
from transformers.models.auto import processing_auto


def load_processor(path: Path) -> Any:
    """Return the processor of a checkpoint directory.

    Raises:
        StartError: its files are missing or broken, or need a package that is not installed.
    """
    auto: Any = AutoProcessor
    try:
        return auto.from_pretrained(path, local_files_only=True)
    except Exception as error:
        try:
            return _image_only(_processor_class(path)).from_pretrained(path, local_files_only=True)
        except Exception:  # the first error says more
            raise _fault(path, error) from error


def _processor_class(path: Path) -> Any:
    auto: Any = AutoConfig
    mapping: Any = processing_auto
    kind = auto.from_pretrained(path, local_files_only=True).model_type
    return mapping.processor_class_from_name(mapping.PROCESSOR_MAPPING_NAMES[kind])


def _image_only(kind: Any) -> Any:
    """Return the processor class without its video part."""

    class ImageOnly(kind):  # type: ignore[misc]
        """A processor of text and images."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, video_processor=None, **kwargs)

        @classmethod
        def get_attributes(cls) -> list[str]:
            """Return the parts that are loaded."""
            parts: list[str] = kind.get_attributes()
            return [part for part in parts if part != 'video_processor']

    ImageOnly.__name__ = kind.__name__
    return ImageOnly


def _fault(path: Path, error: Exception) -> StartError:
    lines = [line for line in str(error).splitlines() if line.strip()]
    reason = lines[0].strip() if lines else type(error).__name__
    return StartError(f'cannot load the processor in {path}: {reason}')
