# SPDX-License-Identifier: Apache-2.0
"""Is a hello or a turn fit to be worked on? Says what is wrong, with the allowed values.

Cheap enough for the event loop: images are judged by their header. Knows no model.
"""

from __future__ import annotations

import math

from cloud_backbone.agent_words import entry_text, read_lesson
from cloud_backbone.embodiment import Embodiment
from cloud_backbone.errors import FixRequestError, Reason
from cloud_backbone.image_intake import check_jpeg
from cloud_backbone.messages import Hello, Turn
from cloud_backbone.plan_vocabulary import Vocabulary
from cloud_backbone.task_memory import TaskMemory
from protos.protocol import MAX_INSTRUCTION_CHARS, PROTOCOL_VERSION, ROBOT_ID

MAX_ID_CHARS = 128


def check_hello(hello: Hello) -> None:
    """Refuse a hello that this backbone cannot serve; the message names both sides' values.

    What it says of the cache is not judged here.

    Raises:
        FixRequestError: with the reason.
    """
    if hello.protocol_version != PROTOCOL_VERSION:
        raise FixRequestError(
            Reason.PROTOCOL_MISMATCH,
            f'the robot speaks protocol version {hello.protocol_version}, '
            f'this backbone speaks {PROTOCOL_VERSION}: update the older one',
        )
    if not ROBOT_ID.fullmatch(hello.robot_id):
        raise FixRequestError(
            Reason.BAD_EMBODIMENT,
            f'robot_id is {hello.robot_id[:MAX_ID_CHARS]!r}, allowed are {ROBOT_ID.pattern}',
        )


def check_turn(turn: Turn, embodiment: Embodiment, image_size: tuple[int, int]) -> None:
    """Refuse a turn that makes no sense for this robot.

    Raises:
        FixRequestError: with the reason.
    """
    if not 0 < len(turn.turn_id) <= MAX_ID_CHARS:
        raise FixRequestError(
            Reason.PROTOCOL_ORDER,
            f'turn_id has {len(turn.turn_id)} characters, allowed 1 to {MAX_ID_CHARS}',
        )
    _check_instruction(turn.instruction)
    _check_joints(turn.joint_positions, embodiment.joints)
    camera = embodiment.camera.name
    if camera not in turn.images:
        names = ', '.join(sorted(name[:MAX_ID_CHARS] for name in turn.images)) or 'none'
        raise FixRequestError(
            Reason.BAD_IMAGE, f'no image of camera {camera!r}, images are of: {names}'
        )
    check_jpeg(turn.images[camera], image_size)


def check_memory(memory: TaskMemory, vocabulary: Vocabulary | None) -> None:
    """Refuse a memory that the model has no words for.

    Args:
        memory: of a turn.
        vocabulary: of the model; None: it takes no memory.

    Raises:
        FixRequestError: with what cannot be said.
    """
    if vocabulary is None:
        raise FixRequestError(
            Reason.BAD_MEMORY, 'this model takes no memory: send turns without one'
        )
    try:
        for lesson in memory.lessons:
            read_lesson(lesson, vocabulary)
        for entry in memory.entries:
            entry_text(entry, vocabulary)
    except ValueError as error:
        raise FixRequestError(Reason.BAD_MEMORY, f'memory: {error}') from error


def _check_instruction(instruction: str) -> None:
    if len(instruction) > MAX_INSTRUCTION_CHARS:
        raise FixRequestError(
            Reason.BAD_INSTRUCTION,
            f'the instruction has {len(instruction)} characters, '
            f'allowed 1 to {MAX_INSTRUCTION_CHARS}',
        )
    if not any(character.isalnum() for character in instruction):
        raise FixRequestError(
            Reason.BAD_INSTRUCTION,
            f'the instruction {instruction!r} has no word in it, say what to do',
        )


def _check_joints(positions: tuple[float, ...], joints: tuple[str, ...]) -> None:
    if len(positions) != len(joints):
        raise FixRequestError(
            Reason.BAD_JOINTS,
            f'{len(positions)} joint positions, the embodiment has {len(joints)} joints: '
            f'{", ".join(joints)}',
        )
    for name, position in zip(joints, positions, strict=True):
        if not math.isfinite(position):
            raise FixRequestError(
                Reason.BAD_JOINTS, f'joint {name} is at {position}, must be finite'
            )
