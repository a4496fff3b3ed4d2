"""A real call with encryption on: nothing of it is in clear in any file, nor in a backup later."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from cordboard.calls.events import MessageTaken
from cordboard.errors import KeyUnusable
from cordboard.history.call_files import read_ledger
from cordboard.history.erasure import Erasure
from cordboard.history.notes import Note, Notes, write_notes
from cordboard.history.query import CallQuery, parse_query
from cordboard.history.sql_store import SqlHistoryStore
from cordboard.privacy.master_key import CallKeys
from cordboard.privacy.sealed_file import Vault

from .conftest import Caller, OpenHotline

pytestmark = [
    pytest.mark.asterisk,
    pytest.mark.voices,
    pytest.mark.asyncio(loop_scope="session"),
]
MASTER = "ab" * 32
NUMBER, NAME = "4799887766", "Zebedee Quill"


def private(tree: dict[str, Any]) -> None:
    """Everything that writes files: recording, messages to a service that is down, the admin port
    with its index, alarms."""
    folder = Path(tree["calls"]["directory"]).parent
    keys = {"enabled": True, "master_key": MASTER, "keys_directory": str(folder / "keys")}
    tree["privacy"] = {"encryption": keys}
    tree["admin"]["ui"] = {"enabled": True, "port": 0, "data": str(folder / "admin")}
    tree["calls"]["index"] = {"enabled": True}
    tree["outbound"] = {"campaigns": str(folder / "campaigns.db")}
    tree["alarms"] = {"rules": {"busy": {"measure": "calls", "above": 0, "over_minutes": 60}}}
    tree["tools"]["post_message"] = {
        "kind": "http",
        "method": "POST",
        "description": "Passes a message on.",
        "url": "http://127.0.0.1:9/messages",
        "allow_private": True,
        "parameters": {"text": {"type": "string"}, "number": {"type": "string"}},
        "body": {"text": "{text}", "number": "{number}"},
    }
    step = {
        "tool": "post_message",
        "arguments": {"text": "{message.text}", "number": "{call.caller_number}"},
    }
    tree["tools"]["take_message"] = {"message": {"deliver": [step]}}
    tree["contexts"]["shop"] = {
        "greeting": "Hello {caller_name}. Bicycle shop.",
        "recording": {"enabled": True},
        "tools": ["hangup_call", "take_message"],
        "post_call": [{"tool": "post_message", "arguments": {"text": "{call.caller_name}"}}],
        "rules": {
            "intents": {
                "leave": {
                    "sentences": ["[please] (check|look up) my order [please]"],
                    "tool": "take_message",
                    "arguments": {},
                }
            }
        },
    }


def in_clear(folder: Path, *secrets: str) -> list[str]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    found = []
    for path in files:
        content = path.read_bytes()
        found += [f"{path}: {each}" for each in secrets if each.encode() in content]
    return found


async def test_no_file_has_anything_of_an_encrypted_call_in_clear(
    open_hotline: OpenHotline, tmp_path: Path
) -> None:
    async with open_hotline(private) as hotline:
        folder, calls = hotline.folder.parent, hotline.folder
        line = await hotline.phone.call(
            hotline.asterisk.sip_uri("ctx-shop"), caller_name=NAME, caller_number=NUMBER
        )
        caller = Caller(line, NUMBER, hotline)
        await caller.greeted_to_the_end()
        began = await caller.ask("Please check my order.")
        question = caller.line.utterances_heard(began)
        said = await caller.say("The green piano is ready for the customer.")
        await caller.line.hear_speech(after=said)
        await caller.listen()
        await caller.ask("Yes, please.")
        taken = await caller.event(MessageTaken)
        assert isinstance(taken, MessageTaken)
        assert "piano" in taken.text.lower()
        secrets = (NUMBER, NAME, "Zebedee", "quagmire", taken.text)
        caller.line.hangup()
        # Only now: the engine waits for a caller, and the recogniser is slow on a busy machine.
        words = [await hotline.speech.understand(part) for part in question]
        assert "message" in " ".join(words), words
        call_id = await caller.call_id()
        await hotline.idle()
        keeper = hotline.engine.view.history
        assert keeper is not None
        (ledger,) = calls.glob(f"*/{call_id}.jsonl")
        notes = Notes((Note("2026-11-24", "anna", "quagmire"),), tags=("quagmire",))
        await asyncio.to_thread(write_notes, ledger, notes, "", keeper.vault)
        await asyncio.to_thread(keeper.catch_up)
        rows = keeper.store.find(parse_query({"number": [NUMBER], "text": ["piano"]})).rows
        assert [(row.caller_name, row.tags) for row in rows] == [(NAME, ("quagmire",))]
        assert [*(calls / "post_call").rglob("*.json")], "steps wait on the disk"
        assert not in_clear(folder, *secrets), "beside the running engine"
    assert not in_clear(folder, *secrets)
    assert {"index.sqlite3", "alarms.json"} <= {path.name for path in folder.rglob("*")}

    vault = Vault(CallKeys(folder / "keys", bytes.fromhex(MASTER)), seals=True)
    backup = tmp_path / "backup"
    shutil.copytree(folder, backup)
    shutil.rmtree(backup / "keys")
    store = SqlHistoryStore(calls, vault=vault)
    store.open()
    erasure = Erasure(calls, store, vault=vault)
    assert erasure.carry_out(erasure.of_number(NUMBER)).complete
    store.close()
    assert not ledger.exists()
    for copy in (folder, backup):
        assert not in_clear(copy, *secrets)
    with pytest.raises(KeyUnusable, match="erased"):
        read_ledger(backup / "calls" / ledger.relative_to(calls), vault)
    restored = SqlHistoryStore(backup / "calls", vault=vault)
    restored.open()
    (row,) = restored.find(CallQuery(id=call_id)).rows
    restored.close()
    assert (row.caller_number, row.caller_name, row.tags) == ("", "", ())
    assert row.turns, "what is not personal is still counted"
