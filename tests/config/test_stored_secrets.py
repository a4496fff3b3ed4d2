"""Stored secrets: behind the environment, written but never shown, and masked everywhere."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard import private_files
from cordboard.config.load import LoadedConfig, load, read
from cordboard.config.stored_secrets import FILE, StoredSecrets
from cordboard.errors import ConfigError, NotThere, StoredSecretsUnusable

SECRET = "hunter2-stored"


@pytest.fixture
def store(tmp_path: Path) -> StoredSecrets:
    return StoredSecrets(tmp_path / "admin")


def loaded(folder: Path, greeting: str = "${SHOP}", **environ: str) -> LoadedConfig:
    contexts = f"contexts: {{demo: {{greeting: '{greeting}'}}}}\n"
    text = f"{contexts}admin: {{ui: {{data: '{folder}/admin'}}}}\n"
    return read(text, folder / "a.yaml", environ)


def greeting(found: LoadedConfig) -> str:
    return found.config.contexts["demo"].greeting


def test_it_fills_a_reference_and_is_masked_whatever_its_name(
    tmp_path: Path, store: StoredSecrets
) -> None:
    store.put("SHOP", SECRET)
    found = loaded(tmp_path)
    assert greeting(found) == SECRET
    assert SECRET in found.secrets
    assert SECRET in found.config.secrets


def test_the_environment_wins(tmp_path: Path, store: StoredSecrets) -> None:
    store.put("SHOP", SECRET)
    found = loaded(tmp_path, SHOP="an ordinary word")
    assert greeting(found) == "an ordinary word"
    assert found.secrets == frozenset()


def test_what_is_not_stored_is_missing_as_before(tmp_path: Path, store: StoredSecrets) -> None:
    store.put("OTHER", SECRET)
    with pytest.raises(ConfigError, match="the environment variable SHOP is not set") as caught:
        loaded(tmp_path)
    assert SECRET not in str(caught.value)
    assert greeting(loaded(tmp_path, "${SHOP:-x}")) == "x"


def test_only_names_can_be_read_and_only_by_the_owner(tmp_path: Path, store: StoredSecrets) -> None:
    before = os.umask(0)
    try:
        store.put("B_KEY", SECRET)
        store.put("A_KEY", 'with "quotes"\nand lines')
    finally:
        os.umask(before)
    assert store.names() == ["A_KEY", "B_KEY"]
    assert SECRET not in repr(store) + repr(store.read())
    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "admin").iterdir()
    }
    assert modes == {FILE: 0o600, f"{FILE}.lock": 0o600}
    store.remove("A_KEY")
    assert store.names() == ["B_KEY"]
    with pytest.raises(NotThere, match="there is no stored secret A_KEY"):
        store.remove("A_KEY")


def test_a_change_is_noticed_as_that_of_a_secret_file(tmp_path: Path, store: StoredSecrets) -> None:
    path = tmp_path / "admin" / FILE
    assert path not in loaded(tmp_path, "x").digests, "no folder to watch"
    (tmp_path / "admin").mkdir()
    assert loaded(tmp_path, "x").digests[path] == ""
    store.put("SHOP", SECRET)
    first = loaded(tmp_path).digests[path]
    store.put("SHOP", SECRET + "2")
    assert first not in ("", loaded(tmp_path).digests[path])


def test_a_file_that_others_can_read_is_a_warning(tmp_path: Path, store: StoredSecrets) -> None:
    store.put("SHOP", SECRET)
    (tmp_path / "admin" / FILE).chmod(0o644)
    (problem,) = loaded(tmp_path).problems
    assert (problem.fatal, problem.key) == (False, "admin.ui.data")
    assert "is open to other users (mode 644): chmod 600" in problem.message


@pytest.mark.parametrize("damage", ["SHOP=hunter2\n", "\xff\n", 'X Y="hunter2"\n', "hunter2"])
def test_a_damaged_line_is_named_without_its_content_and_not_overwritten(
    tmp_path: Path, store: StoredSecrets, damage: str
) -> None:
    store.put("SHOP", SECRET)
    path = tmp_path / "admin" / FILE
    path.write_bytes(path.read_bytes() + damage.encode("latin-1"))
    found = loaded(tmp_path)
    assert greeting(found) == SECRET
    (problem,) = found.problems
    assert "line 2 of" in problem.message
    assert "hunter2" not in problem.message
    before = path.read_bytes()
    with pytest.raises(StoredSecretsUnusable, match="line 2 of"):
        store.put("OTHER", "x")
    assert path.read_bytes() == before


def test_a_full_disk_keeps_the_old_secrets(
    store: StoredSecrets, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("SHOP", SECRET)

    def full(path: Path, content: bytes, *, sync: bool = False) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(private_files, "replace", full)
    with pytest.raises(StoredSecretsUnusable, match="cannot be written: No space left on device"):
        store.put("SHOP", "new")
    assert store.read().values == {"SHOP": SECRET}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("", "x", "is not the name of a variable"),
        ("1A", "x", "is not the name of a variable"),
        ("A B", "x", "is not the name of a variable"),
        ("A", "", "a secret must be a text"),
        ("A", "\ud800", "a secret must be a text"),
        ("A", "a\0b", "a secret must be a text"),
        ("A", "x" * 70_000, "at most 64 KiB"),
    ],
)
def test_what_is_no_secret_is_refused(
    store: StoredSecrets, name: str, value: str, message: str
) -> None:
    with pytest.raises(StoredSecretsUnusable, match=message):
        store.put(name, value)
    assert store.names() == []


def test_an_impossible_folder_is_a_problem_of_its_key(tmp_path: Path) -> None:
    (tmp_path / "admin").write_text("a file")
    assert greeting(loaded(tmp_path, "x")) == "x"
    path = tmp_path / "a.yaml"
    path.write_text("contexts: {demo: {}}\nadmin: {ui: {data: '${NOTHING}'}}\n")
    with pytest.raises(ConfigError, match="NOTHING is not set"):
        load(path, {})


@given(st.dictionaries(st.from_regex(r"[A-Z_]{1,6}", fullmatch=True), st.text(min_size=1)))
def test_any_text_comes_back(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, str]
) -> None:
    store = StoredSecrets(tmp_path_factory.mktemp("secrets"))
    kept = {name: value for name, value in values.items() if "\0" not in value}
    for name, value in kept.items():
        store.put(name, value)
    assert store.read().values == kept


def test_a_file_without_notes_and_one_with_comments_are_read(
    tmp_path: Path, store: StoredSecrets
) -> None:
    store.put("NEW", SECRET, "anna")
    path = tmp_path / "admin" / FILE
    old = path.read_text()
    path.write_text('OLD="a" \nODD="b" # of the shop\nBAD="c" d\n' + old)
    found = store.read()
    assert found.values == {"OLD": "a", "ODD": "b", "NEW": SECRET}
    assert "line 3" in found.problem
    assert {name: note.by for name, note in found.notes.items()} == {"NEW": "anna"}
    path.write_text('OLD="a"\n' + old)
    store.put("LAST", "d")
    assert store.read().notes["NEW"].by == "anna"


def test_fingerprints_are_the_same_for_the_same_value_in_one_folder_alone(
    tmp_path: Path, store: StoredSecrets
) -> None:
    assert store.fingerprint(SECRET) == StoredSecrets(tmp_path / "admin").fingerprint(SECRET)
    assert store.fingerprint(SECRET) != store.fingerprint(SECRET + "x")
    assert store.fingerprint(SECRET) != StoredSecrets(tmp_path / "other").fingerprint(SECRET)
    key = tmp_path / "admin" / "fingerprint.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
