# SPDX-License-Identifier: Apache-2.0
"""A plan with the images that it was made from, and whether two plans are the same choice."""

from collections.abc import Mapping
from dataclasses import dataclass
import math

from onboard_decoder.agent.image_change import changed_share
from onboard_decoder.observation_intake import CameraFrame
from onboard_decoder.plan import ActionPlan
from onboard_decoder.task_memory import ToolCall


@dataclass(frozen=True, slots=True)
class Decision:
    """What the backbone chose at one turn, and one frame per camera that it saw."""

    turn_id: str
    plan: ActionPlan
    frames: Mapping[str, CameraFrame]

    @property
    def taken_ns(self) -> int:
        """When the oldest of the images was taken [ns]."""
        return min(frame.stamp_ns for frame in self.frames.values())

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """Where in the image the plan goes, x and y in 0..1, each once."""
        return tuple(dict.fromkeys(step.point for step in self.plan.steps if step.point))

    def change_from(self, other: Mapping[str, CameraFrame], radius: float) -> float:
        """Return the share of pixels around its points that other frames show differently.

        Of its first camera, the one that points are in; of the whole image without points.
        """
        camera = next(iter(self.frames))
        return changed_share(
            self.frames[camera].rgb, other[camera].rgb, self.points, radius
        )


def is_same_choice(one: ActionPlan, other: ActionPlan, target_m: float) -> bool:
    """True if tool, things and targets agree; targets up to a distance [m]."""
    if _what(one.call) != _what(other.call):
        return False
    pairs = zip(one.steps, other.steps, strict=False)
    return [step.skill for step in one.steps] == [step.skill for step in other.steps] and all(
        math.dist(a.target_in_base_m, b.target_in_base_m) <= target_m
        for a, b in pairs if a.target_in_base_m is not None and b.target_in_base_m is not None
    )


def _what(call: ToolCall | None) -> tuple[object, ...]:
    """Return what makes two calls the same choice; the manner does not."""
    return () if call is None else (call.tool, call.object_name, call.target_name)
