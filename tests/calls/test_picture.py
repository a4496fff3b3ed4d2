"""The picture of a call can be drawn of any call, and any XML reader can read it."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordboard.calls.history import CallHistory, Gap, Overlap, Silence, ToolUse, Turn
from cordboard.calls.picture import LANE, PIXELS_PER_SECOND, RATE, ROW_SECONDS, Samples, draw

SVG = "{http://www.w3.org/2000/svg}"
NOTHING: Samples = np.zeros(0, np.int16)
LATENCY = {
    "vad_ms": 130,
    "endpoint_ms": 450,
    "stt_ms": 0,
    "brain_ms": 120,
    "tts_ms": 80,
    "wire_ms": 20,
    "total_ms": 670,
}


def call(*turns: Turn) -> CallHistory:
    return CallHistory(
        "id-1",
        "2026-01-02T03:04:05+01:00",
        "test",
        context="demo",
        provider="local",
        turns={turn.number: turn for turn in turns},
        outcome="completed",
        reason="caller_hangup",
    )


def spoken(number: int, at: int, heard: str = "Hello", answer: str = "Good day") -> Turn:
    return Turn(
        number,
        speech_ms=at,
        last_speech_ms=at + 1000,
        endpoint_ms=at + 1450,
        heard=heard,
        answer=[answer],
        said=[answer],
        answer_start_ms=at + 1670,
        answer_end_ms=at + 3000,
        latency=LATENCY,
    )


def texts(svg: str) -> str:
    return "\n".join(ElementTree.fromstring(svg).itertext())


def test_it_shows_what_was_said_done_and_waited_for() -> None:
    turn = spoken(1, 1000)
    turn.tools.append(ToolUse("1.1", "get_atis", {}, 2100, "ok", "Calm.", 2400))
    shown = texts(draw(call(turn), NOTHING, np.zeros(RATE * 6, np.int16)))
    for text in (
        "Call id-1",
        "completed: caller_hangup",
        "Hello",
        "Good day",
        "get_atis: ok, 300 ms",
        "670 ms",
        "turn 1",
        "silence noticed: 130 ms",
        "end of turn: 320 ms",
    ):
        assert text in shown


def test_what_people_say_is_text_and_never_markup() -> None:
    nasty = "<script>alert(\"1\")</script> & ]]> 'x'"
    turn = spoken(1, 0, nasty, nasty)
    turn.tools.append(ToolUse("1", nasty, {}, 0, "ok", nasty, 10))
    history = call(turn)
    history.reason = nasty
    svg = draw(history, NOTHING, NOTHING)
    root = ElementTree.fromstring(svg)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        "svg", "rect", "text", "line", "polygon", "title", "defs", "g", "use",
    }  # fmt: skip
    assert nasty in texts(svg)


@settings(max_examples=50, deadline=None)
@given(st.text(st.characters(), max_size=40))
def test_any_text_makes_a_well_formed_picture(text: str) -> None:
    history = call(spoken(1, 0, text, text))
    history.call_id = text
    svg = draw(history, NOTHING, NOTHING)
    ElementTree.fromstring(svg.encode())


@pytest.mark.parametrize("history", [CallHistory(), call(), call(Turn(1)), call(Turn(0))])
def test_a_call_of_which_there_is_nothing_to_tell(history: CallHistory) -> None:
    ElementTree.fromstring(draw(history, NOTHING, NOTHING))


def test_a_call_without_sound_but_with_turns() -> None:
    shown = texts(draw(call(spoken(1, 0), spoken(2, 4000)), NOTHING, NOTHING))
    assert "turn 2" in shown


def test_an_hour_long_call() -> None:
    sound = np.zeros(RATE * 3600, np.int16)
    turns = [spoken(number, number * 6000) for number in range(1, 600)]
    svg = draw(call(*turns), sound, sound)
    root = ElementTree.fromstring(svg)
    rows = root.findall(f"{SVG}svg")
    assert len(rows) == 3600 / ROW_SECONDS
    assert rows[-1].attrib["viewBox"].startswith(f"{(3600 - ROW_SECONDS) * PIXELS_PER_SECOND} 0 ")
    assert len(svg) < 20_000_000


@pytest.mark.parametrize("seconds", [3, 10.01, 61, 900])
def test_sound_stands_at_its_time(seconds: float) -> None:
    """A beep near the end is drawn where the time axis has it, whatever the length."""
    at = seconds - 0.5
    sound = np.zeros(round(RATE * seconds), np.int16)
    sound[round(RATE * at) : round(RATE * (at + 0.1))] = 32767
    turn = spoken(1, round(at * 1000))
    root = ElementTree.fromstring(draw(call(turn), sound, NOTHING))
    polygon = root.find(f".//{SVG}polygon")
    assert polygon is not None
    points = [tuple(map(float, pair.split(","))) for pair in polygon.attrib["points"].split()]
    top = min(y for _, y in points)
    beep = [x for x, y in points if y == top]
    span = next(
        float(box.attrib["x"])
        for box in root.iter(f"{SVG}rect")
        if box.attrib.get("opacity") == "0.1" and "Hello" in "".join(box.itertext())
    )
    assert min(beep) == pytest.approx(span, abs=1.5)
    assert max(y for _, y in points) - top == pytest.approx(LANE, abs=0.2)


def test_the_two_channels_may_begin_later_than_the_call() -> None:
    sound = np.zeros(RATE * 10, np.int16)
    svg = draw(call(spoken(1, 3000)), sound, sound, offset_ms=3000.0)
    assert re.search(r'<rect x="0\.0"', svg), "the caller speaks at the very beginning"


def test_it_shows_holds_interruptions_and_silences_where_they_were() -> None:
    history = call(spoken(1, 1000))
    history.overlaps = [
        Overlap(3000, 3120, 3300, "backchannel"),
        Overlap(5000, 5090, 5240, "interruption"),
        Overlap(7000, 7100),
    ]
    history.silences = [Silence("filler", 8000, 8900, "One moment.")]
    svg = draw(history, NOTHING, np.zeros(RATE * 10, np.int16))
    shown = texts(svg)
    for text in (
        "↻ backchannel: silent after 120 ms, decided after 300 ms",
        "✂ interruption: silent after 90 ms, decided after 240 ms",
        "undecided: silent after 100 ms",
        "filler after 0.9 s: One moment.",
    ):
        assert text in shown
    held = next(
        box
        for box in ElementTree.fromstring(svg).iter(f"{SVG}rect")
        if "backchannel" in "".join(box.itertext()) and box.attrib["opacity"] == "0.3"
    )
    assert float(held.attrib["x"]) == pytest.approx(3.12 * PIXELS_PER_SECOND, abs=0.1)
    assert float(held.attrib["width"]) == pytest.approx(0.18 * PIXELS_PER_SECOND, abs=0.1)


@pytest.mark.parametrize("answer_ms", [None, 2600])
def test_a_filler_and_the_answer_after_it_are_told_apart(answer_ms: int | None) -> None:
    turn = spoken(1, 1000)
    turn.filled, turn.answer_ms = True, answer_ms
    shown = texts(draw(call(turn, spoken(2, 9000)), NOTHING, NOTHING))
    assert "670 ms to the filler" in shown
    assert ("2600 ms to the answer" in shown) is (answer_ms is not None)


def test_a_picture_of_a_ledger_from_before_the_detector_was_timed() -> None:
    turn = spoken(1, 1000)
    turn.latency = {name: ms for name, ms in LATENCY.items() if name != "vad_ms"}
    assert "end of turn: 450 ms" in texts(draw(call(turn), NOTHING, NOTHING))


def test_a_gap_in_the_ledger_is_shown() -> None:
    history = call(spoken(1, 1000))
    assert "missing" not in texts(draw(history, NOTHING, NOTHING))
    history.gaps.append(Gap(7, 2000, 2500))
    assert "7 lines of the ledger are missing" in texts(draw(history, NOTHING, NOTHING))
