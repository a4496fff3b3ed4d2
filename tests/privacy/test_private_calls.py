"""Whole calls with `privacy` on: what is on the disk, who could read it, and how it goes."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import shutil
import stat
from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.history.ledgers import Told

from cordboard.calls import events
from cordboard.calls.killed_calls import end_ledger
from cordboard.calls.ledger import Ledger, LedgerWriter
from cordboard.calls.open_calls import OpenCall, OpenCalls, abandoned
from cordboard.calls.outbound_order import OutboundOrder
from cordboard.calls.post_call.files import PostCallFiles
from cordboard.calls.post_call.job import finished, jobs_of
from cordboard.calls.recording.retention import sweep
from cordboard.cli.calls import vault_of
from cordboard.config.call_phases import PostCallStep
from cordboard.config.sections.privacy import Encryption
from cordboard.errors import KeyUnusable, LineError
from cordboard.history.call_files import delete_call, read_ledger
from cordboard.history.call_record import CallOnDisk, read_call
from cordboard.history.erasure import Erasure
from cordboard.history.indexer import Indexer
from cordboard.history.notes import Note, Notes, read_notes, write_notes
from cordboard.history.playback import Playback, StereoFile, read_peaks
from cordboard.history.query import CallQuery
from cordboard.history.retention import sweep_ledgers
from cordboard.history.sql_store import SqlHistoryStore
from cordboard.privacy.master_key import CallKeys
from cordboard.privacy.redaction import CallRedaction, Redactor
from cordboard.privacy.sealed_file import Vault, head_in
from cordboard_testkit.call_stage import CallStage, FakeTool, play_call
from cordboard_testkit.fake_agent import FakeAgent
from cordboard_testkit.fake_line import FakeLine

CARD = "4012 8888 8888 1881"
KEY = "ab" * 32
CALLER = b"\x11\x11"
RECORDED: Mapping[str, Any] = {"recording": {"enabled": True}, "tools": ["look_up"]}
CONSENT = "This call is recorded."
ASKS = {"recording": {"enabled": True, "consent": CONSENT}, "tools": []}


def encrypted(tmp_path: Path) -> dict[str, Any]:
    keys = str(tmp_path / "keys")
    return {"encryption": {"enabled": True, "master_key": KEY, "keys_directory": keys}}


async def tells_a_card(agent: FakeAgent) -> None:
    await agent.caller_says(1, f"My card is {CARD}, and I like xylophones.")
    await agent.ask("look_up", {"place": CARD, "number": 4012888888881881}, turn=1)
    await agent.speak(1, f"I have four zero one two {CARD[5:]}. Write to jane@example.com.")


async def to_the_end(stage: CallStage) -> None:
    await asyncio.sleep(0.1)
    assert stage.line.media is not None
    await stage.line.media.say(CALLER * 8000)
    await asyncio.sleep(15)
    stage.line.media.break_off("caller_hangup")


def files(directory: Path) -> list[Path]:
    return [path for path in sorted(directory.rglob("*")) if path.is_file()]


def with_words(directory: Path, *words: str) -> list[str]:
    found = []
    for path in files(directory):
        content = path.read_bytes()
        found += [f"{path}: {word}" for word in words if word.encode() in content]
    return found


def test_no_record_has_what_must_go(tmp_path: Path) -> None:
    privacy = {"redact": {"kinds": ["card", "email"]}}
    stage = play_call(
        tmp_path, lambda: FakeAgent(tells_a_card), to_the_end,
        context=RECORDED, tools=[FakeTool("look_up")], privacy=privacy,
    )  # fmt: skip
    assert isinstance(stage.agent, FakeAgent)
    assert CARD in stage.agent.replies[0].message, "the tool gets the number itself"
    texts = {line["type"]: line for line in stage.lines()}
    assert texts["caller.text"]["text"] == "My card is [card], and I like xylophones."
    assert texts["tool.asked"]["arguments"] == {"place": "[card]", "number": "[card]"}
    assert texts["tool.answered"]["message"] == "It is sunny in [card]."
    assert texts["agent.text"]["text"] == "I have [card]. Write to [email]."
    assert not with_words(tmp_path, "4012", "8888", "jane@")
    assert "8888" not in repr([event.fields() for event in stage.events]), "the live view"


NO_WORDS = {
    # By the telephone side or the engine, from fixed lists:
    "step", "answer", "by", "outcome", "rule", "act", "proof", "kind", "status", "where", "why",
    # Names and numbers that the configuration, the line or a person's account gives:
    "destination", "engine", "name", "tool", "who", "caller_number", "called_number", "caller_name",
    "context", "key", "provider", "model", "parent", "source", "config", "trial", "version",
    "path", "format",
    "missing_tools", "tools", "steps", "amounts", "currency", "audio", "audio_sha256",
    "text_sha256", "ask_id", "call_id", "external_id", "started_at", "generation",
}  # fmt: skip
"""Fields that no words of a conversation reach."""


@pytest.mark.parametrize("kind", events.EVENTS, ids=lambda kind: kind.type)
def test_no_event_has_a_card_in_its_words(kind: type[events.LedgerEvent]) -> None:
    """A new field of an event is either searched, or stands in `NO_WORDS`."""
    said = f"It is {CARD}."
    samples = {"str": said, "dict": {"a": [said]}, "list": [said], "bool": True}
    filled = {
        each.name: samples.get(str(each.type).partition("[")[0], 1)
        for each in dataclasses.fields(kind)  # type: ignore[arg-type]
    }
    event = events.redacted(kind(**filled), CallRedaction(Redactor(["card"])))
    left = {name for name, value in event.fields().items() if "8888" in str(value)}
    assert left <= NO_WORDS


def test_words_of_others_in_a_transfer_and_keys_for_a_menu_are_searched(tmp_path: Path) -> None:
    async def transcribe(pcm: bytes) -> str:
        return "For your account press one, for your card press two."

    async def calls(stage: CallStage) -> None:
        await asyncio.sleep(1)
        assert stage.line.media is not None
        menu = np.random.default_rng(1).normal(0, 2500, 24_000).astype("<i2")
        await stage.line.media.say(menu.tobytes() + bytes(224_000))
        stage.line.media.break_off("caller_hangup")

    def make() -> FakeLine:
        line = FakeLine()
        keys = (CARD.replace(" ", "w") + "#",)
        line.order = OutboundOrder(line.call_id, "+4791234567", "demo", "PJSIP/x", keys=keys)
        line.refuse_transfer = LineError(f"no such extension: {CARD}")
        return line

    async def transfers(agent: FakeAgent) -> None:
        await agent.ask("transfer", {"destination": "sales"}, 1)

    stage = play_call(
        tmp_path, lambda: FakeAgent(transfers), calls, make_line=make, transcribe=transcribe,
        privacy={"redact": {"kinds": ["card"]}},
    )  # fmt: skip
    assert stage.line.sent_keys == CARD.replace(" ", "w") + "#"
    assert [event.keys for event in stage.of(events.KeysSent)] == ["[card]#"]
    [transfer] = stage.of(events.Transferred)
    assert transfer.error == "no such extension: [card]"
    assert not with_words(tmp_path, "4012", "8888")


def test_all_files_of_a_call_are_private(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    play_call(
        calls, lambda: FakeAgent(tells_a_card), to_the_end,
        context=RECORDED, tools=[FakeTool("look_up")], privacy=encrypted(tmp_path),
    )  # fmt: skip
    everything = [*calls.rglob("*"), *(tmp_path / "keys").rglob("*"), calls, tmp_path / "keys"]
    modes = {stat.S_IMODE(path.stat().st_mode) for path in everything if path.is_dir()}
    assert modes == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in everything if path.is_file()} == {0o600}


def recorded_twice(tmp_path: Path) -> tuple[CallStage, Path, Path]:
    """The same call, plain and encrypted. Returns the second, and both ledgers."""
    for name, privacy in (("plain", {}), ("calls", encrypted(tmp_path))):
        stage = play_call(
            tmp_path / name, lambda: FakeAgent(tells_a_card), to_the_end,
            context=RECORDED, tools=[FakeTool("look_up")], privacy=privacy,
        )  # fmt: skip
    (plain,), (ledger,) = (tmp_path.glob(f"{name}/*/*.jsonl") for name in ("plain", "calls"))
    return stage, plain, ledger


def test_an_encrypted_call_reads_as_a_plain_one(tmp_path: Path) -> None:
    stage, plain, ledger = recorded_twice(tmp_path)
    vault, calls = stage.vault, tmp_path / "calls"
    assert with_words(tmp_path / "plain", "xylophones", CARD)
    assert not with_words(calls, "xylophones", CARD, "RIFF", "caller.text")
    file = f"{ledger.parent.name}/{ledger.name}"
    with pytest.raises(KeyUnusable):
        read_call(calls, file)
    record = read_call(calls, file, vault)
    plain_file = f"{plain.parent.name}/{plain.name}"
    assert record.turns == read_call(plain.parent.parent, plain_file).turns
    wavs = ledger.with_suffix(".wav"), plain.with_suffix(".wav")
    with StereoFile.open(wavs[0], vault) as sound, StereoFile.open(wavs[1]) as plain_sound:
        assert sound.frames == plain_sound.frames > 8000
        for track in ("both", "caller"):
            ours, theirs = (Playback(each, track) for each in (sound, plain_sound))  # type: ignore[arg-type]
            assert ours.size == theirs.size
            for begin, end in ((0, 100), (31, 70_001), (theirs.size - 5000, theirs.size)):
                assert ours.read(begin, end) == theirs.read(begin, end)
    for _ in range(2):  # the second time from the kept peaks
        peaks = [read_peaks(path, 0, 60_000, vault) for path in wavs]
        assert peaks[0] == peaks[1]
    assert head_in(ledger.with_suffix(".peaks")) is not None
    assert b"<svg" in CallOnDisk.read(calls, file, vault).picture()
    revision = write_notes(ledger, Notes((Note("now", "me", "quagmire"),)), "", vault)
    assert read_notes(ledger, vault) == (Notes((Note("now", "me", "quagmire"),)), revision)
    assert not with_words(calls, "quagmire")


def test_a_killed_engine_loses_no_more_than_without_encryption(tmp_path: Path) -> None:
    stage, _, ledger = recorded_twice(tmp_path)
    whole, lines = ledger.read_bytes(), stage.lines()
    last = len(stage.vault.resume(whole[:-1]).plain.splitlines())  # type: ignore[union-attr]
    assert last == len(lines) - 1, "a half-written record is one line"
    ledger.write_bytes(whole[:-1])
    history, was_open = end_ledger(ledger, stage.vault)
    assert was_open
    assert history.outcome == "killed"
    again, was_open = end_ledger(ledger, stage.vault)
    assert not was_open
    assert again.transcript() == history.transcript()
    wav = ledger.with_suffix(".wav")
    content = wav.read_bytes()
    wav.write_bytes(content[: len(content) * 2 // 3])
    with StereoFile.open(wav, stage.vault) as sound:
        assert sound.frames > 0


def test_without_room_for_keys_calls_go_on_and_nothing_is_written_plain(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("not a folder")
    vault = Vault(CallKeys(tmp_path / "keys", bytes.fromhex(KEY)), seals=True)
    writer = LedgerWriter(vault=vault, retry_seconds=0.01)
    file = writer.file(tmp_path / "calls" / "2026-11-23" / "a.jsonl")
    writer.write(file, b'{"at_ms":0,"type":"caller.text","text":"xylophone"}\n', 0)
    writer.flush()
    assert "calls are not recorded" in writer.trouble
    assert not with_words(tmp_path, "xylophone")
    (tmp_path / "keys").unlink()
    writer.close()
    assert b"xylophone" in vault.plain(file.path.read_bytes())


def index_of(directory: Path, vault: Vault) -> tuple[SqlHistoryStore, Indexer]:
    store = SqlHistoryStore(directory, vault=vault)
    indexer = Indexer(directory, store, vault=vault)
    indexer.catch_up()
    return store, indexer


def keys_of_calls(folder: Path) -> int:
    """Return the number of keys, without that of the index."""
    return len([*(folder / "keys").rglob("*.key")]) - 1


def test_an_erased_call_can_be_read_in_no_backup(tmp_path: Path) -> None:
    stage, _, _ = recorded_twice(tmp_path)
    calls, vault = tmp_path / "calls", stage.vault
    store, _ = index_of(calls, vault)
    try:
        (row,) = store.find(CallQuery(), 5).rows
        assert row.caller_number
        assert not with_words(calls, "xylophones", row.caller_number, row.caller_name)
        backup = shutil.copytree(calls, tmp_path / "backup")
        erasure = Erasure(calls, store, vault=vault)
        certificate = erasure.carry_out(erasure.of_number(row.caller_number), "anna")
        path = certificate.path_in(calls)
    finally:
        store.close()
    assert not [*calls.glob("????-??-??/*")]
    assert keys_of_calls(tmp_path) == 0
    with pytest.raises(KeyUnusable, match="erased"):
        read_call(backup, row.file, vault)
    written = json.loads(path.read_bytes())
    assert written["by"] == "anna"
    kinds = [each["kind"] for each in written["calls"][0]["deleted"]]
    assert kinds == ["recording", "key", "ledger"]
    deleted = {each["kind"]: each["sha256"] for each in written["calls"][0]["deleted"]}
    ledger = (backup / row.file).read_bytes()
    assert deleted["ledger"] == hashlib.sha256(ledger).hexdigest()
    for secret in (row.caller_number, row.id, "xylophones", row.caller_name or "Zebedee"):
        assert secret not in path.read_text()
    digest = written.pop("sha256")
    text = json.dumps(written, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert hashlib.sha256(text.encode()).hexdigest() == digest


def test_a_call_whose_master_key_is_lost_can_be_erased(tmp_path: Path) -> None:
    stage, _, _ = recorded_twice(tmp_path)
    calls = tmp_path / "calls"
    store, _ = index_of(calls, stage.vault)
    try:
        (row,) = store.find(CallQuery(), 5).rows
        lost = Vault(CallKeys(tmp_path / "keys", bytes(32)))
        erasure = Erasure(calls, store, lambda: None, lost)
        assert erasure.carry_out(erasure.of_call(row.id)).complete
    finally:
        store.close()
    assert not [*calls.glob("????-??-??/*")]
    assert keys_of_calls(tmp_path) == 0


def test_an_intact_call_can_be_erased_beside_one_whose_key_is_lost(tmp_path: Path) -> None:
    stage, _, ledger = recorded_twice(tmp_path)
    calls = tmp_path / "calls"
    store, _ = index_of(calls, stage.vault)
    try:
        beside = shutil.copy(ledger, ledger.with_name("a-2.jsonl"))
        intact = Told("a").write(calls)
        intact = intact.replace(ledger.with_name("a.jsonl"))
        lost = Vault(CallKeys(tmp_path / "keys", bytes(32)))
        erasure = Erasure(calls, store, lambda: None, lost)
        erasure.carry_out(erasure.of_call("a"))
    finally:
        store.close()
    assert not intact.exists()
    assert beside.exists()


def test_old_encrypted_calls_are_deleted_even_without_their_keys(tmp_path: Path) -> None:
    _, _, ledger = recorded_twice(tmp_path)
    shutil.copytree(tmp_path / "calls", tmp_path / "others")
    today = date.fromisoformat(ledger.parent.name) + timedelta(days=10)
    assert sweep(tmp_path / "others", {"demo": 5}, today) == 1
    lost = Vault(CallKeys(tmp_path / "keys", bytes(32)))
    assert sweep_ledgers(tmp_path / "calls", 5, date.today() + timedelta(days=10), lost) == 1  # noqa: DTZ011
    assert not files(tmp_path / "calls")


@pytest.mark.parametrize("by", ["keep_days", "forget"])
def test_calls_of_earlier_are_deleted_without_a_master_key(tmp_path: Path, by: str) -> None:
    stage, _, _ = recorded_twice(tmp_path)
    calls, keys = tmp_path / "calls", tmp_path / "keys"
    if by == "keep_days":
        plain = Encryption(keys_directory=keys).vault
        assert not plain.seals
        assert sweep_ledgers(calls, 5, date.today() + timedelta(days=10), plain) == 1  # noqa: DTZ011
    else:
        config = tmp_path / "cordboard.yaml"
        config.write_text(f"privacy: {{encryption: {{keys_directory: {keys}}}}}\n")
        store, _ = index_of(calls, stage.vault)
        try:
            (row,) = store.find(CallQuery(), 5).rows
            erasure = Erasure(calls, store, lambda: None, vault_of(config))
            erasure.carry_out(erasure.of_call(row.id))
        finally:
            store.close()
        assert keys_of_calls(tmp_path) == 0
    assert not [*calls.glob("????-??-??/*")]
    assert by == "forget" or not [*keys.rglob("*.key")]


def test_the_recording_begins_when_the_consent_was_heard(tmp_path: Path) -> None:
    stage = play_call(
        tmp_path, FakeAgent, to_the_end, context={**ASKS, "disclosure": "I am a machine."}
    )
    lines = stage.lines()
    disclosed, agreed = stage.of(events.AnnouncementHeard)
    assert (disclosed.kind, agreed.kind) == ("disclosure", "consent")
    at = {line["type"]: line["at_ms"] for line in lines}
    assert at["recording.started"] == at["announcement.heard"] > at["agent.audio_started"]
    assert agreed.text == CONSENT
    assert agreed.text_sha256 == hashlib.sha256(CONSENT.encode()).hexdigest()
    assert stage.line.media is not None
    sent = bytes(stage.line.media.played)
    words = sent.strip(b"\0")
    spoken = [words[: len(words) * n // 10] for n in (4, 8)]  # of ten words
    assert [hashlib.sha256(each).hexdigest() for each in spoken] == [
        disclosed.audio_sha256,
        agreed.audio_sha256,
    ]
    assert [*tmp_path.glob("*/*.wav")]


def test_an_interrupted_consent_is_none(tmp_path: Path) -> None:
    async def interrupts(stage: CallStage) -> None:
        await asyncio.sleep(0.5)
        assert isinstance(stage.agent, FakeAgent)
        stage.agent.interrupt()
        await asyncio.sleep(1)
        assert stage.call.recording == "asking"
        assert stage.line.media is not None
        stage.line.media.break_off("caller_hangup")

    stage = play_call(tmp_path, FakeAgent, interrupts, context=ASKS)
    (unheard,) = stage.of(events.AnnouncementUnheard)
    assert (unheard.kind, unheard.reason) == ("consent", "cut")
    (declined,) = stage.of(events.RecordingDeclined)
    assert declined.reason == "consent_not_heard"
    assert not [*tmp_path.glob("*/*.wav")]


def test_steps_after_a_call_and_open_calls_are_encrypted_with_it(tmp_path: Path) -> None:
    vault = Vault(CallKeys(tmp_path / "keys", bytes.fromhex(KEY)), seals=True)
    open_calls = OpenCalls(tmp_path / "calls")
    writer = LedgerWriter(open_calls, vault=vault)
    path = tmp_path / "calls" / "2026-11-23" / "a.jsonl"
    redaction = CallRedaction(Redactor(["card"]))
    ledger = Ledger(writer, path, 0.0, clock=lambda: 1.0, redaction=redaction)
    assert ledger.seal is not None
    results = ledger.redacted({"customer": {"card": CARD, "likes": "xylophones"}})
    started = "2026-11-23T12:00:00.000+00:00"
    call = OpenCall("call", "a", "demo", "local", started, {}, results, ledger.seal.key_id)
    ledger.note(call)
    ledger.record(events.Offered("a", started, "test", "+45111", "", "100"))
    writer.flush()
    assert not with_words(tmp_path, "xylophones", "88888888")
    open_calls.close()  # as if killed: its folder is unlocked
    (abandoned_calls,) = abandoned(tmp_path / "calls", vault)
    (file,) = abandoned_calls
    _, found = abandoned_calls.read(file)
    abandoned_calls.release()
    assert found.results == {"customer": {"card": "[card]", "likes": "xylophones"}}
    history, _ = end_ledger(ledger.path, vault)
    step = PostCallStep(tool="crm", arguments={"a": "{results.customer.likes}"})
    (job,) = jobs_of(finished(found, history), [step])
    files_of_jobs = PostCallFiles(tmp_path / "calls" / "post_call", vault)
    files_of_jobs.prepare()
    files_of_jobs.write(job)
    assert not with_words(tmp_path, "xylophones")
    again = files_of_jobs.read(job.name, 0.0)
    assert again == job
    assert again.arguments == {"a": "xylophones"}
    content = read_ledger(ledger.path, vault)
    assert list(delete_call(tmp_path / "calls", ledger.path, content, vault))
    assert not files_of_jobs.has(job.name)
    writer.close()
