"""`cordboard forget`, `cordboard privacy rewrap`, and the other commands on encrypted calls."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import datetime
from pathlib import Path

import pytest
from tests.history.ledgers import Told

from cordboard.calls.outbound_order import OutboundResult
from cordboard.config.shared_part import SharedConfig, SharedText, copy_of
from cordboard.firewall.counts import Counts, digest_of
from cordboard.firewall.store import CountStore
from cordboard.history.views import View, Views
from cordboard.outbound.campaigns.rows import Row
from cordboard.outbound.campaigns.store import CampaignSettings, CampaignStore
from cordboard.privacy.master_key import CallKeys
from cordboard.privacy.sealed_file import CallSeal, Vault
from cordboard_testkit.patience import until

from .commands import Done, typed

OLD, NEW = bytes(32), bytes(range(32))
CALL = Told("secret", number="+45111", name="Zebedee", turns=[("a xylophone", "yes")])


class Calls:
    """An encrypted call among plain ones, and the configuration."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "ai-agent.yaml"
        self.configure(OLD)
        Told("other", number="+45222").write(folder / "calls")
        seal = CallSeal("ab" * 16, b"k" * 32)
        Vault(CallKeys(folder / "keys", OLD)).keep(seal)
        CALL.write(folder / "calls")
        self.ledger = folder / "calls" / CALL.file
        self.ledger.write_bytes(seal.whole("ledger", CALL.content()))

    def configure(self, master: bytes, *old: bytes) -> None:
        self.config.write_text(
            "contexts: {demo: {}}\n"
            f"calls: {{directory: '{self.folder / 'calls'}'}}\n"
            f"privacy: {{encryption: {{master_key: '{master.hex()}', "
            f"keys_directory: '{self.folder}/keys', "
            f"old_master_keys: {[key.hex() for key in old]}}}}}\n"
        )

    def typed(self, *arguments: str) -> Done:
        return typed(*arguments, "-c", str(self.config))


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    return Calls(tmp_path)


def test_encrypted_calls_are_shown_as_others(calls: Calls) -> None:
    assert "xylophone" in calls.typed("calls", "show", "secret").out
    listed = json.loads(calls.typed("calls", "list", "--json").out)
    assert {row["call_id"] for row in listed} == {"secret", "other"}
    found = calls.typed("history", "find", "-w", "number=+45111", "--format", "jsonl").out
    assert json.loads(found)["id"] == "secret"
    calls.configure(NEW)
    done = calls.typed("calls", "list", "--json")
    assert [row["call_id"] for row in json.loads(done.out)] == ["other"]
    assert "was encrypted by the master key" in done.err
    assert OLD.hex() not in done.err


def test_a_caller_is_forgotten_with_a_certificate(calls: Calls) -> None:
    done = calls.typed("forget", "+45111")
    assert done.out.splitlines()[-1] == "nothing was erased; repeat with --yes"
    assert calls.ledger.exists()
    done = calls.typed("forget", "+45111", "--yes", "--by", "anna")
    certificate = Path(done.out.splitlines()[-1].removeprefix("erased; certificate: "))
    content = certificate.read_text()
    assert json.loads(content)["by"] == "anna"
    for word in ("+45111", "Zebedee", "xylophone", "secret"):
        assert word not in content
    assert not calls.ledger.exists()
    assert len([*(calls.folder / "keys").rglob("*.key")]) == 1, "that of the index"
    assert "xylophone" not in calls.typed("history", "find", "--format", "jsonl").out
    assert json.loads(calls.typed("calls", "list", "--json").out)[0]["call_id"] == "other"


def test_no_caller_is_forgotten_for_sure_while_keys_are_away(calls: Calls) -> None:
    keys = calls.folder / "keys"
    keys.rename(calls.folder / "away")
    done = calls.typed("history", "status")
    assert done.out == "1 calls and refused offers are in the index, of 1 days\n"
    assert f"{CALL.file} cannot be read: the key of this call is not in {keys}" in done.err
    assert done.status == 1
    for arguments in (["+45111"], ["+45111", "--yes"]):
        done = calls.typed("forget", *arguments)
        assert done.status == 1
        assert f"{CALL.file} cannot be read: " in done.err
        assert "1 calls c" in done.err.splitlines()[-1]
    certificate = json.loads(Path(done.out.splitlines()[-1].rpartition(": ")[2]).read_text())
    assert (certificate["complete"], len(certificate["unreadable"])) == (False, 1)
    assert CALL.call_id not in json.dumps(certificate)
    (calls.folder / "away").rename(keys)
    assert calls.typed("history", "status").status == 0
    done = calls.typed("forget", "+45111", "--yes")
    assert (done.status, done.err) == (0, "")
    assert not calls.ledger.exists()


def test_calls_of_the_same_number_in_another_form_are_named(calls: Calls) -> None:
    text = calls.config.read_text() + 'firewall: {country: "NO"}\n'
    calls.config.write_text(text)
    for name, number in (("plus", "+4722123456"), ("bare", "22123456"), ("else", "22123457")):
        Told(name, number=number).write(calls.folder / "calls")
    done = calls.typed("forget", "+47 22 12 34 56")
    assert done.err == (
        "there are calls of 22123456, too, perhaps of the same person; they are not among these: "
        "cordboard forget 22123456\n"
    )
    assert calls.typed("forget", "22123456", "--yes").err.startswith("there are calls of +47")
    done = calls.typed("forget", "+4722123456", "--yes")
    assert (done.status, done.err) == (0, "")
    left = json.loads(calls.typed("calls", "list", "--json").out)
    assert {row["call_id"] for row in left} == {"secret", "other", "else"}


async def test_no_file_has_a_forgotten_number(tmp_path: Path) -> None:
    """Calls, index, saved views, campaigns and the firewall's counts, beside a running engine."""
    number, other, data = "+4791234567", "+4797654321", tmp_path / "data"
    config, queue = tmp_path / "ai-agent.yaml", tmp_path / "campaigns.db"
    config.write_text(
        f"contexts: {{demo: {{}}}}\ncalls: {{directory: '{tmp_path}/calls'}}\n"
        f"admin: {{ui: {{data: '{data}'}}}}\noutbound: {{campaigns: '{queue}'}}\n"
        'firewall: {country: "NO"}\n'
    )
    for each, name in ((number, "Zebedee"), (other, "Hildegard")):
        Told(name, number=each, name=name).write(tmp_path / "calls")
        view = View(name, "anna", "mine", shared=False, filters={"number": [each]}, columns=[])
        Views(data / "views.json").put(view)
    called_twice(queue, {number: "Zebedee", other: "Hildegard"})
    before, counts = Counts(), Counts()
    async with counted(before, data):
        for each in (number, other):
            now = datetime.now().astimezone()
            before.end(before.begin("in", each, "demo", now), now)
    async with counted(counts, data):
        with closing(CampaignStore(queue)):
            words = (number[1:].encode(), b"Zebedee", digest_of(number, counts.salt).encode())
            assert len(with_words(tmp_path, *words)) == 4
            done = await asyncio.to_thread(typed, "forget", number, "--yes", "-c", str(config))
            assert done.status == 0, done.err
            assert not with_words(tmp_path, *words[:2])
        now = datetime.now().astimezone()
        counts.end(counts.begin("in", "+4740000000", "demo", now), now)
    assert not with_words(tmp_path, *words)
    assert counts.used("in", "caller", number, datetime.now().astimezone()).calls == 0
    certificate = json.loads(Path(done.out.splitlines()[-1].rpartition(": ")[2]).read_text())
    assert any("campaigns" in each for each in certificate["removed_from"])
    words = (other[1:].encode(), digest_of(other, counts.salt).encode())
    kept = {path.name for path in with_words(tmp_path, *words)}
    assert {"Hildegard.jsonl", "campaigns.db", "firewall.sqlite3", "views.json"} <= kept


def test_a_caller_is_forgotten_where_there_are_no_calls(tmp_path: Path) -> None:
    number, data, queue = "+4791234567", tmp_path / "data", tmp_path / "campaigns.db"
    config = tmp_path / "ai-agent.yaml"
    config.write_text(
        f"contexts: {{demo: {{}}}}\ncalls: {{directory: '{tmp_path}/calls'}}\n"
        f"admin: {{ui: {{data: '{data}'}}}}\noutbound: {{campaigns: '{queue}'}}\n"
    )
    called_twice(queue, {number: "Zebedee"})
    Views(data / "views.json").put(
        View("kari", "anna", "mine", shared=False, filters={"number": [number]}, columns=[])
    )
    words = (number[1:].encode(), b"Zebedee")
    missing = f"there is no folder {tmp_path}/calls of calls (`calls.directory`)"
    done = typed("forget", number, "-c", str(config))
    assert done.out.endswith("\nnothing was erased; repeat with --yes\n")
    assert (done.status, missing in done.err) == (1, True)
    assert len(with_words(tmp_path, *words)) == 2
    done = typed("forget", number, "--yes", "-c", str(config))
    assert (done.status, missing in done.err) == (1, True)
    assert "erased from saved views, the firewall's counts and campaigns" in done.err
    assert not with_words(tmp_path, *words)
    assert not (tmp_path / "calls").exists(), "perhaps a disk that is not mounted"


def test_the_country_of_a_forgotten_number_may_be_that_of_the_clusters_version(
    tmp_path: Path,
) -> None:
    data, queue, config = tmp_path / "data", tmp_path / "campaigns.db", tmp_path / "ai-agent.yaml"
    (tmp_path / "calls").mkdir()
    config.write_text(
        f"contexts: {{demo: {{}}}}\ncalls: {{directory: '{tmp_path}/calls'}}\n"
        f"admin: {{ui: {{data: '{data}'}}}}\noutbound: {{campaigns: '{queue}'}}\n"
        "cluster: {node: a, config: bus, nats: {servers: ['nats://127.0.0.1:1']}}\n"
    )
    shared = SharedConfig(copy_of(data, "cordboard", "a"))
    shared.keep(SharedText(1, 'firewall: {country: "NO"}\n'))
    called_twice(queue, {"+4791234567": "Zebedee"})
    done = typed("forget", "91234567", "--yes", "-c", str(config))
    assert (done.status, done.err) == (0, "")
    assert not with_words(tmp_path, b"Zebedee")


async def test_a_caller_is_forgotten_by_an_engine_that_has_no_call_meanwhile(
    tmp_path: Path,
) -> None:
    number, config, counts = "+4791234567", tmp_path / "ai-agent.yaml", Counts()
    (tmp_path / "calls").mkdir()
    config.write_text(
        f"contexts: {{demo: {{}}}}\ncalls: {{directory: '{tmp_path}/calls'}}\n"
        f"admin: {{ui: {{data: '{tmp_path}'}}}}\noutbound: {{campaigns: '{tmp_path}/c.db'}}\n"
    )
    store = CountStore(counts, tmp_path, lambda: True, write_seconds=0.05)
    await store.start()
    now = datetime.now().astimezone()
    counts.end(counts.begin("in", number, "demo", now), now)
    await until(lambda: not counts.changed and (tmp_path / "firewall.sqlite3").exists(), "a write")
    await asyncio.sleep(0.2)
    done = await asyncio.to_thread(typed, "forget", number, "--yes", "-c", str(config))
    assert done.status == 0, done.err
    await until(lambda: counts.used("in", "caller", number, now).calls == 0, "it is forgotten")
    assert counts.used("in", "context", "demo", now).calls == 1
    await store.close()


def called_twice(queue: Path, names: dict[str, str]) -> None:
    """A campaign whose people were called, and wait for another attempt."""
    with closing(CampaignStore(queue)) as store:
        campaign = store.add("spring", CampaignSettings("demo", "00:00-23:59", "mon-sun"))
        people = (Row(2, each, "Europe/Oslo", {"name": name}) for each, name in names.items())
        assert not list(store.add_people(campaign, people))
        store.set_state("spring", "running")
        for claimed in store.claim(2, time.time()):
            assert store.begin(claimed.call_id)
            store.finish(OutboundResult(claimed.call_id, "busy", "x"), time.time())


@asynccontextmanager
async def counted(counts: Counts, data: Path) -> AsyncIterator[None]:
    """An engine's life."""
    store = CountStore(counts, data, lambda: True, write_seconds=60)
    await store.start()
    yield
    await store.close()


def with_words(folder: Path, *words: bytes) -> list[Path]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return [path for path in files if any(word in path.read_bytes() for word in words)]


def test_the_keys_are_encrypted_anew(calls: Calls) -> None:
    calls.configure(NEW)
    done = calls.typed("privacy", "rewrap")
    assert done.status == 1
    assert "add their master key to old_master_keys" in done.err
    calls.configure(NEW, OLD)
    assert calls.typed("privacy", "rewrap").out == "1 keys are encrypted anew\n"
    calls.configure(NEW)
    assert "xylophone" in calls.typed("calls", "show", "secret").out
    calls.configure(b"short")
    done = calls.typed("calls", "show", "secret")
    assert "expected 32 random bytes" in done.err
    assert b"short".hex() not in done.err


def test_a_conversation_without_an_engine_is_as_private(tmp_path: Path) -> None:
    config = tmp_path / "ai-agent.yaml"
    config.write_text(
        f"calls: {{directory: '{tmp_path}/calls'}}\n"
        f"privacy: {{redact: {{kinds: [card]}}, encryption: {{enabled: true, "
        f"master_key: '{NEW.hex()}', keys_directory: '{tmp_path}/keys'}}}}\n"
        "contexts: {demo: {greeting: A xylophone., rules: {}}}\n"
    )
    typed("chat", "--message", "it is 4111 1111 1111 1111", "-c", str(config))
    (ledger,) = (tmp_path / "calls").glob("*/*.jsonl")
    assert b"xylophone" not in ledger.read_bytes()
    shown = typed("calls", "show", ledger.stem, "-c", str(config)).out
    assert "A xylophone." in shown
    assert "it is [card]" in shown
