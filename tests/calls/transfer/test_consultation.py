"""The pure machine of a consultation: its ways, and that none of them leaves anything behind."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from cordboard.calls.offer import CallerGone, PartyAnswered, PartyGone, PartyRings
from cordboard.calls.transfer.consultation import (
    Cancelled,
    Consultation,
    ConsultationEvent,
    ConsultationRules,
    Do,
    Done,
    Refused,
    State,
    TimedOut,
    Verdict,
    outcome_of,
)

RULES = ConsultationRules(ring=25.0, brief=45.0)


def drive(*events: ConsultationEvent, rules: ConsultationRules = RULES) -> Consultation:
    """A machine that has taken these events, a tenth of a second apart."""
    machine = Consultation(rules)
    machine.start(0.0)
    for number, event in enumerate(events, 1):
        late = isinstance(event, TimedOut) and machine.deadline is not None
        machine.take(event, machine.deadline if late else number / 10)
    return machine


HELD, DIALLED, BRIEFED, JOINED = Done(Do.HOLD), Done(Do.DIAL), Done(Do.BRIEF), Done(Do.JOIN)
RINGING = (HELD, DIALLED, PartyRings())
BRIEFING = (*RINGING, PartyAnswered())
TALK = (*BRIEFING, Verdict(True), JOINED)
BACK = Done(Do.BACK)


@pytest.mark.parametrize(
    ("events", "outcome", "returned"),
    [
        ((*RINGING, PartyGone(17, 486), BACK), "busy", True),
        ((*RINGING, PartyGone(21, 603), BACK), "declined", True),
        ((*RINGING, PartyGone(19, 480), BACK), "unavailable", True),
        ((*RINGING, PartyGone(19), BACK), "no_answer", True),
        ((*RINGING, PartyGone(34, 503), BACK), "failed", True),
        ((*RINGING, TimedOut(), BACK), "no_answer", True),
        ((HELD, DIALLED, TimedOut(), BACK), "unavailable", True),
        ((HELD, Refused(Do.DIAL, "no phone", unreachable=True), BACK), "unavailable", True),
        ((HELD, Refused(Do.DIAL, "500"), BACK), "failed", True),
        ((Refused(Do.HOLD, "500"), BACK), "failed", True),
        ((*RINGING, Cancelled(), BACK), "cancelled", True),
        ((*RINGING, CallerGone()), "cancelled", False),
        ((*BRIEFING, Verdict(False), BACK), "declined", True),
        ((*BRIEFING, Verdict(None), BACK), "machine", True),
        ((*BRIEFING, TimedOut(), BACK), "machine", True),
        ((*BRIEFING, PartyGone(16), BACK), "declined", True),
        ((*BRIEFING, CallerGone(), Done(Do.PART)), "cancelled", False),
        ((*BRIEFING, CallerGone(), PartyGone(16)), "cancelled", False),
        ((*BRIEFING, CallerGone(), TimedOut()), "cancelled", False),
        ((*TALK, CallerGone()), "accepted", False),
        ((*TALK, PartyGone(16)), "accepted", False),
        ((*TALK, Cancelled(), BACK), "accepted", True),
        ((*BRIEFING, Verdict(True), Refused(Do.JOIN, "422"), BACK), "failed", True),
        ((*RINGING, PartyGone(17), Refused(Do.BACK, "404")), "busy", False),
        ((*RINGING, PartyGone(17), TimedOut()), "busy", False),
        ((*RINGING, PartyGone(17), CallerGone()), "busy", False),
    ],
)
def test_each_way_through_ends_in_its_outcome(events, outcome, returned):
    machine = drive(*events)
    assert machine.state is State.OVER
    assert machine.deadline is None
    assert machine.result is not None
    assert (machine.result.outcome, machine.result.returned) == (outcome, returned)


def test_the_caller_returns_after_the_talk_if_the_destination_says_so():
    returning = ConsultationRules(returns=True)
    machine = drive(*TALK, PartyGone(16), BACK, rules=returning)
    assert machine.result is not None
    assert (machine.result.outcome, machine.result.returned) == ("accepted", True)
    machine = drive(*TALK, CallerGone(), rules=returning)
    assert machine.result is not None
    assert not machine.result.returned


def test_a_ringing_phone_stops_as_soon_as_the_caller_hangs_up():
    machine = drive(*RINGING)
    assert machine.take(CallerGone(), 1.0) == [Do.DROP]


def test_a_human_who_took_the_call_hears_no_more_of_the_briefing():
    machine = drive(*BRIEFING)
    assert machine.take(Verdict(True), 1.0) == [Do.HUSH, Do.JOIN]


def test_a_warm_transfer_introduces_first():
    machine = drive(*BRIEFING, rules=ConsultationRules(introduces=True))
    assert machine.take(Verdict(True), 1.0) == [Do.HUSH, Do.INTRODUCE]
    assert machine.take(Done(Do.INTRODUCE), 3.0) == [Do.JOIN]
    assert machine.state is State.JOINED


def test_a_timer_of_an_earlier_state_has_no_effect():
    machine = drive(*RINGING)
    assert machine.take(TimedOut(), 5.0) == []
    assert machine.state is State.RINGING


def test_an_answer_after_the_end_changes_nothing():
    machine = drive(*RINGING, TimedOut())
    assert machine.take(PartyAnswered(), 30.0) == []
    assert machine.state is State.RETURNING


def test_a_phone_that_never_rang_is_unavailable_and_not_unanswered():
    assert outcome_of(16, 0, rang=False)[0] == "unavailable"
    assert outcome_of(16, 0, rang=True)[0] == "no_answer"
    assert outcome_of(127, 607, rang=True)[0] == "declined"
    assert outcome_of(58, 488, rang=False)[0] == "failed"


@dataclass
class World:
    """A telephone system in which anything may fail at any moment, in virtual time."""

    chance: random.Random
    machine: Consultation
    now: float = 0.0
    agenda: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    order: itertools.count[int] = field(default_factory=itertools.count)
    caller: str = "agent"
    """Where the caller is: agent, hold, party, gone."""
    party: str = "none"
    """none, calling, answered, gone."""
    speaks: bool = False

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self.agenda, (self.now + seconds, next(self.order), act))

    def take(self, event: ConsultationEvent) -> None:
        for command in self.machine.take(event, self.now):
            self.begin(command)

    def begin(self, command: Do) -> None:
        """Each request takes some milliseconds; requests of one connection stay in order, because
        they take about equally long."""
        self.later(0.005, lambda: self.carry_out(command))

    def carry_out(self, command: Do) -> None:
        moves = command in (Do.HOLD, Do.JOIN, Do.BACK, Do.INTRODUCE)
        fails = self.chance.random() < 0.05 and command not in (Do.DROP, Do.HUSH)
        too_late = command is Do.JOIN and self.party != "answered"
        if fails or too_late or (moves and self.caller == "gone"):
            self.take(Refused(command, "422"))
        elif self.act(command):
            self.take(Done(command))

    def act(self, command: Do) -> bool:
        """Do it; True if it is done at once."""
        match command:
            case Do.HOLD:
                self.caller = "hold"
            case Do.DIAL:
                self.party = "calling"
                self.later(self.chance.uniform(0, 40), self.decide)
            case Do.BRIEF:
                self.speaks = True
                verdict = self.chance.choice([True, True, False, None])
                self.later(self.chance.uniform(0, 60), lambda: self.judge(verdict))
                return False
            case Do.HUSH:
                self.speaks = False
            case Do.INTRODUCE | Do.PART:
                self.speaks = True
                if command is Do.INTRODUCE:
                    self.caller = "agent"
                self.later(self.chance.uniform(0, 40), lambda: self.said(command))
                return False
            case Do.JOIN:
                self.caller = "party"
            case Do.DROP:
                self.party = "gone"
            case Do.BACK:
                self.caller = "agent"
        return True

    def said(self, command: Do) -> None:
        if self.speaks:
            self.speaks = False
            self.take(Done(command))

    def judge(self, verdict: bool | None) -> None:
        if self.speaks:
            self.speaks = False
            self.take(Verdict(verdict))

    def decide(self) -> None:
        """The other party rings, answers, or refuses."""
        if self.party != "calling":
            return
        match self.chance.randrange(4):
            case 0:
                self.take(PartyRings())
                self.later(self.chance.uniform(0, 40), self.decide)
            case 1:
                self.leave(self.chance.choice([0, 16, 17, 19, 21, 34]))
            case _:
                self.party = "answered"
                self.take(PartyAnswered())

    def leave(self, cause: int = 16) -> None:
        if self.party in ("calling", "answered"):
            self.party = "gone"
            self.take(PartyGone(cause))

    def caller_leaves(self) -> None:
        if self.caller != "gone":
            self.caller = "gone"
            self.take(CallerGone())

    def run(self, longest: float) -> None:
        """Until the machine is over and every request is done."""
        for command in self.machine.start(self.now):
            self.begin(command)
        while self.now < longest:
            due = self.machine.deadline
            if self.agenda and (due is None or self.agenda[0][0] <= due):
                self.now, _, act = heapq.heappop(self.agenda)
                act()
            elif due is not None:
                self.now = due
                self.take(TimedOut())
                assert self.machine.deadline != due, "a time out has no effect"
            else:
                return
            self.check()

    def check(self) -> None:
        """Nobody is left with a silent line for longer than a request takes."""
        if self.machine.state is State.OVER:
            assert self.machine.deadline is None


def hang_ups(world: World, seed: int) -> None:
    """One to three hang-ups or cancellations, often at one moment."""
    chance = world.chance
    acts = [world.caller_leaves, world.leave, lambda: world.take(Cancelled())]
    moment = chance.choice([chance.uniform(0, 0.05), chance.uniform(0, 90)])
    for act in chance.sample(acts, chance.randint(1, 3)):
        world.later(moment, act)
        if chance.random() < 0.5:
            moment += chance.choice([0.0, 0.001, chance.uniform(0, 20)])
    del seed


@pytest.mark.parametrize("block", range(4))
def test_thousands_of_hang_ups_leave_nothing_behind(block):
    ends: set[tuple[str, bool]] = set()
    for seed in range(block * 2_000, (block + 1) * 2_000):
        chance = random.Random(seed)
        rules = ConsultationRules(introduces=chance.random() < 0.3, returns=chance.random() < 0.5)
        world = World(chance, Consultation(rules))
        hang_ups(world, seed)
        world.later(300, world.caller_leaves)  # every talk ends
        world.run(400)
        result = world.machine.result
        assert world.machine.state is State.OVER, seed
        assert result is not None
        assert world.party in ("none", "gone"), f"the other party is left, seed {seed}"
        assert not world.speaks, f"somebody still speaks, seed {seed}"
        if result.returned:
            assert world.caller in ("agent", "gone"), seed
        ends.add((result.outcome, result.returned))
    assert len(ends) > 8, ends
