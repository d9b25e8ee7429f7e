# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from cloud_backbone.distillation.latent_loss import point_in_base
from cloud_backbone.embodiment import Camera
from cloud_backbone.projection import point_at_height
import pytest
import yaml


@pytest.mark.parametrize('point', [(0.5, 0.5), (0.2, 0.4), (0.8, 0.75)])
def test_the_data_set_camera_is_the_robots(point: tuple[float, float], root: Path) -> None:
    """Places in the latent agree with the camera of the robot's manifest."""
    manifest = root / 'onboard_decoder' / 'robots' / 'tendon_arm' / 'manifest.yaml'
    entry = yaml.safe_load(manifest.read_text())['cameras'][0]
    camera = Camera(
        name=entry['name'],
        width_px=entry['width_px'],
        height_px=entry['height_px'],
        vertical_fov=entry['vertical_fov_rad'],
        camera_in_base=tuple(entry['camera_in_base_m']),
        camera_to_base=tuple(entry['camera_to_base_wxyz']),
    )
    wanted = point_at_height(camera, point, 0.022)
    assert wanted is not None
    assert point_in_base(point, 0.022) == pytest.approx(wanted[:2], abs=1e-4)
