# SPDX-License-Identifier: Apache-2.0
"""Promises of the robot's agent when things go wrong, with a backbone that knows the truth."""

from collections.abc import Iterator

from fakes.agent_oracle import AgentOracle
from fakes.oracle import ExpertDecoder
from onboard_decoder.config import RobotSettings
from onboard_decoder.manifest_yaml import load_manifest
import pytest
from sim.mishaps import draw_mishap, MishapKind
from sim.tasks import draw_task, TaskKind
from tendon.episode import Episode, EpisodeResult

MANIFEST = load_manifest('tendon_arm')
REACT = {'agent.mode': 'react', 'agent.max_trials': 3, 'agent.ask_wait_s': 5.0}


class Runner:
    """Runs tasks with mishaps; keeps one world for all tests."""

    def __init__(self) -> None:
        self.planner: AgentOracle | None = None
        self.episode = Episode(
            MANIFEST, ExpertDecoder(), lambda: self.planner, delay_s=0.16,
            settings=RobotSettings().changed(REACT),
        )

    def run(
        self, seed: int, kind: TaskKind, mishap: MishapKind, lies: bool = False
    ) -> EpisodeResult:
        """Run one task."""
        scene, task = draw_task(seed, 'test', 'known', kind)
        self.planner = AgentOracle(MANIFEST, self.episode._arm, task, lies)
        return self.episode.run(
            seed, 'known', scene, task, draw_mishap(seed, task, (mishap,))
        )


@pytest.fixture(scope='module')
def runner() -> Iterator[Runner]:
    """One world for the module."""
    made = Runner()
    yield made
    made.episode.close()


@pytest.mark.parametrize(('kind', 'mishap'), [
    ('put', 'none'), ('put', 'moved'), ('stack', 'dropped'), ('put', 'blocked'),
    ('stack', 'blocked'),
])
def test_what_goes_wrong_once_is_mended_within_a_trial(
    runner: Runner, kind: TaskKind, mishap: MishapKind
) -> None:
    """Another look, another grasp or a person's help do without a second trial."""
    result = runner.run(1, kind, mishap)
    assert result.is_success
    assert (result.outcome, result.attempts) == ('done', 1)
    assert result.mishap == mishap
    assert (result.mishap_s is not None) == (mishap in ('moved', 'dropped'))
    assert result.questions == (mishap == 'blocked')


@pytest.mark.parametrize(('kind', 'mishap'), [('put', 'slick'), ('pick', 'flat')])
def test_what_goes_wrong_every_time_needs_a_lesson(
    runner: Runner, kind: TaskKind, mishap: MishapKind
) -> None:
    """The first trial fails; what it teaches makes the second one succeed."""
    result = runner.run(2, kind, mishap)
    assert result.is_success
    assert (result.outcome, result.attempts) == ('done', 2)
    assert runner.planner is not None
    lessons = {turn.memory.lessons for turn in runner.planner.turns if turn.memory is not None}
    assert () in lessons and any(lessons)


def test_an_absent_thing_is_looked_for_and_given_up(runner: Runner) -> None:
    """Nothing is touched, and the robot says so."""
    result = runner.run(3, 'absent', 'none')
    assert result.is_success
    assert result.outcome == 'refused'


def test_a_claim_alone_is_no_success(runner: Runner) -> None:
    """A backbone that says done at once does not make the robot say so."""
    result = runner.run(1, 'put', 'none', lies=True)
    assert not result.is_success
    assert result.outcome != 'done'
