# SPDX-License-Identifier: Apache-2.0
"""The stages of a distillation; each leaves a file or directory and is skipped if it is there.

tokenizer -> eyes -> student, teacher -> plain and distilled -> agent -> report. Knows no command
line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
import json
from pathlib import Path
import shutil
from typing import Any

from cloud_backbone.agent_words import AGENT_TOKENS
from cloud_backbone.distillation.evaluate import choose, evaluate, summarise
from cloud_backbone.distillation.evaluate_acts import (
    choose_moments,
    evaluate_acts,
    summarise_acts,
)
from cloud_backbone.distillation.moments import read_moments
from cloud_backbone.distillation.opinion import TeacherOpinion
from cloud_backbone.distillation.profile import Profile
from cloud_backbone.distillation.progress import Progress
from cloud_backbone.distillation.resume import Resume
from cloud_backbone.distillation.scene_shards import read_split, Scenes
from cloud_backbone.distillation.train_planner import (
    Course,
    decisive_tokens,
    Opinion,
    train_planner,
)
from cloud_backbone.distillation.train_vision import evaluate_eyes, Eyes, train_eyes
from cloud_backbone.distillation.turns import tokenise, Turns
from cloud_backbone.model.checkpoint import (
    config_for,
    load_checkpoint,
    read_tokenizer,
    save_checkpoint,
)
from cloud_backbone.model.configuration import TendonVisionConfig
from cloud_backbone.model.distilled_vlm import TendonVlmForConditionalGeneration
from cloud_backbone.model.growth import add_words, grow
from cloud_backbone.model.prompt import clean_instruction
from cloud_backbone.model.start_values import new_model
from cloud_backbone.model.tokenizer import add_agent_words, EOS, train_tokenizer, word_id
from safetensors.torch import load_file, save_file
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

DECISIVE_WORDS = ('Plan', 'Done')
AGENT_STAGE = 3
WEIGHTS = 'weights.safetensors'
Model = TendonVlmForConditionalGeneration


@dataclass
class Workshop:
    """One distillation: where it reads and writes, and how much it trains."""

    data_dir: Path
    out_dir: Path
    profile: Profile
    seed: int
    device: str
    start: Path | None = None
    """A checkpoint that the agent stage goes on from; None: the better one of this run."""
    progress: Progress = field(default_factory=Progress)

    @cached_property
    def scenes(self) -> Scenes:
        """Scenes to train on."""
        return read_split(self.data_dir, 'train', self.profile.scenes)

    @cached_property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        """Tokenizer of this distillation, trained on first use."""
        if self.start is not None:
            tokenizer = read_tokenizer(self.start)
            add_agent_words(tokenizer)
            return tokenizer
        directory = self.out_dir / 'tokenizer'
        if not (directory / 'tokenizer.json').is_file():
            texts = [clean_instruction(item.text) for item in self.scenes.instructions]
            train_tokenizer(texts).save_pretrained(directory)
        return read_tokenizer(directory)

    @cached_property
    def turns(self) -> Turns:
        """All single questions to train on."""
        config = config_for(self.tokenizer, 'student')
        return tokenise(self.scenes, self.tokenizer, config)

    @cached_property
    def agent_turns(self) -> Turns:
        """Single questions, and moments in the middle of tasks."""
        config = config_for(self.tokenizer, 'student')
        moments = read_moments(self.data_dir, 'train', self.scenes)
        return tokenise(self.scenes, self.tokenizer, config, moments)

    @property
    def decisive(self) -> Tensor:
        """Mask of the tokens that settle what kind of answer it is."""
        ids = [word_id(self.tokenizer, word) for word in DECISIVE_WORDS]
        agent: list[int] = self.tokenizer.convert_tokens_to_ids(list(AGENT_TOKENS))
        # The end says that a call needs no manner.
        return decisive_tokens([*ids, *agent, EOS], len(self.tokenizer))


def make_eyes(shop: Workshop) -> Eyes:
    """Train vision encoder and dense head, or read them."""
    path = shop.out_dir / 'eyes.safetensors'
    if not path.is_file():
        resume = Resume(shop.out_dir)
        with shop.progress.stage('eyes', shop.profile.vision_steps) as report:
            eyes = train_eyes(shop.scenes, shop.profile, shop.seed, shop.device, report, resume)
        save_file({name: value.contiguous() for name, value in eyes.state_dict().items()}, path)
        resume.clear()
    eyes = Eyes(TendonVisionConfig())
    eyes.load_state_dict(load_file(path))
    return eyes.eval()


def make_student(shop: Workshop) -> Model:
    """Train the student on the truth, or read it."""
    model = new_model(config_for(shop.tokenizer, 'student'), shop.seed)
    if _read(shop, model, 'student'):
        return model
    give_eyes(model, make_eyes(shop))
    plan = shop.profile
    return _train(shop, model, 'student', _course(shop, plan.student_steps, plan.student_rate, 0))


def make_teacher(shop: Workshop, student: Model) -> Model:
    """Grow the teacher out of the student and train it on, or read it."""
    model = grow(student, config_for(shop.tokenizer, 'teacher'), shop.seed)
    if _read(shop, model, 'teacher'):
        return model
    plan = shop.profile
    return _train(shop, model, 'teacher', _course(shop, plan.teacher_steps, plan.teacher_rate, 1))


def make_variant(shop: Workshop, name: str, student: Model, teacher: Model | None) -> Model:
    """Train a copy of the student some steps more, with or without a teacher's opinion."""
    model = new_model(student.config, shop.seed)
    if _read(shop, model, name):
        return model
    model.load_state_dict(student.state_dict())
    opinion = None
    if teacher is not None:
        teacher.to(shop.device)  # type: ignore[arg-type]
        opinion = TeacherOpinion(teacher, shop.decisive.to(shop.device))
    plan = shop.profile
    course = _course(shop, plan.extra_steps, plan.extra_rate, 2)
    return _train(shop, model, name, course, opinion)


def make_agent(shop: Workshop, start: Path) -> Model:
    """Teach a checkpoint the agent's words, or read the result."""
    model, _ = load_checkpoint(start)
    model = add_words(model, len(shop.tokenizer), shop.seed)
    if _read(shop, model, 'agent'):
        return model
    course = _course(shop, shop.profile.agent_steps, shop.profile.agent_rate, AGENT_STAGE)
    return _train(shop, model, 'agent', course, turns=shop.agent_turns)


def _read(shop: Workshop, model: Model, name: str) -> bool:
    """Fill a model with the stored weights of a finished stage; say whether there are any."""
    path = shop.out_dir / name / WEIGHTS
    if path.is_file():
        model.load_state_dict(load_file(path))
        model.eval()
    return path.is_file()


def give_eyes(model: Model, eyes: Eyes) -> None:
    """Copy trained eyes into a model."""
    model.model.vision_tower.load_state_dict(eyes.encoder.state_dict())
    model.model.object_tokens.head.load_state_dict(eyes.head.state_dict())


def measure(shop: Workshop, name: str, split: str) -> dict[str, float]:
    """Evaluate a stored planner on a split, as it will be shipped, or read the figures."""
    path = shop.out_dir / name / f'{split}.json'
    if not path.is_file():
        model, tokenizer = load_checkpoint(shop.out_dir / name)
        scenes = read_split(shop.data_dir, split, shop.profile.scenes)
        asked = choose(scenes, shop.profile.evaluate, shop.seed)
        with shop.progress.stage(f'{name} on {split}', len(asked)) as report:
            verdicts = evaluate(
                model, tokenizer, scenes, asked, shop.device, lambda done: report(done - 1, {})
            )
        _write(path, summarise(verdicts))
    figures: dict[str, float] = json.loads(path.read_text(encoding='utf-8'))
    return figures


def measure_acts(shop: Workshop, name: str, split: str) -> dict[str, float]:
    """Evaluate a stored planner's acts on a split, or read the figures."""
    path = shop.out_dir / name / f'{split}_acts.json'
    if not path.is_file():
        model, tokenizer = load_checkpoint(shop.out_dir / name)
        scenes = read_split(shop.data_dir, split, shop.profile.scenes)
        moments = read_moments(shop.data_dir, split, scenes)
        asked = choose_moments(moments, shop.profile.evaluate, shop.seed)
        with shop.progress.stage(f'acts of {name} on {split}', len(asked)) as report:
            verdicts = evaluate_acts(
                model, tokenizer, scenes, asked, shop.device, lambda done: report(done - 1, {})
            )
        _write(path, summarise_acts(verdicts))
    figures: dict[str, float] = json.loads(path.read_text(encoding='utf-8'))
    return figures


def measure_eyes(shop: Workshop, split: str) -> dict[str, Any]:
    """Return how well the eyes see a split."""
    scenes = read_split(shop.data_dir, split, shop.profile.scenes)
    return evaluate_eyes(make_eyes(shop).to(shop.device), scenes, shop.device)


def ship(shop: Workshop, name: str) -> Path:
    """Copy a planner's checkpoint to `final`, without the training weights."""
    final = shop.out_dir / 'final'
    shutil.rmtree(final, ignore_errors=True)
    shutil.copytree(shop.out_dir / name, final, ignore=shutil.ignore_patterns(WEIGHTS))
    return final


def _train(
    shop: Workshop, model: Model, name: str, course: Course, opinion: Opinion | None = None,
    turns: Turns | None = None,
) -> Model:
    directory = shop.out_dir / name
    resume = Resume(directory)
    with shop.progress.stage(name, course.steps) as report:
        train_planner(
            model, shop.scenes, turns or shop.turns, shop.decisive, course, report, opinion,
            resume,
        )
    save_checkpoint(directory, model.cpu(), shop.tokenizer)
    weights = {key: value.contiguous() for key, value in model.state_dict().items()}
    save_file(weights, directory / WEIGHTS)
    resume.clear()
    return model.eval()


def _course(shop: Workshop, steps: int, rate: float, number: int) -> Course:
    """Return the course of the stage with this number; stages draw different batches."""
    plan = shop.profile
    return Course(steps, rate, plan.images, plan.rows, shop.seed + number, shop.device)


def _write(path: Path, figures: dict[str, Any]) -> None:
    path.write_text(json.dumps(figures, indent=1) + '\n', encoding='utf-8')


def best_device(wanted: str | None) -> str:
    """Return the wanted device, or a GPU where there is one."""
    return wanted or ('cuda' if torch.cuda.is_available() else 'cpu')
