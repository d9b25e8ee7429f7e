# SPDX-License-Identifier: Apache-2.0
"""Promises of the robot in lockstep: given right plans and right motion, tasks get done."""

from collections.abc import Iterator

from fakes.oracle import ExpertDecoder, OraclePlanner
from onboard_decoder.manifest_yaml import load_manifest
import pytest
from sim.tasks import draw_task, TaskKind
from tendon.episode import Episode, EpisodeResult

MANIFEST = load_manifest('tendon_arm')


class Runner:
    """Runs tasks with the oracle; keeps one world for all tests."""

    def __init__(self) -> None:
        self._planner: OraclePlanner | None = None
        self.episode = Episode(MANIFEST, ExpertDecoder(), lambda: self._planner, delay_s=0.16)

    def run(self, seed: int, kind: TaskKind) -> EpisodeResult:
        """Run one task."""
        scene, task = draw_task(seed, 'test', 'known', kind)
        self._planner = OraclePlanner(MANIFEST, self.episode._arm, scene, task)
        return self.episode.run(seed, 'known', scene, task)


@pytest.fixture(scope='module')
def runner() -> Iterator[Runner]:
    """One world for the module."""
    made = Runner()
    yield made
    made.episode.close()


@pytest.mark.parametrize('kind', ['put', 'pick', 'stack', 'push'])
def test_right_plans_are_carried_out(runner: Runner, kind: TaskKind) -> None:
    """A task succeeds by the simulator's truth, and the robot says that it is done."""
    result = runner.run(0, kind)
    assert result.is_success
    assert result.outcome == 'done'
    assert result.grounding_px is not None
    assert result.grounding_px < 0.1


def test_a_refusal_moves_nothing(runner: Runner) -> None:
    """An absent thing is refused, and the arm stays where it is."""
    result = runner.run(0, 'absent')
    assert result.is_success
    assert result.outcome == 'refused'
    assert result.attempts == 0


def test_same_seed_gives_the_same_run(runner: Runner) -> None:
    """An episode is a function of its seed: simulated time, not the machine's."""
    assert runner.run(3, 'pick') == runner.run(3, 'pick')
