# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from dataclasses import asdict, replace
import json
from pathlib import Path

import numpy as np
from onboard_decoder.kinematics import ForwardKinematics
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.plan_decoder import PlanDecoder
from onboard_decoder.training import course
from onboard_decoder.training import train as train_module
from onboard_decoder.training.closed_loop import LoopSettings, play_sequences, summary
from onboard_decoder.training.course import TrainSettings
from onboard_decoder.training.dataset import (
    Batch,
    DemonstrationsError,
    draw_batches,
    GIVEN,
    load_demonstrations,
)
from onboard_decoder.training.decoder_model import DecoderConfig, DecoderModel, spline_basis
from onboard_decoder.training.drafts import with_drafts
from onboard_decoder.training.earlier import begin_with, EarlierDecoderError
from onboard_decoder.training.export import export, random_inputs
from onboard_decoder.training.losses import losses_of
from onboard_decoder.training.model_card import model_card
from onboard_decoder.training.tool_layer import ToolLayer
from onboard_decoder.training.train import train
import onnx
import pytest
from sim.arm_geometry import ArmGeometry
from sim.arm_limits import ArmLimits
from sim.demonstrations import Settings, write_demonstrations
from sim.expert import Expert, SKILLS
from sim.step_sequences import write_sequences
import torch

ROOT = Path(__file__).parents[2]
MANIFEST = load_manifest('tendon_arm')
SMALL = DecoderConfig(width=32, blocks=1, goal_width=16)
LIMITS = ArmLimits.from_manifest(
    ROOT / 'onboard_decoder' / 'robots' / 'tendon_arm' / 'manifest.yaml')
GEOMETRY = ArmGeometry.from_urdf(ROOT / 'sim' / 'assets' / 'tendon_arm.urdf')


@pytest.fixture(scope='module')
def demonstrations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp('demonstrations')
    write_demonstrations(folder, Settings(1, 400, 200), GEOMETRY, LIMITS)
    return folder


def _model(seed: int = 0) -> DecoderModel:
    torch.manual_seed(seed)
    return DecoderModel(MANIFEST, SMALL).eval()


def test_both_sides_name_the_same_skills() -> None:
    """The expert's skills, in order, are the decoder's."""
    from onboard_decoder.training.decoder_model import SKILLS as DECODED

    assert DECODED == SKILLS


def test_tool_layer_agrees_with_the_robots_kinematics() -> None:
    """Position equals forward kinematics; velocity is its change."""
    layer, kinematics = ToolLayer(MANIFEST.kinematics), ForwardKinematics(MANIFEST)
    rng = np.random.default_rng(0)
    for _ in range(10):
        joints, velocities = rng.uniform(-2, 2, 6), rng.uniform(-1, 1, 6)
        position, velocity = layer(
            torch.tensor(joints[None], dtype=torch.float32),
            torch.tensor(velocities[None], dtype=torch.float32))

        ahead, behind = (kinematics.tool_position(np.append(joints + t * velocities, 0.0))
                         for t in (1e-5, -1e-5))
        np.testing.assert_allclose(position[0], (ahead + behind) / 2, atol=1e-5)
        np.testing.assert_allclose(velocity[0], (ahead - behind) / 2e-5, atol=1e-4)


def test_basis_of_time_is_a_partition_of_one() -> None:
    """The splines are positive and sum to one at every action."""
    basis = spline_basis(50, 16)

    assert basis.min() >= 0
    torch.testing.assert_close(basis.sum(0), torch.ones(50))


def test_at_its_goal_the_arm_stands_still_with_any_weights() -> None:
    """Without training: at the goal, at rest, the chunk is the goal."""
    model = _model()
    inputs = random_inputs(model, MANIFEST, 32, seed=3)
    with torch.no_grad():
        goal = model.predict(**inputs).goal
        inputs['joints'] = torch.cat([goal, inputs['joints'][:, 6:]], dim=1)
        inputs['velocities'] = torch.zeros_like(inputs['velocities'])
        chunk, _ = model(**inputs)

    clipped = torch.minimum(torch.maximum(goal, model.lower[:6]), model.upper[:6])
    torch.testing.assert_close(chunk[..., :6], clipped[:, None].expand(-1, 50, -1),
                               atol=1e-3, rtol=0)


def test_no_input_leads_beyond_the_joint_limits() -> None:
    """Limits are part of the graph, whatever the weights."""
    model = _model()
    for parameter in model.parameters():
        parameter.data.mul_(20)
    with torch.no_grad():
        chunk, remaining = model(**random_inputs(model, MANIFEST, 64, seed=1))

    assert torch.all(chunk >= model.lower)
    assert torch.all(chunk <= model.upper)
    assert torch.all((remaining >= 0) & (remaining <= 3.0))


def test_training_learns(demonstrations: Path, tmp_path: Path) -> None:
    """A few steps lower every part of the loss."""
    losses = []
    for steps in (2, 60):
        train(tmp_path / str(steps), demonstrations, MANIFEST,
              TrainSettings(steps=steps, batch=100, rate=3e-3), SMALL)
        losses.append(json.loads((tmp_path / str(steps) / 'training.json').read_text())['losses'])

    assert losses[1]['goal'] < losses[0]['goal']
    assert losses[1]['arm'] < losses[0]['arm']


def test_an_interrupted_training_ends_where_an_uninterrupted_one_does(
    demonstrations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resuming from a checkpoint gives the weights of a run in one piece."""
    settings = TrainSettings(steps=12, batch=50)
    whole = train(tmp_path / 'whole', demonstrations, MANIFEST, settings, SMALL)
    monkeypatch.setattr(course, 'SAVE_EVERY', 5)

    def interrupted(data: Batch, batch: int, seed: int, first: int, last: int) -> Iterator[Batch]:
        yield from draw_batches(data, batch, seed, first, 7)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(train_module, 'draw_batches', interrupted)
        train(tmp_path / 'parts', demonstrations, MANIFEST, settings, SMALL)
    resumed = train(tmp_path / 'parts', demonstrations, MANIFEST, settings, SMALL)

    for name, value in whole.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[name], value, msg=name)


def test_exported_file_computes_the_same_and_says_whose_it_is(tmp_path: Path) -> None:
    """Torch and onnxruntime agree; the file loads as a decoder of this robot and names no path."""
    model = _model()
    path = tmp_path / 'decoder.onnx'

    difference = export(model, MANIFEST, path)
    decoder = PlanDecoder(MANIFEST, path)

    assert difference < 1e-5
    assert decoder.skills == SKILLS
    assert (decoder.horizon, decoder.latent_size) == (50, 32)
    assert str(ROOT).encode() not in path.read_bytes()


def test_a_later_decoder_can_begin_with_an_earlier_one(tmp_path: Path) -> None:
    """Weights are copied by name; other sizes and files without weights are refused."""
    path, earlier, later = tmp_path / 'decoder.onnx', _model(0), _model(1)
    export(earlier, MANIFEST, path)

    begin_with(later, path)

    for name, value in earlier.named_parameters():
        if value.abs().max() > 0:   # the exporter folds layers of zeros away
            torch.testing.assert_close(dict(later.named_parameters())[name], value, msg=name)
    wider = DecoderModel(MANIFEST, DecoderConfig(width=16, blocks=1, goal_width=16))
    with pytest.raises(EarlierDecoderError, match='same sizes'):
        begin_with(wider, path)
    with pytest.raises(EarlierDecoderError, match='missing'):
        begin_with(torch.nn.Linear(2, 2), path)


def test_inputs_that_an_earlier_decoder_did_not_have_are_ignored_at_first(tmp_path: Path) -> None:
    """New columns of a layer begin with zeros, so the decoder begins as good as it was."""
    path, model = tmp_path / 'layer.onnx', torch.nn.Linear(5, 2)
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)
    graph = onnx.helper.make_graph(
        [], 'layer', [], [], [onnx.numpy_helper.from_array(weight, 'weight')])
    onnx.save(onnx.helper.make_model(graph), path)

    begin_with(model, path)

    assert np.array_equal(model.weight.detach()[:, :3], weight)
    assert not model.weight[:, 3:].any()


def test_drafts_lie_between_noise_and_chunk(demonstrations: Path) -> None:
    """At tau 0 a draft says nothing of the chunk; near 1 it is the chunk."""
    data, model = load_demonstrations(demonstrations), _model()
    batch = with_drafts(data, model.spread, model.top_bend, torch.Generator().manual_seed(0))
    tau, off = batch['tau'][:, 0], (batch['draft'] - batch['chunk']) / model.spread
    start = data['joints'].unsqueeze(1)

    assert 0.15 < (tau == 0).float().mean() < 0.35
    assert tau.max() < 0.91
    noise = (batch['draft'] - start)[tau == 0] / model.spread
    assert noise.std().item() == pytest.approx(1.0, abs=0.03)
    near = off[tau > 0.8]
    way = ((data['chunk'] - start) / model.spread)[tau > 0.8]
    assert (near + 0.2 * way.abs() + 0.2 * 5 > 0).all()
    hidden = batch['known'][:, 0] == 0
    assert 0.3 < hidden.float().mean() < 0.5
    assert not batch['accelerations'][hidden].any()


def test_a_chunk_beyond_the_acceleration_limit_costs() -> None:
    """The same error of position costs more where it asks for more than the arm can do."""
    model = _model()
    inputs = random_inputs(model, MANIFEST, 8, seed=1)
    with torch.no_grad():
        said = model.predict(**inputs)
    still = inputs['joints'].unsqueeze(1).expand(-1, 50, -1)
    batch = {**inputs, 'chunk': still, 'goal': said.goal, 'remaining': said.remaining}
    rough = still + 0.01 * (torch.arange(50) % 2)[None, :, None]

    calm = losses_of(replace(said, chunk=still + 0.01), batch, model.top_bend)
    wild = losses_of(replace(said, chunk=rough), batch, model.top_bend)

    assert calm.limit == 0
    assert wild.limit > 1


def test_missing_demonstrations_are_named(tmp_path: Path) -> None:
    """An empty folder and a shard without an array are errors that say so."""
    with pytest.raises(DemonstrationsError, match='no shard'):
        load_demonstrations(tmp_path)
    np.savez(tmp_path / 'shard_0000.npz', skill=np.zeros((1, 8)))
    with pytest.raises(DemonstrationsError, match=r'shard_0000\.npz has no target'):
        load_demonstrations(tmp_path)


def test_batches_go_over_all_samples_and_can_start_anywhere(demonstrations: Path) -> None:
    """An epoch shows every sample once; batch number n is the same from wherever one starts."""
    data = load_demonstrations(demonstrations)
    data['number'] = torch.arange(len(data['skill']))
    epoch = [batch['number'] for batch in draw_batches(data, 40, 7, 0, 10)]
    late = [batch['number'] for batch in draw_batches(data, 40, 7, 6, 12)]

    assert sorted(torch.cat(epoch).tolist()) == list(range(len(data['skill'])))
    torch.testing.assert_close(late[0], epoch[6])
    assert set(GIVEN) <= set(data)


def test_the_shipped_decoder_arrives(tmp_path: Path) -> None:
    """In closed loop the decoder of this repository ends steps at their targets, in good time."""
    path = tmp_path / 'sequences.npz'
    write_sequences(path, Expert(GEOMETRY, LIMITS), seed=77, count=12)

    results = play_sequences(path, PlanDecoder(MANIFEST), MANIFEST, LoopSettings(15, 1))
    figures = summary(results)

    assert figures['step end detected'] > 0.97
    assert figures['steps above acceleration limit'] < 0.05
    assert figures['tool error at rest p95 [mm]'] < 5.0
    assert figures['finger command right'] > 0.97
    assert figures['ticks with early fingers'] < 0.001
    assert figures['time by expert p50'] < 1.3
    assert figures['steps above speed limit'] == 0.0


def test_the_card_has_every_figure() -> None:
    """The model card holds what was measured and how to make the file again."""
    about = {
        'skills': 'reach', 'latent_size': 32, 'horizon': 50, 'parameters': 1, 'opset': 18,
        'difference': 1e-6, 'samples': 10, 'cpu_s': 1.0, **asdict(TrainSettings()),
    }
    figures = {'steps': 4.0, 'step end detected': 0.5}
    card = model_card(MANIFEST, about, {
        'every 8, used 3 later': figures, 'every 15, used 1 later': {**figures, 'steps': 5.0}})

    assert '| figure | every 8, used 3 later | every 15, used 1 later |' in card
    assert '| step end detected | 0.5 | 0.5 |' in card
    assert '| steps | 4 | 5 |' in card
    assert 'python -m onboard_decoder.training' in card
