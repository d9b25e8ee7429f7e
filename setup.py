# SPDX-License-Identifier: Apache-2.0
"""All metadata of the distribution and ROS package ``tendon``; serves pip and colcon alike."""

from functools import lru_cache
from glob import glob
import os
from pathlib import Path
import runpy
import sys

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent

# The wheels of ROS 2 exist for this platform only; elsewhere rclpy comes from a ROS install.
ROS_WHEELS = "; sys_platform == 'linux' and platform_machine == 'x86_64'"

# Reasons and licences: docs/dependencies.md. The versions that were tested: constraints.txt.
CORE = [
    'grpcio>=1.85.1,<2',
    'numpy>=1.26,<3',
    'opencv-python-headless>=4.9,<5',
    'protobuf>=7.35.1,<8',
    'pyyaml>=6,<7',
    'rich>=13,<16',
    'typer>=0.15,<1',
]
EXTRAS = {
    'cloud': [
        'grpcio-health-checking>=1.85.1,<2',
        'grpcio-reflection>=1.85.1,<2',
        'llguidance>=1.3,<2',
        'pillow>=10',
        'safetensors>=0.5,<1',
        'tokenizers>=0.21,<1',
        'torch>=2.6,<3',
        'transformers>=5.2,<6',
    ],
    'robot': ['onnxruntime>=1.20,<2', 'ruckig>=0.15,<1'],
    'sim': ['daqp>=0.7,<1', 'mink>=1,<2', 'mujoco>=3.3,<5'],
    'gazebo': ['daqp>=0.7,<1', 'mink>=1,<2', 'mujoco>=3.3,<5', 'pyzmq>=26,<28'],
    'ros': [
        'ros-jazzy-rclpy[fastrtps]==7.1.6' + ROS_WHEELS,
        'ros-jazzy-common-interfaces==5.3.6' + ROS_WHEELS,
        'ros-jazzy-lifecycle-msgs==2.0.3' + ROS_WHEELS,
    ],
    'train': ['onnx>=1.17,<2', 'onnxscript>=0.3,<1', 'torch>=2.6,<3'],
    'report': ['matplotlib>=3.8,<4', 'mcap>=1.2,<2'],
    'shared': ['redis>=6,<9'],
    # Peers of `tendon bench kv`; kvpress wants an older transformers than the tests run with.
    'bench': [
        'gguf>=0.10,<1',
        'hqq>=0.2.8,<1',
        'kvpress>=0.5.5,<0.6',
        'optimum-quanto>=0.2.7,<1',
    ],
    # Peers of `tendon bench agent`; vLLM is one more, see docs/agent_bench.md.
    'peers': ['accelerate>=1,<2', 'gguf>=0.10,<1', 'xllamacpp>=2026.10'],
    'test': [
        'buf-bin>=1.50,<2',
        'colcon-common-extensions>=0.3,<1',
        'grpcio-tools>=1.85.1,<2',
        'hypothesis>=6.100,<7',
        'import-linter>=2.3,<3',
        'mypy>=1.15,<3',
        'pytest>=8,<10',
        'pytest-asyncio>=0.25,<2',
        'pytest-timeout>=2.3,<3',
        'ruff>=0.11,<1',
        'types-grpcio>=1',
        'types-protobuf>=5',
        'types-PyYAML>=6',
        'xacro>=2,<3',
    ],
}
EXTRAS['all'] = sorted({
    requirement for name, extra in EXTRAS.items() if name not in ('bench', 'peers')
    for requirement in extra
})


# Not a module of Python: ctypes loads it. Not needed either: without it torch serves.
KERNEL = Extension(
    'cloud_backbone.kv_cache._kernel',
    sources=sorted(glob('cloud_backbone/kv_cache/kernel/*.cc')),
    depends=sorted(glob('cloud_backbone/kv_cache/kernel/*.h')),
    optional=True,
)


@lru_cache
def generate_messages() -> None:
    """Write the message classes beside the .proto files."""
    sys.path.insert(0, str(ROOT / 'protos'))
    try:
        from generate import generate
        generate()
    except ImportError as error:
        raise SystemExit(
            f'cannot generate the message classes ({error}); '
            "run: pip install 'grpcio-tools==1.85.1'"
        ) from error
    finally:
        sys.path.pop(0)


class BuildPy(build_py):
    """The build of pip and of colcon; generates before the files are collected."""

    def run(self) -> None:
        """Generate, then collect."""
        generate_messages()
        super().run()


class BuildExt(build_ext):
    """Compiles; all that ``colcon build --symlink-install`` runs, so it generates, too."""

    def run(self) -> None:
        """Generate, then compile."""
        generate_messages()
        super().run()

    def build_extension(self, ext: Extension) -> None:
        """Compile the kernel of the cache, or say in a sentence why there is none."""
        kernel = runpy.run_path(str(ROOT / 'cloud_backbone' / 'kv_cache' / 'kernel_build.py'))
        target = Path(self.get_ext_fullpath(ext.name))
        trouble = kernel['build'](target)
        if trouble:
            target.unlink(missing_ok=True)  # of an earlier build
            print(f'tendon: no compiled cache kernel, torch serves: {trouble}', file=sys.stderr)

    def get_ext_filename(self, fullname: str) -> str:
        """Return a file name without Python's version, which the kernel does not depend on."""
        return os.path.join(*fullname.split('.')) + '.so'


setup(
    name='tendon',
    version='0.1.0',
    description='A robot that thinks in the cloud and moves on its own.',
    long_description=(ROOT / 'README.md').read_text(encoding='utf-8'),
    long_description_content_type='text/markdown',
    author='The Tendon authors',
    maintainer='The Tendon authors',
    maintainer_email='maintainers@tendon.example',
    license='Apache-2.0',
    python_requires='>=3.10',
    packages=find_packages(
        include=[
            f'{package}{suffix}'
            for package in ('cloud_backbone', 'onboard_decoder', 'protos', 'sim', 'tendon')
            for suffix in ('', '.*')
        ]
    ),
    package_data={
        '': ['py.typed'],
        'protos': ['*.proto', '*_pb2.pyi'],
        'cloud_backbone': ['checkpoints/**/*'],
        'onboard_decoder': ['robots/**/*'],
        'sim': ['assets/**/*'],
    },
    data_files=[
        ('share/ament_index/resource_index/packages', ['resource/tendon']),
        ('share/tendon', ['package.xml']),
        ('share/tendon/launch', sorted(glob('launch/*.launch.py'))),
        ('share/tendon/config', sorted(glob('config/*.*'))),
        ('share/tendon/config/robots', sorted(glob('config/robots/*.yaml'))),
        ('share/tendon/urdf', ['sim/assets/tendon_arm.urdf', 'urdf/tendon_arm.urdf.xacro']),
        ('share/tendon/worlds', sorted(glob('worlds/*.sdf'))),
    ],
    zip_safe=False,
    install_requires=CORE,
    extras_require=EXTRAS,
    ext_modules=[KERNEL],
    cmdclass={'build_py': BuildPy, 'build_ext': BuildExt},
    entry_points={
        'console_scripts': [
            'tendon = tendon.cli:main',
            'backbone = cloud_backbone.server:main',
            'onboard_node = onboard_decoder.onboard_node:main',
            'arm_node = sim.arm_node:main',
        ],
    },
)
