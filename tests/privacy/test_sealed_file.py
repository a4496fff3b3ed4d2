"""Encrypted files: readable with the key, at any place, after any kill; with no other key."""

from __future__ import annotations

import base64
import os
import shutil
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordboard import private_files
from cordboard.errors import KeyUnusable
from cordboard.privacy.master_key import CallKeys, decode_key
from cordboard.privacy.sealed_file import PLAIN, CallSeal, Vault, head_in

MASTER = bytes(range(32))
OTHER = bytes(32)
SEAL = CallSeal("0" * 32, b"k" * 32)


def vault(folder: Path, master: bytes = MASTER, *old: bytes) -> Vault:
    return Vault(CallKeys(folder, master, old), seals=True)


def sealed(writes: list[tuple[int, bytes]], seal: CallSeal = SEAL) -> bytes:
    head, records = seal.begin("ledger")
    return head + b"".join(records.record(offset, content) for offset, content in writes)


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def appended(pieces: list[bytes]) -> list[tuple[int, bytes]]:
    return [(sum(map(len, pieces[:n])), piece) for n, piece in enumerate(pieces)]


@given(pieces=st.lists(st.binary(min_size=1, max_size=40), max_size=8), data=st.data())
def test_any_part_can_be_read_and_a_kill_costs_the_last_piece(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("sealed")
    reader = vault(folder / "keys")
    reader.keep(SEAL)
    content = sealed(appended(pieces))
    path = folder / "a"
    path.write_bytes(content)
    plain = b"".join(pieces)
    assert reader.plain(content) == plain
    with reader.open(path) as file:
        begin = data.draw(st.integers(0, len(plain)))
        count = data.draw(st.integers(0, len(plain)))
        file.seek(begin)
        assert file.read(count) == plain[begin : begin + count]
        assert file.seek(0, os.SEEK_END) == len(plain)
    head = len(sealed([]))
    cut = data.draw(st.integers(head, len(content)))
    resumed = reader.resume(content[:cut])
    assert resumed is not None
    whole = [n for n in range(len(pieces) + 1) if len(sealed(appended(pieces[:n]))) <= cut][-1]
    assert resumed.plain == b"".join(pieces[:whole])
    assert resumed.size == len(sealed(appended(pieces[:whole])))
    shutil.rmtree(folder)


def test_a_later_write_at_the_same_place_counts(tmp_path: Path) -> None:
    reader = vault(tmp_path / "keys")
    reader.keep(SEAL)
    path = tmp_path / "a"
    path.write_bytes(sealed([(4, b"one"), (0, b"head"), (7, b"two"), (0, b"HEAD")]))
    assert reader.plain(path.read_bytes()) == b"HEADonetwo"
    with reader.open(path) as file:
        assert file.read() == b"HEADonetwo"


def test_what_was_changed_is_not_believed(tmp_path: Path) -> None:
    reader = vault(tmp_path / "keys")
    reader.keep(SEAL)
    content = sealed([(0, b"the words"), (9, b" of a caller")])
    for at in (len(content) - 1, len(content) - 20, len(sealed([])) + 3):
        changed = bytearray(content)
        changed[at] ^= 1
        with pytest.raises(KeyUnusable):
            reader.plain(bytes(changed))
    with pytest.raises(KeyUnusable, match="beginning"):
        reader.plain(content[:20])


def test_without_its_key_a_file_cannot_be_read(tmp_path: Path) -> None:
    content = sealed([(0, b"the words")])
    assert b"words" not in content
    path = tmp_path / "a"
    path.write_bytes(content)
    reader = vault(tmp_path / "keys")
    reader.keep(SEAL)
    with pytest.raises(KeyUnusable, match="not configured"):
        PLAIN.plain(content)
    with pytest.raises(KeyUnusable, match=r"encrypted by the master key [0-9a-f]{16}; known"):
        vault(tmp_path / "keys", OTHER).plain(content)
    assert PLAIN.plain(b"plain") == b"plain"
    assert head_in(path).key == SEAL.key_id  # type: ignore[union-attr]
    backup = shutil.copytree(tmp_path / "keys", tmp_path / "old backup of keys")
    assert reader.erase(SEAL.key_id)
    assert not reader.erase(SEAL.key_id)
    with pytest.raises(KeyUnusable, match="erased"):
        reader.open(path)
    assert backup.is_dir()
    assert not [*(tmp_path / "keys").rglob("*.key")]


def test_keys_are_private_and_do_not_show_themselves(tmp_path: Path) -> None:
    vault(tmp_path / "keys").keep(SEAL)
    (key,) = (tmp_path / "keys").rglob("*.key")
    assert key.stat().st_mode & 0o777 == 0o600
    assert {folder.stat().st_mode & 0o777 for folder in (key.parent, key.parent.parent)} == {0o700}
    assert SEAL.key.hex() not in key.read_text()
    assert "6b6b" not in repr(SEAL)
    assert "kkkk" not in repr(SEAL)


def test_a_new_master_key_takes_over(tmp_path: Path) -> None:
    keys, content = tmp_path / "keys", sealed([(0, b"the words")])
    vault(keys).keep(SEAL)
    with pytest.raises(KeyUnusable):
        vault(keys, OTHER).plain(content)
    assert [problem for _, problem in vault(keys, OTHER).rewrap() if problem]
    rotating = vault(keys, OTHER, MASTER)
    assert rotating.plain(content) == b"the words"
    assert [*rotating.rewrap()] == [(SEAL.key_id, "")]
    assert [*rotating.rewrap()] == []
    assert vault(keys, OTHER).plain(content) == b"the words"
    with pytest.raises(KeyUnusable):
        vault(keys, MASTER).plain(content)


def test_a_new_master_key_that_is_interrupted_leaves_no_copy_of_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault(tmp_path).keep(SEAL)

    def interrupted(_descriptor: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            list(vault(tmp_path, OTHER, MASTER).rewrap())
    assert vault(tmp_path).seal_by(SEAL.key_id).key == SEAL.key
    assert vault(tmp_path).erase(SEAL.key_id)
    assert files(tmp_path) == []


def test_an_erasure_deletes_the_copies_that_a_killed_command_has_left(tmp_path: Path) -> None:
    keys = vault(tmp_path)
    keys.keep(SEAL)
    keys.keep(CallSeal("01" + "0" * 30, SEAL.key))
    (key,) = tmp_path.rglob(f"{SEAL.key_id}.key")
    (other,) = set(files(tmp_path)) - {key}
    left = key.with_name(f".{key.name}.4711.tmp")
    for _ in range(2):  # the key may be gone already
        left.write_bytes(other.read_bytes())
        assert keys.erase(SEAL.key_id)
        assert files(tmp_path) == [other]
    assert not keys.erase(SEAL.key_id)


def test_a_key_that_is_erased_while_it_gets_a_new_master_key_stays_erased(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault(tmp_path).keep(SEAL)
    erasing = threading.Thread(target=vault(tmp_path).erase, args=(SEAL.key_id,))
    replace = private_files.replace

    def replace_late(path: Path, content: bytes, *, sync: bool = False) -> None:
        erasing.start()
        erasing.join(0.5)  # the erasure has to wait for us: it cannot end before
        replace(path, content, sync=sync)

    monkeypatch.setattr(private_files, "replace", replace_late)
    assert [*vault(tmp_path, OTHER, MASTER).rewrap()] == [(SEAL.key_id, "")]
    erasing.join()
    assert files(tmp_path) == []


def test_master_keys_are_base64_or_hex() -> None:
    assert decode_key(MASTER.hex()) == MASTER
    assert decode_key(f" {base64.b64encode(MASTER).decode()}\n") == MASTER
    for wrong in ("", "secret", MASTER.hex()[:-2], base64.b64encode(MASTER[:-1]).decode()):
        with pytest.raises(ValueError, match="32 random bytes") as caught:
            decode_key(wrong)
        assert not wrong or wrong not in str(caught.value)
