"""Calls that became scenarios: the same lines and tools, without what tells who the caller is."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.calls import events
from cordboard.calls.history import CallHistory, parse_lines
from cordboard.config.yaml_document import parse
from cordboard.errors import ConfigError, HistoryError
from cordboard.history.scenario import (
    CallerLine,
    Redaction,
    Scenario,
    UsedTool,
    keep_scenario,
    read_scenario,
    scenario_of,
    scenario_text,
)

from .ledgers import Told


def history(told: Told) -> CallHistory:
    return CallHistory.from_lines(parse_lines(told.content()))


def test_a_scenario_has_the_callers_lines_interruptions_tools_and_the_end(tmp_path: Path) -> None:
    told = Told(
        "c1",
        turns=[("Where is my parcel?", "It is on its way to you."), ("Thanks, bye.", "Bye.")],
        tools=[("find_order", "ok"), ("track", "timeout")],
        interrupted="It is on",
        config="ab" * 32,
        more=[(3015, events.ToolCalled(1, "step", "inner", "http:x", {}, parent="1.0"))],
    )
    path, _ = keep_scenario(tmp_path / "evaluations", scenario_of(history(told), "c1", "parcel"))
    assert (path.name, path.stat().st_mode & 0o777) == ("parcel.yaml", 0o600)
    made = read_scenario(path)
    assert [line.says for line in made.caller] == ["Where is my parcel?", "Thanks, bye."]
    assert made.tools == ["find_order", "track"], "steps of a workflow are the workflow's"
    first = made.caller[0].tools[1]
    assert (first.arguments, first.status) == ({"q": "Where is my parcel?"}, "timeout")
    # the agent began at 3,300 ms, the caller spoke again at 11,000
    assert [line.interrupts_after_ms for line in made.caller] == [None, 7_700]
    assert (made.context, made.ends) == ("booking", "caller_hangup")
    assert made.made_from is not None
    assert (made.made_from.call, made.made_from.config) == ("c1", "ab" * 32)


def test_a_taken_name_and_a_call_without_words_are_refused(tmp_path: Path) -> None:
    scenario = scenario_of(history(Told("c1")), "c1", "twice")
    keep_scenario(tmp_path, scenario)
    with pytest.raises(HistoryError, match="twice already"):
        keep_scenario(tmp_path, scenario)
    with pytest.raises(HistoryError, match="no words of the caller"):
        scenario_of(history(Told("c2", turns=[("", "Hello?")])), "c2", "silent")


def test_a_full_disk_leaves_no_part_of_a_scenario_and_its_name_free(tmp_path: Path) -> None:
    scenario = scenario_of(history(Told("c1")), "c1", "twice")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, before[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            keep_scenario(tmp_path, scenario)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []
    path, text = keep_scenario(tmp_path, scenario)
    assert path.read_text() == text


def test_numbers_addresses_and_the_callers_name_are_replaced_everywhere(tmp_path: Path) -> None:
    words = "I am Erika Muster, 0049 30 123-4567, erika@muster.example, on 2026-11-24 for two"
    told = Told("c1", number="4711", name="Erika Muster", turns=[(words, "Fine.")])
    told.more = [
        (3010, events.ToolCalled(1, "a", "book", "http:book", {"phone": 4930123456, "n": [2]})),
        (
            3020,
            events.ToolAnswered(
                "a", "book", "ok", "Erika Muster, 4711, is in", 9, sent={"iban": "DE89370400440532"}
            ),
        ),
    ]
    path, text = keep_scenario(tmp_path, scenario_of(history(told), "c1", "book"))
    for hidden in ("erika", "muster", "4711", "123", "4567", "3704"):
        assert hidden not in text.lower(), hidden
    made = read_scenario(path)
    assert (
        made.caller[0].says
        == "I am NAME, 0000 00 000-0000, name@example.org, on 0000-00-00 for two"
    )
    (tool,) = made.caller[0].tools
    assert (tool.arguments, tool.answer) == ({"phone": 0, "n": [2]}, {"iban": "DE00000000000000"})


def test_the_callers_name_is_hidden_as_a_whole_and_by_words_but_not_within_words() -> None:
    hide = Redaction(["Anna Maria Bo (Home)"], ["4711"])
    said = "anna maria bo (home), Anna here, ask MARIA; Susanna, Annapolis, Bob, at home"
    assert hide.text(said) == "NAME, NAME here, ask NAME; Susanna, Annapolis, Bob, at NAME"
    assert hide.text("4711, but 14711x") == "0000, but 00000x"
    assert Redaction(["O'Brien 2"], []).text("o'brien 2, Brien's") == "NAME, NAME's"


@pytest.mark.parametrize(
    "said",
    [
        "12,34,56",
        "1; 2; 3; 4; 5",
        "0049_30:123",
        "30\u20131234\u20145",
        "1\u00a02\n3 4 5",
        "1984-02-29",
        "29.02.1984",
        "29/2/1984",
    ],
)
def test_long_numbers_are_hidden_whatever_separates_their_digits(said: str) -> None:
    assert set(filter(str.isdigit, Redaction([], []).text(said))) == {"0"}


def test_short_numbers_stay_and_places_are_rounded() -> None:
    hide = Redaction([], [])
    assert hide.text("at 18:30 for 4, room 1204") == "at 18:30 for 4, room 1204"
    assert hide.values({"at": [55.676098, 12.568337], "paid": True, "many": 3}) == {
        "at": [55.68, 12.57],
        "paid": True,
        "many": 3,
    }


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats(-9_999, 9_999) | st.text(max_size=20),
    lambda each: (
        st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=9), each, max_size=3)
    ),
    max_leaves=6,
)


@given(
    says=st.text(min_size=1, max_size=60), arguments=st.dictionaries(st.text(), _JSON, max_size=3)
)
def test_any_words_survive_the_file(says: str, arguments: dict[str, Any]) -> None:
    hide = Redaction([], [])
    tool = UsedTool(name="t", arguments=hide.values(arguments))
    assert hide.values(tool.arguments) == tool.arguments
    line = CallerLine(says=hide.text(says), tools=[tool])
    made = Scenario(scenario="any", context="demo", caller=[line])
    assert Scenario.model_validate(parse(scenario_text(made), "any.yaml").tree) == made


def test_a_wrong_file_is_refused_by_line_and_key(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text("scenario: x\ncontext: demo\ncaller:\n- say: hello\n")
    with pytest.raises(ConfigError) as caught:
        read_scenario(path)
    found = {(each.line, each.key) for each in caught.value.problems}
    assert found == {(4, "caller[0].says"), (4, "caller[0].say")}
    with pytest.raises(ConfigError, match="cannot be read"):
        read_scenario(tmp_path / "none.yaml")
