# SPDX-License-Identifier: Apache-2.0
"""The onboard planner's ONNX file: what it says of itself, and one run of it.

Runs on one thread that never spins. A file that was made for another robot, another camera or
another layout is refused when it is loaded. Knows no plans.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.errors import ConfigError, DecoderMismatch
from onboard_decoder.fallback.sentence_words import word_numbers
from onboard_decoder.image_codec import Image
from onboard_decoder.manifest import Manifest
from onboard_decoder.onnx_file import NotOnnx, open_onnx
import onnxruntime

Array = NDArray[np.float32]

FORMAT = 1
INPUTS = ('image', 'words')
OUTPUTS = (
    'task', 'a_colour', 'a_kind', 'b_colour', 'b_kind',
    'presence', 'kind', 'colour', 'offset', 'state', 'turn',
)
TASKS = ('pick', 'put', 'stack', 'push', 'home', 'stay', 'other')
"""'other' is whatever the onboard planner does not understand."""


class PlannerFileError(ConfigError):
    """The onboard planner's file cannot be used."""

    def __init__(self, path: Path, problem: object) -> None:
        super().__init__(
            f'onboard planner {path}: {problem}; it must be an ONNX file with the inputs '
            f'{", ".join(INPUTS)}, made by "python -m onboard_decoder.training.planner_pipeline"')


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of thing, and its heights above the table [m].

    ``label_height_m`` is of the point that is found in the image, ``grasp_height_m`` of the tool
    when the gripper closes; ``is_container``: things are put into it, and it is not picked.
    """

    name: str
    label_height_m: float
    grasp_height_m: float
    is_container: bool = False


@dataclass(frozen=True, slots=True)
class Curve:
    """How the score of one kind of answer becomes the share of those that are right."""

    slope: float
    offset: float


@dataclass(frozen=True)
class About:
    """What a file says of itself.

    ``words`` are known by their numbers from 1 on; ``curves`` calibrate the confidence of the
    answers 'steps', 'done' and 'refused'; ``digest`` is over the weights.
    """

    robot: str
    image_px: int
    most_words: int
    words: Mapping[str, int]
    tasks: tuple[str, ...]
    kinds: tuple[Kind, ...]
    colours: tuple[str, ...]
    curves: Mapping[str, Curve]
    digest: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What one run gives: shares of 1 for words, logits for cells; see ``planner_eyes.Cells``."""

    task: Array  # (tasks,)
    a_colour: Array  # (colours,)
    a_kind: Array  # (kinds,)
    b_colour: Array
    b_kind: Array
    presence: Array  # (2, rows, columns)
    kind: Array  # (things, rows, columns)
    colour: Array  # (2, colours, rows, columns)
    offset: Array  # (2, 2, rows, columns)
    state: Array  # (2, rows, columns)
    turn: Array  # (2, rows, columns)


class OnboardModel:
    """One robot's small planner, ready to run; ``about`` is what its file says."""

    def __init__(self, manifest: Manifest, path: Path) -> None:
        """Load, check and warm up.

        Raises:
          PlannerFileError: unreadable, or no such planner.
          DecoderMismatch: made for another robot.
        """
        self._session = _open(path)
        self.about = _about(self._session, path)
        if self.about.robot != manifest.name:
            raise DecoderMismatch('robot', self.about.robot, manifest.name)
        if {entry.name for entry in self._session.get_inputs()} != set(INPUTS):
            raise PlannerFileError(path, 'it has other inputs')
        side = self.about.image_px
        self.read(np.zeros((side, side, 3), np.uint8), ())

    def read(self, image: Image, words: tuple[str, ...]) -> Reading:
        """Run once.

        Args:
          image: (image_px, image_px, 3) RGB.
          words: of the sentence, all known, at most ``most_words``.

        Raises:
          KeyError: for an unknown word. ValueError: for too many, or another image size.
        """
        side = self.about.image_px
        if image.shape != (side, side, 3):
            raise ValueError(f'image has shape {image.shape}; it must be {(side, side, 3)}')
        row = word_numbers(words, self.about.words, self.about.most_words)
        outputs = self._session.run(list(OUTPUTS), {'image': image[None], 'words': row[None]})
        return Reading(*(np.asarray(output[0], dtype=np.float32) for output in outputs))


def _open(path: Path) -> onnxruntime.InferenceSession:
    if not path.is_file():
        raise PlannerFileError(path, 'there is no such file')
    try:
        return open_onnx(path)
    except NotOnnx as error:
        raise PlannerFileError(path, error) from error


def _about(session: onnxruntime.InferenceSession, path: Path) -> About:
    """Read what the file says of itself."""
    raw: Mapping[str, str] = session.get_modelmeta().custom_metadata_map
    try:
        found: dict[str, Any] = {name: json.loads(raw[name]) for name in _METADATA}
        if found['format'] != FORMAT or tuple(found['tasks']) != TASKS:
            raise PlannerFileError(
                path, f'format {found["format"]} with tasks {found["tasks"]}; this program reads '
                f'format {FORMAT} with {list(TASKS)}')
        return About(
            robot=found['robot'],
            image_px=int(found['image_px']),
            most_words=int(found['most_words']),
            words={word: i + 1 for i, word in enumerate(found['words'])},
            tasks=TASKS,
            kinds=tuple(Kind(**kind) for kind in found['kinds']),
            colours=tuple(found['colours']),
            curves={name: Curve(*curve) for name, curve in found['curves'].items()},
            digest=str(found['digest']),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise PlannerFileError(path, f'its metadata lacks {error}') from error


_METADATA = (
    'format', 'robot', 'image_px', 'most_words', 'words', 'tasks', 'kinds', 'colours', 'curves',
    'digest',
)
