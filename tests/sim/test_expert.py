# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sim.arm_geometry import ArmGeometry
from sim.arm_limits import ArmLimits, ManifestFileError
from sim.expert import Expert, Motion, Moves, SKILLS

ROOT = Path(__file__).parents[2]
MANIFEST = ROOT / 'onboard_decoder' / 'robots' / 'tendon_arm' / 'manifest.yaml'
LIMITS = ArmLimits.from_manifest(MANIFEST)
GEOMETRY = ArmGeometry.from_urdf(ROOT / 'sim' / 'assets' / 'tendon_arm.urdf')
EXPERT = Expert(GEOMETRY, LIMITS)
LOWER, UPPER = [0.28, -0.32, 0.01, -0.9], [0.66, 0.32, 0.35, 2.2]
PERIOD_S = LIMITS.period_s


def _joints(pose: list[float], finger: float = 0.042) -> np.ndarray:
    return np.append(GEOMETRY.joints(np.array(pose)), finger)


def _single(skill: str, target: list[float], opening: float, joints: np.ndarray,
            velocities: np.ndarray | None = None) -> Motion:
    rest = np.zeros(7) if velocities is None else velocities
    return EXPERT.plan(Moves.single(skill, np.array(target), opening, 1.0, joints, rest))


def _ticks(motion: Motion, seconds: float = 8.0) -> np.ndarray:
    times = np.arange(0.0, seconds, PERIOD_S)
    return motion.positions(np.broadcast_to(times, (len(motion.duration_s), len(times))))


def _many(count: int = 300) -> Moves:
    rng = np.random.default_rng(11)
    starts = GEOMETRY.joints(rng.uniform(LOWER, UPPER, (count, 4)))
    return Moves(rng.integers(0, len(SKILLS), count), rng.uniform(LOWER, UPPER, (count, 4)),
                 rng.integers(0, 2, count).astype(float), rng.uniform(0.3, 1.0, count),
                 np.c_[starts, rng.uniform(0, 0.042, count)], np.zeros((count, 7)))


def test_moves_from_rest_keep_every_limit_of_the_manifest() -> None:
    """Velocity, acceleration and jerk of all joints stay below nine tenths of the limits."""
    positions = _ticks(EXPERT.plan(_many()))

    for order, limit in enumerate((LIMITS.velocity, LIMITS.acceleration, LIMITS.jerk), start=1):
        rates = np.diff(positions, n=order, axis=1) / PERIOD_S**order
        share = np.abs(rates[..., :6]).max((0, 1)) / limit[:6]
        assert share.max() < 0.9


def test_every_skill_ends_at_its_target() -> None:
    """At the end the tool is at the target, or the arm is at home."""
    moves = _many()
    end = _ticks(EXPERT.plan(moves), seconds=12.0)[:, -1]
    home = moves.skills == SKILLS.index('home')

    np.testing.assert_allclose(end[home, :6], np.tile(LIMITS.home[:6], (home.sum(), 1)), atol=1e-9)
    np.testing.assert_allclose(
        GEOMETRY.poses(end[~home, :6])[:, :3], moves.targets[~home, :3], atol=1e-9)


@pytest.mark.parametrize('skill', ['reach', 'grasp', 'lift', 'move', 'place', 'push', 'hold'])
def test_the_tool_goes_straight(skill: str) -> None:
    """The tool stays on the straight line between its start and the target."""
    start, end = [0.35, -0.2, 0.2, 0.0], [0.55, 0.15, 0.05, 0.0]

    tool = GEOMETRY.poses(_ticks(_single(skill, end, 0.0, _joints(start)))[0, :, :6])[:, :3]

    way = np.subtract(end, start)[:3]
    along = (tool - start[:3]) @ way / (way @ way)
    assert np.abs(tool - (start[:3] + along[:, None] * way)).max() < 1e-9
    assert np.all(np.diff(along) > -1e-9)


def test_grasp_closes_only_at_the_thing() -> None:
    """On the way down the fingers are open; they close when the tool has arrived."""
    motion = _single('grasp', [0.45, 0.1, 0.02, 0.0], 0.0, _joints([0.45, 0.1, 0.2, 0.0], 0.02))
    positions = _ticks(motion)[0]
    height = GEOMETRY.poses(positions[:, :6])[:, 2]

    assert positions[-1, 6] == 0.0
    closing = np.diff(positions[:, 6]) < -1e-6
    assert np.all(height[1:][closing] < 0.02 + 0.008)


def test_place_opens_only_at_the_place() -> None:
    """On the way down the fingers are commanded closed; they open when the tool has arrived."""
    motion = _single('place', [0.45, 0.1, 0.09, 0.0], 1.0, _joints([0.45, 0.1, 0.2, 0.0], 0.022))
    positions = _ticks(motion)[0]
    height = GEOMETRY.poses(positions[:, :6])[:, 2]

    assert positions[-1, 6] == pytest.approx(0.042)
    assert not np.any(positions[height > 0.09 + 0.008, 6])


def test_a_grip_is_kept_while_carrying() -> None:
    """Fingers that a thing keeps apart are commanded fully closed all the way."""
    motion = _single('move', [0.5, 0.2, 0.2, 0.0], 0.0, _joints([0.4, -0.1, 0.2, 0.0], 0.022))

    assert not np.any(_ticks(motion)[0, :, 6])


def test_remaining_is_the_time_to_rest() -> None:
    """Remaining time falls to zero when arm and fingers have done their part."""
    start, target = _joints([0.45, 0.1, 0.2, 0.0]), [0.45, 0.1, 0.02, 0.0]
    motion = _single('grasp', target, 0.0, start)
    arrived = np.append(_joints(target)[:6], 0.042)
    gripping = np.append(arrived[:6], 0.022)

    assert 0.8 < motion.remaining_s[0] < 2.5
    assert 0.3 < _single('grasp', target, 0.0, arrived).remaining_s[0] < 0.8
    assert _single('grasp', target, 0.0, gripping).remaining_s[0] == 0.0
    assert _single('reach', target, 1.0, arrived).remaining_s[0] == 0.0


def test_a_new_target_on_the_way_is_smooth() -> None:
    """Velocity is continuous when the target changes in full motion."""
    first = _single('reach', [0.6, 0.2, 0.2, 0.0], 1.0, _joints([0.3, -0.2, 0.2, 0.0]))
    times = np.array([[0.48, 0.5, 0.52]])
    before, at, after = first.positions(times)[0]
    velocity = (after - before) / (2 * PERIOD_S)

    second = _ticks(_single('reach', [0.4, -0.3, 0.1, 0.0], 1.0, at, velocity))[0]

    np.testing.assert_allclose((second[1] - second[0]) / PERIOD_S, velocity, atol=0.15)
    np.testing.assert_allclose(
        GEOMETRY.poses(second[-1, :6]), [0.4, -0.3, 0.1, 0.0], atol=1e-9)


def test_any_arm_pose_leads_home_and_to_a_target() -> None:
    """From poses with the tool far from pointing down the move still ends where it should."""
    rng = np.random.default_rng(4)
    starts = np.c_[rng.uniform(LIMITS.lower, LIMITS.upper, (60, 7))[:, :6], np.full(60, 0.042)]
    target = np.tile([0.5, 0.0, 0.2, 0.0], (60, 1))
    moves = Moves(np.zeros(60, int), target, np.ones(60), np.ones(60), starts, np.zeros((60, 7)))

    to_target = _ticks(EXPERT.plan(moves), seconds=15.0)[:, -1, :6]
    to_home = _ticks(EXPERT.plan(replace(moves, skills=np.full(60, 6))), seconds=15.0)[:, -1]

    np.testing.assert_allclose(GEOMETRY.poses(to_target), target, atol=1e-9)
    np.testing.assert_allclose(to_home, np.tile(LIMITS.home, (60, 1)), atol=1e-9)


def test_half_turns_of_the_gripper_are_the_same_move() -> None:
    """A yaw and the same yaw plus pi give the same joints: the gripper is symmetric."""
    start = _joints([0.4, 0.0, 0.2, 0.0])
    one = _ticks(_single('reach', [0.5, 0.1, 0.2, 0.3], 1.0, start))
    other = _ticks(_single('reach', [0.5, 0.1, 0.2, 0.3 - np.pi], 1.0, start))

    np.testing.assert_allclose(one, other, atol=1e-9)


def test_a_manifest_without_limits_is_refused(tmp_path: Path) -> None:
    """The error names the file and what every joint needs."""
    path = tmp_path / 'manifest.yaml'
    path.write_text('joints: [{name: a}]', encoding='utf-8')

    with pytest.raises(ManifestFileError, match=r'manifest\.yaml.*max_jerk'):
        ArmLimits.from_manifest(path)
