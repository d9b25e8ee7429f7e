# SPDX-License-Identifier: Apache-2.0
"""Makes turns: numbers them, encodes their images, keeps the account. Sends nothing."""

from collections.abc import Callable, Mapping

from onboard_decoder.image_codec import encode_jpeg
from onboard_decoder.image_quality import ImageQuality
from onboard_decoder.observation_intake import CameraFrame, JointState
from onboard_decoder.planner_port import Grant, LinkQuality, TurnRequest
from onboard_decoder.task_memory import TaskMemory


class TurnMaker:
    """Makes the turns of one robot; on a slow link their images are compressed harder.

    ``count`` is how many since ``reset``, ``computed_tokens`` what the backbone computed for them.
    """

    def __init__(
        self, deadline_s: float, link: Callable[[], LinkQuality | None] = lambda: None
    ) -> None:
        """Begin with the best images.

        Args:
          deadline_s: of every turn [s].
          link: returns how good the link is now, None where that is unknown.
        """
        self._deadline_s, self._link = deadline_s, link
        self._quality = ImageQuality(deadline_s)
        self._number = 0
        self.count = self.computed_tokens = 0

    def reset(self) -> None:
        """Begin to count for another task; numbers go on."""
        self.count = self.computed_tokens = 0

    def make(
        self,
        instruction: str,
        frames: Mapping[str, CameraFrame],
        joints: JointState,
        grant: Grant,
        memory: TaskMemory | None = None,
        revises: str = '',
    ) -> TurnRequest:
        """Return the next turn.

        Args:
          instruction: what the person said.
          frames: one per camera.
          joints: the newest.
          grant: says which size images must have.
          memory: of the trial; None for a plain question.
          revises: id of the turn that this one checks.
        """
        self._number += 1
        self.count += 1
        quality = self._quality.choose(self._link())
        images = {
            name: encode_jpeg(
                frame.rgb, grant.image_width_px, grant.image_height_px, quality)
            for name, frame in frames.items()
        }
        self._quality.sent(sum(map(len, images.values())))
        return TurnRequest(
            turn_id=f'turn-{self._number}',
            instruction=instruction,
            images=images,
            joint_positions=tuple(joints.positions.tolist()),
            observation_epoch=max(frame.epoch for frame in frames.values()),
            deadline_s=self._deadline_s,
            memory=memory,
            revises=revises,
            image_quality=quality,
        )
