# SPDX-License-Identifier: Apache-2.0
"""The memory of a task, tool calls and certificates, to and from messages; for ``wire`` only.

A call that breaks the contract is refused, never executed.
"""

from onboard_decoder.errors import PlanRefused
from onboard_decoder.plan import Certificate, Exactness
from onboard_decoder.task_memory import HistoryEntry, Manner, TaskMemory, Tool, ToolCall
from protos import plan_pb2, planner_pb2

_TOOLS = {plan_pb2.Tool.Value(f'TOOL_{tool.name}'): tool for tool in Tool}
_MANNERS = {plan_pb2.Manner.Value(f'MANNER_{manner.name}'): manner for manner in Manner} | {
    plan_pb2.MANNER_UNSPECIFIED: Manner.NORMAL
}
_EXACTNESS = {plan_pb2.Exactness.Value(f'EXACTNESS_{e.name}'): e for e in Exactness}


def to_memory(memory: TaskMemory, task_number: int, first_entry: int) -> planner_pb2.TaskMemory:
    """Write a memory from one of its entries on; what comes before is known to the backbone."""
    return planner_pb2.TaskMemory(
        trial=memory.trial,
        lessons=memory.lessons,
        first_entry=first_entry,
        entries=[_entry(entry) for entry in memory.entries[first_entry:]],
        purpose=f'PURPOSE_{memory.purpose.name}',
        hand_holds=memory.hand_holds,
        expected_resume_ms=round(memory.expected_resume_s * 1000),
        task_number=task_number,
    )


def _entry(entry: HistoryEntry) -> planner_pb2.HistoryEntry:
    call = entry.call
    return planner_pb2.HistoryEntry(
        step_id=entry.step_id,
        call=plan_pb2.ToolCall(
            tool=f'TOOL_{call.tool.name}',
            object=call.object_name,
            target=call.target_name,
            manner=f'MANNER_{call.manner.name}',
            question=call.question,
        ),
        result=f'STEP_RESULT_{entry.result.name}',
    )


def from_call(call: plan_pb2.ToolCall) -> ToolCall:
    """Read a tool call. Raises PlanRefused for a tool or manner that this robot does not know."""
    tool, manner = _TOOLS.get(call.tool), _MANNERS.get(call.manner)
    if tool is None or manner is None:
        raise PlanRefused(f'call has tool {call.tool} and manner {call.manner}')
    return ToolCall(tool, call.object, call.target, manner, call.question)


def from_certificate(certificate: plan_pb2.Certificate) -> Certificate | None:
    """Read what a plan rests on; None where that is in words of a later version."""
    exactness = _EXACTNESS.get(certificate.exactness)
    if exactness is None:
        return None
    return Certificate(
        stalest_epoch=certificate.stalest_observation_epoch,
        freshest_epoch=certificate.freshest_observation_epoch,
        exactness=exactness,
        prefix_hash=certificate.prefix_hash,
    )
