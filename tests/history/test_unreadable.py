"""A call that cannot be read for a moment is not lost, and no erasure is certified beside it."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from cordboard.calls.open_calls import OpenCall, OpenCalls
from cordboard.history import call_files, erasure, indexer
from cordboard.history.call_files import key_of_file
from cordboard.history.erasure import Erasure
from cordboard.history.indexer import Indexer
from cordboard.history.keeper import IndexKeeper
from cordboard.history.query import CallQuery
from cordboard.history.sql_store import SqlHistoryStore
from cordboard.privacy.master_key import CallKeys
from cordboard.privacy.sealed_file import Vault

from .conftest import History
from .ledgers import Told, refuse

NUMBER = "+4577665544"


class Sealed:
    """Encrypted calls, whose keys can be away: a folder that is not mounted."""

    def __init__(self, folder: Path) -> None:
        self.directory = folder / "calls"
        self.keys = folder / "keys"
        self.vault = Vault(CallKeys(self.keys, bytes(32)), seals=True)
        self.store = SqlHistoryStore(self.directory, vault=self.vault)
        self.indexer = Indexer(self.directory, self.store, vault=self.vault)

    def add(self, *calls: Told) -> None:
        for call in calls:
            seal = self.vault.new_call()
            assert seal is not None
            self.vault.keep(seal)
            path = self.directory / call.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(seal.whole("ledger", call.content()))

    def look(self) -> list[str]:
        """Let all files be tried, and return the ids in the index."""
        self.indexer.retry_now()
        self.indexer.catch_up()
        return [row.id for row in self.store.find(CallQuery()).rows]

    def unmount(self) -> None:
        self.keys.rename(self.keys.with_name("away"))

    def mount(self) -> None:
        self.keys.with_name("away").rename(self.keys)

    @property
    def erasure(self) -> Erasure:
        return Erasure(self.directory, self.store, self.look, self.vault)


@pytest.fixture
def sealed(tmp_path: Path) -> Iterator[Sealed]:
    found = Sealed(tmp_path)
    yield found
    found.store.close()


def test_a_call_whose_key_is_away_for_a_moment_is_listed_when_it_is_back(sealed: Sealed) -> None:
    sealed.add(Told("a"), Told("b"))
    sealed.unmount()
    assert sealed.look() == []
    assert set(sealed.indexer.unreadable) == {Told("a").file, Told("b").file}
    assert all("is not in" in reason for reason in sealed.indexer.unreadable.values())
    sealed.mount()
    again = Indexer(sealed.directory, sealed.store, vault=sealed.vault)  # another program
    again.catch_up()
    assert again.unreadable == {}
    assert sealed.look() == ["b", "a"]


def test_a_call_that_becomes_unreadable_stays_in_the_index(sealed: Sealed) -> None:
    sealed.add(Told("a"))
    assert sealed.look() == ["a"]
    sealed.unmount()
    path = sealed.directory / Told("a").file
    path.write_bytes(path.read_bytes())
    path.parent.touch()
    assert sealed.look() == ["a"]
    assert list(sealed.indexer.unreadable) == [Told("a").file]


def test_no_erasure_is_certified_while_calls_cannot_be_read(sealed: Sealed) -> None:
    sealed.add(Told("a", number=NUMBER), Told("b", number=NUMBER))
    sealed.look()
    (sealed.directory / Told("plain").file).write_bytes(Told("plain", number=NUMBER).content())
    sealed.indexer.rebuild()
    sealed.unmount()
    sealed.store.recreate()
    plan = sealed.erasure.of_number(NUMBER)
    assert [path.stem for path in plan.ledgers] == ["plain"]
    assert set(plan.unreadable) == {Told("a").file, Told("b").file}
    certificate = sealed.erasure.carry_out(plan)
    assert not certificate.complete
    assert "2 calls could not be read" in certificate.problem
    written = json.loads(certificate.path_in(sealed.directory).read_bytes())
    assert (written["complete"], len(written["unreadable"])) == (False, 2)
    assert not (sealed.directory / Told("plain").file).exists()
    sealed.mount()
    certificate = sealed.erasure.carry_out(sealed.erasure.of_number(NUMBER))
    assert (certificate.complete, certificate.problem) == (True, "")
    assert len(certificate.calls) == 2
    assert sealed.look() == []


def test_calls_whose_key_is_lost_can_be_erased_by_their_ids(sealed: Sealed) -> None:
    """Their keys may be elsewhere, and open every backup: no certificate says they are gone."""
    sealed.add(Told("a"), Told("b"))
    path = sealed.directory / Told("a").file
    backup, key = path.read_bytes(), key_of_file(path)
    sealed.unmount()
    sealed.look()
    for call_id in "ab":
        certificate = sealed.erasure.carry_out(sealed.erasure.of_call(call_id))
        assert not certificate.complete
        assert "the keys of 1 calls were not there" in certificate.problem
        assert "repeat" not in certificate.problem, "the call is not there any more"
        assert not (sealed.directory / Told(call_id).file).exists()
    assert sealed.erasure.of_number(NUMBER).unreadable == {}
    shutil.rmtree(sealed.keys, ignore_errors=True)  # a folder that was made beside the mount
    sealed.mount()
    assert sealed.vault.plain(backup) == Told("a").content()
    written = [json.loads(each.read_bytes()) for each in sealed.directory.glob("certificates/*")]
    calls = [call for each in written for call in each["calls"]]
    assert [call["left"] for call in calls] == ["its key was not there"] * 2
    assert key in [call["key"] for call in calls], "to delete it where it is"
    for each in written:
        assert "keys" not in str(each["removed_from"])
        assert "the keys of encrypted calls" in each["not_covered"]


def test_a_running_call_is_not_erased_while_its_key_is_away(sealed: Sealed) -> None:
    """The ledger alone does not say then that it has not ended; a live engine's list does."""
    sealed.add(Told("a", ended=False), Told("b", ended=False))
    engine = OpenCalls(sealed.directory)
    opened = OpenCall("call", "a", "booking", "local", "2026-11-20T12:00:00.000+00:00")
    engine.put(sealed.directory / Told("a").file, opened, sealed.vault.new_call())
    sealed.unmount()
    plan = sealed.erasure.of_call("a")
    assert (plan.running, plan.ledgers) == (("a",), ())
    assert not sealed.erasure.carry_out(plan).complete
    assert (sealed.directory / Told("a").file).exists()
    assert [path.stem for path in sealed.erasure.of_call("b").ledgers] == ["b"]
    engine.close()  # killed: its calls can be erased, or they would stay for ever
    sealed.erasure.carry_out(sealed.erasure.of_call("a"))
    assert not (sealed.directory / Told("a").file).exists()


def test_only_a_call_whose_key_was_erased_on_purpose_is_left_out(sealed: Sealed) -> None:
    sealed.add(Told("a", number=NUMBER), Told("b"))
    sealed.look()
    path = sealed.directory / Told("a").file
    backup = path.read_bytes()
    assert sealed.erasure.carry_out(sealed.erasure.of_call("a")).complete
    path.write_bytes(backup)  # a backup that does not have the keys
    assert sealed.look() == ["b"]
    assert sealed.indexer.unreadable == {}
    assert sealed.erasure.of_number(NUMBER).unreadable == {}


def test_unreadable_calls_are_tried_again_at_growing_intervals(
    sealed: Sealed, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed.add(Told("a"))
    sealed.unmount()
    now = 1000.0
    monkeypatch.setattr(indexer.time, "monotonic", lambda: now)
    tried = []
    for _ in range(2000):
        if sealed.indexer.catch_up():
            tried.append(now)
        now += 1
    pauses = [after - before for before, after in pairwise(tried)]
    assert pauses[:6] == [15, 30, 60, 120, 240, 480]
    sealed.indexer.retry_now()
    assert sealed.indexer.catch_up() == 1


def test_a_fault_of_the_disk_hides_no_call(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(path: Path) -> bytes:
        raise OSError(errno.EIO, "Input/output error", str(path))

    Told("a").write(history.directory)
    refuse(history.directory, "r1")
    with monkeypatch.context() as patched:
        patched.setattr("cordboard.history.indexer.read_stored", faulty)
        history.indexer.catch_up()
    assert history.ids() == []
    assert set(history.store.unreadable().values()) == {"Input/output error"}
    assert len(history.store.unreadable()) == 2
    history.indexer.retry_now()
    history.indexer.catch_up()
    assert sorted(history.ids()) == ["a", "r1"]
    assert history.store.unreadable() == {}


def test_ready_and_alarms_say_that_calls_cannot_be_read(sealed: Sealed) -> None:
    sealed.add(Told("a"))
    keeper = IndexKeeper(sealed.directory, sealed.store, vault=sealed.vault)
    sealed.unmount()
    keeper._pass()
    assert (keeper.unreadable, keeper.trouble) == (1, "")
    assert keeper.problem.startswith("1 calls cannot be read: the key of this call is not in")
    sealed.mount()
    keeper._indexer.retry_now()
    keeper._pass()
    assert (keeper.unreadable, keeper.problem) == (0, "")
    keeper.close()


# A deletion that fails.


def test_what_was_erased_is_certified_though_the_rest_failed(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.add(*(Told(name, number=NUMBER) for name in "abc"))
    ledgers = [history.directory / Told(name).file for name in "abc"]
    unlink = Path.unlink

    def failing(path: Path, missing_ok: bool = False) -> None:
        if path == ledgers[1]:
            raise OSError(errno.EIO, "Input/output error", str(path))
        unlink(path, missing_ok=missing_ok)

    erasing = Erasure(history.directory, history.store)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", failing)
        certificate = erasing.carry_out(erasing.of_number(NUMBER))
    assert [path.exists() for path in ledgers] == [False, True, False]
    assert not certificate.complete
    assert certificate.problem == (
        "the erasure is not complete: files of 1 calls could not be deleted (Input/output error); "
        "repeat it when that is mended"
    )
    written = json.loads(certificate.path_in(history.directory).read_bytes())
    assert [call["left"] for call in written["calls"]] == ["", "Input/output error", ""]
    assert [len(call["deleted"]) for call in written["calls"]] == [1, 0, 1]
    assert "b" not in written["calls"][1]["left"]
    erasing = Erasure(history.directory, history.store)
    certificate = erasing.carry_out(erasing.of_number(NUMBER))  # the indexer has done the rest
    assert certificate.complete
    assert not ledgers[1].exists()


def test_an_erased_call_that_the_indexer_cannot_delete_is_not_forgotten(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Told("a", number=NUMBER).write(history.directory)
    history.indexer.catch_up()
    backup = path.read_bytes()
    erasing = Erasure(history.directory, history.store)
    erasing.carry_out(erasing.of_number(NUMBER))
    path.write_bytes(backup)

    def read_only(*_: object) -> object:
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patched:
        patched.setattr(call_files, "files_of", read_only)
        patched.setattr(erasure, "files_of", lambda *_: [])
        plan = Erasure(history.directory, history.store).of_number(NUMBER)
    assert plan.unreadable == {Told("a").file: "Read-only file system"}
    assert Erasure(history.directory, history.store).of_number(NUMBER).unreadable == {}
    assert not path.exists()
