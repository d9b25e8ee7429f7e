# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import numpy as np
import pytest
from sim.appearance import Appearance
from sim.camera import Camera, label_point
from sim.entity import Entity
from sim.errors import SceneError
from sim.model import CAMERA_TARGET_M
from sim.scene import draw_scene, SceneSpec
from sim.world import World


@pytest.fixture(scope='module')
def world():
    return World()


@pytest.fixture(scope='module')
def camera(world):
    with Camera(world.model) as camera:
        yield camera


def test_entities_are_where_the_scene_says(world):
    """Every entity stands at its centre, and the camera's target is the middle of the image."""
    scene = draw_scene((5, 1), 'train', 'dataset')
    world.show(scene)
    for i, e in enumerate(scene.entities):
        assert world.centre(i) == pytest.approx([e.x, e.y, e.z])
    assert label_point(np.array(CAMERA_TARGET_M)) == pytest.approx([0.5, 0.5])


def test_showing_again_forgets_the_scene_before(world, camera):
    """A picture depends on its scene only, not on what was shown earlier."""
    scene = draw_scene((5, 2), 'train', 'dataset')
    world.show(scene)
    first = camera.render(world.data)
    world.show(draw_scene((5, 3), 'train', 'dataset'))
    assert (camera.render(world.data) != first).any()
    world.show(scene)
    assert (camera.render(world.data) == first).all()


@pytest.mark.parametrize('kind', ['cube', 'ball', 'cylinder'])
def test_label_points_lie_on_things(world, camera, kind):
    """The picture has the paint of the thing at its label point."""
    red = Entity(kind, 'red', 0.45, 0.1, 0.022, rgb=(0.8, 0.05, 0.05))
    world.show(SceneSpec((0,), 'train', (red,), Appearance(table_rgb=(0.4, 0.4, 0.4))))
    x, y = (world.label_points()[0] * 256).astype(int)
    r, g, b = camera.render(world.data)[y, x].astype(int)
    assert r > 2 * g and r > 2 * b


def test_hidden_things_are_noticed(world):
    """A thing under the table has a small visible share, a free one the full share."""
    cube = Entity('cube', 'red', 0.45, 0.1, 0.022)
    world.show(SceneSpec((0,), 'train', (cube,)))
    assert world.visible_share(0) == 1.0
    world.show(SceneSpec((0,), 'train', (replace(cube, z=-0.2),)))
    assert world.visible_share(0) < 0.5


def test_too_many_things_are_refused(world):
    """Four bins do not fit into three slots, and the message says so."""
    bins = [Entity('bin', c, 0.4, 0.1, 0.025) for c in ('red', 'green', 'blue', 'white')]
    with pytest.raises(SceneError, match="'bin': 3"):
        world.show(SceneSpec((0,), 'train', tuple(bins)))
