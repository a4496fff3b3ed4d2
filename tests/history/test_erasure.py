"""An erased call leaves no word in any file, and does not come back with a backup."""

from __future__ import annotations

import json
import os
import shutil
import threading
import tracemalloc
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cordboard import private_files
from cordboard.audio.wav import WavHeader
from cordboard.calls.post_call.files import PostCallFiles
from cordboard.calls.post_call.job import PostCallJob
from cordboard.errors import HistoryError, IndexUnavailable
from cordboard.history import call_files
from cordboard.history.call_record import read_call
from cordboard.history.erased import ErasedCalls
from cordboard.history.erasure import Erasure
from cordboard.history.indexer import Indexer
from cordboard.history.notes import Note, Notes, notes_path, write_notes
from cordboard.history.query import CallQuery
from cordboard.history.sql_store import SqlHistoryStore

from .conftest import History
from .ledgers import NOON, Told, refuse

ID = "5f6c1c52-9a0e-4c1f-8d6e-3f2a5b60c7d1"
NUMBER = "+4577665544"
SECRETS = (b"xylophone", b"77665544", b"Zebedee", ID.encode(), b"quagmire", b"SOUNDOFVOICE")
"""Words, number, name, id, a note, the sound."""


def told(call_id: str = ID, number: str = NUMBER) -> Told:
    return Told(
        call_id,
        number=number,
        name="Zebedee",
        turns=[("my xylophone is broken", "a xylophone you say")],
        tools=[("lookup_xylophone", "error")],
        recording=f"2026-11-20/{call_id}.wav",
    )


def add_everything(history: History) -> Path:
    """One call with a file of every kind, among others."""
    others = [Told(f"other{number}", turns=[("a piano", "yes")] * 5) for number in range(30)]
    history.add(told(), *others)
    ledger = history.directory / told().file
    header = WavHeader("slin", 8000, {"day": "2026-11-20"})
    ledger.with_suffix(".wav").write_bytes(header.encode(100) + b"SOUNDOFVOICE" * 100)
    ledger.with_suffix(".peaks").write_bytes(b"SOUNDOFVOICE")
    write_notes(ledger, Notes((Note("2026-11-21", "me", "quagmire"),), tags=("quagmire",)), "")
    ledger.with_name(f".{ID}.notes.json.123.tmp").write_text("quagm quagmire")
    left = history.directory / "open" / "0a1b2c3d"  # by an engine that was killed
    left.mkdir(parents=True)
    (left / f"2026-11-20.{ID}.json").write_text(f'{{"caller_name": "Zebedee", "said": "{NUMBER}"}}')
    (left / f".2026-11-20.{ID}.json.123.tmp").write_text('{"caller_name": "Zebedee"')
    (left / "2026-11-20.other1.json").write_text("{}")
    jobs = PostCallFiles(history.directory / "post_call")
    jobs.prepare()
    job = PostCallJob(f"1-{ID}-1", ID, "demo", "local", 1, "crm", 1.0, 1.0, {"said": "xylophone"})
    jobs.write(job)
    jobs.give_up(PostCallJob(f"2-{ID}-2", ID, "demo", "local", 2, "crm", 1.0, 1.0, {"n": NUMBER}))
    refuse(history.directory, "r1", number=NUMBER)
    refuse(history.directory, "r2", number="+45")
    history.indexer.catch_up()
    return ledger


def files_with(directory: Path, *secrets: bytes) -> list[str]:
    found = []
    for path in sorted(directory.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            found += [f"{path.relative_to(directory)}: {s!r}" for s in secrets if s in content]
    return found


def test_an_erased_call_leaves_no_word_in_any_file(history: History) -> None:
    add_everything(history)
    found = "\n".join(files_with(history.directory, *SECRETS))
    assert all(repr(secret) in found for secret in SECRETS), "there is nothing to erase"
    assert history.ids(text="xylophone") == [ID]
    erasure = Erasure(history.directory, history.store)
    plan = erasure.of_number(NUMBER)
    assert len(plan.files) == 9
    assert plan.refused == ("r1",)
    assert files_with(history.directory, *SECRETS), "a plan erases nothing"
    erasure.carry_out(plan)
    assert files_with(history.directory, *SECRETS) == []
    assert not [path for path in history.directory.rglob("*") if ID in path.name]
    assert (history.directory / "open" / "0a1b2c3d" / "2026-11-20.other1.json").exists()
    assert history.ids(text="xylophone") == []
    assert history.ids(number=NUMBER) == []
    assert history.ids(outcome="refused") == ["r2"]
    assert len(history.ids(text="piano")) == 30
    Erasure(history.directory, history.store).carry_out(plan)  # a repetition does no harm


def test_an_erased_call_does_not_come_back_with_a_backup(
    history: History, tmp_path_factory: pytest.TempPathFactory
) -> None:
    add_everything(history)
    backup = tmp_path_factory.mktemp("backup") / "calls"
    shutil.copytree(history.directory, backup)
    erasure = Erasure(history.directory, history.store)
    erasure.carry_out(erasure.of_number(NUMBER))
    for day in backup.glob("2026-*"):
        shutil.copytree(day, history.directory / day.name, dirs_exist_ok=True)
    shutil.copytree(backup / "post_call", history.directory / "post_call", dirs_exist_ok=True)
    assert files_with(history.directory, *SECRETS)
    again = Indexer(history.directory, history.store)
    again.catch_up()
    again.scrub()
    assert files_with(history.directory, *SECRETS) == []
    assert history.ids(number=NUMBER) == []
    assert len(history.ids()) == 31


def test_a_backup_that_has_the_index_too_brings_no_erased_call_back(tmp_path: Path) -> None:
    directory, backup = tmp_path / "calls", tmp_path / "backup"
    store = SqlHistoryStore(directory)
    told().write(directory)
    Told("other").write(directory)
    refuse(directory, "r1", number=NUMBER)
    Indexer(directory, store).catch_up()
    store.close()
    shutil.copytree(directory, backup)  # with the times of the files
    erasure = Erasure(directory, store)
    erasure.carry_out(erasure.of_number(NUMBER))
    store.close()
    shutil.copytree(backup, directory, dirs_exist_ok=True)
    again = Indexer(directory, SqlHistoryStore(directory))
    again.catch_up()
    again.scrub()
    assert files_with(directory, *SECRETS) == []
    assert [row.id for row in again._store.find(CallQuery()).rows] == ["other"]
    again._store.close()


def test_another_call_of_the_same_id_is_not_erased(history: History) -> None:
    """An AudioSocket dialplan may give all calls one id."""
    second, tomorrow = Told("one", number=NUMBER), Told("one", NOON + timedelta(days=1))
    history.add(Told("one"), tomorrow)
    path = history.directory / "2026-11-20" / "one-2.jsonl"
    path.write_bytes(second.content())
    erasure = Erasure(history.directory, history.store)
    erasure.carry_out(erasure.of_number(NUMBER))
    assert not path.exists()
    later = Told("one", NOON + timedelta(hours=1))
    path.write_bytes(later.content())
    history.indexer.rebuild()
    assert history.ids() == ["one", "one-2", "one"]


def test_post_call_jobs_of_an_id_that_contains_the_other_stay(history: History) -> None:
    history.add(Told("a"), Told("ab"))
    jobs = PostCallFiles(history.directory / "post_call")
    jobs.prepare()
    for call in ("a", "ab"):
        jobs.write(PostCallJob(f"1-{call}-1", call, "demo", "local", 1, "crm", 1.0, 1.0, {}))
    erasure = Erasure(history.directory, history.store)
    erasure.carry_out(erasure.of_call("a"))
    assert jobs.names() == {"1-ab-1"}


def test_words_are_overwritten_though_the_remover_was_killed(tmp_path: Path) -> None:
    store = SqlHistoryStore(tmp_path)
    for call in (told(), *(Told(f"other{number}") for number in range(30))):
        call.write(tmp_path)
    Indexer(tmp_path, store).catch_up()
    (tmp_path / told().file).unlink()
    Indexer(tmp_path, store).catch_up()  # and killed before `scrub`
    assert files_with(tmp_path, *SECRETS)
    again = Indexer(tmp_path, store)
    again.catch_up()
    again.scrub()
    assert files_with(tmp_path, *SECRETS) == []
    assert not store.needs_scrub()
    store.close()


@pytest.mark.parametrize("path", ["", "/", ".", "..", "other.jsonl", "../../2026-11-21/b.jsonl"])
def test_a_recording_by_a_strange_name_takes_no_other_file_along(
    history: History, path: str
) -> None:
    history.add(Told("a", recording=path or "EMPTY"), Told("other"))
    ledger = history.directory / Told("a").file
    ledger.write_bytes(ledger.read_bytes().replace(b"EMPTY", b""))
    assert read_call(history.directory, Told("a").file).recording.file == ""
    plan = Erasure(history.directory, history.store).of_call("a")
    assert plan.files == (ledger,)


def test_an_erasure_that_is_cut_short_is_finished_by_the_indexer(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_everything(history)
    erasure = Erasure(history.directory, history.store)
    plan = erasure.of_call(ID)
    unlink = Path.unlink
    removed: list[Path] = []

    def killed(path: Path, missing_ok: bool = False) -> None:
        if len(removed) == 2:
            raise SystemExit("killed here")
        removed.append(path)
        unlink(path, missing_ok=missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", killed)
        with pytest.raises(SystemExit, match="killed here"):
            erasure.carry_out(plan)
    os.utime(history.directory / "2026-11-20")
    indexer = Indexer(history.directory, history.store)
    indexer.rebuild()
    assert not plan.ledgers[0].exists()
    assert files_with(history.directory, b"xylophone", b"quagmire", b"SOUNDOFVOICE") == []


def test_only_the_calls_of_exactly_that_id_and_number_go(history: History) -> None:
    second = history.directory / "2026-11-20" / "abc-3.jsonl"
    second.parent.mkdir()
    second.write_bytes(Told("abc").content())
    history.add(
        Told("abc"), Told("abc-2"), Told("abcd"), Told("ab"), Told("abc-x"),
        Told("n", number="+4577"), Told("m", number="+45777"),
    )  # fmt: skip
    erasure = Erasure(history.directory, history.store)
    erasure.carry_out(erasure.of_call("abc"))
    erasure.carry_out(erasure.of_number("+4577"))
    assert history.ids() == ["m", "abcd", "abc-x", "abc-2", "ab"]


def test_a_certificate_claims_no_more_than_was_done(history: History) -> None:
    history.add(Told("a"), Told("b", number=NUMBER))
    erasure = Erasure(history.directory, history.store)
    of_call = erasure.carry_out(erasure.of_call("a"), "anna")
    of_number = erasure.carry_out(erasure.of_number(NUMBER), "anna", number_removed=True)
    for certificate, done in ((of_call, False), (of_number, True)):
        written = json.loads(certificate.path_in(history.directory).read_bytes())
        claimed, rest = str(written["removed_from"]), str(written["not_covered"])
        assert "the index, scrubbed" in claimed
        assert "the index" not in rest
        for place in ("views", "campaigns", "firewall"):
            assert (place in claimed, place in rest) == (done, not done)


def test_a_certificate_is_written_though_the_index_is_busy(history: History) -> None:
    history.add(told())

    def busy() -> None:
        (early,) = history.directory.glob("certificates/*")  # that of an erasure that is killed now
        assert not json.loads(early.read_bytes())["complete"]
        raise IndexUnavailable("another program has the index")

    erasure = Erasure(history.directory, history.store, busy)
    with capture_logs() as log:
        certificate = erasure.carry_out(erasure.of_call(ID))
    assert [each["event"] for each in log] == ["erased_calls_still_in_index"]
    assert not (history.directory / told().file).exists()
    written = json.loads(certificate.path_in(history.directory).read_bytes())
    assert "the index" not in str(written["removed_from"])
    assert "the index, which go when" in str(written["not_covered"])
    assert not written["complete"]
    assert certificate.problem == (
        "the erasure is not complete: the index may still have rows and words of the calls "
        "(another program has the index); they go when it is next updated"
    )
    assert history.ids(number=NUMBER) == [ID], "as the certificate says"
    history.indexer.catch_up()
    history.indexer.scrub()
    assert files_with(history.directory, *SECRETS) == []


def test_a_job_that_is_done_meanwhile_stops_no_erasure(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = add_everything(history)
    job = history.directory / "post_call" / f"1-{ID}-1.json"
    assert job.exists()
    listed = call_files.files_of

    def then_the_job_ends(directory: Path, path: Path, content: bytes) -> list[Path]:
        found = listed(directory, path, content)
        job.unlink()
        return found

    erasure = Erasure(history.directory, history.store)
    plan = erasure.of_call(ID)
    with monkeypatch.context() as patched:
        patched.setattr(call_files, "files_of", then_the_job_ends)
        certificate = erasure.carry_out(plan)
    assert not ledger.exists()
    kinds = [each.kind for each in certificate.calls[0].deleted]
    assert sorted(kinds) == ["job", "ledger", "notes", *["other"] * 3, "peaks", "recording"]


def test_the_erasure_of_many_calls_needs_the_memory_of_one(tmp_path: Path) -> None:
    """Such as all calls of an extension of the house."""
    ledgers = [
        Told(f"call{number}", number=NUMBER, turns=[("word " * 4000, "answer")] * 20)
        for number in range(30)
    ]
    size = sum(each.write(tmp_path).stat().st_size for each in ledgers)
    store = SqlHistoryStore(tmp_path)
    erasure = Erasure(tmp_path, store)
    plan = erasure.of_number(NUMBER)
    tracemalloc.start()
    try:
        assert erasure.carry_out(plan).complete
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    store.close()
    assert peak < size / 4


def test_a_call_that_the_indexer_deletes_meanwhile_is_erased(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.add(told())
    erasure = Erasure(history.directory, history.store)
    plan = erasure.of_number(NUMBER)
    add = ErasedCalls.add

    def add_and_pass(self: ErasedCalls, calls: Mapping[str, int], at: str) -> None:
        add(self, calls, at)
        history.indexer.catch_up()

    monkeypatch.setattr(ErasedCalls, "add", add_and_pass)
    assert erasure.carry_out(plan).complete
    assert not plan.ledgers[0].exists()


def test_a_running_call_is_not_erased(history: History) -> None:
    history.add(Told("a", ended=False))
    erasure = Erasure(history.directory, history.store)
    plan = erasure.of_call("a")
    assert (plan.ledgers, plan.files, plan.running) == ((), (), ("a",))
    certificate = erasure.carry_out(plan)
    assert history.ids() == ["a"]
    written = json.loads(certificate.path_in(history.directory).read_bytes())
    assert (written["complete"], written["running"]) == (False, 1)
    assert certificate.problem == (
        "the erasure is not complete: 1 calls have not ended; repeat it afterwards"
    )


def test_a_file_that_is_not_a_ledger_is_not_erased(history: History) -> None:
    history.add(Told("a"))
    junk = history.directory / "2026-11-20" / "junk.jsonl"
    junk.write_text("[1]\n")
    with pytest.raises(HistoryError, match=r"junk\.jsonl is not the ledger of a call"):
        Erasure(history.directory, history.store).of_call("junk")


@pytest.mark.parametrize("call_id", ["nobody", "*", "../../etc/passwd", "", "refused"])
def test_a_call_that_is_not_there_is_a_clear_error(history: History, call_id: str) -> None:
    history.add(Told("a"))
    refuse(history.directory, "r")
    with pytest.raises(HistoryError, match="there is no call"):
        Erasure(history.directory, history.store).of_call(call_id)


def test_half_a_line_in_the_list_of_erased_calls_hides_no_other(tmp_path: Path) -> None:
    erased = ErasedCalls(tmp_path)
    erased.add({"a": 5}, "2026-11-20")
    with erased.path.open("ab") as file:
        file.write(b'{"call": "abc')
    erased.add({"b": 5}, "2026-11-21")
    again = ErasedCalls(tmp_path)
    again.refresh()
    assert "a" in again
    assert "b" in again
    assert "c" not in again
    assert b'"a"' not in erased.path.read_bytes()


def test_words_of_a_deleted_ledger_leave_the_index_too(tmp_path: Path) -> None:
    store = SqlHistoryStore(tmp_path)
    store.open()
    indexer = Indexer(tmp_path, store)
    path = told().write(tmp_path)
    indexer.catch_up()
    path.unlink()
    os.utime(path.parent)
    indexer.catch_up()
    indexer.scrub()
    assert files_with(tmp_path, *SECRETS) == []
    store.close()


def test_a_note_that_is_written_meanwhile_goes_with_the_call(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    history.add(told())
    ledger = history.directory / told().file
    erasure = Erasure(history.directory, history.store)
    plan, replace = erasure.of_call(ID), private_files.replace
    erasing = threading.Thread(target=erasure.carry_out, args=[plan])

    def slowly(path: Path, content: bytes, *, sync: bool = False) -> None:
        if path == notes_path(ledger):
            erasing.start()
            erasing.join(0.5)  # it must not end before the note is there
        replace(path, content, sync=sync)

    monkeypatch.setattr(private_files, "replace", slowly)
    write_notes(ledger, Notes((Note("2026-11-21", "me", "quagmire"),)), "")
    erasing.join()
    assert files_with(history.directory, *SECRETS) == []
