"""Lists of calls: filters, words, pages, counts. On SQLite and PostgreSQL alike."""

from __future__ import annotations

import datetime as dt

import pytest

from cordboard.errors import HistoryError
from cordboard.history.query import CallQuery, parse_query

from .conftest import History
from .ledgers import NOON, Told, refuse


def later(minutes: int) -> dt.datetime:
    return NOON + dt.timedelta(minutes=minutes)


def test_a_row_has_what_the_ledger_says(history: History) -> None:
    call = Told(
        "a",
        name="Æsop",
        turns=[("hello", "good day"), ("bye", "goodbye")],
        tools=[("lookup", "ok"), ("pay", "error"), ("lookup", "timeout")],
        troubles=["stt", "stt", "tts"],
        interrupted="good",
        cost=0.021,
        waited=1234,
        recording="2026-11-20/a.wav",
    )
    history.add(call)
    (row,) = history.rows()
    assert (row.id, row.file, row.started_at) == ("a", call.file, "2026-11-20T12:00:00.000+00:00")
    assert row.started_ms == 1000 * NOON.timestamp()
    assert (row.caller_number, row.caller_name, row.called_number) == ("+4533112233", "Æsop", "100")
    assert (row.context, row.provider, row.source) == ("booking", "local", "asterisk")
    assert (row.outcome, row.reason, row.duration_ms) == ("completed", "caller_hangup", 21_000)
    assert (row.turns, row.interruptions, row.waited_ms) == (2, 1, 1234)
    assert (row.cost, row.currency, row.recorded) == (0.021, "EUR", True)
    assert (row.tools, row.tools_failed) == (("lookup", "pay"), ("lookup", "pay"))
    assert row.troubles == ("stt", "tts")


def test_calls_come_newest_first_in_pages_that_new_calls_do_not_shift(history: History) -> None:
    history.add(*(Told(f"c{number:02}", later(number // 2)) for number in range(25)))
    seen: list[str] = []
    page = history.store.find(CallQuery(), 10)
    while True:
        seen += [row.id for row in page.rows]
        if not page.next:
            break
        history.add(Told(f"new{len(seen)}", later(100 + len(seen))))
        page = history.store.find(CallQuery(), 10, page.next)
    assert seen == [f"c{number:02}" for number in reversed(range(25))]


def test_a_cursor_serves_only_the_filters_it_was_made_for(history: History) -> None:
    history.add(*(Told(f"c{number}") for number in range(3)))
    cursor = history.store.find(CallQuery(), 1).next
    other = CallQuery(within=frozenset({"sales"}))
    for query, text in ((other, cursor), (CallQuery(), cursor[:-4] + "AAAA"), (CallQuery(), "é!")):
        with pytest.raises(HistoryError, match="cursor: "):
            history.store.find(query, 1, text)
    history.indexer.rebuild()
    with pytest.raises(HistoryError, match="the index was rebuilt"):
        history.store.find(CallQuery(), 1, cursor)


@pytest.mark.parametrize("limit", [0, -1, 201])
def test_a_page_has_1_to_200_rows(history: History, limit: int) -> None:
    with pytest.raises(HistoryError, match="limit: expected 1 to 200"):
        history.store.find(CallQuery(), limit)


def test_filters_of_a_kind_are_alternatives_and_kinds_all_have_to_match(history: History) -> None:
    history.add(
        Told("a", context="booking", outcome="failed", tools=[("pay", "error")]),
        Told("b", context="sales", outcome="failed", tools=[("pay", "ok")], troubles=["tts"]),
        Told("c", context="sales", interrupted="For", waited=2000, cost=0.5),
        Told("d", context="support", source="chat", ended=False, turns=[]),
    )
    assert history.ids(context="sales") == ["c", "b"]
    assert history.ids(context=["sales", "booking"], outcome="failed") == ["b", "a"]
    assert history.ids(tool="pay") == ["b", "a"]
    assert history.ids(tool="pay", trouble="tts") == ["b"]
    assert history.ids(tool_failed="pay") == ["a"]
    assert history.ids(interrupted="yes") == ["c"]
    assert history.ids(outcome="not ended") == ["d"]
    assert history.ids(waited_over_ms="1999") == ["c"]
    assert history.ids(cost_over="0.4") == ["c"]
    assert history.ids(longer_ms="1") == ["c", "b", "a"]


def test_the_time_is_from_a_moment_until_before_another(history: History) -> None:
    history.add(*(Told(f"c{number}", later(number)) for number in range(4)))
    assert history.ids(since=later(1).isoformat(), until=later(3).isoformat()) == ["c2", "c1"]


def test_numbers_are_found_exactly_by_their_beginning_and_by_the_last_four(
    history: History,
) -> None:
    history.add(
        Told("a", number="+4533112233"),
        Told("b", number="+4533112299"),
        Told("c", number="004533112233"),
        Told("d", number="%4533112233\U0010ffff"),
        Told("e", number=""),
    )
    assert history.ids(number="+4533112233") == ["a"]
    assert history.ids(number_prefix="+45331122") == ["b", "a"]
    assert history.ids(number_prefix="%") == ["d"]
    assert history.ids(number_prefix="%4533112233\U0010ffff") == ["d"]
    assert history.ids(number_last4="2233") == ["d", "c", "a"]
    assert history.ids(id="c") == ["c"]
    assert history.ids(called="100") == ["e", "d", "c", "b", "a"]


def test_words_are_found_by_who_said_them(history: History) -> None:
    history.add(
        Told("a", turns=[("I want a refund", "Your order number please")]),
        Told("b", turns=[("My order is late", "I can refund you today")]),
        Told("c", turns=[("café crème à emporter", "Straße zwölf")]),
    )
    assert history.ids(text="refund") == ["b", "a"]
    assert history.ids(text="refund", who="caller") == ["a"]
    assert history.ids(text="refund order", who="agent") == []
    assert history.ids(text="refund ORDER") == ["b", "a"]
    assert history.ids(text='"order number"') == ["a"]
    assert history.ids(text='"number order"') == []
    assert history.ids(text="refu") == []
    assert history.ids(text="refu* to*", who="agent") == ["b"]
    assert history.ids(text="cafe CREME") == ["c"]
    assert history.ids(text="strasse zwolf") == ["c"]


def test_of_an_interrupted_answer_only_the_heard_part_is_found(history: History) -> None:
    call = Told("a", turns=[("hello", "one two three")], interrupted="one two")
    history.add(call)
    assert history.ids(text="two", who="agent") == ["a"]
    assert history.ids(text="three") == []


@pytest.mark.parametrize(
    "text", ["'; DROP TABLE cordboard_call; --", 'caller:x" OR 1', "NEAR(a b)"]
)
def test_words_are_never_a_query_language(history: History, text: str) -> None:
    history.add(Told("a", name=text, number=text, turns=[(text, "well")]))
    assert history.ids(text=text) == ["a"]
    assert history.ids(text=text, who="agent") == []
    assert history.ids(number=text, number_prefix=text[:3]) == ["a"]
    assert history.ids(context=text) == []


def test_strange_characters_are_kept_or_replaced_but_never_stop_the_index(
    history: History,
) -> None:
    history.add(Told("a", name="nul\0 \u202e =1+1", turns=[("nul\0 🙂 ﷺ", "")]), Told("b"))
    (row,) = [row for row in history.rows() if row.id == "a"]
    assert row.caller_name == "nul\ufffd \u202e =1+1"
    assert history.ids(text="nul") == ["a"]


@pytest.mark.parametrize("name", ["text", "number", "number_prefix", "tag", "context"])
@pytest.mark.parametrize("text", ["caf\udce9", "a\0b"])
def test_bytes_that_no_database_takes_are_a_clear_error(name: str, text: str) -> None:
    with pytest.raises(HistoryError, match=f"{name}: expected text in UTF-8"):
        parse_query({name: [text]})


def test_a_search_without_a_word_and_unknown_filters_are_refused() -> None:
    for given, expected in (
        ({"text": ["?!"]}, "text: expected words to search for"),
        ({"colour": ["red"]}, "there is no filter 'colour'; expected one of text, id, number"),
        ({"since": ["yesterday"]}, "since: expected a time such as"),
        ({"waited_over_ms": ["1e9"]}, "waited_over_ms: expected a number"),
        ({"who": ["me"]}, "who: expected caller or agent"),
        ({"number": ["1", "2"]}, "number: expected one value, found 2"),
    ):
        with pytest.raises(HistoryError, match=expected.replace("?", r"\?")):
            assert parse_query(given).terms


def test_each_filter_is_counted_as_if_it_were_not_set(history: History) -> None:
    history.add(
        Told("a", context="booking", outcome="failed", tools=[("pay", "error")]),
        Told("b", context="sales", outcome="failed", tools=[("pay", "ok"), ("look", "ok")]),
        Told("c", context="sales", troubles=["tts"]),
    )
    counts = history.store.facets(CallQuery())
    assert counts["context"] == {"booking": 1, "sales": 2}
    assert counts["outcome"] == {"completed": 1, "failed": 2}
    assert counts["tool"] == {"look": 1, "pay": 2}
    assert counts["tool_failed"] == {"pay": 1}
    assert counts["interrupted"] == {"no": 3}
    counts = history.store.facets(parse_query({"context": ["sales"], "tool": ["pay"]}))
    assert counts["context"] == {"booking": 1, "sales": 1}
    assert counts["outcome"] == {"failed": 1}
    assert counts["tool"] == {"look": 1, "pay": 1}
    assert counts["trouble"] == {}


def test_contexts_that_are_not_allowed_do_not_exist(history: History) -> None:
    history.add(Told("a", context="booking", tools=[("pay", "ok")]), Told("b", context="sales"))
    refuse(history.directory, "r")
    history.indexer.catch_up()
    scope = CallQuery(within=frozenset({"sales"}))
    assert [row.id for row in history.rows(scope)] == ["b"]
    counts = history.store.facets(scope)
    assert counts["context"] == {"sales": 1}
    assert counts["tool"] == {}


def test_refused_offers_are_listed_too(history: History) -> None:
    history.add(Told("a"))
    refuse(history.directory, "r1", reason="busy")
    refuse(history.directory, "r2", reason="no_agent", number="+45777")
    history.indexer.catch_up()
    assert history.ids(outcome="refused") == ["r2", "r1"]
    assert history.ids(reason="no_agent", number="+45777") == ["r2"]
    assert history.store.facets(CallQuery())["reason"] == {
        "busy": 1, "no_agent": 1, "caller_hangup": 1,
    }  # fmt: skip


def test_calls_are_found_by_the_version_of_their_configuration_and_contexts_are_listed(
    history: History,
) -> None:
    history.add(
        Told("a", config="1" * 64),
        Told("b", config="2" * 64, context="sales"),
        Told("c", context="sales"),
    )
    refuse(history.directory, "r")
    history.indexer.catch_up()
    assert history.ids(config="2" * 64) == ["b"]
    assert sorted(history.ids(config=["1" * 64, "2" * 64])) == ["a", "b"]
    assert sorted(history.store.contexts()) == ["", "booking", "sales"]
