# SPDX-License-Identifier: Apache-2.0
"""Writes the manifest of the arm that comes with Tendon, with two more cameras."""

from pathlib import Path

from onboard_decoder.manifest_yaml import ROBOTS
from tendon.bench_rate.cameras import HEIGHT_PX, WIDTH_PX
import yaml

FURTHER = ('side', 'wrist')


def write_manifest(folder: Path, robot: str = 'tendon_arm') -> Path:
    """Write it into a folder and return its path; the first camera stays what it is."""
    source = ROBOTS / robot
    data = yaml.safe_load((source / 'manifest.yaml').read_text(encoding='utf-8'))
    front = data['cameras'][0]
    data['cameras'] += [
        {**front, 'name': name, 'width_px': WIDTH_PX, 'height_px': HEIGHT_PX} for name in FURTHER
    ]
    data['decoder'] = str(source / data['decoder'])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / 'manifest.yaml'
    path.write_text(yaml.safe_dump(data), encoding='utf-8')
    return path
