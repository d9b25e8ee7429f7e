# SPDX-License-Identifier: Apache-2.0
"""The robot's own plan buffer over the same chunks, alone and with its safety filter behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from onboard_decoder.chunk import Chunk, Target
from onboard_decoder.config import ChunkSettings
from onboard_decoder.joint_limiter import Motion
from onboard_decoder.kinematics import ForwardKinematics
from onboard_decoder.manifest import Box, Manifest
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.plan_buffer import PlanBuffer
from onboard_decoder.safety_filter import SafetyFilter
from tendon.bench_seams.stream import JOINTS, PERIOD_S, Stream

Array = NDArray[np.float64]


def swinging_arm() -> Manifest:
    """Return seven joints like the shipped arm's shoulder, free to swing anywhere, and fingers."""
    shipped = load_manifest('tendon_arm')
    shoulder = replace(shipped.joints[0], lower=-3.1, upper=3.1, home=0.0)
    joints = tuple(replace(shoulder, name=f'joint_{i}') for i in range(JOINTS))
    chain = shipped.kinematics.chain
    return replace(
        shipped, control_period_s=PERIOD_S, joints=(*joints, shipped.joints[-1]),
        workspace=Box((-10.0, -10.0, -10.0), (10.0, 10.0, 10.0)),
        kinematics=replace(shipped.kinematics, chain=(*chain, chain[-1])),
    )


def buffered(stream: Stream, settings: ChunkSettings | None = None) -> Array:
    """Return what the buffer leads to, (ticks, joints), with an arm that follows."""
    settings = settings or ChunkSettings()
    manifest = swinging_arm()
    buffer = PlanBuffer.of(manifest, settings)
    led, out = Motion.at_rest(manifest.home), []
    for tick in range(len(stream.wanted)):
        target = _target(buffer, stream, tick, led)
        if target is not None:
            led = Motion(target.positions, target.velocities, np.zeros(len(manifest.joints)))
        out.append(led.positions[:JOINTS])
    return np.array(out)


def filtered(stream: Stream, settings: ChunkSettings | None = None) -> Array:
    """Return what the safety filter makes of that, (ticks, joints)."""
    settings = settings or ChunkSettings()
    manifest = swinging_arm()
    buffer = PlanBuffer.of(manifest, settings)
    safety = _safety_filter(manifest, settings)
    return np.array([
        safety.step(_target(buffer, stream, tick, safety.motion)).positions[:JOINTS]
        for tick in range(len(stream.wanted))
    ])


def behind_filter(rule: Callable[[Stream], Array]) -> Callable[[Stream], Array]:
    """Return a rule of others with the safety filter behind it: what would reach the arm."""
    def joined(stream: Stream) -> Array:
        path, manifest = rule(stream), swinging_arm()
        speeds = np.gradient(path, PERIOD_S, axis=0)
        safety = _safety_filter(manifest, ChunkSettings())
        return np.array([
            safety.step(_with_fingers(manifest, row, speed)).positions[:JOINTS]
            for row, speed in zip(path, speeds, strict=True)
        ])

    return joined


def _safety_filter(manifest: Manifest, settings: ChunkSettings) -> SafetyFilter:
    """Return one that stands at the home pose."""
    safety = SafetyFilter(manifest, ForwardKinematics(manifest), settings.follow_gain_per_s)
    safety.reset(manifest.home)
    return safety


def _with_fingers(manifest: Manifest, row: Array, speed: Array) -> Target:
    finger = manifest.home[manifest.gripper_index]
    return Target(np.append(row, finger), np.append(speed, 0.0), 0)


def _target(buffer: PlanBuffer, stream: Stream, tick: int, led: Motion) -> Target | None:
    """Play one tick; the fingers stay where they are."""
    for entry in stream.coming(tick):
        finger = np.full((len(entry.rows), 1), led.positions[-1])
        rows = np.concatenate([entry.rows, finger], axis=1)
        buffer.offer(Chunk(entry.asked, entry.asked, entry.asked, rows))
    return buffer.sample(tick, led)
