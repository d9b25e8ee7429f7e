# SPDX-License-Identifier: Apache-2.0
from hypothesis import given, settings
from hypothesis import strategies as st
import numpy as np
from onboard_decoder.agent.turn_maker import TurnMaker
from onboard_decoder.image_codec import encode_jpeg
from onboard_decoder.image_quality import ImageQuality, STEPS
from onboard_decoder.observation_intake import CameraFrame, JointState
from onboard_decoder.planner_port import Grant, LinkQuality
import pytest

GRANT = Grant('s', 1, False, 'model', 128, 128, 0, 0, 0)
SCENE = np.random.default_rng(1).integers(0, 256, (60, 80, 3), dtype=np.uint8).repeat(4, 0)
JOINTS = JointState(0, np.zeros(7), np.zeros(7))
SIZES = {quality: len(encode_jpeg(SCENE, 128, 128, quality)) for quality in STEPS}


def turns(quality, rate, count):
    """Qualities of so many turns on a link of a rate [byte/s]."""
    used = []
    for _ in range(count):
        used.append(quality.choose(LinkQuality(bytes_per_s=rate)))
        quality.sent(SIZES[used[-1]])
    return used


@pytest.mark.parametrize('link', [None, LinkQuality(), LinkQuality(bytes_per_s=5e6)])
def test_a_good_or_unknown_link_gets_the_best_images(link):
    """Nothing is taken away without a reason."""
    quality = ImageQuality(5.0)
    for _ in range(30):
        assert quality.choose(link) == STEPS[0]
        quality.sent(SIZES[STEPS[0]])


def test_a_slow_link_gets_smaller_images_down_to_the_floor_and_no_further():
    """One step for each turn that would take too long."""
    used = turns(ImageQuality(5.0), 1000.0, 20)

    assert used[1:len(STEPS)] == list(STEPS[1:])
    assert set(used[len(STEPS):]) == {STEPS[-1]}


def test_a_link_that_recovers_gets_better_images_only_after_a_while():
    """Not at the first good figure, but step by step up to the best."""
    quality = ImageQuality(5.0)
    turns(quality, 1000.0, 20)
    used = turns(quality, 5e6, 100)

    assert used[:9] == [STEPS[-1]] * 9
    assert used[-1] == STEPS[0]
    assert used == sorted(used)


@settings(deadline=None, max_examples=100)
@given(st.floats(1e3, 1e7), st.floats(0.02, 60.0))
def test_a_steady_link_never_flickers(rate, deadline_s):
    """Whatever its rate, the quality comes to rest."""
    used = turns(ImageQuality(deadline_s), rate, 80)

    assert len(set(used[len(STEPS):])) == 1


@given(st.lists(st.floats(0.0, 1e8), max_size=60))
def test_any_link_gets_one_of_the_steps(rates):
    """Also one whose rate makes no sense."""
    quality = ImageQuality(5.0)
    for rate in rates:
        assert turns(quality, rate, 1)[0] in STEPS


def test_a_turn_on_a_slow_link_carries_smaller_images_and_says_so():
    """The quality in the turn is that of its images."""
    slow = LinkQuality(bytes_per_s=1000.0)
    made = [
        TurnMaker(5.0, lambda link=link: link) for link in (None, slow)
    ]
    frames = {'front': CameraFrame(0, 0, 1, SCENE)}
    for maker in made:
        for _ in range(9):
            maker.make('pick it', frames, JOINTS, GRANT)
    best, worst = (maker.make('pick it', frames, JOINTS, GRANT) for maker in made)

    assert (best.image_quality, worst.image_quality) == (STEPS[0], STEPS[-1])
    assert best.images['front'] == encode_jpeg(SCENE, 128, 128, STEPS[0])
    assert worst.images['front'] == encode_jpeg(SCENE, 128, 128, STEPS[-1])
