# SPDX-License-Identifier: Apache-2.0
from cloud_backbone.distillation.evaluate import judge, summarise
from cloud_backbone.distillation.scene_shards import Instruction
from cloud_backbone.plan_grammar import PlanDraft
from cloud_backbone.plan_vocabulary import Thing
import pytest

CUBE, BIN = Thing('red', 'cube'), Thing('blue', 'bin')
PUT = PlanDraft('steps', CUBE, BIN, (0.25, 0.5), (0.75, 0.5), 'put')
GONE = PlanDraft('refused', CUBE)


def asked(draft: PlanDraft, template: int = 0) -> Instruction:
    return Instruction(0, 'put it there', draft, 0, 1, template, 'put')


def test_the_worse_location_counts() -> None:
    """The error of a right plan is that of its worse location, in 128ths of the image."""
    given = PlanDraft('steps', CUBE, BIN, (0.25, 0.5), (0.75, 0.5 + 3 / 128), 'put')
    verdict = judge(asked(PUT), given)
    assert verdict.right and verdict.error_px == pytest.approx(3.0)


def test_swapped_things_are_wrong() -> None:
    """A plan that puts the bin into the cube is not right and has no error."""
    given = PlanDraft('steps', BIN, CUBE, (0.75, 0.5), (0.25, 0.5), 'put')
    verdict = judge(asked(PUT), given)
    assert not verdict.right and verdict.error_px is None


def test_refusals_are_counted_by_what_was_there() -> None:
    """Refused absent and refused present things are separate shares."""
    verdicts = [judge(asked(GONE), GONE), judge(asked(PUT), GONE), judge(asked(PUT), PUT)]
    scores = summarise(verdicts)
    assert scores['absent_refused'] == 1.0 and scores['present_refused'] == 0.5
    assert scores['plans_right'] == pytest.approx(2 / 3)


def test_unseen_wordings_are_apart() -> None:
    """Templates kept out of training have their own share."""
    scores = summarise([judge(asked(PUT, 1003), PUT), judge(asked(PUT), GONE)])
    assert scores['unseen_wording_right'] == 1.0 and scores['known_wording_right'] == 0.0
