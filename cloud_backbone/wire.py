# SPDX-License-Identifier: Apache-2.0
"""Messages of the wire to and from plain data: only here and in ``wire_task``, ``wire_state``.

What a message says is checked where it is built into data; what it means is not known here.
"""

from __future__ import annotations

import math

from cloud_backbone.action_plan import Answer, Certificate, Plan, Step
from cloud_backbone.embodiment import Camera, Embodiment, Vector
from cloud_backbone.errors import FixRequestError, Reaction, Reason
from cloud_backbone.messages import CancelTurn, Hello, Ping, Stats, Turn, Welcome
from cloud_backbone.wire_task import read_memory, write_call
from protos import embodiment_pb2, latency, plan_pb2, planner_pb2
from protos.protocol import (
    MAX_INSTRUCTION_CHARS,
    MAX_MESSAGE_BYTES,
    MAX_NAME_CHARS,
    PROTOCOL_VERSION,
)

MAX_JOINTS = 64
MAX_CAMERAS = 16


def read_request(message: planner_pb2.SessionRequest) -> Hello | Turn | CancelTurn | Ping:
    """Return what a robot said.

    Raises:
        FixRequestError: the message is empty or of a kind that this version does not know, its
            embodiment contradicts itself, or its memory is no history of a task.
    """
    kind = message.WhichOneof('message')
    if kind == 'hello':
        return _hello(message.hello)
    if kind == 'turn':
        return _turn(message.turn)
    if kind == 'cancel_turn':
        return CancelTurn(message.cancel_turn.turn_id)
    if kind == 'ping':
        return Ping(message.ping.number)
    raise FixRequestError(
        Reason.PROTOCOL_ORDER, 'a message is empty, expected hello, turn, cancel_turn or ping'
    )


def turn_id_of(message: planner_pb2.SessionRequest) -> str | None:
    """Return the id of a turn, also of one that cannot be read; None for other messages."""
    is_turn = message.WhichOneof('message') == 'turn'
    return str(message.turn.turn_id) if is_turn else None


def _hello(hello: planner_pb2.Hello) -> Hello:
    try:
        embodiment = _embodiment(hello.embodiment)
    except ValueError as error:
        raise FixRequestError(Reason.BAD_EMBODIMENT, str(error)) from error
    return Hello(
        robot_id=hello.robot_id,
        protocol_version=hello.protocol_version,
        embodiment=embodiment,
        cache_policy=hello.cache_policy,
        cache_budget_bytes=hello.cache_budget_bytes,
        session_id=hello.session_id,
    )


def _turn(turn: planner_pb2.Turn) -> Turn:
    return Turn(
        turn_id=turn.turn_id,
        epoch=turn.epoch,
        instruction=turn.instruction,
        observation_epoch=turn.observation.observation_epoch,
        images={image.camera: image.jpeg for image in turn.observation.images},
        joint_positions=tuple(turn.observation.joint_positions),
        deadline_ms=turn.deadline_ms,
        memory=read_memory(turn.memory) if turn.HasField('memory') else None,
        revises=turn.revises,
    )


def _embodiment(message: embodiment_pb2.Embodiment) -> Embodiment:
    if len(message.joints) > MAX_JOINTS or len(message.cameras) > MAX_CAMERAS:
        raise ValueError(
            f'the embodiment has {len(message.joints)} joints and {len(message.cameras)} cameras, '
            f'allowed are {MAX_JOINTS} and {MAX_CAMERAS}'
        )
    names = [message.name, *(joint.name for joint in message.joints)]
    names += [camera.name for camera in message.cameras]
    if any(len(name) > MAX_NAME_CHARS for name in names):
        raise ValueError(f'a name has more than {MAX_NAME_CHARS} characters')
    for joint in message.joints:
        _check_joint(joint)
    return Embodiment(
        name=message.name,
        joints=tuple(joint.name for joint in message.joints),
        cameras=tuple(_camera(camera) for camera in message.cameras),
        gripper_joint=message.gripper.joint,
        workspace_lower=_vector(message.workspace.lower_m),
        workspace_upper=_vector(message.workspace.upper_m),
        table_height=message.table_height_m,
        control_period_s=message.control_period_s,
    )


def _check_joint(joint: embodiment_pb2.Joint) -> None:
    if joint.unit not in (embodiment_pb2.JOINT_UNIT_RADIAN, embodiment_pb2.JOINT_UNIT_METRE):
        raise ValueError(f'joint {joint.name!r} has unit {joint.unit}, known are 1 and 2')
    if not (math.isfinite(joint.lower) and joint.lower < joint.upper < math.inf):
        raise ValueError(
            f'joint {joint.name!r} has limits {joint.lower} to {joint.upper}, '
            'the first must be lower and both finite'
        )
    if not 0.0 < joint.max_velocity < math.inf:
        raise ValueError(
            f'joint {joint.name!r} has a speed limit of {joint.max_velocity}, must be more than 0'
        )


def _camera(camera: embodiment_pb2.Camera) -> Camera:
    rotation = camera.camera_to_base
    return Camera(
        name=camera.name,
        width_px=camera.width_px,
        height_px=camera.height_px,
        vertical_fov=camera.vertical_fov_rad,
        camera_in_base=_vector(camera.camera_in_base_m),
        camera_to_base=(rotation.w, rotation.x, rotation.y, rotation.z),
    )


def _vector(message: embodiment_pb2.Vector3) -> Vector:
    return message.x, message.y, message.z


def write_welcome(welcome: Welcome) -> planner_pb2.SessionResponse:
    """Write the answer to a hello."""
    message = planner_pb2.Welcome(
        session_id=welcome.session_id,
        epoch=welcome.epoch,
        resumed=welcome.resumed,
        model_fingerprint=welcome.fingerprint,
        image_width_px=welcome.image_size[0],
        image_height_px=welcome.image_size[1],
        latent_size=welcome.latent_size,
        cache_policy=welcome.cache_policy,
        cache_budget_bytes=welcome.cache_budget_bytes,
        max_message_bytes=MAX_MESSAGE_BYTES,
        max_instruction_chars=MAX_INSTRUCTION_CHARS,
        answers_pings=True,
    )
    return planner_pb2.SessionResponse(welcome=message)


def write_pong(number: int) -> planner_pb2.SessionResponse:
    """Write the answer to a ping."""
    return planner_pb2.SessionResponse(pong=planner_pb2.Pong(number=number))


def write_answer(
    turn_id: str, epoch: int, answer: Answer, arrived_ns: int = 0
) -> planner_pb2.SessionResponse:
    """Write the plan of a turn, which arrived at this time on the monotonic clock [ns]."""
    message = planner_pb2.TurnAnswer(
        turn_id=turn_id,
        epoch=epoch,
        plan=_plan(answer.plan),
        backbone_trace=latency.to_trace(answer.durations_ns, arrived_ns),
        reused_token_count=answer.reused_tokens,
        computed_token_count=answer.computed_tokens,
        known_entry_count=answer.known_entries,
        exactness=f'EXACTNESS_{answer.exactness.name}',
    )
    return planner_pb2.SessionResponse(turn_answer=message)


def write_error(turn_id: str, epoch: int, reaction: Reaction) -> planner_pb2.SessionResponse:
    """Write why a turn has no plan."""
    error = planner_pb2.TurnError(
        reason=reason_name(reaction),
        remedy=f'REMEDY_{reaction.remedy.name}',
        message=reaction.message,
        expected_entry=reaction.expected_entry,
    )
    message = planner_pb2.TurnAnswer(turn_id=turn_id, epoch=epoch, error=error)
    return planner_pb2.SessionResponse(turn_answer=message)


def reason_name(reaction: Reaction) -> str:
    """Return the name of a reason as in ``ErrorReason``."""
    return f'ERROR_REASON_{reaction.reason.name}'


def write_closed(was_open: bool) -> planner_pb2.CloseSessionResponse:
    """Write the end of a session."""
    return planner_pb2.CloseSessionResponse(was_open=was_open)


def write_clock(monotonic_ns: int) -> planner_pb2.ClockSyncResponse:
    """Write the clock."""
    return planner_pb2.ClockSyncResponse(monotonic_ns=monotonic_ns)


def write_stats(stats: Stats) -> planner_pb2.GetStatsResponse:
    """Write the counters."""
    return planner_pb2.GetStatsResponse(
        model_fingerprint=stats.fingerprint,
        open_session_count=stats.open_sessions,
        plan_count=stats.plans,
        error_count=stats.errors,
        batch_count=stats.batches,
        cache_bytes=stats.cache_bytes,
        free_session_count=stats.free_sessions,
        protocol_version=PROTOCOL_VERSION,
    )


def _plan(plan: Plan) -> plan_pb2.ActionPlan:
    return plan_pb2.ActionPlan(
        thought=plan.thought,
        outcome=f'PLAN_OUTCOME_{plan.outcome.name}',
        reason=plan.reason,
        steps=[_step(step) for step in plan.steps],
        latent=plan.latent,
        confidence=plan.confidence,
        certificate=None if plan.certificate is None else _certificate(plan.certificate),
        call=None if plan.call is None else write_call(plan.call),
        lesson=plan.lesson,
    )


def _certificate(certificate: Certificate) -> plan_pb2.Certificate:
    return plan_pb2.Certificate(
        stalest_observation_epoch=certificate.stalest_observation_epoch,
        freshest_observation_epoch=certificate.freshest_observation_epoch,
        exactness=f'EXACTNESS_{certificate.exactness.name}',
        prefix_hash=certificate.prefix_hash,
    )


def _step(step: Step) -> plan_pb2.PlanStep:
    message = plan_pb2.PlanStep(
        skill=f'SKILL_{step.skill.name}',
        object=step.thing,
        tool_yaw_rad=step.tool_yaw,
        gripper_opening=step.gripper_opening,
        speed=step.speed,
        success=f'SUCCESS_CONDITION_{step.success.name}',
    )
    if step.point is not None:
        message.point.x, message.point.y = step.point
    if step.target_in_base is not None:
        target = message.target_in_base_m
        target.x, target.y, target.z = step.target_in_base
    return message
