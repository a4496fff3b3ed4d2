"""The audit: its chain, its place on the disk, and reading it."""

from __future__ import annotations

import hashlib
import json
import resource
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.accounts.audit import AuditEntry, AuditLog, Verified, verify
from cordboard.errors import StoreUnavailable

HANG_UP = AuditEntry("anna", "call.hangup", on="01fb", via="session", client="127.0.0.1")


@pytest.fixture
def log(tmp_path: Path) -> AuditLog:
    return AuditLog(tmp_path / "admin" / "audit.jsonl", lambda: 1_800_000_000.25)


def test_a_line_says_who_did_what_when_and_from_where(log: AuditLog) -> None:
    assert log.append(HANG_UP) == 1
    (line,) = log.path.read_text().splitlines()
    entry = json.loads(line)
    assert entry["at"] == "2027-01-15T08:00:00.250+00:00"
    assert (entry["seq"], entry["who"], entry["action"], entry["on"]) == (
        1,
        "anna",
        "call.hangup",
        "01fb",
    )
    assert entry["prev"] == "0" * 64
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert verify(log.path) == Verified(1, entry["hash"])


@given(who=st.text(), action=st.text(), on=st.text(), detail=st.dictionaries(st.text(), st.text()))
def test_any_text_is_kept_in_order(
    tmp_path_factory: pytest.TempPathFactory,
    who: str,
    action: str,
    on: str,
    detail: dict[str, str],
) -> None:
    log = AuditLog(tmp_path_factory.mktemp("audit") / "a.jsonl", lambda: 0.0)
    for seq in (1, 2, 3):
        assert log.append(AuditEntry(who, action, on, detail=detail)) == seq
    assert verify(log.path).problem == ""
    entries, before = log.read(10)
    assert [entry["seq"] for entry in entries] == [3, 2, 1]
    assert before == 0
    assert entries[0]["on"] == on[:500].encode("utf-8", "replace").decode()


def _change(lines: list[bytes]) -> None:
    lines[4] = lines[4].replace(b'"anna"', b'"bert"')


def _change_and_hash(lines: list[bytes]) -> None:
    entry = json.loads(lines[4])
    entry["who"] = "bert"
    del entry["hash"]
    body = json.dumps(entry, separators=(",", ":")).encode()
    digest = hashlib.sha256(body).hexdigest()
    lines[4] = body[:-1] + f',"hash":"{digest}"'.encode() + b"}\n"


def _remove(lines: list[bytes]) -> None:
    del lines[4]


def _exchange(lines: list[bytes]) -> None:
    lines[4], lines[5] = lines[5], lines[4]


def _repeat(lines: list[bytes]) -> None:
    lines.insert(4, lines[3])


def _no_json(lines: list[bytes]) -> None:
    lines[4] = b"what?\n"


Attack: TypeAlias = Callable[[list[bytes]], None]


@pytest.mark.parametrize(
    ("attack", "problem"),
    [
        (_change, "line 5: it was changed"),
        (_change_and_hash, "line 6: it does not follow the line before"),
        (_remove, "line 5: it does not follow"),
        (_exchange, "line 5: it does not follow"),
        (_repeat, "line 5: it does not follow"),
        (_no_json, "line 5: it is not JSON"),
    ],
)
def test_what_is_changed_afterwards_is_found(log: AuditLog, attack: Attack, problem: str) -> None:
    for _ in range(9):
        log.append(HANG_UP)
    lines = log.path.read_bytes().splitlines(keepends=True)
    attack(lines)
    log.path.write_bytes(b"".join(lines))
    assert verify(log.path).problem.startswith(problem)


def test_the_head_of_the_past_is_reported_once_a_day_so_that_a_cut_end_shows(
    tmp_path: Path,
) -> None:
    now, heads = [1_800_000_000.0], list[tuple[int, str]]()
    log = AuditLog(
        tmp_path / "a.jsonl", lambda: now[0], lambda seq, head: heads.append((seq, head))
    )
    for _ in range(3):
        log.append(HANG_UP)
    head = verify(log.path).head
    now[0] += 86_400
    log.append(HANG_UP)
    assert heads == [(0, "0" * 64), (3, head)]


def test_half_a_line_of_a_killed_process_is_named_and_replaced(log: AuditLog) -> None:
    for _ in range(2):
        log.append(HANG_UP)
    whole = log.path.read_bytes()
    for cut in (1, 40, len(whole) // 2 - 1):
        log.path.write_bytes(whole[:-cut])
        assert verify(log.path).problem.startswith("line 2: it is not complete")
        assert [entry["seq"] for entry in log.read(10)[0]] == [1]
        assert log.append(HANG_UP) == 2
        assert verify(log.path).problem == ""


KILLED = """
import sys
from dataclasses import replace
from pathlib import Path
from cordboard.accounts.audit import AuditEntry, AuditLog
log = AuditLog(Path(sys.argv[1]), lambda: 0.0)
while True:
    log.append(AuditEntry("anna", "call.hangup"))
    print(flush=True)
"""


def test_a_process_killed_at_any_moment_leaves_a_chain_that_goes_on(log: AuditLog) -> None:
    done = 0
    for lines in (1, 5, 9):
        writer = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(log.path)], stdout=subprocess.PIPE
        )
        assert writer.stdout is not None
        for _ in range(lines):
            assert writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        done += lines
        assert log.append(HANG_UP) > done, "a line that was reported is on the disk"
        done = verify(log.path).lines
        assert verify(log.path).problem == ""


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """A limit of the size of files, which fails in the middle of a line as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_without_room_for_the_whole_line_there_is_an_error_and_no_part_of_it(
    log: AuditLog,
) -> None:
    log.append(HANG_UP)
    whole = log.path.read_bytes()
    with room_for(len(whole) + 50), pytest.raises(StoreUnavailable, match="cannot be written"):
        log.append(HANG_UP)
    assert log.path.read_bytes() == whole
    assert log.append(HANG_UP) == 2


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    log = AuditLog(tmp_path / "file" / "audit.jsonl", lambda: 0.0)
    with pytest.raises(StoreUnavailable, match="cannot be written"):
        log.append(HANG_UP)
    assert AuditLog(tmp_path / "none.jsonl", lambda: 0.0).read(5) == ([], 0)


def test_threads_and_processes_make_one_chain(log: AuditLog) -> None:
    others = [AuditLog(log.path, lambda: 0.0) for _ in range(4)]

    def write(each: AuditLog) -> None:
        for _ in range(25):
            each.append(HANG_UP)

    threads = [threading.Thread(target=write, args=(each,)) for each in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert verify(log.path).lines == 100
    assert verify(log.path).problem == ""


def test_a_long_audit_is_read_backwards_in_pages(log: AuditLog) -> None:
    long = AuditEntry("anna", "x", detail={f"fact {number}": "w" * 400 for number in range(20)})
    for number in range(60):
        log.append(long if number % 3 else HANG_UP)
    found, before = list[int](), None
    while before != 0:
        page, before = log.read(7, before)
        found += [entry["seq"] for entry in page]
    assert found == [*range(60, 0, -1)]


def test_a_filter_that_fits_nothing_does_not_read_all_at_once(
    log: AuditLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cordboard.accounts.audit._MOST_LOOKED", 20)
    for number in range(45):
        log.append(replace(HANG_UP, on="rare") if number == 1 else HANG_UP)

    def rare(entry: Mapping[str, Any]) -> bool:
        return bool(entry["on"] == "rare")

    assert log.read(5, None, rare) == ([], 26)
    assert log.read(5, 26, rare) == ([], 6)
    found, before = log.read(5, 6, rare)
    assert ([entry["seq"] for entry in found], before) == ([2], 0)


@pytest.mark.parametrize("after", [b',"who":"bert"', b" ", b',"hash":"0"'])
def test_what_is_added_after_the_hash_of_a_line_is_found(log: AuditLog, after: bytes) -> None:
    """Of two equal keys most readers take the last."""
    for _ in range(3):
        log.append(HANG_UP)
    lines = log.path.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].removesuffix(b"}\n") + after + b"}\n"
    log.path.write_bytes(b"".join(lines))
    found = verify(log.path)
    assert (found.lines, found.problem[:22]) == (1, "line 2: it was changed")


@pytest.mark.parametrize("before", [10**6, 10**30])
def test_a_place_beyond_the_end_is_the_end(log: AuditLog, before: int) -> None:
    log.append(HANG_UP)
    assert log.read(5, before)[0] == log.read(5)[0]


def test_each_month_has_its_file_and_the_chain_goes_on(tmp_path: Path) -> None:
    now = [1_800_000_000.0]  # 2027-01-15
    log = AuditLog(tmp_path / "audit.jsonl", lambda: now[0], keep_months=2)
    other = AuditLog(tmp_path / "audit.jsonl", lambda: now[0])
    for month in range(5):
        for _ in range(3):
            (log if month % 2 else other).append(HANG_UP)
        now[0] += 31 * 86_400
    log.append(HANG_UP)
    names = sorted(path.name for path in tmp_path.glob("*.jsonl"))
    assert names == ["audit-2027-04.jsonl", "audit-2027-05.jsonl", "audit.jsonl"]
    found = verify(log.path)
    assert (found.first, found.lines, found.problem) == (10, 16, "")
    read, before = list[int](), None
    while before != 0:
        page, before = log.read(2, before)
        read += [entry["seq"] for entry in page]
    assert read == [*range(16, 9, -1)]
    early = tmp_path / "audit-2027-04.jsonl"
    early.write_bytes(early.read_bytes().replace(b"anna", b"bert", 1))
    assert verify(log.path).problem.startswith("audit-2027-04.jsonl, line 1: it was changed")


def test_a_clock_that_went_back_over_a_month_exchanges_no_lines(tmp_path: Path) -> None:
    now = [1_800_000_000.0]
    log = AuditLog(tmp_path / "audit.jsonl", lambda: now[0])
    for change in (0, 40, -40, 0):
        now[0] += change * 86_400
        log.append(HANG_UP)
    assert verify(log.path) == Verified(4, verify(log.path).head)
    assert [entry["seq"] for entry in log.read(9)[0]] == [4, 3, 2, 1]


def test_threads_that_meet_at_the_end_of_a_month_make_one_chain(tmp_path: Path) -> None:
    AuditLog(tmp_path / "audit.jsonl", lambda: 1_800_000_000.0).append(HANG_UP)
    logs = [AuditLog(tmp_path / "audit.jsonl", lambda: 1_805_000_000.0) for _ in range(4)]
    threads = [
        threading.Thread(target=lambda each=each: [each.append(HANG_UP) for _ in range(10)])
        for each in logs
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (verify(logs[0].path).lines, verify(logs[0].path).problem) == (41, "")
