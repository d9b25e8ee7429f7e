# SPDX-License-Identifier: Apache-2.0
"""Promises to robots that send a memory, over a real connection with a scripted model."""

from collections.abc import Iterator
import time

from cloud_backbone.config import LimitsConfig
from protos import plan_pb2, planner_pb2
import pytest

from tests.fakes.backbone_server import BackboneServer
from tests.fakes.raw_client import jpeg, RawClient
from tests.fakes.scripted_backbone import ScriptedBackbone
from tests.fakes.task_words import entry, memory, script, SENTENCE, steps_said

ENTRY_TOKENS = 3 + len(' the red cube')
"""Three words of the agent and a name in bytes."""
HAND_TOKENS = 1
"""What is said of the hand before the image."""


class Watched(ScriptedBackbone):
    """Records the prompts of each turn."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        super().__init__(self._act)

    def _act(self, prompt: str) -> str:
        if not self.prompts or self.prompts[-1] != prompt:
            self.prompts.append(prompt)
        return script(prompt)


@pytest.fixture(scope='module')
def model() -> Watched:
    """Return the model behind the server."""
    return Watched()


@pytest.fixture(scope='module')
def server(model: Watched) -> Iterator[BackboneServer]:
    """Serve it."""
    with BackboneServer(model, LimitsConfig(max_sessions=16)) as server:
        yield server


@pytest.fixture
def client(server: BackboneServer) -> Iterator[RawClient]:
    """Return a client that has said hello."""
    with RawClient(server.address) as client:
        client.hello()
        yield client


def ask(
    client: RawClient, asked: planner_pb2.TaskMemory | None, epoch: int = 1, **fields: object
) -> planner_pb2.TurnAnswer:
    """Ask with a memory and an image of its own."""
    turn = client.turn(**{'memory': asked, **fields})  # type: ignore[arg-type]
    turn.observation.observation_epoch = epoch
    turn.observation.images[0].jpeg = jpeg(seed=epoch)
    return client.ask(turn)


def test_a_turn_with_memory_gets_one_call(client: RawClient) -> None:
    """The answer is a tool call with the steps that carry it out, and its certificate."""
    answer = ask(client, memory(0, 2), epoch=7)
    plan = answer.plan
    assert plan.call.tool == plan_pb2.TOOL_GRASP
    assert plan.call.object == 'red cube'
    skills = [plan_pb2.Skill.Name(step.skill) for step in plan.steps]
    assert skills == ['SKILL_REACH', 'SKILL_GRASP', 'SKILL_LIFT']
    assert answer.known_entry_count == 2
    assert answer.exactness == plan.certificate.exactness == plan_pb2.EXACTNESS_NUMERIC
    assert plan.certificate.stalest_observation_epoch == 7
    assert plan.certificate.freshest_observation_epoch == 7
    assert len(plan.certificate.prefix_hash) == 64
    held = ask(client, memory(2, 3, hand_holds=True), epoch=8).plan
    assert (held.call.tool, held.call.target) == (plan_pb2.TOOL_PLACE, 'blue bin')
    assert held.certificate.stalest_observation_epoch == 8


def test_a_step_costs_the_same_however_long_the_history(client: RawClient) -> None:
    """Each turn computes its new entry, the new scene and what it writes, and nothing else."""
    computed = [
        ask(client, memory(count - 1, count), epoch=count).computed_token_count
        for count in range(1, 13)
    ]
    assert len(set(computed[1:])) == 1
    scene_and_answer = ask(client, memory(12, 12), epoch=90).computed_token_count
    assert computed[-1] == scene_and_answer + HAND_TOKENS + ENTRY_TOKENS


def test_the_model_sees_every_entry_once(client: RawClient, model: Watched) -> None:
    """Repeated entries are not repeated to the model."""
    ask(client, memory(0, 2))
    ask(client, memory(1, 3), epoch=2)
    answer = ask(client, memory(0, 3), epoch=3)
    assert answer.known_entry_count == 3
    assert steps_said(model.prompts[-1]) == 3


def test_a_gap_is_refused_and_then_filled(client: RawClient) -> None:
    """The error says which entry is expected; the stream goes on."""
    ask(client, memory(0, 1))
    error = ask(client, memory(3, 4)).error
    assert error.reason == planner_pb2.ERROR_REASON_HISTORY_GAP
    assert error.expected_entry == 1
    assert ask(client, memory(1, 4), epoch=2).known_entry_count == 4


@pytest.mark.parametrize(('fields', 'words'), [
    ({'entries': [entry(1, name='red dragon')]}, "unknown thing 'red dragon'"),
    ({'lessons': ['Be careful.']}, "'Be careful.' is no lesson; lessons are, for example"),
    ({'lessons': [SENTENCE] * 4}, '4 lessons, allowed are 3'),
    ({'trial': 0}, 'trial is 0'),
    ({'first_entry': 250, 'entries': [entry(n) for n in range(9)]}, 'allowed are 0 to 256'),
])  # fmt: skip
def test_a_bad_memory_is_an_answer(
    client: RawClient, fields: dict[str, object], words: str
) -> None:
    """What is no memory costs one turn, says why, and changes nothing."""
    ask(client, memory(0, 1))
    error = ask(client, memory(0, 0, **fields)).error
    assert error.reason == planner_pb2.ERROR_REASON_BAD_MEMORY
    assert error.remedy == planner_pb2.REMEDY_FIX_REQUEST
    assert words in error.message
    assert ask(client, memory(1, 2), epoch=2).known_entry_count == 2


def test_the_same_id_with_another_content_is_refused(client: RawClient) -> None:
    """Neither an entry nor a turn changes after it was taken."""
    ask(client, memory(0, 2), turn_id='first')
    changed = memory(0, 0, entries=[entry(1, 'HELD')])
    error = ask(client, changed).error
    assert error.reason == planner_pb2.ERROR_REASON_STEP_CONFLICT
    error = ask(client, memory(0, 2), epoch=9, turn_id='first').error
    assert error.reason == planner_pb2.ERROR_REASON_STEP_CONFLICT
    assert "'first'" in error.message


def test_a_failed_trial_gives_a_lesson(client: RawClient) -> None:
    """To reflect is to get a sentence that the next trial can carry, and nothing to execute."""
    reflect = memory(0, 3, purpose=planner_pb2.PURPOSE_REFLECT)
    plan = ask(client, reflect).plan
    assert plan.lesson == SENTENCE
    assert not plan.steps
    assert plan.outcome == plan_pb2.PLAN_OUTCOME_REFUSED
    second = memory(0, 0, trial=2, lessons=[plan.lesson])
    assert ask(client, second, epoch=2).plan.call.tool == plan_pb2.TOOL_GRASP


def test_a_check_sees_no_history(client: RawClient, model: Watched) -> None:
    """A check is a single question; it costs the memory's cache nothing."""
    ask(client, memory(0, 4))
    before = ask(client, memory(4, 5), epoch=2)
    check = ask(client, memory(5, 5, purpose=planner_pb2.PURPOSE_CHECK), epoch=3)
    assert model.prompts[-1] == 'pick up the red cube'
    assert not check.plan.HasField('call')
    assert check.plan.outcome == plan_pb2.PLAN_OUTCOME_STEPS
    assert check.known_entry_count == 5
    after = ask(client, memory(5, 6), epoch=4)
    assert after.computed_token_count == before.computed_token_count


def test_plain_turns_and_turns_with_memory_share_a_batch(
    server: BackboneServer, model: Watched
) -> None:
    """Robots of both kinds are answered together, each as if it were alone."""
    clients = [RawClient(server.address) for _ in range(5)]
    for client in clients:
        client.hello()
    model.batches.clear()
    model.delay_s = 0.2
    for number, client in enumerate(clients):
        asked = memory(0, number) if number % 2 else None
        client.send_turn(client.turn(turn_id=f'of-{number}', memory=asked))
        time.sleep(0.02)
    answers = [client.receive().turn_answer for client in clients]
    model.delay_s = 0.0
    for client in clients:
        client.close()
    assert [answer.plan.HasField('call') for answer in answers] == [False, True] * 2 + [False]
    assert [answer.known_entry_count for answer in answers] == [0, 1, 0, 3, 0]
    assert model.batches == [1, 4]


def test_a_fault_costs_a_recomputation_only(client: RawClient, model: Watched) -> None:
    """After an error in the middle of a turn the history is still known."""
    ask(client, memory(0, 3))
    model.fail = RuntimeError('secret')
    assert ask(client, memory(3, 4), epoch=2).error.reason == planner_pb2.ERROR_REASON_INTERNAL
    answer = ask(client, memory(4, 4), epoch=3)
    assert answer.known_entry_count == 4
    assert steps_said(model.prompts[-1]) == 4
