# SPDX-License-Identifier: Apache-2.0
"""The real server keeps the contract, with a scripted model and with a small random one."""

from collections.abc import Iterator
from pathlib import Path

from cloud_backbone.model.backbone import load_backbone
import pytest

from tests.contracts.planner_contract import PlannerContract
from tests.fakes.backbone_server import BackboneServer
from tests.fakes.scripted_backbone import ScriptedBackbone


@pytest.fixture(scope='module')
def scripted() -> Iterator[str]:
    """Serve a scripted model."""
    with BackboneServer(ScriptedBackbone()) as server:
        yield server.address


@pytest.fixture(scope='module')
def random(tiny_checkpoint: Path) -> Iterator[str]:
    """Serve a tiny random model of the project's own kind."""
    with BackboneServer(load_backbone(tiny_checkpoint)) as server:
        yield server.address


class TestScriptedModel(PlannerContract):
    @pytest.fixture
    def address(self, scripted: str) -> str:
        """Where the scripted model is served."""
        return scripted


class TestRandomModel(PlannerContract):
    @pytest.fixture
    def address(self, random: str) -> str:
        """Where the random model is served."""
        return random
