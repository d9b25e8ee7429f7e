# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

from cloud_backbone.distillation.pipeline import distill, MEASURED
from cloud_backbone.model.checkpoint import load_checkpoint
import pytest

from tests.cloud_backbone.distillation.drawn_scenes import write_split


@pytest.mark.slow
def test_one_command_makes_a_checkpoint(tmp_path: Path) -> None:
    """Data in, checkpoint and report out; a second call finds all stages done."""
    for seed, split in enumerate(('train', 'val', 'test')):
        write_split(tmp_path / 'data', split, 8, seed)
    report = distill(tmp_path / 'data', tmp_path / 'out', seed=0, profile='smoke', device='cpu')
    assert report is not None and report.taught in ('plain', 'distilled')
    assert set(report.figures) == {*MEASURED, 'agent'}
    assert {'plans_right', 'acts_right'} <= set(report.figures['agent']['test'])
    load_checkpoint(report.checkpoint)
    stored = json.loads((tmp_path / 'out' / 'report.json').read_text())
    assert stored['figures'] == report.figures
    weights = tmp_path / 'out' / 'student' / 'weights.safetensors'
    before = weights.stat().st_mtime_ns
    again = distill(tmp_path / 'data', tmp_path / 'out', seed=0, profile='smoke', device='cpu')
    assert again == report and weights.stat().st_mtime_ns == before


def test_a_start_serves_the_agent_stage_only(tmp_path: Path) -> None:
    """No other stage goes on from a given checkpoint."""
    with pytest.raises(ValueError, match='agent'):
        distill(tmp_path, tmp_path / 'out', only='student', start=tmp_path)


def test_unknown_names_are_refused(tmp_path: Path) -> None:
    """An unknown profile or stage is refused with the known ones."""
    with pytest.raises(ValueError, match='full, smoke'):
        distill(tmp_path, tmp_path / 'out', profile='huge')
    with pytest.raises(ValueError, match='eyes, student'):
        distill(tmp_path, tmp_path / 'out', only='nose')
