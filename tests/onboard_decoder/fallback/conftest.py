# SPDX-License-Identifier: Apache-2.0
"""The shipped small planner, and scenes that its training never saw."""

from onboard_decoder.clock import MonotonicClock
from onboard_decoder.config import RobotSettings
from onboard_decoder.fallback.onboard_model import OnboardModel
from onboard_decoder.fallback.onboard_planner import OnboardPlanner
import pytest
from sim.dataset import Painter

from tests.onboard_decoder.fallback.asked_planner import FILE, MANIFEST


@pytest.fixture(scope='module')
def model():
    return OnboardModel(MANIFEST, FILE)


@pytest.fixture
def planner(model):
    made = OnboardPlanner(MANIFEST, model, MonotonicClock(), RobotSettings())
    yield made
    made.close()


@pytest.fixture(scope='module')
def scenes():
    """Scenes with their pictures, drawn with seeds that no training saw."""
    painter = Painter()
    drawn = []
    for index in range(40):
        scene = painter.draw_visible(777_777, index, 'train')
        drawn.append((scene, painter.photograph()))
    painter.close()
    return drawn


@pytest.fixture(scope='module')
def free_things(scenes):
    """Every free thing on a table of the scenes: the entity, and the picture."""
    return [
        (thing, picture) for scene, picture in scenes
        for index, thing in enumerate(scene.entities)
        if thing.kind != 'bin' and thing.inside < 0 and not thing.held
        and all(other.inside != index for other in scene.entities)
    ]
