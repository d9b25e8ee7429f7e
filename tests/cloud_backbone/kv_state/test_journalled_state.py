# SPDX-License-Identifier: Apache-2.0
"""Promises of a state with a journal: killed anywhere, it is the state of an uninterrupted run."""

from dataclasses import replace
from pathlib import Path
import shutil
from typing import Any

from cloud_backbone.kv_cache.block_pool import BlockPool
from cloud_backbone.kv_cache.errors import PoolFullError
from cloud_backbone.kv_state.errors import (
    Corrupt,
    FingerprintMismatch,
    StaleEpoch,
    StepConflict,
    StepGap,
    StoreError,
)
from cloud_backbone.kv_state.exactness import Grade
from cloud_backbone.kv_state.gate import Gate
from cloud_backbone.kv_state.journal import Journal, read_journal
from cloud_backbone.kv_state.journalled_state import JournalledState
from cloud_backbone.kv_state.operation import Operation
from cloud_backbone.kv_state.restore import Target
import pytest
import torch

from tests.fakes.journalled_runs import (
    CHECKPOINT_STEPS,
    Death,
    in_child,
    opened,
    plan,
    run,
    seen,
    target,
    words,
)


@pytest.mark.filterwarnings('ignore:This process .* is multi-threaded:DeprecationWarning')
@pytest.mark.slow
@pytest.mark.parametrize(('name', 'policy', 'share', 'stride'), [
    ('llama', 'full', 0.5, 1), ('qwen-image', 'kivi4', 0.3, 5),
])
def test_kill_at_every_point(
    tmp_path: Path, name: str, policy: str, share: float, stride: int
) -> None:
    """Killed at any call that changes the disk, nothing answered is lost, nothing done twice."""
    steps, more = plan(name), {'name': name, 'policy': policy}
    wanted = run(tmp_path / 'whole', steps, **more)
    call, killed = 0, True
    while killed:
        folder, told = tmp_path / f'at-{call}', tmp_path / f'told-{call}'
        death = Death(call, share)

        def work(folder: Path = folder, told: Path = told, death: Death = death) -> None:
            with told.open('wb', buffering=0) as stream:
                death.install(setattr)
                one = opened(folder, **more)
                for number, operation in enumerate(steps):
                    one.step(number, operation)
                    stream.write(b'.')

        killed = in_child(work)
        answered = told.stat().st_size
        one = opened(folder, **more)
        assert answered <= one.ledger.expected <= answered + 1
        assert seen(one) == wanted[one.ledger.expected]
        for number, operation in enumerate(steps):  # all again, as a robot that knows nothing
            one.step(number, operation)
        assert seen(one) == wanted[-1]
        one.close()
        shutil.rmtree(folder)
        call += stride
    assert call > 4 * len(steps)


def test_journal_cut_at_every_byte_of_the_last_step(tmp_path: Path) -> None:
    """Wherever the last records end, the state is the one before or after the last step."""
    steps = plan()
    wanted = run(tmp_path / 'whole', steps)
    one = opened(tmp_path / 'cut')
    for number, operation in enumerate(steps[:-1]):
        one.step(number, operation)
    (journal,) = (tmp_path / 'cut').glob('journal-*')
    before = journal.stat().st_size
    one.step(len(steps) - 1, steps[-1])
    one.close()
    whole = journal.read_bytes()
    found = set()
    for size in range(before, len(whole) + 1):
        shutil.copytree(tmp_path / 'cut', tmp_path / 'copy')
        (tmp_path / 'copy' / journal.name).write_bytes(whole[:size])
        copy = opened(tmp_path / 'copy')
        assert seen(copy) == wanted[copy.ledger.expected]
        found.add(copy.ledger.expected)
        copy.close()
        shutil.rmtree(tmp_path / 'copy')
    assert found == {len(steps) - 1, len(steps)}


def test_duplicates_gaps_and_conflicts(tmp_path: Path) -> None:
    """A step sent twice is answered twice and taken once; also after a restart."""
    steps, one = plan(), opened(tmp_path / 'a')
    first = [one.step(number, operation) for number, operation in enumerate(steps)]
    for _ in range(2):
        before = seen(one)
        assert [one.step(number, step) for number, step in enumerate(steps)] == first
        with pytest.raises(StepGap) as gap:
            one.step(len(steps) + 3, steps[1])
        assert gap.value.expected == len(steps)
        with pytest.raises(StepConflict):
            one.step(2, steps[1])
        assert seen(one) == before
        one.close()
        one = opened(tmp_path / 'a')
    one.close()


def test_refused_step_frees_its_id_and_changes_nothing(tmp_path: Path) -> None:
    """An edit that cannot be done is an error now, and is not tried again after a restart."""
    steps, one = plan(), opened(tmp_path / 'a')
    one.step(0, steps[0])
    before = seen(one)
    with pytest.raises(Exception, match='scenery'):
        one.step(1, Operation('append', {'name': 'scenery', 'tokens': [5]}))
    assert seen(one) == before
    one.step(1, steps[1])
    after = seen(one)
    one.close()
    one = opened(tmp_path / 'a')
    assert seen(one) == after
    one.close()


def test_full_pool_loses_nothing(tmp_path: Path) -> None:
    """A step for which there is no page is refused; with more room the session goes on."""
    steps = plan()
    wanted = run(tmp_path / 'whole', steps)
    one = opened(tmp_path / 'a', pool=BlockPool(20_000))
    taken = 0
    with pytest.raises(PoolFullError):
        for number, operation in enumerate(steps):
            one.step(number, operation)
            taken += 1
    assert one.ledger.expected == taken
    one.close()
    one = opened(tmp_path / 'a')
    for number, operation in enumerate(steps):
        one.step(number, operation)
    assert seen(one) == wanted[-1]
    one.close()


def test_old_epoch_is_fenced_off(tmp_path: Path) -> None:
    """Each opening is a new epoch; who still holds the old one cannot write."""
    steps, one = plan(), opened(tmp_path / 'a')
    assert one.epoch == 1
    one.step(0, steps[0], epoch=1)
    one.close()
    one = opened(tmp_path / 'a')
    assert one.epoch == 2
    with pytest.raises(StaleEpoch, match='epoch 1 is over, the session is in epoch 2'):
        one.step(1, steps[1], epoch=1)
    one.step(1, steps[1], epoch=2)
    one.close()


def test_only_one_process_has_the_folder(tmp_path: Path) -> None:
    """A second opening is refused while the first one lives."""
    one = opened(tmp_path / 'a')
    with pytest.raises(StoreError, match='in use by another process'):
        opened(tmp_path / 'a')
    one.close()
    opened(tmp_path / 'a').close()


def test_damage_in_the_middle_is_told_and_nothing_is_changed(tmp_path: Path) -> None:
    """A damaged record is Corrupt; no later step is dropped in silence."""
    run(tmp_path / 'a', plan()[:2])
    (journal,) = (tmp_path / 'a').glob('journal-*')
    bad = bytearray(journal.read_bytes())
    bad[len(bad) // 3] ^= 1
    journal.write_bytes(bad)
    with pytest.raises(Corrupt, match='journal-0: record'):
        opened(tmp_path / 'a')
    assert journal.read_bytes() == bad


def test_damaged_keys_are_computed_anew_with_the_reason(tmp_path: Path) -> None:
    """Where a snapshot lost numbers but not tokens, the session goes on, and says so."""
    steps = plan()
    wanted = run(tmp_path / 'a', steps)
    (file,) = (tmp_path / 'a').glob('snapshot-*')
    bad = bytearray(file.read_bytes())
    bad[-2000] ^= 1
    file.write_bytes(bad)
    one = opened(tmp_path / 'a')
    assert 'its checksum does not fit' in one.reason
    assert one.state.segments[0].tokens == wanted[-1]['segments'][0].tokens
    assert one.ledger.state() == wanted[-1]['ledger']
    torch.testing.assert_close(
        one.state.next_logits(), torch.tensor(wanted[-1]['logits']), rtol=1e-4, atol=1e-4
    )
    one.close()


def test_another_tokenizer_is_refused(tmp_path: Path) -> None:
    """A folder of another model's words is not taken up, and stays as it is."""
    run(tmp_path / 'a', plan())
    before = sorted(file.name for file in (tmp_path / 'a').iterdir())
    other = target()
    changed = Target(
        other.model, other.pool, other.policy,
        type(other.fingerprint)(**{**other.fingerprint.words(), 'tokenizer': 'other'}),
    )
    with pytest.raises(FingerprintMismatch, match='tokenizer'):
        JournalledState.open(tmp_path / 'a', changed)
    assert sorted(file.name for file in (tmp_path / 'a').iterdir()) == before
    opened(tmp_path / 'a').close()


def test_journal_stays_bounded(tmp_path: Path) -> None:
    """However many steps are taken, the folder holds one snapshot and a short journal."""
    one = opened(tmp_path / 'a')
    for number in range(40):
        one.step(number, Operation(
            'commit_step',
            {'history': [3 + number % 9], 'scene': words(4, number), 'epoch': number},
        ))
    one.close()
    names = sorted(file.name for file in (tmp_path / 'a').iterdir())
    assert len(names) == 3
    assert names[0].startswith('journal-') and names[2].startswith('snapshot-')
    assert len(read_journal(tmp_path / 'a' / names[0]).records) <= 2 * CHECKPOINT_STEPS


def test_approximate_edits_are_done_again_as_they_were(tmp_path: Path) -> None:
    """An edit that is not exact is not made exact by a restart, nor worse: the same bits."""
    gate = Gate(unmeasured=True)
    steps = [
        Operation('append', {'name': name, 'tokens': words(8, seed)})
        for seed, name in enumerate(('goal', 'history', 'scene'))
    ]
    steps.append(Operation(
        'replace', {'name': 'history', 'tokens': words(5, 9), 'mode': ['stale', 0]}
    ))
    steps.append(Operation('move', {'name': 'goal', 'index': 1, 'mode': ['partial', 2]}))
    for number, operation in enumerate(steps):
        one = JournalledState.open(tmp_path / 'a', replace(target(), gate=gate))
        one.step(number, operation)
        wanted = seen(one)
        one.close()
        one = JournalledState.open(tmp_path / 'a', replace(target(), gate=gate))
        assert seen(one) == wanted
        one.close()
    assert wanted['certificate'].exactness.grade is Grade.APPROXIMATE


def test_words_of_the_owner_come_back(tmp_path: Path) -> None:
    """What the owner keeps beside the state is there after a checkpoint."""
    one = opened(tmp_path / 'a')
    one.words = {'robot': 'r1'}
    one.checkpoint()
    one.close()
    one = opened(tmp_path / 'a')
    assert one.words == {'robot': 'r1'}
    one.close()


def test_disk_that_refuses_an_answer_does_not_double_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that is on the disk and done is not done again, although its answer was not kept."""
    steps, one = plan(), opened(tmp_path / 'a')
    wanted = run(tmp_path / 'whole', steps[:1])
    real = Journal.append

    def refuse(journal: Journal, record: Any) -> None:
        if 'answer' in record:
            raise StoreError('the disk is full')
        real(journal, record)

    monkeypatch.setattr(Journal, 'append', refuse)
    with pytest.raises(StoreError):
        one.step(0, steps[0])
    one.step(0, steps[0])
    assert seen(one) == wanted[-1]
    one.close()
    monkeypatch.undo()
    one = opened(tmp_path / 'a')
    assert seen(one) == wanted[-1]
    one.close()
