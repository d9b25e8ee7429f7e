# SPDX-License-Identifier: Apache-2.0
"""Promises to a robot behind a bad network, with a backbone that is killed and started again.

The robot's real client, a proxy that cuts, repeats and reorders, and the real server with a state
directory. TENDON_FUZZ_SEEDS sets how many runs there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
import os
from pathlib import Path
from random import Random
import shutil
import threading
import time
from typing import Any

from cloud_backbone.config import BackboneConfig, LimitsConfig
from cloud_backbone.model_thread import warm_up
from cloud_backbone.planner import ModelFacts
from cloud_backbone.task_memory import HistoryEntry as CloudEntry
from cloud_backbone.task_memory import StepResult as CloudResult
from cloud_backbone.task_memory import Tool as CloudTool
from cloud_backbone.task_memory import ToolCall as CloudCall
from cloud_backbone.turn_planner import TurnJob, TurnPlanner
from onboard_decoder.errors import PlannerUnavailable
from onboard_decoder.manifest_yaml import load_manifest
from onboard_decoder.planner_client import LinkSettings, PlannerClient
from onboard_decoder.planner_port import TurnAnswer, TurnFailure, TurnRequest
from onboard_decoder.task_memory import HistoryEntry, Purpose, StepResult, TaskMemory, Tool
import pytest

from tests.fakes.backbone_server import BackboneServer
from tests.fakes.chaos_proxy import ChaosProxy
from tests.fakes.counting_backbone import counting_backbone, history_text, proof_of, THINGS
from tests.fakes.raw_client import jpeg
from tests.fakes.task_words import SENTENCE

SEEDS = int(os.environ.get('TENDON_FUZZ_SEEDS', '50'))
RUNS = 25
"""Of one test."""
WORKERS = 4
STEPS = 8
PATIENCE_S = 60.0
MANIFEST = load_manifest('tendon_arm')
LINK = LinkSettings(
    hello_timeout_s=2.0, backoff_first_s=0.002, backoff_most_s=0.02, refused_backoff_s=0.02
)
GOAL = 'put the red cube in the blue bin'
FORGIVEN = ('link_broken', 'deadline_passed', 'stale_epoch', 'overloaded', 'draining')
RESULTS = (StepResult.HELD, StepResult.MISSED, StepResult.SLIPPED, StepResult.FAILED)


class Backbones:
    """One backbone after the other, each going on where the one before was killed."""

    def __init__(self, folder: Path, proxy: ChaosProxy, facts: ModelFacts) -> None:
        self.computed: list[Counter[str]] = []
        """How often each process has answered each turn."""
        self._folder, self._proxy, self._facts = folder, proxy, facts
        self._place = folder / 'process-0'
        self._ending: list[threading.Thread] = []
        self._server = self._started()

    def restart(self) -> None:
        """Kill the process: the disk is as it is now, what it does from now on is lost."""
        self._proxy.cut()
        left = self._place
        self._place = self._folder / f'process-{len(self.computed)}'
        while True:
            try:
                shutil.copytree(left, self._place)
                break
            except shutil.Error:  # a file was put in the place of another one meanwhile
                shutil.rmtree(self._place)
        self._end()
        self._server = self._started()

    def close(self) -> None:
        """End all processes."""
        self._end()
        for thread in self._ending:
            thread.join()

    def _started(self) -> BackboneServer:
        counts: Counter[str] = Counter()
        self.computed.append(counts)

        class Counted(TurnPlanner):
            def plan(self, jobs: Sequence[TurnJob]) -> list[Any]:
                answers = super().plan(jobs)
                counts.update(
                    job.turn.turn_id for job, answer in zip(jobs, answers, strict=True)
                    if not isinstance(answer, BaseException)
                )
                return answers

        config = BackboneConfig(state_dir=str(self._place))
        limits = LimitsConfig(spill_after_s=0.02)
        server = BackboneServer(counting_backbone(), limits, config, self._facts, Counted)
        server.__enter__()
        self._proxy.route(server.address)
        return server

    def _end(self) -> None:
        thread = threading.Thread(target=self._server.stop)
        thread.start()
        self._ending.append(thread)


class ScriptedRobot:
    """Does what it is told, once, and remembers it; asks again whenever an answer fails."""

    def __init__(self, client: PlannerClient, rng: Random, backbones: Backbones) -> None:
        self.executed: list[tuple[int, int]] = []
        """Trial and step of each call that was carried out."""
        self.given_before_kill: list[set[str]] = [set()]
        """Turns whose answer had arrived when each process was killed."""
        self.withdrawn: set[str] = set()
        """Turns whose answer it did not want any more, at least once."""
        self._client, self._rng, self._backbones = client, rng, backbones
        self._memory = TaskMemory()
        self._arrived: set[str] = set()
        self._turns = 0
        self._deadline_s = time.monotonic() + PATIENCE_S

    def work(self) -> None:
        """Take some steps in two trials, with checks in between and a lesson at the end of one."""
        for trial in (1, 2):
            lessons = () if trial == 1 else (SENTENCE,)
            self._memory = TaskMemory(trial=trial, lessons=lessons)
            for _ in range(STEPS // 2):
                if self._rng.random() < 0.2:
                    self._ask(Purpose.CHECK)
                self._act()
        calls = [entry.call for entry in self._memory.entries if entry.call.tool is Tool.GRASP]
        thing = calls[-1].object_name if calls else THINGS[0]
        assert self._ask(Purpose.REFLECT).plan.lesson == SENTENCE.replace('red cube', thing)

    def _act(self) -> None:
        entries = self._memory.entries
        answer = self._ask(Purpose.ACT)
        call, count = answer.plan.call, len(entries)
        assert call is not None
        # The thing and the place prove that the model saw each entry, once, in order.
        assert call.object_name == THINGS[count % len(THINGS)]
        assert answer.plan.thought == proof_of(said(entries), count).split('.<')[0].strip() + '.'
        self.executed.append((self._memory.trial, count))
        entry = HistoryEntry(count + 1, call, self._rng.choice(RESULTS))
        self._memory = replace(self._memory, entries=(*entries, entry))

    def _ask(self, purpose: Purpose) -> TurnAnswer:
        """Ask until an answer arrives; now and then ask once more what was answered."""
        turn, answer = self._answered(purpose)
        if self._rng.random() < 0.25:
            again = self._try(turn, kill=0.5)
            while not isinstance(again, TurnAnswer):
                assert time.monotonic() < self._deadline_s, again
                again = self._try(turn, kill=0.0)
            assert again.plan == answer.plan
        return answer

    def _answered(self, purpose: Purpose) -> tuple[TurnRequest, TurnAnswer]:
        """Ask until an answer arrives, sometimes the same turn again, sometimes another."""
        turn = self._turn(purpose)
        while True:
            result = self._try(turn)
            if isinstance(result, TurnAnswer):
                self._arrived.add(turn.turn_id)
                assert result.known_entries == len(self._memory.entries)
                certificate = result.plan.certificate
                assert certificate is not None
                epochs = certificate.stalest_epoch, certificate.freshest_epoch
                assert epochs == (turn.observation_epoch,) * 2
                return turn, result
            assert time.monotonic() < self._deadline_s, result
            assert result is None or result.reason in FORGIVEN, result
            if self._rng.random() < 0.5:
                turn = self._turn(purpose)

    def _try(
        self, turn: TurnRequest, kill: float = 0.08
    ) -> TurnAnswer | TurnFailure | None:
        """Ask once; None where there was no link, or the robot lost its patience."""
        if self._rng.random() < kill:
            self.given_before_kill.append(set(self._arrived))
            self._backbones.restart()
        try:
            pending = self._client.submit(turn)
        except PlannerUnavailable:
            time.sleep(0.002)
            return None
        patience_s = self._rng.choice([0.002, 10.0, 10.0, 10.0])
        until_s = time.monotonic() + patience_s
        while (result := pending.poll()) is None:
            if time.monotonic() > until_s:
                pending.cancel()
                self.withdrawn.add(turn.turn_id)
                return None
            time.sleep(0.001)
        if isinstance(result, TurnFailure) and result.reason == 'deadline_passed':
            self.withdrawn.add(turn.turn_id)
        return result

    def _turn(self, purpose: Purpose) -> TurnRequest:
        self._turns += 1
        memory = replace(
            self._memory, purpose=purpose, expected_resume_s=self._rng.choice([0.0, 0.05])
        )
        return TurnRequest(
            f'turn-{self._turns}', GOAL, {'front': jpeg(seed=self._turns)},
            (0.0,) * len(MANIFEST.joints), self._turns, 1.0, memory,
        )


def said(entries: tuple[HistoryEntry, ...]) -> str:
    """Return a history as the model is to see it."""
    return history_text(tuple(
        CloudEntry(
            entry.step_id,
            CloudCall(CloudTool(entry.call.tool.value), entry.call.object_name),
            CloudResult(entry.result.value),
        )
        for entry in entries
    ))


@pytest.fixture(scope='module')
def facts() -> ModelFacts:
    """Return what all backbones say of their model."""
    return warm_up(counting_backbone())


def run(seed: int, folder: Path, facts: ModelFacts) -> int:
    """Run one robot; return how often its stream broke."""
    with ChaosProxy(seed) as proxy:
        backbones = Backbones(folder, proxy, facts)
        try:
            with PlannerClient(proxy.address, 'robot-1', MANIFEST, LINK) as client:
                robot = ScriptedRobot(client, Random(seed), backbones)
                robot.work()
                proxy.cut()
        finally:
            backbones.close()
        steps = [(trial, step) for trial in (1, 2) for step in range(STEPS // 2)]
        assert robot.executed == steps, 'a call was lost or carried out twice'
        assert not proxy.faults
        twice = [turn for turn, plans in proxy.plans.items() if len(plans) > 1]
        assert not twice, 'one turn got two plans'
        for process, counts in enumerate(backbones.computed):
            twice = [turn for turn, count in counts.items() if count > 1]
            assert set(twice) <= robot.withdrawn, 'an observation was applied twice'
            again = set(counts) & robot.given_before_kill[process]
            assert not again, 'an observation was applied again after its answer was given'
        return proxy.cuts


@pytest.mark.parametrize('first', range(0, SEEDS, RUNS))
def test_nothing_is_lost_and_nothing_happens_twice(
    tmp_path: Path, facts: ModelFacts, first: int
) -> None:
    """Whatever network and processes do, each entry, observation and call counts exactly once."""
    seeds = range(first, min(first + RUNS, SEEDS))
    with ThreadPoolExecutor(WORKERS) as pool:
        runs = {seed: pool.submit(run, seed, tmp_path / str(seed), facts) for seed in seeds}
        for seed, one in runs.items():
            try:
                one.result()
            except BaseException as error:
                for other in runs.values():
                    other.cancel()
                raise AssertionError(f'seed {seed}: {error}') from error
            shutil.rmtree(tmp_path / str(seed), ignore_errors=True)
    assert sum(one.result() for one in runs.values()) > len(seeds), 'the network was too good'
