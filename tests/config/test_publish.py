"""Publishing: conflicts and merges, files of all kinds, full disks and killed processes."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard.config.files import digest_of
from cordboard.config.publish import Conflict, PublishConflict, merge, publish
from cordboard.config.versions import Author, Versions
from cordboard.errors import ConfigError, EditRefused, PublishRefused, VersionsUnusable

from . import publish_killed
from .publish_killed import NEW

OLD = publish_killed.OLD.decode()
ANNA = Author("anna", "why", "page")


class Desk:
    """A file and its versions."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ai-agent.yaml"
        self.path.write_text(OLD)
        self.versions = Versions(folder / "versions", self.path)

    def publish(self, text: str, base: str | None = None, author: Author = ANNA) -> str:
        based = digest_of(self.path.read_bytes()) if base is None else base
        return publish(text, based, author, self.path, self.versions, {})

    @property
    def texts(self) -> list[str]:
        return [self.versions.content(one.digest).decode() for one in self.versions.history()]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_the_text_is_in_the_file_and_both_texts_are_versions(desk: Desk) -> None:
    desk.path.chmod(0o640)
    digest = desk.publish(NEW)
    assert desk.path.read_text() == NEW
    assert stat.S_IMODE(desk.path.stat().st_mode) == 0o640
    newest, oldest = desk.versions.history()
    assert (newest.digest, newest.author, newest.parent) == (digest, ANNA, oldest.digest)
    assert (oldest.author, desk.texts) == (Author(), [NEW, OLD])
    assert sorted(path.name for path in desk.path.parent.iterdir()) == ["ai-agent.yaml", "versions"]


def test_bytes_stay_as_they_are(desk: Desk) -> None:
    text = "\ufeffcontexts:\r\n  demo: {greeting: ü}\r\n"
    desk.publish(text)
    assert desk.path.read_bytes() == text.encode()


def test_a_text_that_cannot_be_used_changes_nothing(desk: Desk) -> None:
    with pytest.raises(ConfigError, match=r"contexts\.demo\.greting"):
        desk.publish("contexts: {demo: {greting: x}}\n")
    assert desk.path.read_text() == OLD
    assert desk.versions.history() == []


def test_who_comes_second_gets_both_texts_merged(desk: Desk) -> None:
    base = "contexts:\n  a: {}\n  b: {}\n  c: {}\n"
    desk.publish(base)
    begun = digest_of(base.encode())
    desk.publish(base.replace("a: {}", "a: {greeting: A}"), begun)
    with pytest.raises(PublishConflict) as caught:
        desk.publish(base.replace("c: {}", "c: {greeting: C}"), begun)
    merged = "contexts:\n  a: {greeting: A}\n  b: {}\n  c: {greeting: C}\n"
    assert caught.value.merged == merged
    assert list(caught.value.conflicts) == []
    assert "A" in desk.path.read_text()
    desk.publish(merged, caught.value.digest)
    assert desk.path.read_text() == merged


def test_of_two_publishers_at_once_one_is_told_of_the_other(desk: Desk) -> None:
    desk.publish("contexts: {a: {}}\n")
    base = digest_of(desk.path.read_bytes())
    texts = [f"contexts: {{a: {{greeting: '{number}'}}}}\n" for number in range(8)]
    begin = threading.Barrier(len(texts))

    def one(text: str) -> str | None:
        begin.wait()
        try:
            desk.publish(text, base)
        except PublishConflict as conflict:
            return conflict.theirs
        return None

    with ThreadPoolExecutor(len(texts)) as pool:
        answers = list(pool.map(one, texts))
    winner = desk.path.read_text()
    assert set(answers) == {winner, None}
    assert answers.count(None) == 1
    assert desk.texts[0] == winner


def test_changes_of_the_same_line_are_a_conflict_with_both_sides(desk: Desk) -> None:
    begun = digest_of(desk.path.read_bytes())
    desk.publish(OLD.replace("old", "mine"))
    with pytest.raises(PublishConflict, match="do not fit together") as caught:
        desk.publish(OLD.replace("old", "yours"), begun)
    (conflict,) = caught.value.conflicts
    assert caught.value.merged is None
    assert caught.value.with_ours == OLD.replace("old", "yours")
    assert (conflict.line, conflict.base) == (1, OLD)
    assert (conflict.ours, conflict.theirs) == (
        OLD.replace("old", "yours"),
        OLD.replace("old", "mine"),
    )


def test_a_base_that_no_one_knows_is_a_conflict_without_a_merge(desk: Desk) -> None:
    with pytest.raises(PublishConflict) as caught:
        desk.publish(NEW, "0" * 64)
    assert (caught.value.merged, caught.value.theirs) == (None, OLD)


SECRETS = "contexts: {a: {}}\nadmin: {token: hunter2-admin}\n# end\n"
HOLES = SECRETS.replace("hunter2-admin", "«secret:1»")


def test_holes_get_the_secrets_of_the_file(desk: Desk) -> None:
    desk.publish(SECRETS)
    desk.publish(HOLES.replace("a: {}", "b: {}"))
    assert desk.path.read_text() == SECRETS.replace("a: {}", "b: {}")
    with pytest.raises(EditRefused, match="is not a secret of this file"):
        desk.publish(HOLES.replace("secret:1", "secret:2"))
    assert desk.path.read_text() == SECRETS.replace("a: {}", "b: {}")


def test_a_conflict_shows_no_secret_and_its_merge_can_be_published(desk: Desk) -> None:
    desk.publish(SECRETS)
    begun = digest_of(SECRETS.encode())
    desk.publish(HOLES.replace("a: {}", "b: {}"))
    for ours in (HOLES, SECRETS):
        with pytest.raises(PublishConflict) as caught:
            desk.publish(ours.replace("# end", "# fin"), begun)
        merged = HOLES.replace("a: {}", "b: {}").replace("# end", "# fin")
        assert (caught.value.merged, "hunter2" in caught.value.theirs) == (merged, False)
    desk.publish(merged, caught.value.digest)
    assert "hunter2-admin" in desk.path.read_text()


def test_a_conflict_with_a_text_that_is_not_yaml_shows_no_secret(desk: Desk) -> None:
    desk.publish(SECRETS)
    with pytest.raises(PublishConflict) as caught:
        desk.publish(SECRETS + "a: [", digest_of(OLD.encode()))
    shown = f"{caught.value.merged} {caught.value.conflicts} {caught.value.theirs}"
    assert "hunter2" not in shown


def test_texts_with_different_secrets_are_not_merged(desk: Desk) -> None:
    desk.publish(SECRETS)
    begun = digest_of(SECRETS.encode())
    desk.publish(SECRETS.replace("hunter2-admin", "hunter3-admin"))
    with pytest.raises(PublishConflict) as caught:
        desk.publish(HOLES.replace("# end", "# fin"), begun)
    assert caught.value.merged is None


def test_a_new_secret_of_ours_is_not_lost_in_a_merge(desk: Desk) -> None:
    desk.publish(SECRETS)
    begun = digest_of(SECRETS.encode())
    desk.publish(SECRETS.replace("a: {}", "b: {}"))
    with pytest.raises(PublishConflict) as caught:
        desk.publish(SECRETS.replace("hunter2-admin", "hunter3-admin"), begun)
    assert caught.value.merged is None, "its hole would stand for the old secret"


def test_a_link_stays_a_link(desk: Desk, tmp_path: Path) -> None:
    real = tmp_path / "real.yaml"
    desk.path.rename(real)
    desk.path.symlink_to(real)
    desk.publish(NEW)
    assert desk.path.is_symlink()
    assert real.read_text() == NEW


def test_a_read_only_file_says_so(desk: Desk) -> None:
    desk.path.chmod(0o444)
    with pytest.raises(PublishRefused, match=r"ai-agent\.yaml is read-only \(mode 444\)"):
        desk.publish(NEW)
    assert desk.path.read_text() == OLD


def test_a_file_that_is_not_there_says_so(desk: Desk) -> None:
    desk.path.unlink()
    with pytest.raises(PublishRefused, match=r"cannot be read: No such file"):
        desk.publish(NEW, "0" * 64)


@pytest.mark.parametrize("code", [errno.EBUSY, errno.EACCES])
@pytest.mark.parametrize("text", [NEW, "contexts: {a: {}}\n"], ids=["longer", "shorter"])
def test_a_file_that_cannot_be_replaced_is_written_in_place(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, code: int, text: str
) -> None:
    """As the kernel answers a rename over a file that is itself a mount point."""

    rename = Path.replace

    def refuse(self: Path, target: Path) -> Path:
        if target == desk.path:
            raise OSError(code, os.strerror(code))
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", refuse)
    inode = desk.path.stat().st_ino
    desk.publish(text)
    assert desk.path.read_text() == text
    assert desk.path.stat().st_ino == inode
    assert [path.name for path in desk.path.parent.glob(".*")] == []


def test_a_full_disk_leaves_a_file_in_place_as_it_was(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.replace

    def busy(self: Path, target: Path) -> Path:
        if target == desk.path:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        return rename(self, target)

    def full(descriptor: int, offset: int, length: int) -> None:
        os.ftruncate(descriptor, length - 1)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", busy)
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(PublishRefused, match="No space left on device; it is unchanged"):
        desk.publish(NEW)
    assert desk.path.read_text() == OLD


def test_versions_that_cannot_be_kept_prevent_it(desk: Desk) -> None:
    desk.versions = Versions(desk.path / "versions", desk.path)
    with pytest.raises(VersionsUnusable):
        desk.publish(NEW)
    assert desk.path.read_text() == OLD


def stopped(folder: Path, how: str) -> list[dict[str, Any]]:
    program = [sys.executable, "-m", "tests.config.publish_killed", str(folder / "x"), how]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        program, capture_output=True, text=True, check=False, cwd=root, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_process_killed_at_any_step_leaves_the_old_text_or_the_new(tmp_path: Path) -> None:
    outcomes = stopped(tmp_path, "kill")
    assert len(outcomes) > 100
    for outcome in outcomes:
        assert outcome["file"] in (OLD, NEW)
        assert outcome["mode"] == 0o640
        assert set(outcome["versions"]) <= {OLD, NEW}
        after = outcome["after"]
        assert after["file"] == NEW
        assert set(after["versions"]) <= {OLD, NEW}
        assert after["beside"] == ["admin", "ai-agent.yaml"]
    files = [outcome["file"] for outcome in outcomes]
    assert files == sorted(files, key=[OLD, NEW].index), "once new, always new"
    assert outcomes[-1]["versions"] == [NEW, OLD]


def test_a_disk_that_is_full_at_any_write_leaves_the_file_and_says_so(tmp_path: Path) -> None:
    outcomes = stopped(tmp_path, "disk")
    for outcome in outcomes:
        assert outcome["file"] in (OLD, NEW)
        assert set(outcome["versions"]) <= {OLD, NEW}
        assert outcome["beside"] == ["admin", "ai-agent.yaml"]
        if outcome["versions"] != [NEW, OLD]:
            assert re.search("File too large|No space left", outcome["error"])
            if outcome["file"] == NEW:
                assert "the file has its new text, but not noted" in outcome["error"]
    assert {outcome["file"] for outcome in outcomes} == {OLD, NEW}
    assert outcomes[-1]["error"] == ""


# Merging.

LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "d\n"]), max_size=8).map("".join)


@given(LINES, LINES)
def test_a_change_on_one_side_only_is_taken(base: str, changed: str) -> None:
    assert merge(base, changed, base) == (changed, [])
    assert merge(base, base, changed) == (changed, [])
    assert merge(base, changed, changed) == (changed, [])


def with_theirs(text: str, conflicts: list[Conflict]) -> str:
    """Take the other side's lines of all conflicts, by their places in the merged text."""
    lines = text.splitlines(keepends=True)
    for each in reversed(conflicts):
        ours = each.ours.splitlines(keepends=True)
        assert lines[each.at - 1 : each.at - 1 + len(ours)] == ours
        lines[each.at - 1 : each.at - 1 + len(ours)] = each.theirs.splitlines(keepends=True)
    return "".join(lines)


@given(LINES, LINES, LINES)
def test_a_merge_is_the_same_from_both_sides(base: str, ours: str, theirs: str) -> None:
    one, conflicts = merge(base, ours, theirs)
    other, mirrored = merge(base, theirs, ours)
    assert with_theirs(one, conflicts) == other
    assert [(c.line, c.base, c.theirs, c.ours) for c in conflicts] == [
        (c.line, c.base, c.ours, c.theirs) for c in mirrored
    ]


@given(LINES, LINES, LINES, LINES)
def test_changes_apart_are_both_kept(first: str, one: str, other: str, last: str) -> None:
    middle = "x\ny\nz\n"
    base = first + middle + last
    assert merge(base, one + middle + last, first + middle + other) == (one + middle + other, [])
