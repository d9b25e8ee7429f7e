# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from sim.arm_pose import HOME, JOINTS, joints_over, tool_pose
from sim.entity import Entity, HALF_HEIGHT_M
from sim.errors import CommandError
from sim.mujoco_arm import MujocoArm
from sim.scene import draw_scene, SceneSpec

EMPTY = SceneSpec((0,), 'train', ())
TOP_SPEED = np.array([1.6, 1.6, 1.6, 2.4, 2.4, 2.4, 0.12])
TOP_ACCELERATION = np.array([5.0, 5.0, 5.0, 8.0, 8.0, 8.0, 1.0])


@pytest.fixture(scope='module')
def arm():
    arm = MujocoArm()
    yield arm
    arm.close()


def drive(arm, goal, start):
    """Command a smooth motion that touches the manifest's limits of speed and acceleration."""
    distance = np.abs(np.subtract(goal, start))
    seconds = max(
        (1.875 * distance / TOP_SPEED).max(), np.sqrt(5.78 * distance / TOP_ACCELERATION).max()
    )
    count = int(np.ceil(seconds / 0.02)) + 1
    for s in np.linspace(0, 1, count):
        share = 10 * s**3 - 15 * s**4 + 6 * s**5
        arm.command(dict(zip(JOINTS, start + share * np.subtract(goal, start), strict=True)))
        arm.advance(0.02)
    return np.array(goal)


def test_the_arm_follows_its_commands(arm):
    """At the manifest's limits the arm is within 3 mrad and 0.2 mm of where it should be."""
    arm.reset(EMPTY)
    omega = TOP_ACCELERATION / TOP_SPEED
    worst = np.zeros(7)
    for t in np.arange(0, 3, 0.02):
        swing = min(t, 1.0) * 0.4 * TOP_SPEED / omega * np.sin(omega * t)
        swing[2], swing[6] = -swing[2], min(swing[6], 0.0)
        target = np.array(HOME) + swing
        arm.command(dict(zip(JOINTS, target, strict=True)))
        arm.advance(0.02)
        worst = np.maximum(worst, np.abs(arm.positions - target))
    assert worst[:6].max() < 3e-3 and worst[6] < 2e-4


def test_a_jump_is_approached_at_limited_speed(arm):
    """A target far away is not reached in one period, but in time and without overshoot."""
    arm.reset(EMPTY)
    goal = HOME[0] + 1.0
    arm.command({JOINTS[0]: goal})
    arm.advance(0.1)
    assert abs(arm.velocities[0]) < 3.8
    assert arm.positions[0] < HOME[0] + 0.4
    arm.advance(0.8)
    assert arm.positions[0] == pytest.approx(goal, abs=2e-3)


@pytest.mark.parametrize('kind', ['cube', 'ball', 'cylinder'])
@pytest.mark.parametrize('yaw', [0.0, 0.6])
def test_the_grip_holds_while_moving_at_the_limits(arm, kind, yaw):
    """Every kind of object stays between the fingers through fast moves and turns."""
    height = HALF_HEIGHT_M[kind]
    thing = Entity(kind, 'red', 0.45, -0.1, height, yaw)
    arm.reset(SceneSpec((0,), 'train', (thing,)))
    at = drive(arm, joints_over(0.45, -0.1, 0.15, yaw, 0.042), np.array(HOME))
    at = drive(arm, joints_over(0.45, -0.1, height, yaw, 0.042), at)
    at = drive(arm, joints_over(0.45, -0.1, height, yaw, 0.0), at)
    arm.advance(0.1)
    for x, y, turn in ((0.45, -0.1, 0.0), (0.55, 0.2, -0.8), (0.4, -0.2, 0.8)):
        at = drive(arm, joints_over(x, y, 0.25, yaw + turn, 0.0), at)
        tool, _ = tool_pose(arm.positions)
        assert np.linalg.norm(arm.world.centre(0) - tool) < 0.006
    assert arm.risen_m[0] > 0.2


def test_things_stay_where_they_are_left(arm):
    """Without a touch nothing moves: the objects rest, the arm carries its own weight."""
    scene = draw_scene((8,))
    arm.reset(scene)
    arm.advance(1.0)
    for i, e in enumerate(scene.entities):
        assert arm.world.centre(i) == pytest.approx([e.x, e.y, e.z], abs=1e-3)
    assert arm.positions == pytest.approx(HOME, abs=1e-4)
    assert arm.time_s == pytest.approx(1.0)


def test_the_same_commands_give_the_same_motion(arm):
    """Physics is repeatable from a reset."""
    ends = []
    for _ in range(2):
        arm.reset(draw_scene((8,)))
        arm.command({JOINTS[1]: -1.9, JOINTS[6]: 0.01})
        arm.advance(0.5)
        ends.append(arm.world.data.qpos.copy())
    assert (ends[0] == ends[1]).all()


def test_bad_commands_change_nothing(arm):
    """Unknown joints and numbers that are not finite are refused, and the target stays."""
    arm.reset(EMPTY)
    with pytest.raises(CommandError, match="'elbow'; allowed: shoulder_pan_joint"):
        arm.command({'elbow': 0.0})
    with pytest.raises(CommandError, match='finite'):
        arm.command({JOINTS[0]: 0.3, JOINTS[1]: float('nan')})
    arm.advance(0.2)
    assert arm.positions == pytest.approx(HOME, abs=1e-4)


def test_noise_is_on_the_sensors_only():
    """Measured positions scatter with the wanted deviation around the true ones."""
    arm = MujocoArm(seed=3, position_noise=1e-3)
    arm.reset(EMPTY)
    readings = [arm.read() for _ in range(400)]
    first = np.array([r.positions[JOINTS[0]] for r in readings])
    assert first.std() == pytest.approx(1e-3, rel=0.2)
    assert {r.velocities[JOINTS[0]] for r in readings} == {0.0}


def test_pictures_show_the_present(arm):
    """The camera sees the arm where it is after it moved."""
    arm.reset(draw_scene((8,)))
    before = arm.render()
    assert before.shape == (256, 256, 3) and before.dtype == np.uint8
    arm.command({JOINTS[0]: 0.3})
    arm.advance(0.6)
    assert (arm.render() != before).any()
