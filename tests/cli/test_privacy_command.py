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
from cordboard.firewall.counts import Counts, digest_of
from cordboard.firewall.store import CountStore
from cordboard.history.views import View, Views
from cordboard.outbound.campaigns.rows import Row
from cordboard.outbound.campaigns.store import CampaignSettings, CampaignStore
from cordboard.privacy.master_key import CallKeys
from cordboard.privacy.sealed_file import CallSeal, Vault

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
    assert not [*(calls.folder / "keys").rglob("*.key")]
    assert "xylophone" not in calls.typed("history", "find", "--format", "jsonl").out
    assert json.loads(calls.typed("calls", "list", "--json").out)[0]["call_id"] == "other"


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
            before.act("in", each, "demo", datetime.now().astimezone())
    async with counted(counts, data):
        with closing(CampaignStore(queue)):
            words = (number[1:].encode(), b"Zebedee", digest_of(number, counts.salt).encode())
            assert len(with_words(tmp_path, *words)) == 4
            done = await asyncio.to_thread(typed, "forget", number, "--yes", "-c", str(config))
            assert done.status == 0, done.err
            assert not with_words(tmp_path, *words[:2])
        counts.act("in", "+4740000000", "demo", datetime.now().astimezone())
    assert not with_words(tmp_path, *words)
    assert counts.used("in", "caller", number, datetime.now().astimezone()).calls == 0
    certificate = json.loads(Path(done.out.splitlines()[-1].rpartition(": ")[2]).read_text())
    assert any("campaigns" in each for each in certificate["removed_from"])
    words = (other[1:].encode(), digest_of(other, counts.salt).encode())
    kept = {path.name for path in with_words(tmp_path, *words)}
    assert {"Hildegard.jsonl", "campaigns.db", "firewall.sqlite3", "views.json"} <= kept


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
