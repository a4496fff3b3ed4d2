"""What is told of a call, from its ledger and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
from hypothesis import given
from hypothesis import strategies as st

from cordboard.calls import events
from cordboard.calls.history import (
    CallHistory,
    LedgerLine,
    Overlap,
    Silence,
    read,
    read_lines,
)

CALL: tuple[tuple[int, events.LedgerEvent], ...] = (
    (0, events.Offered("id-1", "2026-01-02T03:04:05.678+01:00", "test", "47", "Kari", "100")),
    (1, events.Bound("demo", "local", 1, ["get_atis"], [], ["AI_CONTEXT names 'x'"])),
    (20, events.Connected()),
    (30, events.Answering(0, "Good morning.")),
    (60, events.AudioStarted(0)),
    (900, events.AudioEnded(0)),
    (1300, events.SpeechBegan(1200)),
    (2500, events.TurnEnded(1, 2000)),
    (2600, events.Heard(1, "Weather at Verness?", 0.93, "Weather at Værnes?")),
    (2610, events.ToolCalled(1, "1.1", "get_atis", "mcp:atis:get_atis", {"icao": "ENVA"})),
    (2700, events.ToolFiller("1.1", "One moment.")),
    (2900, events.ToolAnswered("1.1", "get_atis", "ok", "Wind calm.", 290)),
    (2910, events.Answering(1, "Wind calm.")),
    (2911, events.Answering(1, "Visibility good.")),
    (2960, events.AudioStarted(1)),
    (2960, events.Latency(1, 500, 100, 310, 30, 20, 960, 130, filler=True)),
    (3100, events.Answered(1, 1100)),
    (3300, events.Held(3180, 120)),
    (3450, events.Resumed("backchannel", 150)),
    (3780, events.Held(3700, 80)),
    (3900, events.BargedIn(1, "Wind calm. Visibility", 940, 80, 200)),
    (3950, events.Answering(1, "As you like.")),
    (4000, events.AudioStarted(1)),
    (4800, events.AudioEnded(1)),
    (5000, events.Key("5")),
    (5050, events.Silence("reprompt", 250, "Are you there?")),
    (5100, events.Transferred("sales", ok=False, error="busy")),
    (5200, events.Trouble("agent", "gone")),
    (6000, events.Ended("failed", "agent_failed", 6000)),
)


def lines_of(
    call: Iterable[tuple[int, events.LedgerEvent]] = CALL,
) -> list[LedgerLine]:
    return [{"at_ms": at, "type": event.type, **event.fields()} for at, event in call]


def file_of(call: Iterable[tuple[int, events.LedgerEvent]] = CALL) -> bytes:
    return b"".join(orjson.dumps(line) + b"\n" for line in lines_of(call))


LEDGER = file_of()


def test_the_whole_call() -> None:
    history = CallHistory.from_lines(lines_of())
    assert (history.call_id, history.context, history.outcome) == ("id-1", "demo", "failed")
    assert (history.connected_ms, history.ended_ms) == (20, 6000)
    assert history.troubles == ["AI_CONTEXT names 'x'", "agent: gone"]
    assert [transfer["error"] for transfer in history.transfers] == ["busy"]
    (turn,) = history.caller_turns
    assert (turn.speech_ms, turn.last_speech_ms, turn.endpoint_ms) == (1200, 2000, 2500)
    assert turn.answer_end_ms == 4800
    assert (turn.latency["total_ms"], turn.filled, turn.answer_ms) == (960, True, 1100)
    assert set(turn.latency) == {f"{stage}_ms" for stage, _ in CALL[15][1].stages()}  # type: ignore[attr-defined]
    assert history.overlaps == [
        Overlap(3180, 3300, 3450, "backchannel"),
        Overlap(3700, 3780, 3900, "interruption"),
    ]
    assert history.silences == [Silence("reprompt", 4800, 5050, "Are you there?")]
    (use,) = history.tools
    assert (use.name, use.arguments, use.status) == ("get_atis", {"icao": "ENVA"}, "ok")
    assert (use.asked_ms, use.answered_ms, use.filler) == (2610, 2900, "One moment.")


def test_of_an_interrupted_answer_the_transcript_has_what_was_heard() -> None:
    history = CallHistory.from_lines(lines_of())
    assert history.transcript() == [
        ("agent", "Good morning."),
        ("caller", "Weather at Værnes?"),
        ("agent", "Wind calm. Visibility As you like."),
    ]
    turn = history.turns[1]
    assert turn.interrupted == "Wind calm. Visibility"
    assert turn.answer == ["Wind calm.", "Visibility good.", "As you like."]


def test_an_answer_of_which_nothing_was_heard_is_not_in_the_transcript() -> None:
    call = (*CALL[:14], (2950, events.BargedIn(1, "")))
    assert CallHistory.from_lines(lines_of(call)).transcript() == [
        ("agent", "Good morning."),
        ("caller", "Weather at Værnes?"),
    ]


@given(st.integers(0, len(LEDGER)))
def test_a_ledger_cut_anywhere_can_be_read(size: int) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "call.jsonl"
        path.write_bytes(LEDGER[:size])
        lines = read_lines(path)
        history = read(path)
    whole = LEDGER[:size].count(b"\n")
    assert lines[:whole] == lines_of()[:whole], "every whole line is there"
    assert len(lines) <= whole + 1
    assert history.transcript() == CallHistory.from_lines(lines_of()[: len(lines)]).transcript()
    assert (history.outcome == "") == (len(lines) < len(CALL))


@given(st.lists(st.sampled_from(CALL), max_size=30))
def test_any_order_of_events_can_be_read(call: list[tuple[int, events.LedgerEvent]]) -> None:
    history = CallHistory.from_lines(lines_of(call))
    assert len(history.tools) <= len(call)
    assert all(text for _, text in history.transcript())


def test_types_and_fields_of_a_later_version_are_passed_over() -> None:
    lines = lines_of()
    later = [{**line, "new": 1} for line in lines[:5]]
    later += [{"at_ms": 1, "type": kind} for kind in ("caller.mood", "agent.mood", "call.new")]
    assert CallHistory.from_lines(later).transcript() == [("agent", "Good morning.")]


def test_of_calls_that_share_a_file_the_last_is_told(tmp_path: Path) -> None:
    path = tmp_path / "call.jsonl"
    path.write_bytes(LEDGER + file_of(CALL[:6]))
    history = read(path)
    assert history.outcome == ""
    assert history.transcript() == [("agent", "Good morning.")]


def test_a_gap_is_shown_and_what_is_there_is_told() -> None:
    call = (*CALL[:2], (1400, events.Gap(7, 900)), *CALL[5:])
    history = CallHistory.from_lines(lines_of(call))
    assert [(gap.lost, gap.since_ms, gap.until_ms) for gap in history.gaps] == [(7, 900, 1400)]
    assert history.transcript()[-1][0] == "agent"


def test_a_reprompt_long_after_an_answer_is_said_but_no_part_of_its_sound() -> None:
    call = (
        *CALL[:16],
        (3500, events.AudioEnded(1)),
        (13_500, events.Silence("reprompt", 10_000, "Are you there?")),
        (13_510, events.Answering(1, "Are you there?")),
        (14_500, events.AudioEnded(1)),
    )
    history = CallHistory.from_lines(lines_of(call))
    turn = history.turns[1]
    assert (turn.answer_start_ms, turn.answer_end_ms) == (2960, 3500)
    assert turn.said[-1] == "Are you there?"


def test_a_continuer_after_a_cut_answer_is_said_but_no_part_of_its_sound() -> None:
    """The picture would show the agent speaking all the time in which it gave way."""
    call = (
        *CALL[:16],
        (3900, events.BargedIn(1, "Wind calm.", 940, 80, 200)),
        (5900, events.Silence("continuer", 970, "Go on.")),
        (5901, events.Answering(1, "Go on.")),
        (5950, events.AudioStarted(1)),
        (6100, events.TurnEnded(2, 4930)),
        (6400, events.AudioEnded(1)),
    )
    turn = CallHistory.from_lines(lines_of(call)).turns[1]
    assert (turn.answer_start_ms, turn.answer_end_ms) == (2960, 3900)
    assert turn.said == ["Wind calm.", "Go on."]


def test_an_answer_is_owed_after_a_filler_and_while_a_tool_runs() -> None:
    def owed(until_ms: int) -> bool:
        return CallHistory.from_lines(
            lines_of((at, e) for at, e in CALL if at <= until_ms)
        ).answer_owed

    assert not owed(2600), "nothing was asked of a tool or filled"
    assert owed(2700), "the tool runs"
    assert owed(2960), "a filler was heard"
    assert not owed(3100)
    question = (2650, events.Answering(1, "Shall I look?"))
    call = [(at, event) for at, event in CALL if at <= 2610]
    assert not CallHistory.from_lines(lines_of([*call, question])).answer_owed, "a question"
