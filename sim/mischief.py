# SPDX-License-Identifier: Apache-2.0
"""Makes a mishap happen while the arm works: hands that move things, fingers that lose them.

A hand moves a thing only while nothing of the arm touches it, and never to where the gripper is.
A grip that gives way is a grip without friction: the thing falls as it would; one that was
'dropped' is then set upright by a hand where it lies, or near by. At these speeds the arm
accelerates as hard when it is told to be slow, only for a shorter time, so that no coefficient of
friction would tell slow from fast: a 'slick' thing therefore breaks away above a speed of the
tool. Knows no plans; never told what the robot thinks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
import math

from sim.arm_port import SimulatedArm
from sim.contacts import is_held, touches_arm
from sim.free_spots import around, draw_spot, on_table, pose_of, tool_at
from sim.mishaps import Mishap
from sim.model import FINGER_FRICTION

NEAR_M = 0.03           # sideways from the tool to the thing: the fingers are about to close
PUSH_NEAR_M = 0.10      # the same for a push, which begins beside the thing
SHUT_M = 0.02           # fingers nearer to the middle are shut
LOW_M = 0.12            # the tool is on its way down
SHIFTS_M = ((0.045, 0.07), (0.045, 0.14), (0.045, math.inf))  # the first with room enough
FAR_M = ((0.10, math.inf),)
CARRIED_M = 0.13        # height of the tool above which a thing is carried
UNDER_WAY = 0.35        # share of the way to the place from which on the thing may be dropped
LATEST = 0.75           # and from which on it is, free place or not
SLICK_SPEED_M_S = 0.21  # of the tool
NO_GRIP = 0.005         # friction
FALL_S = 0.6            # until a fallen thing lies


class Mischief:
    """One mishap in one run.

    Attributes:
        happened_s: simulated time at which it happened, for the first time; None before.
    """

    def __init__(self, arm: SimulatedArm, mishap: Mishap) -> None:
        """Lie in wait; the arm shows the scene that `prepare` made."""
        self._arm, self._mishap, self._rng = arm, mishap, mishap.rng(2)
        self.happened_s: float | None = None
        self._lost_s: float | None = None
        self._was_near = False
        self._tool = tool_at(arm)[0]
        self._time_s = arm.time_s
        steps: dict[str, Callable[[], None]] = {
            'moved': self._move_before_grasp, 'dropped': self._drop, 'slick': self._slip,
            'hand_move': self._move_in_time,
        }
        self._do = steps.get(mishap.kind, _nothing)

    def step(self) -> None:
        """Do what is due; call it after each control period."""
        self._do()

    def _move_before_grasp(self) -> None:
        """Shift the thing once the fingers come near it."""
        if self._was_near:
            return
        tool, _ = tool_at(self._arm)
        thing = self._arm.world.centre(self._mishap.thing)
        aside = math.hypot(*(tool - thing)[:2])
        shut = self._arm.positions[-1] < SHUT_M     # as for a push
        if tool[2] < LOW_M and aside < (PUSH_NEAR_M if shut else NEAR_M):
            self._was_near = True
            self._hand(SHIFTS_M)

    def _move_in_time(self) -> None:
        """Move the thing far away when it is time."""
        if self.happened_s is None and self._arm.time_s >= self._mishap.at_s:
            self._hand(FAR_M)

    def _hand(self, distances_m: Sequence[tuple[float, float]]) -> None:
        """Move the thing, unless the arm touches it or there is no room."""
        index = self._mishap.thing
        if touches_arm(self._arm, index):
            return
        here = pose_of(self._arm, index)[:2]
        for least_m, most_m in distances_m:
            spot = draw_spot(self._arm, index, self._rng, here, least_m, most_m)
            if spot is not None:
                self._arm.world.move(index, spot)
                self.happened_s = self._arm.time_s
                return

    def _drop(self) -> None:
        """Let the fingers lose the thing once, above a free place if there is one."""
        if self._lost_s is None:
            if is_held(self._arm, self._mishap.thing) and self._is_due():
                self._lose()
        elif self._is_over():
            self._set_upright()
            self._mishap_over()

    def _is_due(self) -> bool:
        """Say whether the thing is well under way, and what is below is free."""
        tool, _ = tool_at(self._arm)
        if self.happened_s is not None or tool[2] < CARRIED_M:
            return False
        if self._mishap.place < 0:
            return True
        x, y, _ = pose_of(self._arm, self._mishap.thing)
        start = self._arm.world.scene.entities[self._mishap.thing]
        left = math.dist((x, y), pose_of(self._arm, self._mishap.place)[:2])
        gone = math.dist((x, y), (start.x, start.y))
        share = gone / max(gone + left, 1e-6)
        free = around(self._arm, self._mishap.thing).is_free((x, y, 0.0)) and on_table(x, y)
        return share > LATEST or (share > UNDER_WAY and free)

    def _slip(self) -> None:
        """Let the fingers lose the thing whenever it is carried fast."""
        tool, now_s = tool_at(self._arm)[0], self._arm.time_s
        speed = math.dist(tool, self._tool) / max(now_s - self._time_s, 1e-6)
        self._tool, self._time_s = tool, now_s
        if self._lost_s is None:
            if speed > SLICK_SPEED_M_S and is_held(self._arm, self._mishap.thing):
                self._lose()
        elif self._is_over():
            self._mishap_over()

    def _lose(self) -> None:
        self._arm.world.set_grip(NO_GRIP)
        self._lost_s = self._arm.time_s
        if self.happened_s is None:
            self.happened_s = self._lost_s

    def _is_over(self) -> bool:
        """Say whether a lost thing has had time to fall and is out of the fingers."""
        assert self._lost_s is not None
        fallen = self._arm.time_s - self._lost_s > FALL_S
        return fallen and not touches_arm(self._arm, self._mishap.thing)

    def _mishap_over(self) -> None:
        self._arm.world.set_grip(FINGER_FRICTION)
        self._lost_s = None

    def _set_upright(self) -> None:
        """Take a hand to what fell: stand it where it lies, or near by if that is not free."""
        index, arm = self._mishap.thing, self._arm
        x, y, yaw = pose_of(arm, index)
        if on_table(x, y) and around(arm, index).is_free((x, y, yaw)):
            arm.world.move(index, (x, y, yaw))
            return
        for most_m in (0.06, 0.12, 0.25, math.inf):
            spot = draw_spot(arm, index, self._rng, (x, y), 0.0, most_m)
            if spot is not None:
                arm.world.move(index, spot)
                return


def _nothing() -> None:
    """Leave it to the scene."""
