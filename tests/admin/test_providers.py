"""Providers, voices and prices over the admin port."""

from __future__ import annotations

import asyncio
import io
import wave
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import pytest

from cordboard.accounts.rights import Role
from cordboard.agent_api.agent import Usage
from cordboard.agents import provider_desk
from cordboard.agents.pipeline.service_voice import PaidBy, ServiceVoice
from cordboard.agents.provider_desk import SAMPLE_RATE, ProviderDesk
from cordboard.agents.provider_health import ProviderHealth
from cordboard.agents.providers import Providers
from cordboard.config.schema import Config
from cordboard.errors import VoiceError
from cordboard.observe.degradation import Degradation
from cordboard_testkit.patience import PATIENCE, until

from .conftest import Room, code

SAMPLE = {"text": "Good morning."}


def config(**more: Any) -> Config:
    return Config.model_validate(
        {
            "providers": {
                "local": {"type": "pipeline"},
                "cloud": {"type": "openai_realtime", **more},
            },
            "contexts": {
                "demo": {"provider": "cloud", "fallback": ["local"]},
                "sales": {"budget": {"max_minutes": 5, "goodbye": "Bye."}},
                "back": {"budget": {"max_minutes": 7}},
            },
            "prices": {"currency": "EUR", "models": {"openai_realtime": {"minutes": 0.1}}},
        }
    )


def desk(
    given: Config,
    environ: Mapping[str, str],
    health: ProviderHealth | None = None,
    voices: Any = None,
    used: Any = lambda _: None,
) -> ProviderDesk:
    return ProviderDesk(
        lambda: given,
        lambda: cast(Providers | None, voices),
        health or ProviderHealth(),
        environ,
        Degradation(),
        lambda text: text.replace("sk-secret", "***"),
        used,
    )


async def test_providers_show_keys_by_name_users_and_the_last_failure(room: Room) -> None:
    given = config()
    health = ProviderHealth(lambda: 1_795_275_374.25)
    health.failed("local", "internal", "the model is damaged")
    room.services.config = lambda: given
    room.services.providers = desk(given, {"OPENAI_API_KEY": "sk-secret"}, health)
    room.add("vera", Role.VIEWER)
    answer = await room.browser("vera").get("/providers")
    assert "sk-secret" not in answer.text
    local, cloud = answer.json()["providers"]
    assert cloud["condition"] == "ok"
    assert cloud["used_by"] == {"demo": ["cloud", "local"]}
    (part,) = cloud["parts"]
    assert (part["key"], part["key_source"]) == ("present", "OPENAI_API_KEY")
    assert local["condition"] == "failing"
    assert local["failure"] == {
        "at": "2026-11-21T15:36:14.250Z",
        "kind": "internal",
        "reason": "the model is damaged",
        "count": 1,
    }
    assert [part["part"] for part in local["parts"]] == ["stt", "brain", "tts"]
    assert {part["key"] for part in local["parts"]} == {"not needed"}
    room.services.providers = desk(given, {})
    (_, missing) = (await room.browser("vera").get("/providers")).json()["providers"]
    assert missing["condition"] == "no key"
    assert "OPENAI_API_KEY" in missing["reason"]


async def test_a_scope_shows_the_providers_voices_and_budgets_of_its_contexts(room: Room) -> None:
    given = config()
    room.services.config = lambda: given
    room.services.providers = desk(given, {})
    room.add("vera", Role.VIEWER)
    room.add("paula", Role.VIEWER, (), ("sales",))
    vera, paula = room.browser("vera"), room.browser("paula")
    scoped = (await paula.get("/providers")).json()["providers"]
    assert [(each["name"], each["used_by"]) for each in scoped] == [("local", {"sales": ["local"]})]
    (voice,) = (await paula.get("/voices")).json()["voices"]
    assert (voice["id"], voice["type"], voice["paid"], voice["used_by"]) == (
        ("local", "hibari", False, ["sales"])
    )
    assert (await vera.get("/voices?provider=cloud")).json() == {"voices": []}
    prices = (await paula.get("/prices")).json()
    assert prices["currency"] == "EUR"
    assert prices["models"] == [{"model": "openai_realtime", "prices": {"minutes": 0.1}}]
    assert [budget["context"] for budget in prices["budgets"]] == ["sales"]
    assert len((await vera.get("/prices")).json()["budgets"]) == 2


async def test_a_check_that_hangs_is_over_in_time_and_is_not_begun_twice(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    given = config(base_url=f"http://127.0.0.1:{port}/v1")
    room.services.providers = desk(given, {"OPENAI_API_KEY": "sk-secret"})
    room.add("anna", Role.ADMIN)
    browser = room.browser("anna")
    monkeypatch.setattr(provider_desk, "CHECK_SECONDS", 1.5)
    checking = asyncio.create_task(browser.post("/providers/cloud/check"))
    await asyncio.wait_for(asked.wait(), PATIENCE)
    busy = await browser.post("/providers/cloud/check")
    assert (busy.status_code, code(busy)) == (503, "busy")
    assert busy.headers["retry-after"] == "5"
    (finding,) = (await asyncio.wait_for(checking, PATIENCE)).json()["findings"]
    assert (finding["state"], finding["good"]) == ("unreachable", False)
    assert "not over after 1.5 s" in finding["advice"]
    assert (await browser.post("/providers/nobody/check")).status_code == 404
    assert (await browser.post("/providers/local/check")).json() == {"findings": []}
    for _ in range(2):
        await browser.post("/providers/local/check")
    assert (await browser.post("/providers/local/check")).status_code == 429
    server.close()


def test_voices_are_named_as_their_services_name_them() -> None:
    tts = {"type": "elevenlabs", "voice_id": "v-1", "model_id": "eleven_flash_v2_5"}
    given = Config.model_validate(
        {"providers": {"mixed": {"type": "pipeline", "tts": tts}}, "contexts": {"demo": {}}}
    )
    mixed = next(each for each in desk(given, {}).states() if each.name == "mixed")
    part = mixed.parts[-1]
    assert (part.voice, part.model, part.key) == ("v-1", "eleven_flash_v2_5", "missing")


async def test_a_check_without_a_key_is_that_of_the_command(room: Room) -> None:
    room.services.providers = desk(config(), {})
    room.add("anna", Role.ADMIN)
    answer = await room.browser("anna").post("/providers/cloud/check")
    (finding,) = answer.json()["findings"]
    assert (finding["provider"], finding["state"]) == ("cloud", "no key")


async def test_a_sample_is_a_wav_made_behind_the_calls(room: Room) -> None:
    room.add("anna", Role.ADMIN)
    browser = room.browser("anna")
    answer = await browser.post("/voices/local/sample", SAMPLE)
    assert answer.headers["content-type"] == "audio/wav"
    with wave.open(io.BytesIO(answer.content)) as sound:
        assert (sound.getframerate(), sound.getnchannels()) == (SAMPLE_RATE, 1)
        assert sound.getnframes() == SAMPLE_RATE
    assert room.voice.prepared == ["Good morning."], "before it was spoken"
    assert "Good morning" not in room.audit.path.read_text()
    assert (await browser.post("/voices/nobody/sample", SAMPLE)).status_code == 404
    assert (await browser.post("/voices/local/sample", {"text": "x" * 301})).status_code == 422


async def test_samples_come_one_at_a_time_and_not_while_calls_need_the_engine(room: Room) -> None:
    room.add("anna", Role.ADMIN)
    browser = room.browser("anna")
    room.voice.may_speak.clear()
    speaking = asyncio.create_task(browser.post("/voices/local/sample", SAMPLE))
    await until(lambda: bool(room.voice.prepared), "the first sample")
    second = await browser.post("/voices/local/sample", SAMPLE)
    assert (second.status_code, code(second)) == (503, "busy")
    room.voice.may_speak.set()
    assert (await asyncio.wait_for(speaking, PATIENCE)).status_code == 200
    room.degradation.level = 1
    loaded = await browser.post("/voices/local/sample", SAMPLE)
    assert (loaded.status_code, "calls need the engine" in loaded.text) == (503, True)
    room.degradation.level = 0
    for _ in range(7):
        await browser.post("/voices/local/sample", SAMPLE)
    assert (await browser.post("/voices/local/sample", SAMPLE)).status_code == 429


class Wire:
    """A service's voice that speaks half a second, or fails with its key in the message."""

    provider, model = "shop_tts", "m1"
    paid_by: PaidBy = "characters"

    def __init__(self, failure: str = "") -> None:
        self.failure = failure
        self.spoken = 0

    async def speak(self, text: str, rate: int) -> AsyncIterator[bytes]:
        self.spoken += 1
        if self.failure:
            raise VoiceError(self.failure, "auth")
        yield bytes(rate)

    async def close(self) -> None: ...


class Voices:
    unmade: Mapping[str, str] = {}

    def __init__(self, wire: Wire) -> None:
        self.voice = ServiceVoice(cast(Any, wire))

    def voice_of(self, provider: str) -> ServiceVoice:
        return self.voice


async def test_a_paid_sample_is_asked_for_once_and_counted(room: Room) -> None:
    used: list[Usage] = []
    wire = Wire()
    room.services.providers = desk(config(), {}, voices=Voices(wire), used=used.append)
    room.add("anna", Role.ADMIN)
    answer = await room.browser("anna").post("/voices/local/sample", SAMPLE)
    assert len(answer.content) > SAMPLE_RATE
    assert wire.spoken == 1
    assert [(each.provider, dict(each.amounts)) for each in used] == [
        ("shop_tts", {"characters": 13.0})
    ]


async def test_a_failing_voice_says_why_without_its_key(room: Room) -> None:
    wire = Wire("shop_tts does not accept sk-secret")
    room.services.providers = desk(config(), {}, voices=Voices(wire))
    room.add("anna", Role.ADMIN)
    answer = await room.browser("anna").post("/voices/local/sample", SAMPLE)
    assert (answer.status_code, "does not accept ***" in answer.text) == (409, True)
    assert "sk-secret" not in answer.text + room.audit.path.read_text()
