# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys


def test_a_missing_display_names_the_remedy():
    """Where off-screen rendering cannot work, the error says what to install."""
    code = (
        'from sim.errors import DisplayError\n'
        'try:\n'
        '    from sim.camera import Camera\n'
        '    from sim.world import World\n'
        '    Camera(World().model)\n'
        'except DisplayError as fault:\n'
        '    print(fault)\n'
    )
    # The two variables contradict each other, so that no display can be opened anywhere.
    environment = {**os.environ, 'MUJOCO_GL': 'egl', 'PYOPENGL_PLATFORM': 'osmesa'}
    answer = subprocess.run(
        [sys.executable, '-c', code], env=environment, capture_output=True, text=True, check=True
    )
    assert "MUJOCO_GL='egl'" in answer.stdout
    assert 'apt-get install libegl1' in answer.stdout


def test_the_back_end_has_a_default_that_users_may_change():
    """EGL is chosen when nothing is said, and a choice made before is kept."""
    for given, wanted in ((None, 'egl'), ('osmesa', 'osmesa')):
        environment = {k: v for k, v in os.environ.items() if k != 'MUJOCO_GL'}
        if given:
            environment['MUJOCO_GL'] = given
        code = 'import os, sim; print(os.environ["MUJOCO_GL"])'
        answer = subprocess.check_output([sys.executable, '-c', code], env=environment, text=True)
        assert answer.strip() == wanted
