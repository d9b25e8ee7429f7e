# SPDX-License-Identifier: Apache-2.0
"""What the robot says of itself, as diagnostic_msgs: one entry per task, with a level.

Names are "node: task", as diagnostic_updater makes them. Knows no node.
"""

from collections.abc import Mapping
from dataclasses import asdict

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from onboard_decoder.command_loop import LoopStatistics
from onboard_decoder.fallback.watchdog import Fault, Reaction, REACTIONS
from onboard_decoder.latency_budget import TurnTrace
from onboard_decoder.runtime import Runtime
from onboard_decoder.status import RobotStatus

_EVERYDAY = ('filter_stopping', 'filter_position', 'chunks_old_epoch', 'chunks_out_of_order')
OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR


def diagnose(node: str, runtime: Runtime, process_priority: str, stamp: Time) -> DiagnosticArray:
    """Return the diagnostics of this moment."""
    status, loop = runtime.robot.status(), runtime.loop.statistics()
    array = DiagnosticArray()
    array.header.stamp = stamp
    array.status = [
        _loop(node, loop, status, {'process': process_priority, 'loop': runtime.priority.state}),
        _backbone(node, status, runtime.last_trace),
        _task(node, status),
        _motion(node, status),
        *(_fault(node, status, fault) for fault in Fault),
    ]
    return array


def _loop(
    node: str, loop: LoopStatistics, status: RobotStatus, scheduling: Mapping[str, str]
) -> DiagnosticStatus:
    """Ticks, lateness, scheduling."""
    level, text = OK, f'{loop.tick_count} ticks'
    if not status.is_active:
        text = 'inactive'
    elif loop.error_count:
        level, text = ERROR, f'{loop.error_count} ticks failed'
    elif loop.missed_count:
        level, text = WARN, f'{loop.missed_count} of {loop.tick_count} ticks missed'
    return _entry(f'{node}: command loop', level, text, {
        'ticks': loop.tick_count,
        'missed': loop.missed_count,
        'starved': status.starved_ticks,
        'rate_hz': round(loop.rate_hz, 4),
        'lateness_ms_p50': round(loop.jitter_ms_p50, 3),
        'lateness_ms_max': round(loop.jitter_ms_max, 3),
        'period_ms_min': round(loop.period_ms_min, 3),
        'period_ms_max': round(loop.period_ms_max, 3),
        'period_error_ms_p50': round(loop.period_error_ms_p50, 4),
        'work_ms_max': round(loop.work_ms_max, 3),
        'scheduling_process': scheduling['process'],
        'scheduling_loop': scheduling['loop'],
    })


def _backbone(node: str, status: RobotStatus, trace: TurnTrace | None) -> DiagnosticStatus:
    """Link and the newest turn's times."""
    level = OK if status.link == 'ready' else ERROR if status.link == 'lost' else WARN
    values: dict[str, object] = {'link': status.link, 'trouble': status.trouble}
    if status.quality is not None:
        values |= {
            name: 'unknown' if value is None else round(value, 4)
            for name, value in asdict(status.quality).items()
        }
    if status.choice is not None:
        values |= {'plans': status.choice.source.value, 'because': status.choice.reason}
    if trace is not None:
        values.update({
            f'{stage}_ms': round(duration_ns / 1e6, 3)
            for stage, duration_ns in trace.stages_ns().items()
        })
        values['backbone_ms'] = round(trace.backbone_total_ns / 1e6, 3)
        values['image_quality'] = trace.image_quality
        if trace.wall_ns is not None:
            values['end_to_end_ms'] = round(trace.wall_ns / 1e6, 3)
    return _entry(f'{node}: backbone', level, status.link_reason, values)


def _task(node: str, status: RobotStatus) -> DiagnosticStatus:
    """What the agent is doing, and the faults that keep it from it."""
    level = ERROR if {'brake', 'hold'} & set(status.faults.values()) else OK
    if level == OK and status.faults:
        level = WARN
    text = ', '.join(f'{name}: {what}' for name, what in status.faults.items()) or status.phase
    return _entry(f'{node}: task', level, text, {
        'phase': status.phase,
        'instruction': status.instruction,
        'attempt': status.attempt,
        'step': f'{status.step_index + 1}/{status.step_count} {status.step}',
        'waits_for': status.waits_for,
        'tool': status.tool,
        'question': status.question,
        'notice': status.notice,
    })


def _motion(node: str, status: RobotStatus) -> DiagnosticStatus:
    """What was refused; limiting at the end of a joint's range is everyday work."""
    refused = sum(n for name, n in status.counts.items() if name not in _EVERYDAY)
    text = f'{refused} refused' if refused else 'nothing refused'
    values = {**status.counts, 'decoder_ms': status.decoder_ms, 'pace': status.pace}
    return _entry(f'{node}: motion', WARN if refused else OK, text, values)


def _fault(node: str, status: RobotStatus, fault: Fault) -> DiagnosticStatus:
    """One fault: is it there, since when, how often has it come, and what is done about it."""
    known, reaction = status.fault_log.get(fault.value), REACTIONS[fault]
    count, lasts_s = (known.count, known.lasts_s) if known is not None else (0, None)
    level, text = OK, 'not there'
    if lasts_s is not None:
        level = ERROR if reaction >= Reaction.HOLD else WARN
        text = f'{reaction.word}, for {lasts_s:.1f} s'
    elif count:
        text = f'over, came {count} times'
    return _entry(f'{node}: fault {fault.value}', level, text, {
        'is_there': lasts_s is not None,
        'lasts_s': '' if lasts_s is None else lasts_s,
        'count': count,
        'reaction': reaction.word,
    })


def _entry(name: str, level: bytes, text: str, values: Mapping[str, object]) -> DiagnosticStatus:
    return DiagnosticStatus(
        name=name, level=level, message=text, hardware_id='',
        values=[KeyValue(key=key, value=str(value)) for key, value in values.items()],
    )
