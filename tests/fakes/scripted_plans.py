# SPDX-License-Identifier: Apache-2.0
"""Plans as a backbone would write them, made by hand. Knows the messages only."""

from __future__ import annotations

from collections.abc import Iterable

from protos import plan_pb2


def plan_of(*steps: plan_pb2.PlanStep, latent: Iterable[float] = ()) -> plan_pb2.ActionPlan:
    """Return a plan with these steps; without any, a refusal."""
    if not steps:
        return plan_pb2.ActionPlan(
            outcome=plan_pb2.PLAN_OUTCOME_REFUSED, reason='There is no such object.'
        )
    return plan_pb2.ActionPlan(
        thought='A scripted plan.',
        outcome=plan_pb2.PLAN_OUTCOME_STEPS,
        steps=steps,
        latent=latent,
        confidence=1.0,
    )


def step(
    skill: str,
    target: tuple[float, float, float] | None = None,
    *,
    gripper_opening: float = 1.0,
    tool_yaw_rad: float = 0.0,
    speed: float = 1.0,
    thing: str = '',
    success: str = 'AT_TARGET',
) -> plan_pb2.PlanStep:
    """Return one step; ``skill`` is a name such as ``reach``, ``target`` [m] in the base frame."""
    made = plan_pb2.PlanStep(
        skill=plan_pb2.Skill.Value(f'SKILL_{skill.upper()}'),
        object=thing,
        tool_yaw_rad=tool_yaw_rad,
        gripper_opening=gripper_opening,
        speed=speed,
        success=plan_pb2.SuccessCondition.Value(f'SUCCESS_CONDITION_{success}'),
    )
    if target is not None:
        x, y, z = target
        made.target_in_base_m.x, made.target_in_base_m.y, made.target_in_base_m.z = x, y, z
    return made
