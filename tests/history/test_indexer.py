"""The index equals the ledger files, whatever happens to either of them."""

from __future__ import annotations

import asyncio
import errno
import os
import pickle
import shutil
import signal
import sqlite3
import stat
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from cordboard.errors import HistoryError, IndexDamaged, IndexUnavailable
from cordboard.history.database import IndexDatabase
from cordboard.history.database import _delete as database_delete
from cordboard.history.indexer import Indexer
from cordboard.history.keeper import IndexKeeper
from cordboard.history.notes import Notes, read_notes, write_notes
from cordboard.history.query import CallQuery, CallRow
from cordboard.history.sql_store import SqlHistoryStore
from cordboard.privacy.master_key import CallKeys
from cordboard.privacy.sealed_file import Vault
from cordboard_testkit.patience import until

from .conftest import History
from .ledgers import NOON, Told, refuse


def test_a_call_is_listed_while_it_runs_and_again_when_it_has_ended(history: History) -> None:
    call = Told("a", turns=[("one", "two"), ("three", "four")])
    content = call.content()
    lines = content.splitlines(keepends=True)
    path = call.write(history.directory)
    for count in range(1, len(lines)):
        path.write_bytes(b"".join(lines[:count]))
        history.indexer.catch_up()
        assert history.ids(outcome="not ended") == ["a"], count
    path.write_bytes(content)
    assert history.indexer.catch_up() == 1
    (row,) = history.rows()
    assert (row.outcome, row.turns) == ("completed", 2)
    assert history.ids(text="four") == ["a"]


def test_a_ledger_that_is_cut_in_a_line_is_read_to_the_line_before(history: History) -> None:
    content = Told("a", turns=[("first", "yes"), ("second", "no")]).content()
    cut = content.index(b"second") + 3
    path = history.directory / Told("a").file
    path.parent.mkdir()
    path.write_bytes(content[:cut])
    history.indexer.catch_up()
    assert history.ids(text="first", outcome="not ended") == ["a"]
    assert history.ids(text="sec*") == []
    path.write_bytes(content)
    history.indexer.catch_up()
    assert history.ids(text="second", outcome="completed") == ["a"]


def test_a_pass_reads_only_what_has_changed(history: History) -> None:
    history.add(*(Told(f"c{number}") for number in range(3)), Told("open", ended=False))
    folder = history.directory / "2026-11-20"
    os.utime(folder, ns=(1, 1))  # long ago: nothing else can have the same time
    assert history.indexer.catch_up() == 0
    with (folder / "open.jsonl").open("ab") as file:
        file.write(b'{"at_ms":5,"type":"call.trouble","where":"stt","message":"late"}\n')
    assert history.indexer.catch_up() == 1
    assert history.ids(trouble="stt") == ["open"]
    Told("new", NOON + timedelta(minutes=1)).write(history.directory)
    assert history.indexer.catch_up() == 1
    assert Indexer(history.directory, history.store).catch_up() == 0


def test_every_refused_offer_of_a_quiet_day_is_listed(history: History) -> None:
    refuse(history.directory, "r1")
    os.utime(history.directory / "2026-11-20", ns=(1, 1))  # adding lines does not change it
    history.indexer.catch_up()
    refuse(history.directory, "r2")
    history.indexer.catch_up()
    assert history.ids() == ["r2", "r1"]


def test_of_a_long_file_of_refused_offers_only_the_new_lines_are_read(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        refuse(history.directory, f"r{number}")
    history.indexer.catch_up()

    def whole(path: Path) -> bytes:
        raise AssertionError(f"{path} was read whole")

    refuse(history.directory, "r3")
    with monkeypatch.context() as patched:
        patched.setattr("cordboard.history.indexer.read_stored", whole)
        history.indexer.catch_up()
    assert sorted(history.ids()) == ["r0", "r1", "r2", "r3"]


def test_two_processes_that_follow_refused_offers_list_each_once(history: History) -> None:
    other = Indexer(history.directory, history.store)
    refuse(history.directory, "r0")
    history.indexer.catch_up()
    other.catch_up()
    for number, indexer in enumerate((other, history.indexer, other, history.indexer), 1):
        refuse(history.directory, f"r{number}")
        indexer.catch_up()
    history.indexer.catch_up()
    history.indexer.catch_up()
    assert sorted(history.ids()) == ["r0", "r1", "r2", "r3", "r4"]


def test_a_ledger_is_not_left_out_because_files_are_short(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(path: Path) -> bytes:
        raise OSError(errno.EMFILE, "Too many open files")

    Told("a").write(history.directory)
    with monkeypatch.context() as patched:
        patched.setattr("cordboard.history.indexer.read_stored", short)
        with pytest.raises(OSError, match="Too many"):
            history.indexer.catch_up()
    history.indexer.catch_up()
    assert history.ids() == ["a"]


def test_a_pipe_in_place_of_notes_stops_nothing(history: History) -> None:
    (history.directory / "2026-11-20").mkdir()
    os.mkfifo(history.directory / "2026-11-20" / "a.notes.json")
    history.add(Told("a"))
    assert history.ids() == ["a"]


def test_a_deleted_ledger_and_a_deleted_day_leave_the_index(history: History) -> None:
    next_day = Told("b", NOON + timedelta(days=1))
    history.add(Told("a"), next_day, Told("c", tools=[("pay", "ok")]))
    (history.directory / Told("c").file).unlink()
    history.indexer.catch_up()
    assert history.ids() == ["b", "a"]
    assert history.store.facets(CallQuery())["tool"] == {}
    (history.directory / next_day.file).unlink()
    (history.directory / "2026-11-21").rmdir()
    history.indexer.catch_up()
    assert history.ids() == ["a"]
    assert history.ids(text="table") == ["a"]


def test_files_that_are_not_ledgers_are_left_out(history: History, tmp_path: Path) -> None:
    folder = history.directory / "2026-11-20"
    folder.mkdir()
    (folder / "junk.jsonl").write_bytes(b'[1, 2]\n"x"\n\xff\xfe\n')
    (folder / "empty.jsonl").write_bytes(b"")
    (folder / "short.jsonl").write_bytes(b'{"at_ms":0,"type":"call.offered"}\n')
    strange = Told("strange").content().replace(b'"cost":null', b'"cost":"dear"')
    (folder / "strange.jsonl").write_bytes(strange)
    huge = Told("huge").content()
    (folder / "huge.jsonl").write_bytes(
        huge.replace(b'"at_ms":11000', b'"at_ms":99999999999999999')
    )
    (folder / "refused.jsonl").write_bytes(b'{"type":"call.refused"}\n[]\nx')
    (folder / "link.jsonl").symlink_to(Told("away").write(tmp_path / "elsewhere"))
    os.mkfifo(folder / "pipe.jsonl")
    (Path(os.fsdecode(os.fsencode(folder) + b"/\xff.jsonl"))).write_bytes(Told("x").content())
    history.add(Told("real"))
    assert history.ids() == ["real"]


def test_a_very_long_call_is_found_by_its_first_words(history: History) -> None:
    words = " ".join(f"\u6c34{number}" for number in range(80_000))
    history.add(Told("long", turns=[(words, "x" * 3_000_000)], context="z" * 3000), Told("b"))
    assert history.ids(text="\u6c340 \u6c349999") == ["long"]
    assert history.ids(text="\u6c3479999") == []
    assert history.ids() == ["long", "b"]


def test_tags_and_reviews_are_filters_too(history: History) -> None:
    history.add(Told("a"), Told("b"))
    ledger = history.directory / Told("a").file
    write_notes(ledger, Notes(tags=("vip", "refund"), review="bad"), "")
    history.indexer.catch_up()
    assert history.ids(tag="vip") == ["a"]
    assert history.ids(review="bad") == ["a"]
    assert history.store.facets(CallQuery())["tag"] == {"refund": 1, "vip": 1}
    write_notes(ledger, Notes(tags=("vip",)), read_notes(ledger)[1])
    history.indexer.catch_up()
    assert history.store.facets(CallQuery())["tag"] == {"vip": 1}
    history.indexer.rebuild()
    assert history.ids(tag="vip") == ["a"]


def test_damaged_notes_hide_no_call(history: History) -> None:
    (history.directory / "2026-11-20").mkdir()
    (history.directory / "2026-11-20" / "a.notes.json").write_text("{")
    history.add(Told("a"))
    assert history.ids() == ["a"]


def test_a_failed_write_leaves_the_old_rows_and_is_tried_again(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.add(Told("a"), Told("b"))
    for name in "ab":
        Told(name, context="sales").write(history.directory)
    os.utime(history.directory / "2026-11-20", ns=(1, 1))
    with monkeypatch.context() as patched:

        def full(*_: object) -> None:
            raise HistoryError("database or disk is full")

        patched.setattr(type(history.store._database.text), "add", full)
        with pytest.raises(HistoryError, match="full"):
            history.indexer.catch_up()
    assert history.ids(context="booking", text="table") == ["b", "a"]
    history.indexer.catch_up()
    assert history.ids(context="sales", text="table") == ["b", "a"]


def test_two_programs_that_fill_one_index_leave_each_call_once(history: History) -> None:
    for number in range(150):
        Told(f"c{number:03}", tools=[("pay", "ok")]).write(history.directory)
    other = SqlHistoryStore(history.directory, history.store._database.url)
    indexers = [history.indexer, Indexer(history.directory, other, gently=True)]
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(each.catch_up) for each in indexers]:
            done.result()
    other.close()
    assert history.ids() == [f"c{number:03}" for number in reversed(range(150))]
    assert history.store.facets(CallQuery())["tool"] == {"pay": 150}
    assert len(history.ids(text="table")) == 150


# SQLite: its file.


def store_of(directory: Path) -> SqlHistoryStore:
    store = SqlHistoryStore(directory)
    store.open()
    return store


def index_file(directory: Path) -> Path:
    return directory / "history" / "index.sqlite3"


def test_the_index_can_be_read_by_its_owner_only(tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        store = store_of(tmp_path)
        Told("a").write(tmp_path)
        Indexer(tmp_path, store).catch_up()
        files = sorted((tmp_path / "history").iterdir())
        assert len(files) == 4  # with its log and its lock
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
        assert stat.S_IMODE((tmp_path / "history").stat().st_mode) == 0o700
        store.close()
        opened = [path.readlink() for path in Path("/proc/self/fd").iterdir() if path.exists()]
        assert not [path for path in opened if path.is_relative_to(tmp_path)]
    finally:
        os.umask(mask)


def overwrite(path: Path) -> None:
    path.write_bytes(b"this is no database" * 1000)


def spoil_pages(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xaa" * (path.stat().st_size - 4096))


def drop_table(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE cordboard_mark")
    connection.close()


def other_version(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("UPDATE cordboard_fact SET value = '0' WHERE name = 'version'")
    connection.commit()
    connection.close()


def remove(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("harm", [overwrite, spoil_pages, drop_table, other_version, remove])
async def test_an_index_that_is_harmed_is_made_anew(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    Told("a").write(tmp_path)
    store = store_of(tmp_path)
    Indexer(tmp_path, store).catch_up()
    store.close()
    harm(index_file(tmp_path))
    await listed(tmp_path, ["a"])


def drop_tables(path: Path) -> None:
    other_version(path)
    drop_table(path)


@pytest.mark.parametrize("is_open", [False, True])
def test_an_index_that_is_upgraded_under_an_open_page_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_open: bool
) -> None:
    """A reader that meets tables that are half made must not have them made anew."""
    Told("a").write(tmp_path)
    store = store_of(tmp_path)
    Indexer(tmp_path, store).catch_up()
    if not is_open:
        store.close()
    drop_tables(index_file(tmp_path))
    create, met = IndexDatabase._create, []

    def create_while_a_page_is_read(*given: object, **more: bool) -> None:
        with ThreadPoolExecutor(1) as pool:
            met.append(pool.submit(store.find, CallQuery()).exception())
        create(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(IndexDatabase, "_create", create_while_a_page_is_read)
    indexer = Indexer(tmp_path, store)
    indexer.catch_up()
    indexer.catch_up()
    assert [type(error) for error in met] == [IndexUnavailable], "made once, and not damaged"
    assert [row.id for row in store.find(CallQuery(text="table")).rows] == ["a"]
    store.close()


def test_an_index_that_is_deleted_under_a_running_engine_is_made_anew(tmp_path: Path) -> None:
    Told("a").write(tmp_path)
    store = store_of(tmp_path)
    indexer = Indexer(tmp_path, store)
    indexer.catch_up()
    for path in (tmp_path / "history").iterdir():
        path.unlink()
    indexer.catch_up()
    assert [row.id for row in store.find(CallQuery()).rows] == ["a"]
    store.close()
    assert index_file(tmp_path).is_file()


def test_an_index_that_another_program_has_begun_anew_is_filled_again(history: History) -> None:
    history.add(Told("a"))
    os.utime(history.directory / "2026-11-20", ns=(1, 1))
    history.indexer.catch_up()
    history.store.recreate()  # and is killed before it has filled it
    assert history.ids() == []
    history.indexer.catch_up()
    assert history.ids() == ["a"]


def test_damage_that_a_reader_meets_is_a_clear_error(tmp_path: Path) -> None:
    Told("a").write(tmp_path)
    store = store_of(tmp_path)
    Indexer(tmp_path, store).catch_up()
    store.close()
    spoil_pages(index_file(tmp_path))
    with pytest.raises(IndexDamaged, match="the index of calls is damaged: "):
        store.open()
    store.close()


def test_damage_that_only_a_reader_meets_is_mended_by_the_keeper(tmp_path: Path) -> None:
    Told("a").write(tmp_path)
    store = store_of(tmp_path)
    indexer = Indexer(tmp_path, store)
    indexer.catch_up()
    connection = sqlite3.connect(index_file(tmp_path))
    connection.execute("DELETE FROM cordboard_words_data WHERE id > 10")
    connection.commit()
    connection.close()
    indexer.catch_up()
    with pytest.raises(IndexDamaged):
        store.find(CallQuery(text="table"))
    keeper = IndexKeeper(tmp_path, store)
    keeper._pass()
    assert [row.id for row in store.find(CallQuery(text="table")).rows] == ["a"]
    keeper.close()


async def test_the_keeper_can_be_asked_to_look_now(tmp_path: Path) -> None:
    store = SqlHistoryStore(tmp_path)
    keeper = IndexKeeper(tmp_path, store, interval=3600)
    keeper.start()
    try:
        await until(lambda: keeper.passes == 1)
        Told("a").write(tmp_path)
        keeper.look_now()
        await until(lambda: keeper.passes == 2)
        assert [row.id for row in store.find(CallQuery()).rows] == ["a"]
    finally:
        keeper.close()


async def test_the_keeper_brings_the_index_up_to_date_on_request_or_says_why_not(
    tmp_path: Path,
) -> None:
    store = SqlHistoryStore(tmp_path)
    keeper = IndexKeeper(tmp_path, store, interval=3600)
    keeper.start()
    for call_id in "abc":
        Told(call_id).write(tmp_path)
        await asyncio.to_thread(keeper.catch_up)
        assert call_id in {row.id for row in store.find(CallQuery()).rows}
    shutil.rmtree(tmp_path / "history")
    (tmp_path / "history").write_text("not a folder")
    with pytest.raises(IndexUnavailable, match="cannot be made"):
        await asyncio.to_thread(keeper.catch_up)
    (tmp_path / "history").unlink()
    await asyncio.to_thread(keeper.catch_up)
    keeper.close()
    with pytest.raises(IndexUnavailable, match="closed"):
        keeper.catch_up()


@pytest.mark.parametrize("act", ["recreate", "open"])
def test_only_one_process_at_a_time_makes_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    """Of two that delete the file at once, one would go on with a file that has no name; and one
    that finds no file would delete the log of another that has just made it."""
    Told("a").write(tmp_path)
    stores = [store_of(tmp_path) for _ in "ab"]
    if act == "open":
        shutil.rmtree(tmp_path / "history")
    entered = [threading.Event(), threading.Event()]
    other = threading.Thread(target=getattr(stores[1], act))
    overlapped: list[bool] = []

    def delete(path: Path) -> None:
        if not entered[0].is_set():
            entered[0].set()
            other.start()
            overlapped.append(entered[1].wait(0.3))
        else:
            entered[1].set()
        database_delete(path)

    monkeypatch.setattr("cordboard.history.database._delete", delete)
    getattr(stores[0], act)()
    other.join()
    assert overlapped == [False]
    for store in stores:
        Indexer(tmp_path, store).catch_up()
        assert [row.id for row in store.find(CallQuery()).rows] == ["a"]
        store.close()


def test_names_that_no_call_has_any_more_leave_the_index(history: History) -> None:
    """A caller's number may be in a reason, and anything in a tag."""
    kept, gone = Told("kept", ended=False), Told("gone")
    paths = [call.write(history.directory) for call in (kept, gone)]
    write_notes(paths[0], Notes(tags=("both",)), "")
    write_notes(paths[1], Notes(tags=("both", "of the caller")), "")
    history.indexer.catch_up()
    paths[1].unlink()
    history.indexer.catch_up()
    with history.store._database.reading() as connection:
        outcomes = connection.scalars(text("SELECT outcome FROM cordboard_kind")).all()
        names = "SELECT value FROM cordboard_label WHERE kind = 'tag'"
        tags = connection.scalars(text(names)).all()
    assert (outcomes, tags) == (["not ended"], ["both"])


# Many ledgers are read by a process of their own.


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the ids of three calls, which are many here."""
    monkeypatch.setattr("cordboard.history.indexer.MANY", 3)
    calls = [Told(name, NOON + timedelta(days=day)) for day, name in enumerate("abc")]
    for call in calls:
        call.write(tmp_path)
    return ["c", "b", "a"]


async def test_many_ledgers_are_not_read_beside_the_calls(
    tmp_path: Path, many: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_here(*_: object) -> None:
        raise AssertionError("a thread of the engine has read a ledger")

    monkeypatch.setattr("cordboard.history.indexer.call_of", read_here)
    await listed(tmp_path, many)


@pytest.mark.parametrize("program", ["raise SystemExit(3)", "import os; os.kill(os.getpid(), 9)"])
async def test_ledgers_are_read_even_if_their_process_fails(
    tmp_path: Path, many: list[str], monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr("cordboard.history.keeper._PROGRAM", program)
    with structlog.testing.capture_logs() as logs:
        await listed(tmp_path, many)
    assert [each["event"] for each in logs] == ["history_process_failed"]


def test_another_process_reads_encrypted_calls_too(tmp_path: Path) -> None:
    vault = Vault(CallKeys(tmp_path / "keys", bytes(32)), seals=True)
    seal = vault.new_call()
    assert seal is not None
    vault.keep(seal)
    sealed = seal.whole("ledger", b"lines")
    other: Vault = pickle.loads(pickle.dumps(vault))
    assert other.plain(sealed) == b"lines"
    another = other.new_call()
    assert another is not None
    other.keep(another)
    assert vault.plain(another.whole("ledger", b"more")) == b"more"


async def test_the_process_that_reads_ledgers_ends_with_the_keeper(
    tmp_path: Path, many: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = tmp_path / "begun"
    program = f"import signal; open({str(begun)!r}, 'w').close(); signal.pause()"
    monkeypatch.setattr("cordboard.history.keeper._PROGRAM", program)
    keeper = IndexKeeper(tmp_path, SqlHistoryStore(tmp_path))
    keeper.start()
    await until(begun.exists)
    await asyncio.to_thread(keeper.close)
    process = keeper._process._process
    assert process is not None
    assert process.returncode == -signal.SIGKILL


async def listed(directory: Path, expected: list[str]) -> None:
    """Run a keeper for one pass: the index has these calls."""
    store = SqlHistoryStore(directory)
    keeper = IndexKeeper(directory, store, interval=0.01)
    keeper.start()
    try:
        await until(lambda: keeper.passes > 0, keeper.trouble)
        assert [row.id for row in store.find(CallQuery()).rows] == expected
        assert store.facets(CallQuery())["context"] == {"booking": len(expected)}
    finally:
        keeper.close()


# Rebuilt and followed: the same index.

_CALLS = [Told(name, NOON + timedelta(days=day)) for name in "ab" for day in range(2)]
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("grow"), st.integers(0, 3), st.integers(1, 900)),
        st.tuples(st.just("tag"), st.integers(0, 3), st.sampled_from(["x", "y", ""])),
        st.tuples(st.just("delete"), st.integers(0, 3), st.none()),
        st.tuples(st.just("refuse"), st.integers(0, 3), st.none()),
        st.tuples(st.just("follow"), st.none(), st.none()),
        st.tuples(st.just("restart"), st.none(), st.none()),
    ),
    max_size=25,
)


@settings(max_examples=40, deadline=None)
@given(steps=_STEPS)
def test_an_index_that_followed_equals_one_that_is_rebuilt(
    steps: list[tuple[str, int, object]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        store = store_of(directory)
        indexer = Indexer(directory, store)
        for kind, number, value in steps:
            if kind == "follow":
                indexer.catch_up()
            elif kind == "restart":
                indexer = Indexer(directory, store)
            else:
                _change(directory, kind, _CALLS[number], value)
        indexer.catch_up()
        followed = everything(store)
        indexer.rebuild()
        assert everything(store) == followed
        store.close()


def _change(directory: Path, kind: str, call: Told, value: object) -> None:
    path = directory / call.file
    if kind == "refuse":
        refuse(directory, f"r-{call.call_id}")
    elif kind == "grow":
        path.parent.mkdir(exist_ok=True)
        size = path.stat().st_size if path.exists() else 0
        with path.open("ab") as file:
            file.write(call.content()[size : size + int(str(value))])
    elif not path.exists():
        return
    elif kind == "tag":
        tags = (str(value),) if value else ()
        write_notes(path, Notes(tags=tags), read_notes(path)[1])
    else:
        path.unlink()


def everything(store: SqlHistoryStore) -> tuple[list[CallRow], object, object]:
    spoken = store.find(CallQuery(text="table* for"))
    counts = {kind: dict(values) for kind, values in store.facets(CallQuery()).items()}
    return list(store.find(CallQuery(), 200).rows), spoken.rows, counts


def recent(keeper: IndexKeeper) -> list[str] | None:
    found = keeper.recent(0)
    return None if found is None else [call_id for call_id, _ in found]


def test_the_newest_calls_are_not_known_while_the_index_is_being_made(tmp_path: Path) -> None:
    Told("a").write(tmp_path)
    store = SqlHistoryStore(tmp_path)
    keeper = IndexKeeper(tmp_path, store)
    assert recent(keeper) is None, "before the first pass"
    keeper._pass()
    assert recent(keeper) == ["a"]
    other = SqlHistoryStore(tmp_path)
    other.recreate()  # `cordboard history rebuild`, beside the engine
    assert recent(keeper) is None
    keeper._pass()
    assert recent(keeper) == ["a"]
    keeper.trouble = "the disk is full"
    assert recent(keeper) is None
    other.close()
    keeper.close()
