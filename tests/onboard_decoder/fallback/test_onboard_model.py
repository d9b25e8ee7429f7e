# SPDX-License-Identifier: Apache-2.0
"""Promises about the small planner's file: which ones are taken, and which are not."""

import shutil

from onboard_decoder.errors import ConfigError, DecoderMismatch
from onboard_decoder.fallback.onboard_model import OnboardModel, PlannerFileError
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.robot_factory import PLANNER_FILE
import onnx
import pytest

from tests.onboard_decoder.gantry import gantry

MANIFEST = load_manifest('tendon_arm')
FILE = MANIFEST.decoder.parent / PLANNER_FILE


def test_a_file_of_another_robot_is_refused(tmp_path):
    """The message names both robots."""
    with pytest.raises(DecoderMismatch, match=r'tendon_arm.*gantry'):
        OnboardModel(gantry(tmp_path), FILE)


def test_what_is_no_planner_is_refused(tmp_path):
    """Missing, broken, another network, or metadata of another format: a sentence, not a trace."""
    broken = tmp_path / 'broken.onnx'
    broken.write_bytes(FILE.read_bytes()[:5000])
    other = tmp_path / 'other.onnx'
    shutil.copy(MANIFEST.decoder, other)
    future = tmp_path / 'future.onnx'
    file = onnx.load(FILE)
    next(entry for entry in file.metadata_props if entry.key == 'format').value = '99'
    onnx.save(file, future)
    for path in (tmp_path / 'none.onnx', broken, other, future):
        with pytest.raises(PlannerFileError, match='planner_pipeline') as error:
            OnboardModel(MANIFEST, path)
        assert isinstance(error.value, ConfigError) and str(path) in str(error.value)


def test_the_file_is_small_and_names_no_folder():
    """It fits into the repository, and says nothing of where it was made."""
    data = FILE.read_bytes()
    assert len(data) < 4_000_000
    assert b'/tmp' not in data and b'/home' not in data and b'.py' not in data


def test_one_run_gives_a_plan_not_a_thread_pool():
    """The session has one thread, as the command loop needs the others."""
    options = OnboardModel(MANIFEST, FILE)._session.get_session_options()
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (1, 1)
