"""Deepgram's messages, whatever they are: read, or ignored and counted; never an exception."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from cordboard.errors import RecogniserError
from cordboard.vendors.deepgram.flux_turns import FluxTurns
from cordboard.vendors.deepgram.stt_results import Results
from cordboard.vendors.deepgram.tts_wire import Told, read
from cordboard.vendors.openai.stt import UNTOLD, read_answer

SECOND = 8000


def result(
    text: str, start: float, duration: float, *, final: bool = True, finalize: bool = False
) -> dict[str, Any]:
    said = text.split()
    each = duration / max(len(said), 1)
    words = [
        {
            "word": word.lower(),
            "punctuated_word": word,
            "start": start + n * each,
            "end": start + (n + 1) * each,
            "confidence": 0.9,
        }
        for n, word in enumerate(said)
    ]
    return {
        "type": "Results",
        "start": start,
        "duration": duration,
        "is_final": final,
        "from_finalize": finalize,
        "channel": {"alternatives": [{"transcript": text, "confidence": 0.9, "words": words}]},
    }


def turn_info(event: str, index: int, text: str, start: float, end: float) -> dict[str, Any]:
    return {
        "type": "TurnInfo",
        "event": event,
        "turn_index": index,
        "audio_window_start": start,
        "audio_window_end": end,
        "transcript": text,
        "words": [{"word": word, "confidence": 0.8} for word in text.split()],
        "end_of_turn_confidence": 0.5,
    }


def told(results: Results | FluxTurns, *messages: dict[str, Any]) -> None:
    for message in messages:
        assert results.read(json.dumps(message).encode())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner),
    max_leaves=12,
)


def paths(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from paths(inner, (*path, index))


@st.composite
def mutated(draw: st.DrawFn, message: dict[str, Any]) -> bytes:
    """The message with something else in one place."""
    copy = json.loads(json.dumps(message))
    *way, last = draw(st.sampled_from([path for path in paths(copy) if path]))
    inside = copy
    for step in way:
        inside = inside[step]
    inside[last] = draw(JSON)
    return json.dumps(copy).encode()


REAL = result("What is the weather?", 1.0, 2.0)
REAL_TURN = turn_info("EndOfTurn", 0, "What is the weather?", 0.0, 2.0)


@given(st.binary(max_size=200) | JSON.map(lambda v: json.dumps(v).encode()) | mutated(REAL))
@example(b'{"type":"Results","start":1e999,"duration":1}')
@example(b"[" * 5000)
def test_results_read_anything(message: bytes) -> None:
    results = Results()
    results.connected(100)
    before = results.covered
    if not results.read(message):
        assert results.covered == before
    text, confidence = results.text(0, 10**9)
    assert isinstance(text, str)
    assert 0 <= confidence <= 1


@given(st.binary(max_size=200) | JSON.map(lambda v: json.dumps(v).encode()) | mutated(REAL_TURN))
@example(json.dumps({**REAL_TURN, "turn_index": 10**40}).encode())
def test_flux_reads_anything(message: bytes) -> None:
    turns = FluxTurns()
    turns.connected(100)
    before = turns.covered
    if not turns.read(message):
        assert turns.covered == before
        assert turns.verdict is None
    text, confidence = turns.text(0, 10**9)
    assert isinstance(text, str)
    assert 0 <= confidence <= 1


@given(st.lists(st.permutations(range(4)), min_size=1, max_size=3))
def test_results_in_any_order_and_twice_say_nothing_twice(orders: list[list[int]]) -> None:
    messages = [result(f"Word{n}", n, 1.0) for n in range(4)]
    results = Results()
    results.connected(0)
    for order in orders:
        told(results, *(messages[n] for n in order))
    words = results.text(0, 5 * SECOND)[0].split()
    assert len(words) == len(set(words))
    assert words == sorted(words)
    assert words[-1] == "Word3"


def test_an_interim_result_gives_way_to_the_final_one() -> None:
    results = Results()
    results.connected(0)
    told(results, result("What is", 0, 1, final=False), result("What's the time?", 0, 2))
    assert results.text(0, 3 * SECOND) == ("What's the time?", 0.9)
    told(results, result("What is", 0, 1, final=False))  # late
    assert results.text(0, 3 * SECOND)[0] == "What's the time?"


def test_of_a_result_that_lies_across_the_edge_the_words_inside_count() -> None:
    results = Results()
    results.connected(8000)
    told(results, result("one two three four", 0, 4))
    assert results.text(8000 + 2 * SECOND, 10 * SECOND)[0] == "three four"
    assert results.text(0, 8000 + SECOND)[0] == "one"


def test_a_new_connection_counts_anew_and_keeps_what_was_said() -> None:
    results = Results()
    results.connected(0)
    told(results, result("before", 0, 1))
    results.connected(2 * SECOND)
    told(results, result("after", 0, 1))
    assert results.text(0, 4 * SECOND)[0] == "before after"
    assert results.text(2 * SECOND, 4 * SECOND)[0] == "after"


def test_a_flux_turn_that_is_over_is_not_opened_again() -> None:
    turns = FluxTurns()
    turns.connected(0)
    told(
        turns,
        turn_info("StartOfTurn", 0, "What", 0, 0.5),
        turn_info("EndOfTurn", 0, "What now?", 0, 1.5),
        turn_info("Update", 0, "Something else", 0, 1.7),  # late
        turn_info("Update", 1, "", 1.5, 2.0),
    )
    assert turns.text(0, 2 * SECOND)[0] == "What now?"
    assert turns.verdict is None
    assert turns.covered == 2 * SECOND


def test_flux_after_a_reconnect_begins_with_turn_0_again() -> None:
    turns = FluxTurns()
    turns.connected(0)
    told(turns, turn_info("EndOfTurn", 0, "First.", 0, 1))
    turns.connected(SECOND)
    told(turns, turn_info("EndOfTurn", 0, "Second.", 0, 1))
    assert turns.text(0, 2 * SECOND)[0] == "First. Second."


@given(st.binary(max_size=100) | JSON.map(lambda v: json.dumps(v).encode()))
@example(b"[" * 5000)
def test_speak_reads_anything(message: bytes) -> None:
    verdict, words = read(message)
    assert isinstance(verdict, Told)
    assert len(words) <= 200


@given(
    st.binary(max_size=100)
    | JSON.map(lambda v: json.dumps(v).encode())
    | mutated(
        {
            "text": "Hello",
            "logprobs": [{"token": "a", "logprob": -0.1}],
            "usage": {
                "type": "tokens",
                "input_tokens": 9,
                "output_tokens": 3,
                "input_token_details": {"audio_tokens": 5},
            },
        }
    )
)
@example(b'{"text": "a", "usage": {"type": "tokens", "input_tokens": 1' + b"0" * 400 + b"}}")
def test_a_transcription_is_read_or_refused(message: bytes) -> None:
    try:
        text, confidence, amounts = read_answer(message, 1.0)
    except RecogniserError as error:
        assert error.kind == "garbage"  # noqa: PT017
        return
    assert 0 <= confidence <= 1
    assert bool(text) == bool(confidence) or not confidence
    assert all(amount >= 0 for amount in amounts.values())


def test_a_model_that_tells_no_probabilities_is_taken_to_be_fairly_sure() -> None:
    assert read_answer(b'{"text": " Hi. "}', 2.5) == ("Hi.", UNTOLD, {"seconds": 2.5})
