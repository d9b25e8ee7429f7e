# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest
from sim.arm_geometry import ArmGeometry
from sim.arm_limits import ArmLimits
from sim.demonstrations import (
    Demonstrator,
    FIELDS,
    LONGEST_DELAY_S,
    Settings,
    Shard,
    write_demonstrations,
)
from sim.expert import Expert, Moves, SKILLS

ROOT = Path(__file__).parents[2]
LIMITS = ArmLimits.from_manifest(
    ROOT / 'onboard_decoder' / 'robots' / 'tendon_arm' / 'manifest.yaml')
GEOMETRY = ArmGeometry.from_urdf(ROOT / 'sim' / 'assets' / 'tendon_arm.urdf')


@pytest.fixture(scope='module')
def shard() -> Shard:
    return Demonstrator(GEOMETRY, LIMITS).draw(np.random.default_rng(0), 3000)


def test_every_field_is_finite_and_as_long_as_asked(shard: Shard) -> None:
    """All arrays are there, with one row per sample and no NaN."""
    assert set(shard) == set(FIELDS)
    for name, values in shard.items():
        assert len(values) == 3000, name
        assert np.all(np.isfinite(values)), name


def test_chunks_keep_the_limits_of_the_manifest(shard: Shard) -> None:
    """No demonstration asks for a position or a speed that the arm may not have."""
    chunk = shard['chunk']
    speed = np.abs(np.diff(chunk, axis=1)) / LIMITS.period_s

    assert np.all(chunk >= LIMITS.lower - 1e-6)
    assert np.all(chunk <= LIMITS.upper + 1e-6)
    assert np.all(speed < 1.06 * LIMITS.velocity)


def test_chunks_go_on_from_the_state(shard: Shard) -> None:
    """With little delay the first target is where the measured motion leads."""
    soon = shard['delay'][:, 0] < 0.02
    expected = shard['joints'] + 0.03 * shard['velocities']

    assert soon.sum() > 50
    assert np.abs(shard['chunk'][soon, 0, :6] - expected[soon, :6]).max() < 0.02


def test_all_skills_delays_and_phases_occur(shard: Shard) -> None:
    """Every skill, the whole range of delays, moving states and finished steps are in the data."""
    assert np.all(shard['skill'].sum(0) > 50)
    assert shard['delay'].max() > 0.9 * LONGEST_DELAY_S
    assert 0.05 < np.mean(shard['remaining'] == 0) < 0.4
    assert np.mean(np.abs(shard['velocities'][:, :6]).max(1) > 0.05) > 0.4


def test_a_demonstration_is_what_the_expert_does(shard: Shard) -> None:
    """At rest, a chunk equals the expert's motion from the same state."""
    still = (np.abs(shard['velocities'][:, :6]) < 1e-9).all(1) & (shard['skill'][:, 6] == 0)
    assert still.sum() > 20
    rows = {name: value[still][:20].astype(float) for name, value in shard.items()}
    motion = Expert(GEOMETRY, LIMITS).plan(Moves(
        rows['skill'].argmax(1), rows['target'], rows['gripper'][:, 0], rows['speed'][:, 0],
        rows['joints'], rows['velocities']))

    times = rows['delay'] + LIMITS.period_s * np.arange(1, 51)
    np.testing.assert_allclose(motion.positions(times), rows['chunk'], atol=1e-4)


def test_shards_are_kept_and_replaced_as_settings_say(tmp_path: Path) -> None:
    """A second run writes nothing anew; other settings replace what is there."""
    first = write_demonstrations(tmp_path, Settings(1, 60, 30), GEOMETRY, LIMITS)
    stamps = [path.stat().st_mtime_ns for path in first]
    again = write_demonstrations(tmp_path, Settings(1, 60, 30), GEOMETRY, LIMITS)
    assert [path.stat().st_mtime_ns for path in again] == stamps

    other = write_demonstrations(tmp_path, Settings(2, 60, 30), GEOMETRY, LIMITS)

    with np.load(other[0], allow_pickle=False) as file:
        assert set(file) == set(FIELDS)
        assert file['skill'].shape == (30, len(SKILLS))
    assert [path.stat().st_mtime_ns for path in other] != stamps


def test_same_seed_gives_the_same_samples() -> None:
    """Demonstrations are a function of their seed."""
    one, two = (
        Demonstrator(GEOMETRY, LIMITS).draw(np.random.default_rng(5), 40) for _ in range(2))

    for name in FIELDS:
        np.testing.assert_array_equal(one[name], two[name])
