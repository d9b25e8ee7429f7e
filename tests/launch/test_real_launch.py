# SPDX-License-Identifier: Apache-2.0
"""Launch files with the real ROS 2 launch, where it is installed (it is in no package index)."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / 'launch').glob('*.launch.py'))


@pytest.mark.ros
@pytest.mark.parametrize('path', FILES, ids=lambda path: path.name)
def test_real_launch_reads_the_file(path):
    """Every argument that we declare is one of the real launch."""
    pytest.importorskip('launch.actions', reason='ROS 2 launch is not installed')
    pytest.importorskip('launch_ros.actions', reason='ROS 2 launch is not installed')
    from launch.launch_description_sources import get_launch_description_from_python_launch_file

    description = get_launch_description_from_python_launch_file(str(path))

    assert description.get_launch_arguments()
