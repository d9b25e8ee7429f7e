# SPDX-License-Identifier: Apache-2.0
"""Promises of the tasks of the bench: every arm meets the same, and what is counted is what is."""

from onboard_decoder.config import RobotSettings
import pytest
from sim.mishaps import draw_mishap, MISHAPS
from sim.tasks import draw_task
from tendon.bench_agent.figures import TASK_KEYS
from tendon.bench_agent.rate import Rate
from tendon.bench_agent.task_figures import Run, task_figures
from tendon.bench_agent.tasks import ARMS, CASES, jobs
from tendon.episode import EpisodeResult


def run(
    arm: str = 'react', mishap: str = 'none', won: bool = True, trials: int = 1,
    outcome: str = 'done', kind: str = 'put',
) -> Run:
    """Make one episode."""
    return Run(arm, EpisodeResult(
        0, 'known', kind, '', won, False, None, outcome, '', 1, trials, 1.0, mishap
    ))


def test_arms_meet_the_same_tasks() -> None:
    """Every seed is the same task with the same mishap for each arm."""
    drawn = jobs(7, 2 * len(CASES))
    assert len({(job.seed, job.arm) for job in drawn}) == len(drawn) == 6 * len(CASES)
    assert len({(job.seed, job.kind, job.mishap) for job in drawn}) == 2 * len(CASES)
    assert {job.arm for job in drawn} == set(ARMS)


def test_every_mishap_happens() -> None:
    """Each kind of mishap fits the kinds of task that it is paired with, and all have a share."""
    shares = dict.fromkeys(MISHAPS, 0)
    for seed, (kind, mishap) in enumerate(CASES):
        _, task = draw_task(seed, 'test', kind=kind)
        assert draw_mishap(seed, task, (mishap,)).kind == mishap
        shares[mishap] = shares.get(mishap, 0) + 1
    assert min(shares.values()) >= 3


def test_settings_of_arms_are_known() -> None:
    """The robot takes the settings of every arm."""
    for values in ARMS.values():
        RobotSettings().changed(values)


def test_trials_count_for_lasting_mishaps_alone() -> None:
    """Success by trial grows with the trials, and is over what goes wrong every time."""
    found = task_figures([
        run(mishap='slick', trials=2), run(mishap='flat', trials=3),
        run(mishap='flat', won=False, trials=3, outcome='failed'), run(mishap='slick', trials=1),
        run(mishap='moved', won=False, outcome='failed'),
    ])
    assert (found['success_trial1'], found['success_trial2'], found['success_trial3']) == (
        0.25, 0.5, 0.75,
    )
    assert found['success_react'] == 0.0


def test_react_is_compared_by_its_first_trial() -> None:
    """What takes a second trial does not count where nothing goes wrong twice."""
    found = task_figures([
        run(), run(trials=2), run('plain', won=False), run('plain', 'moved'),
        run('plain', 'slick', won=False),
    ])
    assert found['success_react'] == found['success_plain'] == 0.5
    assert found['by_mishap']['slick']['plain'] == [0, 1]


def test_a_false_claim_is_an_overclaim() -> None:
    """Claims that the truth denies count, failures that were told do not, nor do other arms."""
    found = task_figures([
        run(), run(won=False), run(won=False, outcome='failed'),
        run(won=False, kind='absent'), run('plain', won=False),
    ])
    assert found['overclaim_rate'] == 0.5
    assert found['by_mishap']['absent']['false'] == [1, 1]


def test_all_keys_are_there() -> None:
    """The driver finds every figure that it promises."""
    assert set(TASK_KEYS) <= set(task_figures([run(arm) for arm in ARMS]))


@pytest.mark.parametrize(('hits', 'cases', 'low', 'high'), [
    (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (50, 100, 0.4038, 0.5962),
])
def test_intervals_are_wilsons(hits: int, cases: int, low: float, high: float) -> None:
    """Known intervals of 95 % come out; without cases there is none."""
    assert Rate(hits, cases).interval == pytest.approx((low, high), abs=1e-4)
    assert Rate(0, 0).interval is None and Rate(0, 0).share is None
