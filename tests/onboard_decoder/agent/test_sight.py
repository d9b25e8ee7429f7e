# SPDX-License-Identifier: Apache-2.0
import numpy as np
from onboard_decoder.agent.camera_view import point_in_image
from onboard_decoder.agent.decision import Decision, is_same_choice
from onboard_decoder.agent.image_change import changed_share
from onboard_decoder.manifest_yaml import load_manifest
import pytest

from tests.onboard_decoder.agent.react_world import DONE, grasp, LOOK, place

GREY = np.full((64, 64, 3), 128, np.uint8)


def test_what_changes_elsewhere_is_not_seen_around_a_point():
    """A patch is compared, not the image."""
    after = GREY.copy()
    after[:16, :16] = 250

    assert changed_share(GREY, after, [(0.8, 0.8)]) == 0.0
    assert changed_share(GREY, after, [(0.8, 0.8), (0.1, 0.1)], 0.05) == 1.0
    assert changed_share(GREY, after) == pytest.approx(16 * 16 / 64 / 64)


def test_noise_of_pixels_is_no_change():
    """However many of them."""
    noise = np.random.default_rng(1).integers(-25, 26, GREY.shape)

    assert changed_share(GREY, (GREY + noise).astype(np.uint8), [(0.5, 0.5)]) == 0.0


@pytest.mark.parametrize('point', [(0.0, 0.0), (1.0, 1.0), (-3.0, 0.5), (0.5, 7.0)])
def test_points_at_and_beyond_the_edge_have_a_patch(point):
    """A target may lie anywhere."""
    assert changed_share(GREY, GREY + 100, [point]) == 1.0


def test_another_size_is_a_change():
    """A camera that was switched over shows nothing comparable."""
    assert changed_share(GREY, GREY[:32]) == 1.0


def test_the_camera_of_the_shipped_arm_sees_the_table_in_front_of_it():
    """Right of the base is left in the image of a camera that looks back at it."""
    camera = load_manifest('tendon_arm').cameras[0]
    left, right = (point_in_image(camera, np.array([0.5, y, 0.0])) for y in (-0.2, 0.2))

    assert 0 < left[0] < 0.5 < right[0] < 1
    assert left[1] == pytest.approx(right[1])
    assert point_in_image(camera, np.array([2.0, 0.0, 1.5])) is None


def test_the_same_choice_is_tool_things_and_targets():
    """A target may shift by less than the given distance."""
    assert is_same_choice(grasp(), grasp(y=0.11), 0.015)
    assert not is_same_choice(grasp(), grasp(y=0.12), 0.015)
    assert not is_same_choice(grasp(), place(), 1.0)
    assert not is_same_choice(grasp(), LOOK, 1.0)
    assert is_same_choice(DONE, DONE, 0.0)
    assert Decision('turn-1', grasp(), {}).points == ((0.5, 0.5),)
