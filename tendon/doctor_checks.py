# SPDX-License-Identifier: Apache-2.0
"""The checks of ``tendon doctor``. Each tries the thing itself, not a sign of it."""

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
import logging
import os
from pathlib import Path
import platform
import socket
import sys
import threading

from onboard_decoder.realtime import Priority
from tendon.config_files import config_file
from tendon.doctor_finding import Finding, State
from tendon.doctor_network import steady_clock, tcp

PROFILE_VARIABLE = 'FASTRTPS_DEFAULT_PROFILES_FILE'
# Four processes with the 16 MiB segment of config/fastdds.xml, and as much again.
SHARED_MEMORY_MIB = 128
LOOP_PRIORITY = 80  # loop_priority of config/onboard.yaml


def python() -> Finding:
    """Python and machine are of a kind that was tested."""
    found = f'{platform.python_version()} on {sys.platform} {platform.machine()}'
    is_tested = sys.platform == 'linux' and platform.machine() == 'x86_64'
    state = State.OK if is_tested else State.WARNING
    return Finding('python', state, found, 'only Linux on x86-64 is tested')


def libraries() -> Finding:
    """Each library that the processes import is there."""
    missing, found = [], []
    for name in ('torch', 'transformers', 'grpcio', 'onnxruntime', 'ruckig', 'mujoco'):
        try:
            found.append(f'{name} {version(name)}')
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        return Finding(
            'libraries', State.FAILURE, f'no {", ".join(missing)}', "pip install 'tendon[all]'"
        )
    return Finding('libraries', State.OK, ', '.join(found))


def ros() -> Finding:
    """A ROS node can be made."""
    remedy = "pip install 'tendon[ros]', or source the setup.bash of ROS 2 Jazzy"
    try:
        import rclpy
    except ImportError as error:
        return Finding('ROS 2', State.FAILURE, str(error), remedy)
    context = rclpy.Context()
    rclpy.init(context=context)
    try:
        rclpy.create_node('tendon_doctor', context=context).destroy_node()
    finally:
        rclpy.try_shutdown(context=context)
    domain = os.environ.get('ROS_DOMAIN_ID', '0')
    return Finding('ROS 2', State.OK, f'rclpy makes a node in domain {domain}')


def rendering() -> Finding:
    """A camera image can be drawn without a screen."""
    from sim.display import mujoco

    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><light pos="0 0 3"/><geom type="sphere" size="0.3" rgba="1 0 0 1"/>'
        '<camera name="front" pos="0 -2 0" xyaxes="1 0 0 0 0 1"/></worldbody></mujoco>'
    )
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    try:
        with mujoco.Renderer(model, 64, 64) as renderer:
            renderer.update_scene(data, 'front')
            has_ball = renderer.render().std() > 0
    except Exception as error:
        return Finding(
            'rendering', State.FAILURE, str(error) or type(error).__name__,
            'sudo apt-get install libegl1 libegl-mesa0 libgl1 libgl1-mesa-dri',
        )
    state = State.OK if has_ball else State.FAILURE
    how = os.environ.get('MUJOCO_GL', 'the default of MuJoCo')
    return Finding('rendering', state, f'drew a ball with {how}', 'set MUJOCO_GL=egl or osmesa')


def checkpoint() -> Finding:
    """The shipped model loads."""
    from cloud_backbone.config import SHIPPED_CHECKPOINT
    from cloud_backbone.errors import StartError
    from cloud_backbone.model.backbone import load_backbone

    try:
        load_backbone(SHIPPED_CHECKPOINT)
    except StartError as error:
        return Finding('checkpoint', State.FAILURE, str(error), 'check the repository out again')
    return Finding('checkpoint', State.OK, f'{SHIPPED_CHECKPOINT.name} loads')


def decoder() -> Finding:
    """The decoder of the default arm loads and fits its manifest."""
    from onboard_decoder.errors import ConfigError
    from onboard_decoder.manifest_yaml import load_manifest
    from onboard_decoder.robot_factory import load_decoder

    try:
        manifest = load_manifest('tendon_arm')
        load_decoder(manifest)
    except ConfigError as error:
        return Finding('decoder', State.FAILURE, str(error), 'check the repository out again')
    return Finding('decoder', State.OK, f'fits the manifest of {manifest.name}')


def port() -> Finding:
    """The backbone's port is free, or a backbone serves there."""
    from protos.protocol import DEFAULT_PORT
    from tendon.backbone_process import is_serving

    address = f'127.0.0.1:{DEFAULT_PORT}'
    try:
        with socket.socket() as probe:
            probe.bind(('127.0.0.1', DEFAULT_PORT))
    except OSError:
        if is_serving(address):
            return Finding('port', State.OK, f'a backbone serves at {address}')
        return Finding(
            'port', State.WARNING, f'another program uses {address}', 'tendon serve --port 50300'
        )
    return Finding('port', State.OK, f'{address} is free')


def real_time(level: int = LOOP_PRIORITY) -> Finding:
    """The command loop may run above everything else."""
    priority = Priority(level)
    # A thread of its own: what it gets ends with it.
    thread = threading.Thread(target=priority.take)
    logging.disable()  # this check says it in its own words
    try:
        thread.start()
        thread.join()
    finally:
        logging.disable(logging.NOTSET)
    if 'refused' in priority.state:
        return Finding(
            'real time', State.WARNING, f'{priority.state}: ticks may be late under load',
            'add "@realtime - rtprio 90" to /etc/security/limits.conf and join that group; in a '
            'container: --cap-add SYS_NICE --ulimit rtprio=90',
        )
    return Finding('real time', State.OK, f'{priority.state} allowed')


def dds_profile() -> Finding:
    """Raw camera images fit Fast DDS's shared memory."""
    shipped = config_file('fastdds.xml')
    remedy = f'export {PROFILE_VARIABLE}={shipped or "config/fastdds.xml"}'
    chosen = os.environ.get(PROFILE_VARIABLE)
    if chosen is None:
        return Finding(
            'DDS profile', State.WARNING, 'raw images above 0.5 MB get lost on the way', remedy
        )
    if not Path(chosen).is_file():
        return Finding('DDS profile', State.FAILURE, f'no file {chosen}', remedy)
    return Finding('DDS profile', State.OK, chosen)


def shared_memory() -> Finding:
    """There is room for what ROS processes share."""
    folder = Path('/dev/shm')
    if not folder.is_dir():
        return Finding('shared memory', State.WARNING, f'no {folder}', 'messages go over UDP')
    sizes = os.statvfs(folder)
    free_mib = sizes.f_bavail * sizes.f_frsize // 2**20
    state = State.OK if free_mib >= SHARED_MEMORY_MIB else State.WARNING
    return Finding(
        'shared memory', state, f'{free_mib} MiB free in {folder}',
        'fastdds shm clean; in a container: --shm-size=512m',
    )


CHECKS: dict[str, Callable[[], Finding]] = {
    'python': python, 'libraries': libraries, 'ROS 2': ros, 'rendering': rendering,
    'checkpoint': checkpoint, 'decoder': decoder, 'port': port, 'real time': real_time,
    'DDS profile': dds_profile, 'shared memory': shared_memory, 'TCP': tcp,
    'steady clock': steady_clock,
}
