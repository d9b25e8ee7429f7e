# SPDX-License-Identifier: Apache-2.0
"""How good an onboard planner is on scenes that it has not seen, and how sure it may be.

Asks the file that the robot runs, through the code that the robot runs. Knows the truth of the
simulator as far as the shards tell it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
import math

import numpy as np
from onboard_decoder.fallback.heard_request import TooHard
from onboard_decoder.fallback.onboard_model import Curve
from onboard_decoder.fallback.simple_planner import SimplePlanner
from onboard_decoder.manifest import Manifest
from onboard_decoder.observation_intake import JointState
from onboard_decoder.plan import ActionPlan, Outcome
from onboard_decoder.training.planner_data import Pictures, Sentence

NEAR_PX = 4.0
"""A thing is the right one if it is found no farther than this from its centre [px of 128]."""


@dataclass(frozen=True)
class Trial:
    """One sentence about one scene, the answer, and whether that was right.

    ``error_px`` is the larger distance of thing and place to where they are, None without steps.
    """

    sentence: Sentence
    answer: ActionPlan | TooHard
    is_right: bool
    error_px: float | None


def ask_all(planner: SimplePlanner, pictures: Pictures, manifest: Manifest) -> list[Trial]:
    """Ask the planner every sentence."""
    joints = JointState(0, manifest.home, 0 * manifest.home)
    trials = []
    for sentence in pictures.sentences:
        answer = planner.plan(sentence.text, pictures.image[sentence.scene], joints)
        error = _error_px(answer, sentence, pictures)
        trials.append(Trial(sentence, answer, _is_right(answer, sentence, error), error))
    return trials


def _is_right(answer: ActionPlan | TooHard, sentence: Sentence, error: float | None) -> bool:
    if isinstance(answer, TooHard) or sentence.task not in ('pick', 'put'):
        return False
    if answer.outcome.value != sentence.outcome:
        return False
    if answer.outcome is Outcome.STEPS:
        is_pick = answer.ends_holding
        return error is not None and error <= NEAR_PX and is_pick == (sentence.task == 'pick')
    if answer.outcome is Outcome.REFUSED:
        gone = sentence.a if sentence.a_index < 0 or sentence.b is None else sentence.b
        return ' '.join(gone) in answer.reason
    return True


def _error_px(
    answer: ActionPlan | TooHard, sentence: Sentence, pictures: Pictures
) -> float | None:
    if isinstance(answer, TooHard) or sentence.a_index < 0:
        return None
    points = [step.point for step in answer.steps if step.point is not None]
    if not points:
        return None
    wanted = [(points[0], sentence.a_index)]
    if sentence.b_index >= 0:
        wanted.append((points[-1], sentence.b_index))
    side = pictures.image.shape[1]
    truth = pictures.point[sentence.scene]
    return max(math.dist(point, truth[index].tolist()) * side for point, index in wanted)


def curves_of(trials: Sequence[Trial]) -> dict[str, Curve]:
    """Fit for each kind of answer how its score becomes the share that is right.

    The planner that was asked must have had curves of slope 1 and offset 0.
    """
    return {
        outcome.value: _fitted([
            (trial.answer.confidence, trial.is_right) for trial in trials
            if isinstance(trial.answer, ActionPlan) and trial.answer.outcome is outcome
        ])
        for outcome in (Outcome.STEPS, Outcome.DONE, Outcome.REFUSED)
    }


def _fitted(pairs: Sequence[tuple[float, bool]]) -> Curve:
    """Return a logistic curve, by Newton's method with a weak pull to slope 1 and offset 0."""
    if not pairs:
        return Curve(1.0, 0.0)
    shares = np.clip([share for share, _ in pairs], 1e-6, 1 - 1e-6)
    logit = np.log(shares / (1 - shares))
    x = np.stack([logit, np.ones_like(logit)], axis=1)
    y = np.array([float(right) for _, right in pairs])
    start = np.array([1.0, 0.0])
    weights, pull = start.copy(), np.eye(2)
    for _ in range(50):
        guess = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        slope = x.T @ (guess - y) + pull @ (weights - start)
        bend = (x * (guess * (1 - guess))[:, None]).T @ x + pull
        weights = weights - np.linalg.solve(bend, slope)
    return Curve(round(float(max(weights[0], 0.0)), 4), round(float(weights[1]), 4))


def scores(trials: Sequence[Trial], least: float) -> dict[str, float]:
    """Return the figures of the card; only answers of at least that confidence count as given."""
    figures: dict[str, float] = {}
    for wording, unseen in (('known', False), ('unseen', True)):
        part = [t for t in trials if t.sentence.has_unseen_wording is unseen]
        for task in ('pick', 'put'):
            asked = [t for t in part if t.sentence.task == task]
            figures |= _shares(f'{task}, {wording} wording', asked, least)
        absent = [t for t in part if t.sentence.outcome == 'refused'
                  and t.sentence.task in ('pick', 'put')]
        figures |= _shares(f'not there, {wording} wording', absent, least)
    hard = [t for t in trials if t.sentence.task in ('stack', 'push')]
    figures['stack or push left to the backbone'] = _mean(not _given(t, least) for t in hard)
    errors = [t.error_px for t in trials if _given(t, least) and t.error_px is not None]
    if errors:
        figures['distance p50 [px of 128]'] = float(np.median(errors))
        figures['distance p95 [px of 128]'] = float(np.percentile(errors, 95))
        figures['distance > 4 px'] = _mean(error > NEAR_PX for error in errors)
    figures |= _calibration(trials, least)
    return figures


def _shares(name: str, trials: Sequence[Trial], least: float) -> dict[str, float]:
    """Return how many were answered, and how many of the answers were right."""
    given = [t for t in trials if _given(t, least)]
    return {f'{name}: answered': _mean(_given(t, least) for t in trials),
            f'{name}: right of these': _mean(t.is_right for t in given)}


def _calibration(trials: Sequence[Trial], least: float) -> dict[str, float]:
    """Return by how much confidence and share of right answers differ, over ten bins."""
    given = [(t.answer.confidence, t.is_right) for t in trials if isinstance(t.answer, ActionPlan)]
    bins: Mapping[int, list[tuple[float, bool]]] = {
        number: [pair for pair in given if min(int(pair[0] * 10), 9) == number]
        for number in range(10)
    }
    error = sum(
        len(pairs) * abs(_mean(share for share, _ in pairs) - _mean(right for _, right in pairs))
        for pairs in bins.values() if pairs)
    sure = [pair for pair in given if pair[0] >= least]
    return {'calibration error': error / max(len(given), 1),
            'confidence of answers given': _mean(share for share, _ in sure),
            'answers given that are right': _mean(right for _, right in sure)}


def _given(trial: Trial, least: float) -> bool:
    return isinstance(trial.answer, ActionPlan) and trial.answer.confidence >= least


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return float(np.mean(listed)) if listed else math.nan
