"""One PostgreSQL index that the engines of a cluster share: each has its rows, all are found."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.cli.commands import typed
from tests.examples.postgres import PostgresServer

from cordboard.errors import HistoryError, IndexUnavailable
from cordboard.history import database, tables
from cordboard.history.erasure import Erasure
from cordboard.history.indexer import Indexer
from cordboard.history.query import CallQuery, parse_query
from cordboard.history.retention import sweep_ledgers
from cordboard.history.series import SeriesQuery
from cordboard.history.sql_store import SqlHistoryStore

from .conftest import History
from .ledgers import NOON, Told, refuse

NUMBER = "+4533112233"
Node = Callable[..., History]


@pytest.fixture
def node(postgres: PostgresServer, tmp_path: Path) -> Iterator[Node]:
    """Make the index of a node, or of an engine without a cluster, in one database."""
    url = postgres.new_database()
    stores = []

    def make(name: str, folder: str = "") -> History:
        directory = tmp_path / (folder or name or "alone")
        directory.mkdir(exist_ok=True)
        store = SqlHistoryStore(directory, url, node=name)
        stores.append(store)
        return History(directory, store, Indexer(directory, store))

    yield make
    for store in stores:
        store.close()


def nodes(history: History, **filters: str) -> list[tuple[str, str]]:
    """The calls that are found, each with its node."""
    query = parse_query({name: [value] for name, value in filters.items()})
    return [(row.node, row.id) for row in history.rows(query)]


def calls_counted(history: History) -> float:
    day = 86_400_000
    at = round(NOON.timestamp() * 1000)
    found = history.store.totals(SeriesQuery("calls", at - day, at + day, "whole", ""))
    return sum(line.values[0] or 0 for line in found["calls"].lines)


def test_every_node_finds_the_calls_of_all(node: Node) -> None:
    a, b = node("a"), node("b")
    a.add(Told("one", turns=[("plum jam", "Yes.")]))
    b.add(Told("two", NOON + timedelta(minutes=1)))
    refuse(a.directory, "no-1")
    refuse(b.directory, "no-2")
    a.indexer.catch_up()
    b.indexer.catch_up()
    for history in (a, b):
        assert set(nodes(history)) == {("b", "two"), ("a", "one"), ("a", "no-1"), ("b", "no-2")}
        assert nodes(history, text="plum") == [("a", "one")]
        assert nodes(history, node="b", outcome="completed") == [("b", "two")]
        assert history.store.facets(CallQuery())["node"] == {"a": 2, "b": 2}
        assert calls_counted(history) == 2
    recent = {call_id for call_id, _ in a.store.recent(0)}
    assert recent == {"one", "no-1"}  # alarms are those of each engine
    assert a.indexer.catch_up() == 0
    assert b.indexer.catch_up() == 0


def test_the_command_shows_the_node_of_each_call(postgres: PostgresServer, tmp_path: Path) -> None:
    url = postgres.new_database()

    def found(name: str) -> list[list[str]]:
        config = tmp_path / f"{name}.yaml"
        config.write_text(
            f"calls: {{directory: '{tmp_path / name}', index: {{database: '{url}'}}}}\n"
            f"cluster: {{node: {name}}}\n"
        )
        done = typed("history", "find", "-c", str(config))
        assert (done.status, done.err) == (0, "")
        return [line.split() for line in done.out.splitlines()]

    Told("one").write(tmp_path / "a")
    Told("two", NOON + timedelta(minutes=1)).write(tmp_path / "b")
    found("a")
    heads, *rows = found("b")
    assert heads[:3] == ["begun", "call", "node"]
    assert [row[2:4] for row in rows] == [["two", "b"], ["one", "a"]]


def test_engines_that_begin_at_once_have_one_index(node: Node) -> None:
    histories = [node(name) for name in "abc"]
    for each in histories:
        Told(f"of-{each.directory.name}").write(each.directory)
    threads = [threading.Thread(target=each.indexer.catch_up) for each in histories]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = {(name, f"of-{name}") for name in "abc"}
    assert all(set(nodes(each)) == found for each in histories)


def test_a_rebuild_leaves_the_rows_of_others(node: Node) -> None:
    a, b = node("a"), node("b")
    a.add(Told("one"))
    b.add(Told("two"))
    page = b.store.find(CallQuery(), 1)
    before = b.store.open()
    assert a.indexer.rebuild() == 1
    assert set(nodes(a)) == {("a", "one"), ("b", "two")}
    assert calls_counted(a) == 2
    assert b.store.open() == before  # nothing to read again
    assert b.store.find(CallQuery(), 1, page.next).rows


def test_a_rebuild_by_a_command_is_noticed_by_the_engine(node: Node) -> None:
    a, b, again = node("a"), node("b"), node("a")
    a.add(Told("one"))
    b.add(Told("two"))
    again.store.recreate()
    assert nodes(b) == [("b", "two")]
    assert a.indexer.catch_up() == 1
    assert len(nodes(b)) == 2


def test_files_of_the_same_name_are_of_their_nodes(node: Node) -> None:
    a, b = node("a"), node("b")
    a.add(Told("same", context="mine"))
    b.add(Told("same", NOON + timedelta(seconds=1), context="yours"))
    a.add(Told("same", context="ours"))  # it has changed
    assert [(row.node, row.context) for row in b.rows()] == [("b", "yours"), ("a", "ours")]
    (a.directory / Told("same").file).unlink()
    a.indexer.catch_up()
    assert nodes(a) == [("b", "same")]


def test_retention_removes_the_rows_of_its_node(node: Node) -> None:
    a, b = node("a"), node("b")
    a.add(Told("one"))
    b.add(Told("two"))
    assert sweep_ledgers(a.directory, 1, NOON.date() + timedelta(days=1000)) == 1
    a.indexer.catch_up()
    a.indexer.scrub()
    assert nodes(a) == [("b", "two")]
    assert not b.store.needs_scrub()
    b.indexer.scrub()
    assert nodes(b) == [("b", "two")]


def test_a_call_that_moved_is_there_once_where_it_went_on(node: Node) -> None:
    a, b = node("a"), node("b")
    a.add(Told("call", ended=False))
    b.add(Told("call", ended=False))
    assert nodes(a) == [("b", "call")]  # the lost engine has not ended its part yet
    b.add(Told("call"))
    assert nodes(a) == [("b", "call")]
    a.add(Told("call", outcome="moved", reason="engine_gone"))
    for history in (a, b):
        assert nodes(history) == nodes(history, id="call") == [("b", "call")]
        assert history.store.facets(CallQuery())["outcome"] == {"completed": 1}
        assert calls_counted(history) == 1
    assert nodes(a, outcome="moved") == [("a", "call")]


def test_an_erasure_says_what_is_on_other_nodes(node: Node) -> None:
    a, b = node("a"), node("b")
    a.add(Told("one"), Told("moved-1", outcome="moved"))
    b.add(Told("two"), Told("moved-1"), Told("other", number="+4511111111"))
    erasure = Erasure(a.directory, a.store)
    plan = erasure.of_number(NUMBER)
    assert {path.stem for path in plan.ledgers} == {"one", "moved-1"}
    assert plan.elsewhere == {"b": 2}
    proof = erasure.carry_out(plan)
    assert not proof.complete
    assert proof.elsewhere == ("2 calls on node b",)
    assert proof.problem == "the erasure is not complete: 2 calls on node b: repeat it there"
    assert set(nodes(a)) == {("b", "two"), ("b", "moved-1"), ("b", "other")}
    there = Erasure(b.directory, b.store)
    assert there.carry_out(there.of_number(NUMBER)).complete
    assert nodes(a) == [("b", "other")]
    with pytest.raises(HistoryError, match="1 call on node b: erase it there"):
        erasure.of_call("other")


def test_an_engine_alone_leaves_a_database_of_others(node: Node) -> None:
    a = node("a")
    a.add(Told("one"))
    alone = node("")
    Told("mine").write(alone.directory)
    with pytest.raises(IndexUnavailable, match=r"another calls\.directory: give each engine"):
        alone.indexer.catch_up()
    with pytest.raises(IndexUnavailable, match="take-over"):
        alone.rows()
    with pytest.raises(IndexUnavailable):
        alone.indexer.rebuild()
    assert nodes(a) == [("a", "one")]


def test_two_engines_alone_do_not_share_a_database(node: Node) -> None:
    first, second = node("", "first"), node("", "second")
    first.add(Told("one"))
    with pytest.raises(IndexUnavailable, match="a database of its own"):
        second.add(Told("two"))
    with pytest.raises(IndexUnavailable, match="a database of its own"):
        node("b").indexer.catch_up()
    assert first.ids() == ["one"]
    second.indexer.rebuild(take_over=True)
    assert second.ids() == ["two"]
    with pytest.raises(IndexUnavailable, match="a database of its own"):
        first.indexer.catch_up()


def test_a_node_has_one_directory(node: Node) -> None:
    a, b, other = node("a"), node("b"), node("b", "other")
    a.add(Told("one"))
    b.add(Told("two"))
    with pytest.raises(IndexUnavailable, match=r"node b from another calls\.directory"):
        other.add(Told("three"))
    with pytest.raises(IndexUnavailable, match="as node a, not c"):
        node("c", "a").indexer.catch_up()
    other.indexer.rebuild(take_over=True)
    assert set(nodes(a)) == {("a", "one"), ("b", "three")}
    with pytest.raises(IndexUnavailable):
        b.indexer.catch_up()


def test_an_engine_that_joins_a_cluster_keeps_its_database(node: Node) -> None:
    node("", "a").add(Told("one"))
    a, b = node("a"), node("b")
    a.indexer.catch_up()
    b.add(Told("two"))
    assert set(nodes(a)) == {("a", "one"), ("b", "two")}


def test_the_first_upgraded_engine_makes_the_tables_anew(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = node("a"), node("b")
    a.add(Told("one"))
    b.add(Told("two"))
    with monkeypatch.context() as newer:
        newer.setattr(database, "VERSION", str(int(tables.VERSION) + 1))
        a.indexer.catch_up()
        assert nodes(a) == [("a", "one")]
        with pytest.raises(IndexUnavailable, match="another calls"):  # claims are kept
            node("b", "other").indexer.catch_up()
    with pytest.raises(IndexUnavailable, match="a newer version"):
        b.indexer.catch_up()
    with monkeypatch.context() as newer:
        newer.setattr(database, "VERSION", str(int(tables.VERSION) + 1))
        assert nodes(a) == [("a", "one")]
        assert b.indexer.catch_up() == 1
        assert len(nodes(a)) == 2


def test_calls_that_moved_are_in_the_rows_for_an_erasure(node: Node) -> None:
    a = node("a")
    a.add(Told("call", outcome="moved"))
    assert a.rows() == []
    assert [row.id for row in a.rows(replace(CallQuery(), moved=True))] == ["call"]
