# SPDX-License-Identifier: Apache-2.0
"""Promises of the bench of moved things, with a backbone that knows the truth."""

from collections.abc import Iterator

from fakes.agent_oracle import AgentOracle
from fakes.oracle import ExpertDecoder
from onboard_decoder.manifest_yaml import load_manifest
import pytest
from sim.mujoco_arm import MujocoArm
from sim.tasks import draw_task
from tendon.bench_agent.figures import ARMS
from tendon.bench_agent.moves import KINDS, Move, move_figures, run_move, settings, WATCH
from tendon.episode import Episode

MANIFEST = load_manifest('tendon_arm')
SEEN = 2        # a seed whose thing is moved while the arm is on its way and does not hide it


@pytest.fixture(scope='module')
def arm() -> Iterator[MujocoArm]:
    """One arm for all."""
    made = MujocoArm()
    yield made
    made.close()


def moved(arm: MujocoArm, name: str, seed: int) -> Move:
    """Run one episode."""
    _, task = draw_task(seed, 'test', kind=KINDS[seed % len(KINDS)])
    episode = Episode(
        MANIFEST, ExpertDecoder(), lambda: AgentOracle(MANIFEST, arm, task), 0.16,
        settings(name), arm=arm,
    )
    return run_move(episode, name, seed)


def test_a_robot_that_looks_on_goes_where_the_thing_is(arm: MujocoArm) -> None:
    """The stale arm goes to the old place; the others ask once more and go to the new one."""
    moves = {name: moved(arm, name, SEEN) for name in WATCH}
    assert all(move.moved_s is not None for move in moves.values())
    assert {name: move.is_beside for name, move in moves.items()} == {
        'exact': False, 'stale': True, 'repair': False,
    }
    assert (moves['stale'].turns, moves['repair'].turns) == (1, 2)
    assert moves['stale'].acted_s == moves['repair'].acted_s


def test_errors_count_where_the_hand_came_first() -> None:
    """Episodes without a move, or without a touch, are no errors and no successes."""
    moves = [
        Move('stale', 0, 1.0, 0.4, 2.0, True, 1), Move('stale', 1, 1.0, 0.6, 2.0, False, 1),
        Move('stale', 2, None, 9.0, 2.0, True, 1), Move('repair', 0, 1.0, 0.5, 3.0, False, 2),
        Move('repair', 1, 1.0, 0.5, None, False, 2),
    ]
    found = move_figures(moves)
    assert found['contact_errors'] == {'exact': None, 'stale': 0.5, 'repair': 0.0}
    assert found['episodes']['repair'] == found['untouched']['repair'] == 1
    assert found['first_action_s']['stale'] == 0.5
    assert found['first_action_over_stale']['repair'] == 1.0
    assert found['first_touch_s'] == {'exact': None, 'stale': 2.0, 'repair': 3.0}
    assert found['revised'] == {'exact': 0, 'stale': 0, 'repair': 2}
    assert set(found['contact_errors']) == set(ARMS)
