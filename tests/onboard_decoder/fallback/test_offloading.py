# SPDX-License-Identifier: Apache-2.0
"""Promises about who answers a turn, when, and why."""

from onboard_decoder.clock import ManualClock, to_ns
from onboard_decoder.config import OffloadSettings
from onboard_decoder.errors import PlannerUnavailable
from onboard_decoder.fallback.heard_request import TooHard
from onboard_decoder.fallback.offloading import OffloadingPlanner
from onboard_decoder.plan import ActionPlan, Outcome
from onboard_decoder.planner_port import (
    Grant,
    Link,
    LinkQuality,
    PlannerState,
    Remedy,
    Source,
    TurnAnswer,
    TurnFailure,
    TurnRequest,
)
import pytest

SETTINGS = OffloadSettings(mode='auto', late_s=1.0)
CLOUD_PLAN = ActionPlan(Outcome.DONE, reason='from the backbone')
OWN_PLAN = ActionPlan(Outcome.DONE, reason='from on board')
GRANT = Grant('s', 1, False, 'm', 128, 128, 0, 0, 200)


class Party:
    """Answers after a delay on the robot's clock, with a plan or a failure."""

    def __init__(self, clock, answer, delay_s):
        self.clock, self.answer, self.delay_s = clock, answer, delay_s
        self.link, self.quality, self.grant = Link.READY, None, GRANT
        self.turns, self.cancelled, self.verdicts = [], [], {}

    def state(self):
        is_open = self.link in (Link.READY, Link.SILENT)
        return PlannerState(self.link, 'as set', GRANT if is_open else None, self.quality)

    def submit(self, turn):
        if self.link is not Link.READY:
            raise PlannerUnavailable('as set')
        self.turns.append(turn)
        return Pending(self, turn, self.clock.now_ns() + to_ns(self.delay_s))

    def listen(self, instruction):
        """Nothing to do."""

    def heard(self, instruction):
        return self.verdicts.get(instruction)

    def close(self):
        self.link = Link.CLOSED


class Pending:
    def __init__(self, party, turn, due_ns):
        self.party, self.turn, self.due_ns = party, turn, due_ns

    def poll(self):
        if self.party.clock.now_ns() < self.due_ns:
            return None
        if isinstance(self.party.answer, ActionPlan):
            return TurnAnswer(self.turn.turn_id, self.party.answer, 0, self.due_ns)
        return self.party.answer

    def cancel(self):
        self.party.cancelled.append(self.turn.turn_id)


class World:
    """A robot that asks one turn after the other."""

    def __init__(self, settings=SETTINGS):
        self.clock = ManualClock(to_ns(100.0))
        self.cloud = Party(self.clock, CLOUD_PLAN, 0.2)
        self.own = Party(self.clock, OWN_PLAN, 0.02)
        self.planner = OffloadingPlanner(self.cloud, self.own, settings, self.clock)
        self.count = 0

    def submit(self, instruction='pick up the red cube', deadline_s=5.0):
        self.count += 1
        turn = TurnRequest(f'turn-{self.count}', instruction, {}, (), 1, deadline_s)
        return self.planner.submit(turn)

    def result(self, pending, within_s=5.0):
        for _ in range(int(within_s / 0.01)):
            found = pending.poll()
            if found is not None:
                return found
            self.clock.advance(to_ns(0.01))
        raise AssertionError(f'no result within {within_s} s')

    def ask(self, instruction='pick up the red cube'):
        return self.result(self.submit(instruction))


@pytest.fixture
def world():
    return World()


def failure(remedy=Remedy.RETRY, reason='overloaded'):
    return TurnFailure('turn-1', reason, f'scripted {reason}', remedy)


def test_with_a_good_link_the_backbone_alone_is_asked(world):
    """Nothing runs on board, and the plan is the backbone's own, with a reason."""
    for _ in range(20):
        answer = world.ask()
        assert answer.plan is CLOUD_PLAN and answer.choice.source is Source.CLOUD
        assert answer.choice.reason
    assert not world.own.turns


@pytest.mark.parametrize('link', [Link.SILENT, Link.DEGRADED, Link.LOST])
def test_without_a_link_the_small_planner_answers(world, link):
    """A silent, broken or lost link is no reason to stand still."""
    world.cloud.link = link
    answer = world.ask()
    assert answer.plan is OWN_PLAN and answer.choice.source is Source.ONBOARD
    assert link.value in answer.choice.reason
    assert not world.cloud.turns


def test_with_a_slow_link_both_are_asked_and_the_sure_one_is_taken(world):
    """The small planner does not wait, and the backbone's late answer is dropped."""
    world.cloud.quality, world.cloud.delay_s = LinkQuality(answer_s=2.0), 2.0
    pending = world.submit()
    answer = world.result(pending)
    assert answer.plan is OWN_PLAN and '2.00 s' in answer.choice.reason
    assert len(world.cloud.turns) == 1
    world.clock.advance(to_ns(3.0))
    assert pending.poll() is answer


def test_a_turn_that_shows_the_link_is_withdrawn_by_the_next(world):
    """At most one dropped turn of the backbone is under way beside the one that is asked."""
    world.cloud.quality, world.cloud.delay_s = LinkQuality(answer_s=9.0), 9.0
    for _ in range(4):
        world.ask()
    assert world.cloud.cancelled == ['turn-1', 'turn-2', 'turn-3']


def test_what_is_too_hard_on_board_waits_for_the_backbone(world):
    """However slow the link is, nobody guesses."""
    world.cloud.quality, world.cloud.delay_s = LinkQuality(answer_s=3.0), 3.0
    world.own.answer = failure(Remedy.FIX, 'too_hard')
    answer = world.ask('stack the red cube on the blue cube')
    assert answer.plan is CLOUD_PLAN and answer.choice.source is Source.CLOUD


def test_a_late_backbone_is_stood_in_for(world):
    """Once the backbone is late the small planner is asked, and not before."""
    world.cloud.delay_s = 60.0
    pending = world.submit()
    world.clock.advance(to_ns(0.9))
    assert pending.poll() is None and not world.own.turns
    answer = world.result(pending)
    assert answer.plan is OWN_PLAN and 'no answer' in answer.choice.reason


def test_a_link_that_breaks_under_a_turn_is_noticed_at_once(world):
    """The hedge does not wait until the answer would be late."""
    world.cloud.delay_s = 60.0
    pending = world.submit()
    assert pending.poll() is None
    world.cloud.link = Link.SILENT
    answer = world.result(pending, within_s=0.1)
    assert answer.plan is OWN_PLAN and 'silent' in answer.choice.reason


def test_a_failure_of_the_backbone_is_stood_in_for(world):
    """A backbone that says that it cannot now is as good as none."""
    world.cloud.answer = failure()
    answer = world.ask()
    assert answer.plan is OWN_PLAN and 'overloaded' in answer.choice.reason


def test_a_request_that_must_be_fixed_is_told(world):
    """What the backbone refuses as wrong is not handed to somebody else."""
    world.cloud.answer = failure(Remedy.FIX, 'bad_instruction')
    result = world.ask()
    assert result.remedy is Remedy.FIX and not world.own.turns


def test_where_nobody_can_answer_the_turn_fails_and_may_be_asked_again(world):
    """The message holds both reasons, and the remedy is to ask again: the link may come back."""
    world.cloud.answer, world.own.answer = failure(), failure(Remedy.FIX, 'too_hard')
    result = world.ask()
    assert isinstance(result, TurnFailure) and result.remedy is Remedy.RETRY
    assert 'overloaded' in result.message and 'too_hard' in result.message


def test_the_backbone_comes_back_after_the_dwell_time(world):
    """Then it alone is asked again, and says why."""
    world.cloud.link = Link.LOST
    assert world.ask().choice.source is Source.ONBOARD
    world.cloud.link = Link.READY
    for _ in range(int(SETTINGS.dwell_s / 0.05) + 2):
        world.planner.state()
        world.clock.advance(to_ns(0.05))
    before = len(world.own.turns)
    answer = world.ask()
    assert answer.plan is CLOUD_PLAN and 'has been good' in answer.choice.reason
    assert len(world.own.turns) == before


def test_a_backbone_that_answers_pings_and_no_turns_is_waited_for_once(world):
    """The link looks good and nothing was ever measured: the answer that it owes tells."""
    world.cloud.delay_s = 1000.0
    world.ask()
    for pause_s in (0.1, 10.0, 0.1):
        world.clock.advance(to_ns(pause_s))
        world.planner.state()
        asked_ns = world.clock.now_ns()
        answer = world.ask()

        assert answer.choice.source is Source.ONBOARD and 'owed' in answer.choice.reason
        assert world.clock.now_ns() - asked_ns < to_ns(0.1)

    world.cloud.delay_s = 0.1
    world.ask()
    for _ in range(400):
        world.clock.advance(to_ns(0.01))
        world.planner.state()
    assert world.ask().choice.source is Source.CLOUD


def test_withdrawing_a_turn_withdraws_it_from_both(world):
    """Nobody goes on for a turn that nobody wants."""
    world.cloud.quality = LinkQuality(answer_s=2.0)
    world.submit().cancel()
    assert world.cloud.cancelled == world.own.cancelled == ['turn-1']


def test_turns_can_be_asked_without_a_link_unless_they_are_too_hard(world):
    """The state offers the small planner's grant only where it could answer."""
    world.submit('stack it')
    world.cloud.link = Link.LOST
    assert world.planner.state().grant_for('stack it') is world.own.grant
    world.own.verdicts['stack it'] = TooHard('to stack needs the backbone')
    assert world.planner.state().grant_for('stack it') is None
    assert world.planner.state().choice.source is Source.ONBOARD


def test_what_was_too_hard_keeps_no_other_instruction_from_the_small_planner(world):
    """A person who hears that stacking needs the backbone says something simpler."""
    world.own.verdicts['stack it'] = TooHard('to stack needs the backbone')
    world.ask('stack it')
    world.cloud.link = Link.LOST

    assert world.planner.state().grant_for('pick up the red cube') is world.own.grant
    assert world.ask().choice.source is Source.ONBOARD


def test_a_good_link_offers_no_fallback(world):
    """What stands in is not mentioned while nobody needs it."""
    assert world.planner.state().fallback is None
    assert world.planner.state().grant_for('any') is GRANT
