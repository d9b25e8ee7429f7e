# SPDX-License-Identifier: Apache-2.0
"""Promises of the cache part of the agent's bench, on the shipped checkpoint."""

from dataclasses import replace
import json

import pytest

torch = pytest.importorskip('torch')
pytest.importorskip('transformers')
pytest.importorskip('matplotlib')

from tendon.bench_agent import contestants  # noqa: E402
from tendon.bench_agent.arm import Cost, Step  # noqa: E402
from tendon.bench_agent.contestants import peers, torch_arms  # noqa: E402
from tendon.bench_agent.edits import measure_edits  # noqa: E402
from tendon.bench_agent.exactness import distances  # noqa: E402
from tendon.bench_agent.figures import late_over_early  # noqa: E402
from tendon.bench_agent.ours import Exact  # noqa: E402
from tendon.bench_agent.race import race  # noqa: E402
from tendon.bench_agent.restoring import restore_over_prefill  # noqa: E402
from tendon.bench_agent.run import run  # noqa: E402
from tendon.bench_agent.script import Event, Script  # noqa: E402
from tendon.bench_agent.size import FULL, QUICK  # noqa: E402
from tendon.bench_agent.stock import common, prefill  # noqa: E402
from tendon.bench_agent.subjects import own  # noqa: E402

SEED = 5
SMALL = replace(QUICK, turns=14, race=14, late=4, lessons_every=8, mend_every=3, restart_every=5)
KEYS = {
    'max_abs_logit_diff', 'tokens_slope_per_turn', 'ttft_ratio_late_early',
    'restore_over_prefill', 'speedup_vs_reprefill', 'success_plain', 'success_react',
    'success_trial1', 'success_trial3', 'overclaim_rate', 'contact_errors', 'machine', 'seed',
    'commit',
}


@pytest.fixture(scope='module')
def subject():
    """The shipped checkpoint."""
    return own()


@pytest.fixture(scope='module')
def turns(subject):
    """The turns of a short session."""
    return list(Script(subject.encode, SMALL, SEED).turns())


@pytest.fixture(scope='module')
def found(subject, turns):
    """The race over these turns."""
    return race(torch_arms(subject, SMALL), turns, SMALL)


def test_script_has_every_event_and_is_a_function_of_the_seed(subject, turns):
    """The same again with the same seed; every segment has its length."""
    assert {turn.event for turn in turns} == set(Event)
    assert list(Script(subject.encode, SMALL, SEED).turns()) == turns
    for turn in turns:
        assert (len(turn.system), len(turn.scene)) == (SMALL.system, SMALL.scene)
        assert {len(entry) for entry in turn.history} == {SMALL.entry}
        assert len(turn.prompt) + len(turn.thought) <= SMALL.most


def test_full_session_stays_in_bounds_and_routine_turns_cost_the_same(subject):
    """200 turns: compaction bounds the tokens, and what a routine turn adds never grows."""
    before, costs = (), set()
    for turn in Script(subject.encode, FULL, SEED).turns():
        new = len(turn.prompt) - common(before, turn.prompt)
        if turn.event is Event.APPEND and before:
            costs.add(new)
        assert len(turn.prompt) < FULL.most
        before = turn.prompt

    assert max(costs) == FULL.entry + FULL.scene
    assert min(costs) > max(costs) - 9  # a scene may begin as the last one did


def test_every_arm_says_what_a_prefill_says(found):
    """The arms that are exact agree with it in all turns, and none of them failed."""
    assert [log.failure for log in found.logs.values() if log.failure] == []
    for name in ('exact', 'DynamicCache'):
        assert found.agreement(name) == 1


def test_exact_arm_computes_what_changed(found):
    """Never more than what differs from the turn before, also after a restart."""
    computed = dict(found.computed('exact'))
    ceiling = dict(found.computed('DynamicCache'))
    for turn, event in enumerate(found.events):
        if event is Event.RESTART:
            assert computed[turn] < ceiling[turn]
        elif turn:
            # What two segments have in common by chance is computed all the same.
            assert computed[turn] <= max(ceiling[turn], SMALL.entry + SMALL.scene) + 3


def test_approximate_arm_computes_less_and_repairs_the_rest(found):
    """After a change in the middle: fewer tokens before the answer, the others after it."""
    exact, quick = found.logs['exact'].steps, found.logs['approximate'].steps
    for turn, event in enumerate(found.events):
        if event in (Event.MEND, Event.LESSON, Event.COMPACTION):
            assert quick[turn].computed < exact[turn].computed
            assert quick[turn].repaired > 0
        assert exact[turn].repaired == 0


def test_state_equals_a_prefill_after_every_operation(subject, tmp_path):
    """Logits to 1e-4, and the same greedy tokens: append, crop, commit_step, fork, restore."""
    measured = distances(subject, replace(SMALL, greedy=16), SEED, tmp_path)

    assert set(measured) == {'append', 'crop', 'commit_step', 'fork', 'restore'}
    for distance in measured.values():
        assert distance.logits < 1e-4
        assert distance.tokens == 0


def test_distance_notices_a_state_that_is_not_exact(subject, tmp_path, monkeypatch):
    """A stale edit that is passed off as exact has a distance."""
    from cloud_backbone.kv_state.replacing import STALE
    from tendon.bench_agent import exactness

    def cheat(state, turn):
        state.replace('goal', turn.goal[::-1], STALE)
        return state

    monkeypatch.setattr(exactness, 'OPERATIONS', {'append': cheat})

    assert distances(subject, SMALL, SEED, tmp_path)['append'].logits > 1e-3


def test_edits_are_measured_against_exact_ones(subject):
    """Each kind has a divergence and saves tokens; leaving the old scene in view saves none."""
    measured = measure_edits(subject, SMALL, SEED)

    for name, row in measured.items():
        assert row['kl'] >= 0
        assert 0 <= row['flips'] <= 1
        if 'stale' in name:
            assert row['tokens'] < row['tokens_exact']
    assert measured['scene: first 8']['kl'] <= measured['scene: old one left']['kl']


def test_restoring_is_cheaper_than_computing(subject, tmp_path):
    """A share of the prefill's time, and a file that holds at least all keys and values."""
    share, nbytes = restore_over_prefill(subject, SMALL, SEED, tmp_path)

    assert 0 < share < 1
    assert nbytes > SMALL.stored * 6 * 2 * 64 * 2 * 4


def test_arm_that_fails_is_named_and_the_others_go_on(subject, turns):
    """A failure is a result with its reason."""
    class Broken:
        name, maker = 'broken', 'nobody'

        def take(self, turn):
            raise RuntimeError('no reason')

        def restart(self):
            return Cost()

        def close(self):
            return None

    found = race([Broken(), Exact(subject.model, SMALL.most)], turns[:3], SMALL)

    assert 'no reason' in found.logs['broken'].failure
    assert len(found.logs['exact'].steps) == 3


def test_restart_counts_what_bringing_back_took(turns):
    """The time of a restart belongs to the first token after it."""
    class Slow:
        name, maker = 'slow', 'nobody'

        def take(self, turn):
            return Step(Cost(1.0, 1.0), 1, 0)

        def restart(self):
            return Cost(10.0, 10.0)

        def close(self):
            return None

    steps = race([Slow()], turns, SMALL).logs['slow'].steps

    for number, turn in enumerate(turns):
        assert steps[number].cost.cpu_s == (11 if turn.event is Event.RESTART else 1)


def test_late_turns_are_timed_beside_early_ones(turns):
    """A young session takes an early turn at each late one; a load of the machine hits both."""
    class Loaded:
        name, maker = 'exact', 'nobody'
        now = 0

        def take(self, turn):
            Loaded.now += 1
            return Step(Cost(Loaded.now, Loaded.now), 1, 0)

        def restart(self):
            return Cost()

        def close(self):
            return None

    found = race([Loaded()], turns, SMALL, young=Loaded())

    assert sorted(found.young.steps) == list(range(4, 8))
    assert late_over_early(found, SMALL) == pytest.approx(1, abs=0.1)
    assert late_over_early(replace(found, young=None), SMALL) > 1.5


def test_peers_that_are_not_installed_are_named(subject, monkeypatch, tmp_path):
    """Each with what to install; a model that no peer can load has none."""
    monkeypatch.setattr(contestants.importlib.util, 'find_spec', lambda name: None)

    arms, missing = peers(replace(subject, folder=tmp_path))

    assert arms == []
    assert set(missing) == {'llama.cpp', 'vLLM'}
    assert 'xllamacpp' in missing['llama.cpp']
    assert peers(subject) == ([], {})


def test_prefill_depends_on_every_token(subject):
    """What all arms are judged by sees the first token, too."""
    one, other = prefill(subject.model, [5, 6, 7, 8]), prefill(subject.model, [9, 6, 7, 8])

    assert not torch.equal(one, other)


def test_quick_bench_ends_with_one_json_line(tmp_path, capsys):
    """Table, picture and JSON; what was not asked for is null."""
    assert run(out=tmp_path, seed=SEED, quick=True, part='cache') == 0

    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(line) >= KEYS
    assert line['max_abs_logit_diff'] < 1e-4
    assert line['success_plain'] is None
    assert line['contact_errors'] == {'exact': None, 'stale': None, 'repair': None}
    assert (tmp_path / 'agent.png').stat().st_size > 10_000
    assert json.loads((tmp_path / 'agent.json').read_text())['seed'] == SEED
