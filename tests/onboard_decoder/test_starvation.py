# SPDX-License-Identifier: Apache-2.0
"""Promises of the count of starved ticks."""

from onboard_decoder.starvation import Starvation


def ticks(starvation: Starvation, pattern: str) -> int:
    """Note one tick per letter, t with a target, - without, b braking; return the count."""
    for letter in pattern:
        if letter == 'b':
            starvation.braked()
        else:
            starvation.saw(letter == 't')
    return starvation.count


def running() -> Starvation:
    """Return a count while a step is being run."""
    starvation = Starvation()
    starvation.expect(True)
    return starvation


def test_a_gap_inside_a_run_counts_tick_by_tick() -> None:
    """Each tick without a target after the first chunk is a starved one."""
    assert ticks(running(), 'tt--t-') == 3


def test_ticks_before_the_first_chunk_do_not_count() -> None:
    """The decoder takes its time once, at the start of a run."""
    assert ticks(running(), '---ttt') == 0


def test_nothing_counts_while_no_step_is_run() -> None:
    """An arm without a task has nothing to aim at, and that is right."""
    starvation = Starvation()
    assert ticks(starvation, '--') == 0
    starvation.expect(True)
    ticks(starvation, 'tt')
    starvation.expect(False)
    assert ticks(starvation, '---') == 0


def test_a_new_run_has_its_own_start() -> None:
    """What an earlier run was fed says nothing about the next one."""
    starvation = running()
    ticks(starvation, 'tt')
    starvation.expect(False)
    starvation.expect(True)
    assert ticks(starvation, '--t') == 0
    assert ticks(starvation, '-') == 1


def test_going_on_is_no_new_run() -> None:
    """Saying again and again that a step is run does not hide a gap."""
    starvation = running()
    ticks(starvation, 't')
    starvation.expect(True)
    assert ticks(starvation, '-') == 1


def test_a_brake_interrupts_without_counting() -> None:
    """Braking drops what was played; the ticks until it is fed anew are the brake's doing."""
    assert ticks(running(), 'ttbb--t') == 0
