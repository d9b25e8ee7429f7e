# SPDX-License-Identifier: Apache-2.0
"""Promises of sim.instructions."""

from dataclasses import dataclass

import numpy as np
import pytest
from sim.entity import HELD_OUT
from sim.instructions import sample
from sim.wordings import TRAINING, UNSEEN


@dataclass
class Entity:
    """The least that an instruction needs to know."""

    kind: str
    colour: str
    inside: int = -1
    held: bool = False
    x: float = 0.0
    y: float = 0.0


THINGS = [
    Entity('cube', 'red', x=0.4, y=0.2),
    Entity('ball', 'blue', inside=2),
    Entity('bin', 'white', x=0.5, y=-0.1),
    Entity('cylinder', 'green', x=0.45, y=0.1),
    Entity('bin', 'black', x=0.4, y=-0.2),
]


def draw(count: int, **options: object) -> list:
    """Return many instructions about one scene."""
    rng = np.random.default_rng(3)
    return [sample(rng, THINGS, **options) for _ in range(count)]


def test_a_fulfilled_relation_is_never_asked_as_steps() -> None:
    """A thing that already lies in its bin is 'done', and nothing is taken out of a bin."""
    for said in draw(500):
        if said.outcome == 'steps':
            assert said.a != ('blue', 'ball')
        if said.outcome == 'done':
            assert (said.a, said.b) == (('blue', 'ball'), ('white', 'bin'))


def test_a_refused_instruction_names_something_that_is_not_there() -> None:
    """Exactly one of thing and place is missing, and its index says which."""
    here = {(thing.colour, thing.kind) for thing in THINGS}
    for said in draw(300, outcome='refused'):
        missing = said.a if said.a_index < 0 else said.b
        assert missing not in here
        assert said.a_index < 0 or said.b_index < 0


def test_unseen_wordings_share_no_template_with_the_known_ones() -> None:
    """Evaluation wordings are never trained on."""
    for task, templates in UNSEEN.items():
        assert not set(templates) & set(TRAINING[task])


def test_held_out_names_are_absent_unless_asked_for() -> None:
    """Training never hears of a held-out colour and kind."""
    for said in draw(500):
        assert said.a not in HELD_OUT or said.a in {(t.colour, t.kind) for t in THINGS}


def test_same_seed_gives_same_sentences() -> None:
    """Instructions are a function of the seed."""
    assert draw(50) == draw(50)


def test_an_empty_scene_is_refused() -> None:
    """A scene about which nothing can be asked raises ValueError."""
    with pytest.raises(ValueError, match='nothing can be asked'):
        sample(np.random.default_rng(0), [], outcome='steps')


@pytest.mark.parametrize('table', [TRAINING, UNSEEN])
def test_every_template_names_what_it_needs(table: dict) -> None:
    """A template of a two-place task names both, a pick names one."""
    for task, templates in table.items():
        for template in templates:
            assert '{a}' in template
            assert ('{b}' in template) == (task != 'pick')
