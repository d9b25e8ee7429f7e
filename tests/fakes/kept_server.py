# SPDX-License-Identifier: Apache-2.0
"""A scripted server that keeps sessions in a folder, and what is asked of it."""

from collections.abc import Iterator
from contextlib import contextmanager
import itertools
from pathlib import Path
import shutil

from cloud_backbone.config import BackboneConfig, CacheConfig, LimitsConfig
from protos import planner_pb2

from tests.fakes.backbone_server import BackboneServer
from tests.fakes.raw_client import jpeg, RawClient
from tests.fakes.scripted_backbone import ScriptedBackbone
from tests.fakes.task_words import script

TURNS = itertools.count()
State = planner_pb2.GetSessionStateResponse


@contextmanager
def served(
    folder: Path | None, limits: LimitsConfig | None = None,
    model: ScriptedBackbone | None = None, cache: CacheConfig | None = None,
) -> Iterator[BackboneServer]:
    """Serve a scripted model that keeps sessions in a folder."""
    config = BackboneConfig(
        state_dir='' if folder is None else str(folder), cache=cache or CacheConfig()
    )
    with BackboneServer(model or ScriptedBackbone(script), limits, config) as server:
        yield server


def ask(
    client: RawClient, asked: planner_pb2.TaskMemory | None, epoch: int = 1, **fields: object
) -> planner_pb2.TurnAnswer:
    """Ask with a memory and an image of its own."""
    turn = client.turn(**{'memory': asked, 'turn_id': f'turn-{next(TURNS)}', **fields})
    turn.observation.observation_epoch = epoch
    turn.observation.images[0].jpeg = jpeg(seed=epoch)
    return client.ask(turn)


def state_of(client: RawClient) -> State:
    """Return what the session of a client holds."""
    request = planner_pb2.GetSessionStateRequest(session_id=client.welcome.session_id)
    return client.stub.GetSessionState(request, timeout=10)


def names(folder: Path) -> list[str]:
    """Return the sessions in a state directory."""
    return [path.name for path in folder.iterdir() if path.is_dir()]


def crashed(folder: Path, copy: Path) -> Path:
    """Return a copy of a folder as it is now: what a killed process leaves behind."""
    return Path(shutil.copytree(folder, copy))
