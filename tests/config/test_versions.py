"""The store of versions: what it keeps, who may read it, and what damage does to it."""

from __future__ import annotations

import hashlib
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cordboard.config.versions import Author, Versions
from cordboard.errors import NotThere, VersionsUnusable

ANNA = Author("anna", "a friendlier greeting", "page")


@pytest.fixture
def versions(tmp_path: Path) -> Versions:
    return Versions(tmp_path / "versions", tmp_path / "a.yaml")


def test_each_text_is_kept_under_its_digest_with_who_when_and_why(versions: Versions) -> None:
    first = versions.add(b"one", Author())
    second = versions.add(b"two", ANNA)
    assert first == hashlib.sha256(b"one").hexdigest()
    newest, oldest = versions.history()
    assert (newest.digest, newest.author, newest.parent) == (second, ANNA, first)
    assert (oldest.digest, oldest.author, oldest.parent) == (first, Author(source="file"), "")
    assert versions.content(second) == b"two"
    assert versions.content(first[:8]) == b"one"
    assert newest.at[:2] == "20"


def test_a_text_that_is_the_newest_is_no_new_version_but_one_that_returns_is(
    versions: Versions,
) -> None:
    for text in (b"one", b"one", b"two", b"one"):
        versions.add(text, Author())
    assert [versions.content(version.digest) for version in versions.history()] == [
        b"one",
        b"two",
        b"one",
    ]


def test_a_load_is_shown_with_the_version_that_it_loaded(versions: Versions) -> None:
    one = versions.add(b"one", Author())
    versions.loaded(one, 1, "applied")
    two = versions.add(b"two", Author())
    versions.loaded(two, 1, "refused")
    newest, oldest = versions.history()
    assert (oldest.generation, oldest.result) == (1, "applied")
    assert (newest.generation, newest.result) == (1, "refused")


def test_reloads_without_a_change_let_the_log_grow_no_further(
    tmp_path: Path, versions: Versions
) -> None:
    log = tmp_path / "versions" / "log.jsonl"
    one = versions.add(b"one", Author())
    versions.loaded(one, 1, "applied")
    before = log.read_bytes()
    for _ in range(3):
        versions.add(b"one", Author())
        versions.loaded(one, 1, "applied")
    assert log.read_bytes() == before
    versions.loaded(one, 2, "applied")
    assert versions.history()[0].generation == 2


def test_writers_at_the_same_time_lose_no_line(tmp_path: Path, versions: Versions) -> None:
    def writes(number: int) -> None:
        mine = Versions(tmp_path / "versions", tmp_path / "a.yaml")
        for count in range(5):
            with mine.locked():
                digest = mine.add(f"{number} {count}".encode(), Author())
            mine.loaded(digest, number, "applied")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(writes, range(1, 5)))
    found = versions.history()
    assert len(found) == 20
    for version in found:
        assert version.generation == int(versions.content(version.digest).split()[0])


def test_files_that_share_a_folder_have_histories_of_their_own(
    tmp_path: Path, versions: Versions
) -> None:
    other = Versions(tmp_path / "versions", tmp_path / "b.yaml")
    one, two = versions.add(b"one", Author()), other.add(b"two", Author())
    other.loaded(one, 3, "applied")
    (version,) = versions.history()
    assert (version.digest, version.generation) == (one, None)
    assert other.latest() == two
    assert versions.content(two) == b"two", (
        "a call's version resolves, whatever its file was called"
    )


def test_nobody_else_can_read_them(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        versions = Versions(tmp_path / "admin" / "versions", tmp_path / "a.yaml")
        with versions.locked():
            versions.add(b"one", Author())
    finally:
        os.umask(before)
    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "admin").rglob("*")
    }
    digest = hashlib.sha256(b"one").hexdigest()
    assert modes == {
        "versions": 0o700,
        "objects": 0o700,
        "lock": 0o600,
        "log.jsonl": 0o600,
        f"{digest}.yaml": 0o600,
    }


def test_a_line_that_was_cut_off_hides_no_other_and_the_next_one_is_whole(
    tmp_path: Path, versions: Versions
) -> None:
    versions.add(b"one", Author())
    log = tmp_path / "versions" / "log.jsonl"
    for damage in (b'{"at": "2026', b"\xff\xfe", b"[1]\n", b'{"event": "version"}\n', b"7"):
        log.write_bytes(log.read_bytes() + damage)
        assert [versions.content(version.digest) for version in versions.history()][-1] == b"one"
        versions.add(damage, Author())
        assert versions.content(versions.latest()) == damage
    assert len(versions.history()) == 6


def test_a_damaged_text_is_not_given_out_and_the_next_keeping_mends_it(
    tmp_path: Path, versions: Versions
) -> None:
    digest = versions.keep(b"one")
    path = tmp_path / "versions" / "objects" / f"{digest}.yaml"
    path.write_bytes(b"on")
    with pytest.raises(NotThere, match="damaged"):
        versions.content(digest)
    versions.keep(b"one")
    assert versions.content(digest) == b"one"


@pytest.mark.parametrize("name", ["abc", "", "ffff", "*", "../../etc/passwd", "????"])
def test_a_name_that_is_no_version_is_refused(versions: Versions, name: str) -> None:
    versions.keep(b"one")
    with pytest.raises(NotThere, match="there is no version"):
        versions.content(name)


def test_a_beginning_that_several_versions_share_is_refused(
    tmp_path: Path, versions: Versions
) -> None:
    digest = versions.keep(b"one")
    (tmp_path / "versions" / "objects" / f"{digest[:8]}00.yaml").write_bytes(b"")
    with pytest.raises(NotThere, match="2 versions begin with"):
        versions.content(digest[:8])


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    versions = Versions(tmp_path / "file" / "versions", tmp_path / "a.yaml")
    with pytest.raises(VersionsUnusable, match=r"versions cannot be kept in .*file/versions: "):
        versions.keep(b"one")
    with pytest.raises(VersionsUnusable, match="file/versions"), versions.locked():
        pass
