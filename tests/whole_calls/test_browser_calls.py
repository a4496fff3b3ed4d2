"""Whole calls from a browser's page: the engine, its offline voices and the admin port are real."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest
import pytest_asyncio

from cordboard.accounts import passwords
from cordboard.accounts.rights import EVERYWHERE, Permission, Role
from cordboard.accounts.store import Accounts
from cordboard.calls.events import AudioEnded, BargedIn, Ended, Key, LedgerEvent, Offered
from cordboard.calls.history import CallHistory
from cordboard.config.load import ConfigSource, load
from cordboard.errors import CallRefused
from cordboard.runtime.engine import Engine
from cordboard_testkit.browser_page import BrowserPage
from cordboard_testkit.free_ports import free_port
from cordboard_testkit.leaks import LeakSnapshot
from cordboard_testkit.media_thread import MediaThread
from cordboard_testkit.patience import PATIENCE, until

from .configuration import UNHURRIED
from .conftest import Speech, finished_history

pytestmark = [pytest.mark.voices, pytest.mark.asyncio(loop_scope="session")]

LONG = "I will tell you a long story about a ship, and about the many places that it has seen."


def tree(folder: Path, port: int) -> dict[str, Any]:
    story = {"story": {"sentences": ["[please] tell me a story [please]"], "say": LONG}}
    desk = {
        "greeting": "Good morning.",
        "tools": ["hangup_call"],
        "variables": ["ORDER"],
        "silence": UNHURRIED,
        "rules": {"intents": story},
    }
    ui = {"enabled": True, "port": port, "data": str(folder / "admin")}
    return {
        "health": {"port": 0},
        "admin": {"ui": ui},
        "calls": {"directory": str(folder / "calls"), "shutdown_grace_ms": 3_000},
        "reload": {"watch": False},
        "contexts": {"desk": desk, "other": {**desk, "greeting": "Other desk."}},
    }


@dataclass
class Stage:
    """An engine with an admin port, and a program's key of an operator."""

    engine: Engine
    folder: Path
    address: str
    headers: dict[str, str]
    speech: Speech
    media: MediaThread
    events: list[tuple[str, LedgerEvent]] = field(default_factory=list)

    def page(self, **order: Any) -> BrowserPage:
        return BrowserPage(
            self.address, self.headers, media=self.media, **{"context": "desk", **order}
        )

    async def history(self, page: BrowserPage) -> CallHistory:
        return await finished_history(self.folder / "calls", page.call_id)

    def of(self, page: BrowserPage, kind: type[LedgerEvent]) -> list[Any]:
        return [e for name, e in self.events if name == page.call_id and isinstance(e, kind)]

    async def greeted(self, page: BrowserPage) -> None:
        await until(lambda: bool(self.of(page, AudioEnded)))
        await page.hear_silence(500)

    async def idle(self) -> None:
        await self.engine.registry.idle()
        await until(lambda: len(self.engine.doors.browser) == 0)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stage(speech: Speech, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    async with opened(speech, tmp_path_factory.mktemp("browser")) as made:
        yield made


@contextlib.asynccontextmanager
async def opened(speech: Speech, folder: Path) -> AsyncIterator[Stage]:
    port = free_port()
    path = folder / "ai-agent.yaml"
    path.write_bytes(orjson.dumps(tree(folder, port)))
    accounts = Accounts(folder / "admin")
    accounts.add("otto", Role.OPERATOR, (), EVERYWHERE)
    accounts.use_link(accounts.reset("otto"), passwords.hashed("plum tangible orbit 41"))
    permissions = {Permission.TRY_CALL, Permission.CONFIG_DRAFT}
    _, token = accounts.add_key("otto", "page", permissions, EVERYWHERE, 3_600)
    accounts.close()
    loaded = load(path, os.environ)
    source = ConfigSource(loaded.path, os.environ, loaded.digests, content=loaded.content)
    engine = Engine(
        loaded.config,
        lambda call_id, _, event: made.events.append((call_id, event)),
        source,
        sheds_load=False,
    )
    headers = {"Authorization": f"Bearer {token}"}
    async with MediaThread() as media:
        made = Stage(engine, folder, f"http://127.0.0.1:{port}", headers, speech, media)
        await engine.start()
        try:
            yield made
        finally:
            await engine.stop(grace=0)


@pytest.mark.parametrize("name", ["slin16", "ulaw"])
async def test_greeting_words_answer_barge_in_key_and_hang_up(stage: Stage, name: str) -> None:
    order = {"number": "4711", "name": "Erika", "variables": {"ORDER": "A-17"}}
    wait = await stage.speech.say("Wait, wait. What are you saying there?")
    async with stage.page(format=name, caller=order) as page:
        await stage.greeted(page)
        greeting_ms = page.played_ms
        page.say(await stage.speech.say("Tell me a story, please."))
        asked_at = await page.said()
        began = await page.hear_speech(after=asked_at)
        await asyncio.sleep(1.2)
        page.say(wait)
        await until(lambda: bool(stage.of(page, BargedIn)))
        page.press("5")
        await until(lambda: bool(stage.of(page, Key)))
        page.hangup()
        assert (await page.ended()).by == "us"
    history = await stage.history(page)
    assert (history.outcome, history.reason, history.troubles) == ("completed", "caller_hangup", [])
    (offered,) = stage.of(page, Offered)
    assert (offered.source, offered.test, offered.trial) == ("browser", True, "")
    assert (offered.caller_number, offered.caller_name) == ("4711", "Erika")
    assert "story" in history.caller_turns[0].heard.lower()
    heard = " ".join(
        [await stage.speech.understand(part) for part in page.utterances_heard(began - 0.1)]
    )
    assert "long story" in heard
    assert "seen" not in heard
    (barged,) = stage.of(page, BargedIn)
    assert "places" not in barged.heard
    (cut,) = [cut for cut in page.cuts if cut.held]
    assert barged.heard_ms == int(cut.played_ms) - round(greeting_ms), "to the millisecond"
    await stage.idle()


async def test_the_agent_hangs_up_when_its_goodbye_was_heard(stage: Stage) -> None:
    async with stage.page() as page:
        await stage.greeted(page)
        page.say(await stage.speech.say("No, thank you. Goodbye."))
        said_at = await page.said()
        assert (await page.ended()).by == "them"
        assert (page.ended_reason, page.close_code) == ("hangup", 1000)
    heard = [await stage.speech.understand(part) for part in page.utterances_heard(said_at)]
    assert "goodbye" in " ".join(heard)
    assert (await stage.history(page)).outcome == "completed"
    await stage.idle()


async def test_the_tab_is_closed_in_the_middle_of_the_answer(stage: Stage) -> None:
    async with stage.page() as page:
        await stage.greeted(page)
        page.say(await stage.speech.say("Tell me a story, please."))
        await page.hear_speech(after=await page.said())
    history = await stage.history(page)
    assert (history.outcome, history.reason) == ("completed", "caller_hangup")
    assert history.caller_turns[-1].cut
    await stage.idle()


async def test_a_page_that_vanishes_is_a_lost_call(stage: Stage) -> None:
    page = stage.page()
    await page.start()
    await stage.greeted(page)
    page.vanish()
    history = await stage.history(page)
    assert (history.outcome, history.reason) == ("failed", "media_lost")
    await stage.idle()


async def test_a_stall_of_the_network_does_not_end_the_call(stage: Stage) -> None:
    async with stage.page() as page:
        await stage.greeted(page)
        page.stall(2.5)
        await asyncio.sleep(2.6)
        page.say(await stage.speech.say("Tell me a story, please."))
        await page.hear_speech(after=await page.said())
        page.hangup()
        await page.ended()
    assert (await stage.history(page)).reason == "caller_hangup"
    await stage.idle()


async def test_a_page_that_breaks_the_protocol_gets_a_code_and_the_call_ends(stage: Stage) -> None:
    async with stage.page() as page:
        await stage.greeted(page)
        page.raw(b"\x02nonsense")
        assert (await page.ended()).by == "them"
        assert page.close_code == 4400
    assert (await stage.history(page)).reason == "media_lost"
    await stage.idle()


async def test_a_person_has_two_calls_and_an_order_that_nobody_picks_up_is_forgotten(
    stage: Stage,
) -> None:
    first, second, third = stage.page(), stage.page(), stage.page()
    await first.start()
    await second.order()
    with pytest.raises(CallRefused, match=r"503: .*full"):
        await third.start()
    await first.close()
    await until(lambda: stage.engine.doors.browser.of("nobody") == 0)
    await stage.engine.doors.browser.close()
    await stage.idle()


async def test_a_draft_is_called_and_the_call_ends_with_its_trial(stage: Stage) -> None:
    text = (stage.folder / "ai-agent.yaml").read_text().replace("Good morning.", "Bananas.")
    headers = {"Origin": stage.address, "X-Cordboard": "1", **stage.headers}
    async with httpx2.AsyncClient(
        base_url=f"{stage.address}/api/v1", headers=headers, trust_env=False, timeout=PATIENCE
    ) as client:
        begun = await client.post("/trials", json={"text": text, "context": "desk"})
        assert begun.status_code == 200, begun.text
        trial = begun.json()["trial"]
        async with stage.page(trial=trial) as page:
            await stage.greeted(page)
            ended = await client.delete(f"/trials/{trial}")
            assert ended.status_code == 200, ended.text
            assert (await page.ended()).by == "them"
            assert page.ended_reason == "trial_over"
        assert (await stage.history(page)).reason == "trial_over"
        heard = [await stage.speech.understand(part) for part in page.utterances_heard()]
        assert "banana" in " ".join(heard)
        (offered,) = stage.of(page, Offered)
        assert (offered.test, offered.trial) == (True, trial)
        assert offered.config == begun.json()["version"]
        gone = await client.post("/browser-calls", json={"context": "desk", "trial": trial})
        assert gone.status_code == 404
    await stage.idle()


async def test_an_order_of_a_trial_that_has_ended_since_is_no_call(stage: Stage) -> None:
    headers = {"Origin": stage.address, "X-Cordboard": "1", **stage.headers}
    async with httpx2.AsyncClient(
        base_url=f"{stage.address}/api/v1", headers=headers, trust_env=False, timeout=PATIENCE
    ) as client:
        text = (stage.folder / "ai-agent.yaml").read_text()
        begun = await client.post("/trials", json={"text": text, "context": "desk"})
        assert begun.status_code == 200, begun.text
        page = stage.page(trial=begun.json()["trial"])
        given = await page.order()
        ended = await client.delete(f"/trials/{begun.json()['trial']}")
        assert ended.status_code == 200, ended.text
        with pytest.raises(CallRefused, match="404"):
            await page.open(given)
    await stage.idle()


async def test_a_test_call_is_greeted_asks_is_answered_and_hangs_up(stage: Stage) -> None:
    headers = {"Origin": stage.address, "X-Cordboard": "1", **stage.headers}
    async with httpx2.AsyncClient(
        base_url=f"{stage.address}/api/v1", headers=headers, trust_env=False, timeout=PATIENCE
    ) as client:
        placed = await client.post("/engine/setup/test-call", json={"context": "other"})
        assert placed.status_code == 200, placed.text
        second = await client.post("/engine/setup/test-call", json={"context": "other"})
        assert second.status_code == 503
    call_id = placed.json()["call_id"]
    history = await finished_history(stage.folder / "calls", call_id)
    assert (history.outcome, history.reason, history.troubles) == ("completed", "caller_hangup", [])
    assert (history.source, history.test, history.context) == ("test", True, "other")
    (turn,) = history.caller_turns
    assert "hear me" in turn.heard.lower()
    assert turn.answer_ms is not None
    assert " ".join(history.turns[0].said) == "Other desk."
    await stage.idle()


async def test_the_engine_stops_under_a_live_call(speech: Speech, tmp_path: Path) -> None:
    async with opened(speech, tmp_path) as stage:
        page = stage.page()
        await page.start()
        await stage.greeted(page)
        await stage.engine.stop()
        assert (await page.ended()).by == "them"
        assert page.ended_reason == "hangup"
        history = await stage.history(page)
        assert (history.outcome, history.reason) == ("shutdown", "engine_stopped")
        await page.close()


async def test_nothing_is_left_of_a_call(stage: Stage) -> None:
    async with stage.page() as page:
        await stage.greeted(page)
    await stage.idle()
    before = LeakSnapshot.take()
    for _ in range(3):
        async with stage.page() as page:
            await stage.greeted(page)
        await stage.idle()
        assert len(stage.of(page, Ended)) == 1
    await before.assert_nothing_left()
