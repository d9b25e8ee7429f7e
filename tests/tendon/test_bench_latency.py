# SPDX-License-Identifier: Apache-2.0
"""Promises of ``tendon bench latency`` on what it refuses before it starts anything."""

from pathlib import Path
from typing import Any

import pytest
from tendon.errors import BadRequest

pytestmark = pytest.mark.ros
pytest.importorskip('rclpy')


@pytest.mark.parametrize(('asked', 'message'), [
    ({'turns': 0}, 'turns is 0; allowed: 1 and more'),
    ({'link': 'wlan'}, "link is 'wlan'; allowed: ideal, wifi, 5g, wifi_busy, lte"),
    ({'link_file': Path('mine.yaml')}, 'mine.yaml holds links; say which one'),
    ({'link': 'office', 'link_file': Path('/nowhere/mine.yaml')}, 'cannot read /nowhere'),
])
def test_what_cannot_be_measured_is_refused_at_once(
    tmp_path: Path, asked: dict[str, Any], message: str
) -> None:
    """Never measured over something else than was asked for."""
    from tendon.bench_latency import run

    with pytest.raises(BadRequest, match=message):
        run(out=tmp_path / 'out', **asked)
    assert not (tmp_path / 'out').exists()
