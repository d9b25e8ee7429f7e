# SPDX-License-Identifier: Apache-2.0
"""Promises of the plan language."""

import itertools
from pathlib import Path
import random

from cloud_backbone.plan_grammar import (
    bin_of,
    Choice,
    compose,
    fault_of,
    Location,
    LOCATION_BINS,
    moves,
    parse,
    PlanDraft,
    thought_of,
    value_of,
)
from cloud_backbone.plan_vocabulary import Thing, Vocabulary
import pytest

VOCABULARY = Vocabulary()
CUBE = Thing('red', 'cube')
BIN = Thing('blue', 'bin')
POINT = (value_of(42), value_of(69))


def walk(strict: bool, seed: int) -> tuple[PlanDraft, str]:
    """Answer every move at random; return the draft and the text that was written."""
    generator = random.Random(seed)
    plan = moves(VOCABULARY)
    text, reply = '', None
    while True:
        try:
            move = plan.send(reply)
        except StopIteration as end:
            return end.value, text
        if isinstance(move, Choice):
            assert set(move.sensible) <= set(move.texts)
            reply = generator.choice(move.sensible if strict else move.texts)
            text += reply
        else:
            assert isinstance(move, Location)
            index = generator.randrange(LOCATION_BINS)
            reply = value_of(index)
            text += f'<{index:03d}>'


def test_put_text_is_the_agreed_one() -> None:
    """A put plan is written exactly as the data set writes it."""
    draft = PlanDraft('steps', CUBE, BIN, POINT, POINT, 'put')
    assert compose(draft) == (
        ' The red cube is at <042><069>, the blue bin at <042><069>.'
        ' Plan: reach A, grasp A, lift, move B, place B, lift, home.'
    )
    assert thought_of(draft) == ('The red cube is at <042><069>, the blue bin at <042><069>.')


def test_refusal_and_done_have_their_own_texts() -> None:
    """An absent thing and a fulfilled instruction end the text without a plan."""
    assert compose(PlanDraft('refused', CUBE)) == ' There is no red cube. Stop.'
    assert compose(PlanDraft('done', CUBE, None, POINT)) == ' The red cube is at <042><069>. Done.'


@pytest.mark.parametrize('strict', [False, True])
def test_every_walk_writes_the_text_of_its_draft(strict: bool) -> None:
    """Whatever a model chooses, its text parses back to the draft that the moves return."""
    for seed in range(300):
        draft, text = walk(strict, seed)
        assert compose(draft) == text
        assert parse(text, VOCABULARY) == draft


def test_strict_walks_have_no_fault() -> None:
    """A model that is led strictly can only write plans that make sense."""
    drafts = [walk(True, seed)[0] for seed in range(300)]
    assert [fault_of(draft, VOCABULARY) for draft in drafts] == [None] * 300
    assert {draft.task for draft in drafts} == {None, 'pick', 'put', 'stack', 'push'}


@pytest.mark.parametrize(
    ('a', 'b', 'task'),
    [
        (BIN, None, 'pick'),
        (CUBE, CUBE, 'stack'),
        (CUBE, BIN, 'stack'),
        (CUBE, Thing('blue', 'cube'), 'put'),
        (CUBE, Thing('blue', 'ball'), 'stack'),
        (Thing('red', 'ball'), CUBE, 'stack'),
        (Thing('red', 'ball'), BIN, 'push'),
    ],
)
def test_senseless_plans_have_a_fault(a: Thing, b: Thing | None, task: str) -> None:
    """Handling a bin, a thing and itself, or a wrong kind of target is named as a fault."""
    fault = fault_of(PlanDraft('steps', a, b, POINT, POINT if b else None, task), VOCABULARY)
    assert fault is not None
    assert str(a) in fault


@pytest.mark.parametrize(
    'text',
    [
        '',
        'The red cube is at <042><069>. Done.',
        ' The red cube is at <042><128>. Done.',
        ' The red plane is at <042><069>. Done.',
        ' The red cube is at <042><069>. Plan: fly.',
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    """What compose cannot have written does not parse."""
    with pytest.raises(ValueError, match='not a plan|outside|unknown'):
        parse(text, VOCABULARY)


def test_bins_cover_the_image() -> None:
    """Each bin's middle lies in that bin, and values outside go to the outermost bins."""
    assert [bin_of(value_of(index)) for index in range(LOCATION_BINS)] == list(range(128))
    assert (bin_of(-3.0), bin_of(1.0), bin_of(7.0)) == (0, 127, 127)


def test_vocabulary_survives_the_file(tmp_path: Path) -> None:
    """A saved grammar loads as the same things and heights; a broken file is named."""
    VOCABULARY.save(tmp_path)
    loaded = Vocabulary.load(tmp_path)
    assert loaded.things == VOCABULARY.things
    assert loaded.kinds == VOCABULARY.kinds
    (tmp_path / 'grammar.json').write_text('{"kinds": 3}')
    with pytest.raises(ValueError, match='is no grammar'):
        Vocabulary.load(tmp_path)


def test_names_are_unique() -> None:
    """No two things share a name, and bins come in white and black too."""
    names = [str(thing) for thing in VOCABULARY.things]
    assert len(set(names)) == len(names) == 3 * 6 + 8
    assert all(a != b for a, b in itertools.combinations(names, 2))
