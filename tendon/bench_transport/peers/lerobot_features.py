# SPDX-License-Identifier: Apache-2.0
"""What lerobot's two ends are told of the robot: one camera, seven joints."""

from lerobot.utils.feature_utils import hw_to_dataset_features
from tendon.bench_transport.rounds import HEIGHT, JOINTS, WIDTH

CAMERA = 'front'
IMAGE_KEY = f'observation.images.{CAMERA}'
JOINT_NAMES = tuple(f'joint_{number}.pos' for number in range(JOINTS))
SENSED = {**dict.fromkeys(JOINT_NAMES, float), CAMERA: (HEIGHT, WIDTH, 3)}
FEATURES = hw_to_dataset_features(SENSED, 'observation', use_video=False)
