# SPDX-License-Identifier: Apache-2.0
"""Messages of the wire <-> this side's dataclasses; only here and in ``wire_task``.

What arrives is checked here: a plan that breaks the contract is refused, never executed.
"""

import math

from onboard_decoder.errors import PlanRefused
from onboard_decoder.manifest import Camera, Joint, Manifest, Vector
from onboard_decoder.plan import ActionPlan, Outcome, PlanStep, Skill, SuccessCondition
from onboard_decoder.planner_port import Grant, Remedy, TurnAnswer, TurnFailure, TurnRequest
from onboard_decoder.wire_task import from_call, from_certificate, to_memory
from protos import embodiment_pb2, plan_pb2, planner_pb2
from protos.latency import from_trace
from protos.protocol import PROTOCOL_VERSION

_UNITS = {'rad': embodiment_pb2.JOINT_UNIT_RADIAN, 'm': embodiment_pb2.JOINT_UNIT_METRE}
_OUTCOMES = {plan_pb2.PlanOutcome.Value(f'PLAN_OUTCOME_{o.name}'): o for o in Outcome}
_SKILLS = {plan_pb2.Skill.Value(f'SKILL_{skill.name}'): skill for skill in Skill}
_SUCCESS = {
    plan_pb2.SuccessCondition.Value(f'SUCCESS_CONDITION_{s.name}'): s for s in SuccessCondition
}
_REMEDIES = {
    planner_pb2.REMEDY_RETRY_CALL: Remedy.RETRY,
    planner_pb2.REMEDY_REOPEN_SESSION: Remedy.REOPEN,
    planner_pb2.REMEDY_FIX_REQUEST: Remedy.FIX,
}


def to_embodiment(manifest: Manifest) -> embodiment_pb2.Embodiment:
    """Write what the backbone needs to know of the robot."""
    box = manifest.workspace
    return embodiment_pb2.Embodiment(
        name=manifest.name,
        joints=[_joint(joint) for joint in manifest.joints],
        control_period_s=manifest.control_period_s,
        cameras=[_camera(camera) for camera in manifest.cameras],
        gripper=embodiment_pb2.Gripper(
            joint=manifest.gripper.joint,
            open_position=manifest.gripper.open_position,
            closed_position=manifest.gripper.closed_position,
        ),
        workspace=embodiment_pb2.Box(lower_m=_vector(box.lower_m), upper_m=_vector(box.upper_m)),
        table_height_m=manifest.table_height_m,
    )


def to_hello(
    robot_id: str, manifest: Manifest, session_id: str, cache_policy: str, cache_budget_bytes: int
) -> planner_pb2.SessionRequest:
    """Write the first message of a stream; an empty session id opens a new session."""
    return planner_pb2.SessionRequest(
        hello=planner_pb2.Hello(
            robot_id=robot_id,
            protocol_version=PROTOCOL_VERSION,
            embodiment=to_embodiment(manifest),
            cache_policy=cache_policy,
            cache_budget_bytes=cache_budget_bytes,
            session_id=session_id,
        )
    )


def to_turn(
    turn: TurnRequest, epoch: int, task_number: int = 0, first_entry: int = 0
) -> planner_pb2.SessionRequest:
    """Write one question.

    Args:
      turn: the question.
      epoch: of the session.
      task_number: tells tasks with the same instruction apart.
      first_entry: of the memory that the backbone lacks.
    """
    memory = turn.memory
    observation = planner_pb2.Observation(
        observation_epoch=turn.observation_epoch,
        images=[
            planner_pb2.CameraImage(camera=name, jpeg=jpeg) for name, jpeg in turn.images.items()
        ],
        joint_positions=turn.joint_positions,
    )
    return planner_pb2.SessionRequest(
        turn=planner_pb2.Turn(
            turn_id=turn.turn_id,
            epoch=epoch,
            instruction=turn.instruction,
            observation=observation,
            deadline_ms=round(turn.deadline_s * 1000),
            memory=None if memory is None else to_memory(memory, task_number, first_entry),
            revises=turn.revises,
        )
    )


def to_cancel(turn_id: str) -> planner_pb2.SessionRequest:
    """Write the withdrawal of a turn."""
    return planner_pb2.SessionRequest(cancel_turn=planner_pb2.CancelTurn(turn_id=turn_id))


def to_ping(number: int) -> planner_pb2.SessionRequest:
    """Write a ping."""
    return planner_pb2.SessionRequest(ping=planner_pb2.Ping(number=number))


def to_close(session_id: str) -> planner_pb2.CloseSessionRequest:
    """Write the end of a session."""
    return planner_pb2.CloseSessionRequest(session_id=session_id)


def from_welcome(welcome: planner_pb2.Welcome) -> Grant:
    """Read what was granted."""
    return Grant(
        session_id=welcome.session_id,
        epoch=welcome.epoch,
        resumed=welcome.resumed,
        model_fingerprint=welcome.model_fingerprint,
        image_width_px=welcome.image_width_px,
        image_height_px=welcome.image_height_px,
        latent_size=welcome.latent_size,
        max_message_bytes=welcome.max_message_bytes,
        max_instruction_chars=welcome.max_instruction_chars,
        answers_pings=welcome.answers_pings,
    )


def from_gap(answer: planner_pb2.TurnAnswer) -> int | None:
    """Return the entry that the backbone wants the memory from; None for any other answer."""
    is_gap = answer.error.reason == planner_pb2.ERROR_REASON_HISTORY_GAP
    return answer.error.expected_entry if is_gap else None


def from_answer(
    answer: planner_pb2.TurnAnswer, sent_ns: int, received_ns: int
) -> TurnAnswer | TurnFailure:
    """Read an answer; a plan that breaks the contract becomes a failure that says so."""
    if answer.WhichOneof('result') == 'error':
        error = answer.error
        remedy = _REMEDIES.get(error.remedy, Remedy.RETRY)
        return TurnFailure(answer.turn_id, _reason(error.reason), error.message, remedy)
    try:
        plan = from_plan(answer.plan)
    except PlanRefused as error:
        return TurnFailure(answer.turn_id, 'bad_plan', str(error), Remedy.RETRY)
    return TurnAnswer(
        turn_id=answer.turn_id,
        plan=plan,
        sent_ns=sent_ns,
        received_ns=received_ns,
        backbone_ns=from_trace(answer.backbone_trace),
        backbone_arrived_ns=answer.backbone_trace.arrived_monotonic_ns,
        reused_token_count=answer.reused_token_count,
        computed_token_count=answer.computed_token_count,
        known_entries=answer.known_entry_count,
    )


def _reason(number: int) -> str:
    """Return the name of a reason; a later version's has a number only."""
    if number not in planner_pb2.ErrorReason.values():
        return f'reason {number}'
    return planner_pb2.ErrorReason.Name(number).removeprefix('ERROR_REASON_').lower()


def from_plan(plan: plan_pb2.ActionPlan) -> ActionPlan:
    """Read a plan. Raises PlanRefused for anything that this robot must not execute."""
    outcome = _OUTCOMES.get(plan.outcome)
    if outcome is None:
        raise PlanRefused(f'outcome {plan.outcome} is unknown')
    # Where the gripper is only the robot knows: it makes the steps of a release itself.
    is_release = plan.call.tool == plan_pb2.TOOL_RELEASE and outcome is Outcome.STEPS
    if (outcome is Outcome.STEPS) != bool(plan.steps) and not is_release:
        raise PlanRefused(f'outcome {outcome.value} with {len(plan.steps)} steps')
    if outcome is Outcome.ASK and not plan.call.question:
        raise PlanRefused('outcome ask without a question')
    if not all(math.isfinite(value) for value in plan.latent):
        raise PlanRefused('latent is not finite')
    if not math.isfinite(plan.confidence):
        raise PlanRefused(f'confidence is {plan.confidence}')
    return ActionPlan(
        outcome=outcome,
        steps=tuple(_step(index, step) for index, step in enumerate(plan.steps)),
        thought=plan.thought,
        reason=plan.reason,
        latent=tuple(plan.latent),
        confidence=plan.confidence,
        call=from_call(plan.call) if plan.HasField('call') else None,
        lesson=plan.lesson,
        certificate=(
            from_certificate(plan.certificate) if plan.HasField('certificate') else None
        ),
    )


def _step(index: int, step: plan_pb2.PlanStep) -> PlanStep:
    """Read one step and refuse what is out of range."""
    where = f'step {index}'
    skill, success = _SKILLS.get(step.skill), _SUCCESS.get(step.success)
    if skill is None or success is None:
        raise PlanRefused(f'{where} has skill {step.skill} and success condition {step.success}')
    target = _target(where, step)
    if target is None and skill not in (Skill.HOME, Skill.HOLD):
        raise PlanRefused(f'{where} ({skill.value}) has no target')
    if not 0 <= step.gripper_opening <= 1 or not 0 < step.speed <= 1:
        raise PlanRefused(
            f'{where} has gripper_opening {step.gripper_opening} (0..1), speed {step.speed} (0..1]'
        )
    if not all(map(math.isfinite, (step.tool_yaw_rad, step.point.x, step.point.y))):
        raise PlanRefused(
            f'{where} has tool_yaw_rad {step.tool_yaw_rad}, point {step.point.x}, {step.point.y}')
    return PlanStep(
        skill=skill,
        target_in_base_m=target,
        tool_yaw_rad=step.tool_yaw_rad,
        gripper_opening=step.gripper_opening,
        speed=step.speed,
        success=success,
        object_name=step.object,
        point=(step.point.x, step.point.y) if step.HasField('point') else None,
    )


def _target(where: str, step: plan_pb2.PlanStep) -> Vector | None:
    """Read the target in the base frame [m]."""
    if not step.HasField('target_in_base_m'):
        return None
    target = (step.target_in_base_m.x, step.target_in_base_m.y, step.target_in_base_m.z)
    if not all(math.isfinite(value) for value in target):
        raise PlanRefused(f'{where} has target {target}')
    return target


def _joint(joint: Joint) -> embodiment_pb2.Joint:
    return embodiment_pb2.Joint(
        name=joint.name,
        unit=_UNITS[joint.unit],
        lower=joint.lower,
        upper=joint.upper,
        max_velocity=joint.max_velocity,
        max_acceleration=joint.max_acceleration,
        max_jerk=joint.max_jerk,
    )


def _camera(camera: Camera) -> embodiment_pb2.Camera:
    w, x, y, z = camera.camera_to_base_wxyz
    return embodiment_pb2.Camera(
        name=camera.name,
        width_px=camera.width_px,
        height_px=camera.height_px,
        vertical_fov_rad=camera.vertical_fov_rad,
        camera_in_base_m=_vector(camera.camera_in_base_m),
        camera_to_base=embodiment_pb2.Quaternion(w=w, x=x, y=y, z=z),
    )


def _vector(values: Vector) -> embodiment_pb2.Vector3:
    x, y, z = values
    return embodiment_pb2.Vector3(x=x, y=y, z=z)
