# SPDX-License-Identifier: Apache-2.0
"""What a session holds, and its snapshots, as messages of the wire; for ``planner_service``."""

from __future__ import annotations

from cloud_backbone.messages import RestoreInfo, SegmentState, SessionState, SnapshotInfo
from protos import planner_pb2


def write_state(state: SessionState) -> planner_pb2.GetSessionStateResponse:
    """Write what a session holds."""
    return planner_pb2.GetSessionStateResponse(
        session_id=state.session_id,
        epoch=state.epoch,
        trial=state.trial,
        entry_count=state.entries,
        lessons=state.lessons,
        segments=[_segment(segment) for segment in state.segments],
        byte_count=state.cache_bytes,
        tier=state.tier,
        cache_policy=state.cache_policy,
        prefix_hash=state.prefix_hash,
        note=state.note,
    )


def write_snapshot(info: SnapshotInfo) -> planner_pb2.SnapshotResponse:
    """Write what was written to disk."""
    return planner_pb2.SnapshotResponse(byte_count=info.byte_count, token_count=info.tokens)


def write_restore(info: RestoreInfo) -> planner_pb2.RestoreResponse:
    """Write what was brought back."""
    return planner_pb2.RestoreResponse(
        token_count=info.tokens, exactness=f'EXACTNESS_{info.exactness.name}', note=info.note
    )


def _segment(segment: SegmentState) -> planner_pb2.SegmentState:
    return planner_pb2.SegmentState(
        name=segment.name,
        token_count=segment.tokens,
        exactness=f'EXACTNESS_{segment.exactness.name}',
        stalest_observation_epoch=segment.stalest_epoch,
        freshest_observation_epoch=segment.freshest_epoch,
    )
