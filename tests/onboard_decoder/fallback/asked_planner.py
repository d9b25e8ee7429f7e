# SPDX-License-Identifier: Apache-2.0
"""Turns for the small planner, and its answer once it is there."""

import time

from onboard_decoder.image_codec import encode_jpeg
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.planner_port import TurnRequest
from onboard_decoder.robot_factory import PLANNER_FILE

MANIFEST = load_manifest('tendon_arm')
FILE = MANIFEST.decoder.parent / PLANNER_FILE


def turn(instruction, picture, number=1, deadline_s=30.0, joints=MANIFEST.home, **more):
    return TurnRequest(
        f'turn-{number}', instruction, {'front': encode_jpeg(picture, 128, 128)},
        tuple(joints.tolist()), 7, deadline_s, **more)


def ask(planner, *args, **more):
    pending = planner.submit(turn(*args, **more))
    deadline_s = time.monotonic() + 30.0
    while (found := pending.poll()) is None:
        assert time.monotonic() < deadline_s
        time.sleep(0.001)
    return found
