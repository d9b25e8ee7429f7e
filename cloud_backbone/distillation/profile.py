# SPDX-License-Identifier: Apache-2.0
"""How much to train: the `full` profile makes the shipped checkpoint, `smoke` only proves it runs.

Knows numbers, not how they are used.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """Sizes and lengths of all stages."""

    scenes: int | None
    """Scenes to read per split; None reads all."""
    vision_steps: int
    vision_batch: int
    teacher_steps: int
    student_steps: int
    extra_steps: int
    """Equal steps with and without distillation, from one common student."""
    agent_steps: int
    """Steps on moments in the middle of tasks beside single questions."""
    images: int
    """Images per planner step."""
    rows: int
    """Instructions per image and step."""
    vision_rate: float = 1.5e-3
    teacher_rate: float = 7e-4
    student_rate: float = 1e-3
    extra_rate: float = 4e-4
    agent_rate: float = 5e-4
    evaluate: int = 1500
    """Instructions per evaluation."""

    def __post_init__(self) -> None:
        """Refuse lengths that train nothing."""
        for name in ('vision_steps', 'vision_batch', 'student_steps', 'images', 'rows'):
            if getattr(self, name) < 1:
                raise ValueError(f'{name} is {getattr(self, name)}, but must be at least 1')


PROFILES = {
    'full': Profile(
        scenes=None,
        vision_steps=2000,
        vision_batch=32,
        teacher_steps=500,
        student_steps=2600,
        extra_steps=300,
        agent_steps=2200,
        images=8,
        rows=5,
    ),
    'smoke': Profile(
        scenes=64,
        vision_steps=20,
        vision_batch=16,
        teacher_steps=3,
        student_steps=6,
        extra_steps=2,
        agent_steps=2,
        images=4,
        rows=2,
        evaluate=16,
    ),
}


def profile_named(name: str) -> Profile:
    """Return a profile. Raises ValueError for an unknown name."""
    if name not in PROFILES:
        raise ValueError(f'unknown profile {name!r}; known are {", ".join(PROFILES)}')
    return PROFILES[name]
