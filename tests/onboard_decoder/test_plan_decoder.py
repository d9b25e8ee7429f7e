# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
import math
from pathlib import Path
import subprocess
import sys

import numpy as np
from onboard_decoder.decoder_file import DecoderFileError
from onboard_decoder.errors import ChunkRefused, ConfigError, DecoderMismatch
from onboard_decoder.kinematics import ForwardKinematics
from onboard_decoder.manifest import Manifest
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.plan import PlanStep, Skill
from onboard_decoder.plan_decoder import PlanDecoder
import pytest

MANIFEST = load_manifest('tendon_arm')
REACH = PlanStep(Skill.REACH, (0.45, 0.1, 0.2))
REST = np.zeros(len(MANIFEST.joints))


@pytest.fixture(scope='module')
def decoder() -> PlanDecoder:
    return PlanDecoder(MANIFEST)


def test_a_chunk_has_the_shape_that_the_file_promises(decoder: PlanDecoder) -> None:
    """A chunk is horizon x joints, finite, within the joint limits, with a time that is left."""
    chunk = decoder.decode(REACH, MANIFEST.home, REST, 0.04)

    assert chunk.positions.shape == (decoder.horizon, len(MANIFEST.joints)) == (50, 7)
    assert np.all(chunk.positions >= MANIFEST.column('lower') - 1e-6)
    assert np.all(chunk.positions <= MANIFEST.column('upper') + 1e-6)
    assert 0.3 < chunk.remaining_s <= 3.0


def test_a_chunk_starts_at_the_joints(decoder: PlanDecoder) -> None:
    """From rest the first targets are near where the arm is, and the tool nears its target."""
    kinematics = ForwardKinematics(MANIFEST)
    chunk = decoder.decode(REACH, MANIFEST.home, REST, 0.0)
    away = [np.linalg.norm(kinematics.tool_position(row) - REACH.target_in_base_m)
            for row in chunk.positions]

    assert np.abs(chunk.positions[0] - MANIFEST.home).max() < 0.02
    assert away[-1] < away[0] / 2


def test_at_home_the_step_home_is_over(decoder: PlanDecoder) -> None:
    """Where a step is fulfilled, the chunk stands still and nothing remains."""
    chunk = decoder.decode(PlanStep(Skill.HOME), MANIFEST.home, REST, 0.04)

    assert np.abs(chunk.positions[:, :6] - MANIFEST.home[:6]).max() < 1e-3
    assert chunk.remaining_s < 0.08


def test_hold_without_a_target_stays(decoder: PlanDecoder) -> None:
    """HOLD keeps the tool where it is, and closed fingers closed."""
    joints = decoder.decode(REACH, MANIFEST.home, REST, 0.3).positions[-1]
    kinematics = ForwardKinematics(MANIFEST)

    step = PlanStep(Skill.HOLD, None, 0.0, 0.0)
    end = decoder.decode(step, np.append(joints[:6], 0.0), REST, 0.04).positions[-1]

    moved = kinematics.tool_position(end) - kinematics.tool_position(joints)
    assert np.linalg.norm(moved) < 0.01
    assert end[6] < 0.002


def test_half_turns_of_the_gripper_are_the_same(decoder: PlanDecoder) -> None:
    """Yaw and yaw plus pi are one orientation of a parallel gripper and give one chunk."""
    one = decoder.decode(replace(REACH, tool_yaw_rad=0.4), MANIFEST.home, REST, 0.04)
    other = decoder.decode(
        replace(REACH, tool_yaw_rad=0.4 - math.pi), MANIFEST.home, REST, 0.04)

    np.testing.assert_allclose(one.positions, other.positions, atol=1e-4)


@pytest.mark.parametrize(('change', 'words'), [
    ({'name': 'other_arm'}, 'robot.*tendon_arm.*other_arm'),
    ({'control_period_s': 0.01}, 'control period.*0.02.*0.01'),
    ({'joints': MANIFEST.joints[1:] + MANIFEST.joints[:1]}, 'joints.*shoulder_pan'),
])
def test_the_decoder_of_another_robot_is_refused(change: dict[str, object], words: str) -> None:
    """Robot, joints and control period of file and manifest must agree; the error has both."""
    other: Manifest = replace(MANIFEST, **change)  # type: ignore[arg-type]

    with pytest.raises(DecoderMismatch, match=words):
        PlanDecoder(other, MANIFEST.decoder)


def test_unusable_files_are_refused(tmp_path: Path) -> None:
    """A missing file and one that is no ONNX are errors that name the file."""
    garbage = tmp_path / 'garbage.onnx'
    garbage.write_bytes(b'not a network')

    for path in (tmp_path / 'missing.onnx', garbage):
        with pytest.raises(DecoderFileError, match=path.name) as caught:
            PlanDecoder(MANIFEST, path)
        assert isinstance(caught.value, ConfigError)


@pytest.mark.parametrize('bad', [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(decoder: PlanDecoder, bad: float) -> None:
    """NaN and infinity never reach the network, wherever they come from."""
    joints = MANIFEST.home.copy()
    joints[2] = bad

    with pytest.raises(ChunkRefused, match='joints'):
        decoder.decode(REACH, joints, REST, 0.0)
    with pytest.raises(ChunkRefused, match='velocities'):
        decoder.decode(REACH, MANIFEST.home, REST + bad, 0.0)
    with pytest.raises(ChunkRefused, match='target'):
        decoder.decode(replace(REACH, target_in_base_m=(0.4, bad, 0.2)), MANIFEST.home, REST, 0.0)
    with pytest.raises(ChunkRefused, match='latent'):
        decoder.decode(REACH, MANIFEST.home, REST, 0.0, [bad] * decoder.latent_size)


def test_wrong_widths_are_refused(decoder: PlanDecoder) -> None:
    """Too few joints or latents of another size are refused with both numbers."""
    with pytest.raises(ChunkRefused, match=r'joints has 6 values.* 7'):
        decoder.decode(REACH, MANIFEST.home[:6], REST, 0.0)
    with pytest.raises(ChunkRefused, match=r'latent has 3 values.* 32'):
        decoder.decode(REACH, MANIFEST.home, REST, 0.0, [0.0] * 3)


def test_output_that_is_not_finite_is_refused(
    decoder: PlanDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk with NaN is an error, never a command."""
    class Broken:
        """Gives NaN."""

        def run(self, names: list[str], feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
            """Return a chunk with NaN and a remaining time."""
            return [np.full((1, 50, 7), np.nan), np.zeros((1, 1))]

    monkeypatch.setattr(decoder, '_session', Broken())

    with pytest.raises(ChunkRefused, match='not finite'):
        decoder.decode(REACH, MANIFEST.home, REST, 0.0)


def test_a_latent_disturbs_nothing(decoder: PlanDecoder) -> None:
    """Whatever the backbone sends as latent, the chunk stays within a millimetre or two."""
    plain = decoder.decode(REACH, MANIFEST.home, REST, 0.04).positions
    latents = np.random.default_rng(0).normal(size=(20, decoder.latent_size)) * 5

    for latent in latents:
        other = decoder.decode(REACH, MANIFEST.home, REST, 0.04, latent.tolist()).positions
        assert np.abs(other - plain).max() < 0.01


def test_the_same_seed_gives_the_same_chunk(decoder: PlanDecoder) -> None:
    """A chunk is drawn, yet two decoders of one seed agree to the bit, call after call."""
    tail = decoder.decode(REACH, MANIFEST.home, REST, 0.0).positions
    given = REACH, tail[0], REST, 0.04, (), tail
    one, again = decoder.decode(*given), decoder.decode(*given)
    other = PlanDecoder(MANIFEST).decode(*given)

    assert np.array_equal(one.positions, again.positions)
    assert np.array_equal(one.positions, other.positions)


def test_another_seed_gives_nearly_the_same_chunk(decoder: PlanDecoder) -> None:
    """The teacher has one answer to a state, and the decoder has learned that."""
    other = PlanDecoder(MANIFEST, seed=7)
    chunks = [one.decode(REACH, MANIFEST.home, REST, 0.0).positions for one in (decoder, other)]

    assert np.abs(chunks[0] - chunks[1])[:, :6].max() < 0.01


def test_delays_above_the_longest_count_as_that(decoder: PlanDecoder) -> None:
    """The network is never asked for what it was not trained for; the chunk is played anyway."""
    longest = decoder.decode(REACH, MANIFEST.home, REST, decoder.longest_delay_s).positions

    beyond = decoder.decode(REACH, MANIFEST.home, REST, 3.0).positions

    assert np.array_equal(beyond, longest)


def test_a_tail_carries_the_state_over_any_delay(decoder: PlanDecoder) -> None:
    """A second after a tail that has come to rest the chunk begins where it rests."""
    rest = decoder.decode(REACH, MANIFEST.home, REST, 0.5).positions[-1]
    tail = np.concatenate([np.linspace(MANIFEST.home, rest, 20), np.tile(rest, (60, 1))])

    chunk = decoder.decode(PlanStep(Skill.HOME), MANIFEST.home, REST, 1.0, (), tail).positions

    assert np.abs(chunk[0] - rest)[:6].max() < 0.002


@pytest.mark.parametrize('row', [0, 20, 49])
@pytest.mark.parametrize('bad', [np.nan, np.inf])
def test_a_tail_that_is_not_finite_is_refused(
    decoder: PlanDecoder, bad: float, row: int
) -> None:
    """Wherever it is: what is broken is not led on."""
    tail = np.tile(MANIFEST.home, (50, 1))
    tail[row, 3] = bad

    with pytest.raises(ChunkRefused, match='not finite'):
        decoder.decode(REACH, MANIFEST.home, REST, 0.0, (), tail)


def changes(count: int) -> list[tuple[PlanStep, PlanStep]]:
    """Pairs of targets, drawn over the table."""
    points = np.random.default_rng(4).uniform(
        (0.33, -0.25, 0.05), (0.6, 0.25, 0.3), (count, 2, 3))
    return [(PlanStep(Skill.REACH, tuple(a)), PlanStep(Skill.REACH, tuple(b)))
            for a, b in points]


def played(decoder: PlanDecoder, old: PlanStep, new: PlanStep, delay: int,
           has_tail: bool) -> np.ndarray:
    """Rows around the moment when a chunk for another target takes over, (rows, joints)."""
    rows = decoder.decode(old, MANIFEST.home, REST, 0.0).positions
    at, period_s = 14, MANIFEST.control_period_s
    speed = (rows[at + 1] - rows[at - 1]) / (2 * period_s)
    tail = rows[at:] if has_tail else None
    chunk = decoder.decode(new, rows[at], speed, delay * period_s, (), tail).positions
    return np.concatenate([rows[:at + delay + 1], chunk])[at + delay - 8:at + delay + 20]


def jerk_rms(rows: np.ndarray) -> float:
    """Over the arm joints [rad/s^3]."""
    return float(np.sqrt(np.mean((np.diff(rows[:, :6], n=3, axis=0) / 0.02**3) ** 2)))


@pytest.mark.parametrize('delay', [0, 2, 8])
def test_a_new_target_jerks_less_with_the_tail_than_without(
    decoder: PlanDecoder, delay: int
) -> None:
    """Over the seam, averaged over target changes on the way, and by half at least."""
    pairs = changes(12)
    led = [jerk_rms(played(decoder, old, new, delay, True)) for old, new in pairs]
    free = [jerk_rms(played(decoder, old, new, delay, False)) for old, new in pairs]

    assert np.mean(led) < 0.5 * np.mean(free)


def test_guidance_holds_the_first_rows_to_the_old_chunk(decoder: PlanDecoder) -> None:
    """With a longer overlap a chunk for another target stays longer with the old one."""
    (old, new), = changes(1)
    tail = decoder.decode(old, MANIFEST.home, REST, 0.0).positions[14:]

    def off(overlap: int) -> float:
        chunk = PlanDecoder(MANIFEST, overlap_ticks=overlap).decode(
            new, tail[0], REST, 0.0, (), tail)
        return float(np.abs(chunk.positions[4] - tail[5])[:6].max())

    assert off(20) < 0.5 * off(0)


def test_standing_still_lasts_through_a_hundred_merges(decoder: PlanDecoder) -> None:
    """HOME at home, each chunk led by the one before: nothing adds up."""
    rows = np.tile(MANIFEST.home, (60, 1))
    for _ in range(100):
        chunk = decoder.decode(PlanStep(Skill.HOME), rows[0], REST, 0.04, (), rows)
        rows = np.concatenate([rows[:3], chunk.positions])[3:]

    assert np.abs(rows - MANIFEST.home)[:, :6].max() < 1e-3


def test_the_robot_needs_no_torch() -> None:
    """Importing and running the decoder does not import torch."""
    code = (
        'import sys; from onboard_decoder.manifest_yaml import load_manifest; '
        'from onboard_decoder.plan_decoder import PlanDecoder; '
        'PlanDecoder(load_manifest("tendon_arm")); assert "torch" not in sys.modules'
    )
    subprocess.run([sys.executable, '-c', code], check=True, cwd=Path(__file__).parents[2])
