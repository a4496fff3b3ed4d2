"""The file watch, in real folders. Its waits are on events of the watch itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from watchfiles import _rust_notify

from cordboard.config.files import digest_of
from cordboard.config.watch import FileWatch

PATIENCE = 60.0


class Watched:
    """A file and its watch."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ai-agent.yaml"
        self.path.write_text("one")
        self._noticed = threading.Semaphore(0)
        self.seen: list[str] = []
        self.watch = FileWatch({self.path: digest_of(b"one")}, self._changed)

    def _changed(self) -> None:
        self.seen.append(self.path.read_text())
        self._noticed.release()

    def notices(self, text: str) -> None:
        """Wait for the notice of this text. (A writer who is held up for long may be noticed in
        between; that is harmless, and no failure of a busy machine.)"""
        while self.seen[-1:] != [text]:
            assert self._noticed.acquire(timeout=PATIENCE), f"{text!r} was not noticed"


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    made = Watched(tmp_path)
    yield made
    made.watch.stop()
    assert made.watch._thread is None or not made.watch._thread.is_alive()


def test_whatever_way_a_file_is_written_it_is_noticed(watched: Watched) -> None:
    watched.watch.start()
    watched.path.write_text("written over")
    watched.notices("written over")
    (watched.path.parent / ".swap").write_text("renamed")
    (watched.path.parent / ".swap").replace(watched.path)
    watched.notices("renamed")
    watched.path.unlink()
    watched.path.write_text("gone and back")
    watched.notices("gone and back")
    (watched.path.parent / "another").write_text("none of our business")
    watched.path.write_text("gone and back")  # touched, not changed
    watched.path.write_text("last")
    watched.notices("last")
    pairs = zip(watched.seen, watched.seen[1:], strict=False)
    assert not any(before == after for before, after in pairs), "only what is new"


def test_a_file_in_many_pieces_is_noticed_when_it_is_whole(watched: Watched) -> None:
    watched.watch.start()
    with watched.path.open("w") as file:
        for piece in range(20):
            file.write(f"{piece}\n")
            file.flush()
    whole = watched.path.read_text()
    watched.notices(whole)
    assert len(watched.seen) < 20


def test_a_change_before_the_start_is_noticed(watched: Watched) -> None:
    watched.path.write_text("changed since it was read")
    watched.watch.start()
    watched.notices("changed since it was read")


def test_links_that_are_turned_are_noticed(watched: Watched, tmp_path: Path) -> None:
    """As mounted ConfigMaps do it: the file is a link through a folder that is replaced."""
    for name in ("v1", "v2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ai-agent.yaml").write_text(name)
    watched.path.unlink()
    (tmp_path / "data").symlink_to("v1")
    watched.path.symlink_to("data/ai-agent.yaml")
    watched.watch = FileWatch({watched.path: digest_of(b"v1")}, watched._changed)
    watched.watch.start()
    (tmp_path / "new").symlink_to("v2")
    (tmp_path / "new").replace(tmp_path / "data")
    watched.notices("v2")


def test_a_second_file_that_comes_later(watched: Watched, tmp_path: Path) -> None:
    lock = tmp_path / "mcp.lock"
    watched.watch = FileWatch({watched.path: None, lock: None}, watched._changed)
    watched.watch.start()
    lock.write_text("{}")
    watched.notices("one")  # what the other file holds


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    watch = FileWatch({tmp_path / "nowhere" / "ai-agent.yaml": ""}, lambda: None)
    with pytest.raises(OSError, match="nowhere"):
        watch.start()
    watch.stop()


def test_a_stop_in_the_middle_of_the_start_is_a_stop(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[threading.Thread] = []

    class Interrupted(threading.Thread):
        def start(self) -> None:
            watched.watch.stop()
            super().start()
            begun.append(self)

    monkeypatch.setattr("cordboard.config.watch.threading.Thread", Interrupted)
    watched.watch.start()
    begun[0].join(PATIENCE)
    assert not begun[0].is_alive()


def test_a_machine_without_a_free_watch_is_an_error_like_any_other_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library's error is none of the system's (seen with user.max_inotify_instances of 0)."""

    def none_free(*_: object) -> NoReturn:
        raise _rust_notify.WatchfilesRustInternalError("Too many open files (os error 24)")

    monkeypatch.setattr(_rust_notify, "RustNotify", none_free)
    watch = FileWatch({tmp_path / "ai-agent.yaml": ""}, lambda: None)
    with pytest.raises(OSError, match="Too many open files"):
        watch.start()
    watch.stop()
