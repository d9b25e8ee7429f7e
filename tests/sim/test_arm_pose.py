# SPDX-License-Identifier: Apache-2.0
import pytest
from sim.arm_pose import joints_over, tool_down, tool_pose
from sim.errors import SceneError


@pytest.mark.parametrize('target', [(0.34, -0.2, 0.12, -0.8), (0.58, 0.22, 0.2, 0.9)])
def test_tool_arrives(target):
    """The joints bring the tool to the wanted point and turn, pointing down."""
    x, y, z, yaw = target
    position, rotation = tool_pose(joints_over(x, y, z, yaw, 0.02))
    assert position == pytest.approx([x, y, z], abs=1e-3)
    assert rotation == pytest.approx(tool_down(yaw), abs=1e-3)


def test_out_of_reach_is_an_error():
    """A point that the arm cannot reach is refused, not approximated."""
    with pytest.raises(SceneError, match='tool position'):
        joints_over(1.6, 0.0, 0.2, 0.0, 0.0)
