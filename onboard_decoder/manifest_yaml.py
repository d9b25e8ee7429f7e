# SPDX-License-Identifier: Apache-2.0
"""Reads a robot's manifest from YAML; an unknown or missing key is an error.

Knows the layout of the file; the meaning of the values is checked by ``manifest``.
"""

from collections.abc import Mapping
from dataclasses import fields
import math
from pathlib import Path
from typing import Any

from onboard_decoder.errors import ManifestError
from onboard_decoder.manifest import Box, Camera, Gripper, Joint, Kinematics, Manifest, Transform
import yaml

ROBOTS = Path(__file__).parent / 'robots'


def load_manifest(path: Path | str) -> Manifest:
    """Read a manifest.

    Args:
      path: the YAML file, the folder that holds ``manifest.yaml``, or the name of a robot that
        comes with this package.

    Raises:
      ManifestError: with the place in the file, the value and what is allowed.
    """
    file = _find(Path(path))
    try:
        data = yaml.safe_load(file.read_text(encoding='utf-8'))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ManifestError(str(file), f'cannot be read: {error}') from error
    return _manifest(_keys('top level', data, _names(Manifest)), file.parent)


def _find(path: Path) -> Path:
    """Resolve a file, a folder or a robot's name."""
    for candidate in (path, path / 'manifest.yaml', ROBOTS / path / 'manifest.yaml'):
        if candidate.is_file():
            return candidate
    known = ', '.join(sorted(entry.parent.name for entry in ROBOTS.glob('*/manifest.yaml')))
    raise ManifestError(str(path), f'no such file; robots that come with Tendon: {known}')


def _manifest(data: Mapping[str, Any], folder: Path) -> Manifest:
    """Build the whole from checked keys."""
    kinematics = _keys('kinematics', data['kinematics'], _names(Kinematics))
    box = _keys('workspace', data['workspace'], _names(Box))
    return Manifest(
        name=_text('name', data['name']),
        control_period_s=_number('control_period_s', data['control_period_s']),
        joints=tuple(_joint(i, j) for i, j in enumerate(_list('joints', data['joints']))),
        gripper=_gripper(_keys('gripper', data['gripper'], _names(Gripper))),
        cameras=tuple(_camera(i, c) for i, c in enumerate(_list('cameras', data['cameras']))),
        workspace=Box(
            lower_m=_vector('workspace.lower_m', box['lower_m']),
            upper_m=_vector('workspace.upper_m', box['upper_m']),
        ),
        table_height_m=_number('table_height_m', data['table_height_m']),
        kinematics=Kinematics(
            chain=tuple(
                _transform(f'kinematics.chain[{i}]', entry)
                for i, entry in enumerate(_list('kinematics.chain', kinematics['chain']))
            ),
            tool=_transform('kinematics.tool', kinematics['tool']),
        ),
        decoder=folder / _text('decoder', data['decoder']),
    )


def _joint(index: int, value: object) -> Joint:
    where = f'joints[{index}]'
    data = _keys(where, value, _names(Joint))
    number = {
        key: _number(f'{where}.{key}', data[key]) for key in data if key not in ('name', 'unit')
    }
    return Joint(
        name=_text(f'{where}.name', data['name']),
        unit=_text(f'{where}.unit', data['unit']),
        lower=number['lower'],
        upper=number['upper'],
        max_velocity=number['max_velocity'],
        max_acceleration=number['max_acceleration'],
        max_jerk=number['max_jerk'],
        home=number['home'],
    )


def _gripper(data: Mapping[str, Any]) -> Gripper:
    return Gripper(
        joint=_text('gripper.joint', data['joint']),
        open_position=_number('gripper.open_position', data['open_position']),
        closed_position=_number('gripper.closed_position', data['closed_position']),
    )


def _camera(index: int, value: object) -> Camera:
    where = f'cameras[{index}]'
    data = _keys(where, value, _names(Camera))
    wxyz = _numbers(f'{where}.camera_to_base_wxyz', data['camera_to_base_wxyz'], 4)
    return Camera(
        name=_text(f'{where}.name', data['name']),
        width_px=int(_number(f'{where}.width_px', data['width_px'])),
        height_px=int(_number(f'{where}.height_px', data['height_px'])),
        vertical_fov_rad=_number(f'{where}.vertical_fov_rad', data['vertical_fov_rad']),
        camera_in_base_m=_vector(f'{where}.camera_in_base_m', data['camera_in_base_m']),
        camera_to_base_wxyz=(wxyz[0], wxyz[1], wxyz[2], wxyz[3]),
    )


def _transform(where: str, value: object) -> Transform:
    data = _keys(where, value, _names(Transform))
    return Transform(_vector(f'{where}.xyz', data['xyz']), _vector(f'{where}.rpy', data['rpy']))


def _names(kind: type) -> tuple[str, ...]:
    """Keys of the file are the fields of the dataclass."""
    return tuple(field.name for field in fields(kind))


def _keys(where: str, value: object, names: tuple[str, ...]) -> Mapping[str, Any]:
    """Refuse anything but a mapping with exactly these keys."""
    if not isinstance(value, Mapping):
        raise ManifestError(where, f'{value!r} must be a mapping with {", ".join(names)}')
    unknown = [str(key) for key in value if key not in names]
    missing = [name for name in names if name not in value]
    if unknown:
        known = ', '.join(names)
        raise ManifestError(where, f'unknown key {", ".join(unknown)}; keys are {known}')
    if missing:
        raise ManifestError(where, f'missing key {", ".join(missing)}')
    return value


def _list(where: str, value: object) -> list[object]:
    if not isinstance(value, list) or not value:
        raise ManifestError(where, f'{value!r} must be a list with at least one entry')
    return value


def _text(where: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ManifestError(where, f'{value!r} must be text')
    return value


def _number(where: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ManifestError(where, f'{value!r} must be a finite number')
    return float(value)


def _numbers(where: str, value: object, count: int) -> list[float]:
    if not isinstance(value, list) or len(value) != count:
        raise ManifestError(where, f'{value!r} must be a list of {count} numbers')
    return [_number(f'{where}[{i}]', entry) for i, entry in enumerate(value)]


def _vector(where: str, value: object) -> tuple[float, float, float]:
    x, y, z = _numbers(where, value, 3)
    return x, y, z
