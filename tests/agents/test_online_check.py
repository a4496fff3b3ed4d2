"""`cordboard check --online` against services that are as strict as the real ones."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from cordboard.agent_api.probe import Probe
from cordboard.agent_api.provider import provider_of
from cordboard.agents.online_check import Finding, check_online, verdict
from cordboard.cli import app
from cordboard.config.plugins import installed
from cordboard.config.providers import PaidPart, paid_parts
from cordboard.config.schema import Config
from cordboard_testkit.emulators.deepgram.agent import DeepgramAgentEmulator
from cordboard_testkit.emulators.elevenlabs.agent import ElevenLabsEmulator
from cordboard_testkit.emulators.elevenlabs.workspace import VOICE
from cordboard_testkit.emulators.gemini.live import GeminiLiveEmulator
from cordboard_testkit.emulators.openai.live import OpenAILiveEmulator
from cordboard_testkit.emulators.openai.realtime import OpenAIRealtimeEmulator
from cordboard_testkit.emulators.script import Fault, Script

from .rest_services import KEY, RestServices

KEYS = {
    "OPENAI_API_KEY": KEY,
    "ANTHROPIC_API_KEY": KEY,
    "GEMINI_API_KEY": KEY,
    "DEEPGRAM_API_KEY": KEY,
    "ELEVENLABS_API_KEY": KEY,
}
WRONG = dict.fromkeys(KEYS, "wrong-key-999")


@pytest.fixture
async def services() -> AsyncIterator[RestServices]:
    async with RestServices() as running:
        yield running


def config(**providers: dict[str, Any]) -> Config:
    return Config.model_validate({"providers": providers, "contexts": {"a": {}}})


def all_of(services: RestServices) -> dict[str, dict[str, Any]]:
    openai, deepgram = f"{services.url('openai')}/v1", services.url("deepgram")
    elevenlabs, gemini = services.url("elevenlabs"), services.url("gemini")
    return {
        "openai": {"type": "openai_realtime", "base_url": openai},
        "deepgram": {"type": "deepgram_agent", "base_url": deepgram},
        "gemini": {"type": "gemini_live", "base_url": gemini, "model": "live"},
        "eleven": {"type": "elevenlabs_agent", "base_url": elevenlabs, "agent_id": "agent_1"},
        "one": {
            "type": "pipeline",
            "stt": {"type": "deepgram", "base_url": deepgram},
            "brain": {
                "type": "anthropic",
                "base_url": services.url("anthropic"),
                "model": "claude-x",
            },
            "tts": {"type": "elevenlabs", "base_url": elevenlabs, "voice_id": "voice1"},
        },
        "two": {
            "type": "pipeline",
            "stt": {"type": "openai", "base_url": openai},
            "brain": {"type": "gemini", "base_url": gemini, "model": "text"},
            "tts": {"type": "deepgram", "base_url": deepgram},
        },
        "local": {"type": "pipeline"},
    }


def probes(paid: PaidPart, key: str) -> tuple[Probe, ...]:
    provider = provider_of(installed(), paid.role, paid.section.type)
    assert provider is not None
    return provider.probes(paid.section, key)


def states(findings: tuple[Finding, ...]) -> dict[str, str]:
    return {f"{found.provider}: {found.what}": found.state for found in findings}


async def test_all_is_well(services: RestServices) -> None:
    findings = await check_online(config(**all_of(services)), KEYS)
    assert states(findings) == {
        "openai: openai_realtime, model gpt-realtime-2.1": "ok",
        "openai: openai_realtime, model gpt-transcribe": "ok",
        "openai: openai_realtime, session": "ok",
        "deepgram: deepgram_agent, key": "ok",
        "deepgram: deepgram_agent, session": "ok",
        "gemini: gemini_live, model live": "ok",
        "gemini: gemini_live, session": "ok",
        "eleven: elevenlabs_agent, agent agent_1": "ok",
        "one.stt: deepgram, key": "ok",
        "one.stt: deepgram, model nova-3": "ok",
        "one.brain: anthropic, model claude-x": "ok",
        "one.tts: elevenlabs, voice voice1": "ok",
        "one.tts: elevenlabs, model eleven_flash_v2_5": "ok",
        "two.stt: openai, model gpt-transcribe": "ok",
        "two.brain: gemini, model text": "ok",
        "two.tts: deepgram, key": "ok",
        "two.tts: deepgram, model aura-2-thalia-en": "ok",
    }
    assert all(found.good for found in findings)


async def test_wrong_keys_are_told_once_each_and_never_shown(services: RestServices) -> None:
    findings = await check_online(config(**all_of(services)), WRONG)
    assert {found.state for found in findings} == {"wrong key"}
    assert len(findings) == 10, "one for each provider or part"
    text = "\n".join(map(str, findings))
    assert "wrong-key" not in text
    assert "see that OPENAI_API_KEY holds a key that 127.0.0.1 accepts" in text


async def test_missing_keys_are_named_and_nobody_is_asked(services: RestServices) -> None:
    findings = await check_online(config(**all_of(services)), {})
    assert {found.state for found in findings} == {"no key"}
    assert str(findings[0]) == "openai: openai_realtime: no key: set OPENAI_API_KEY, or api_key"
    assert services.asked == []


@pytest.mark.parametrize(
    ("section", "state"),
    [
        ({"type": "openai_realtime", "vendor": "openai/v1", "model": "gpt-none"}, "unknown"),
        ({"type": "gemini_live", "vendor": "gemini", "model": "none"}, "unknown"),
        ({"type": "gemini_live", "vendor": "gemini", "model": "text"}, "unlisted"),
        ({"type": "elevenlabs_agent", "vendor": "elevenlabs", "agent_id": "agent_2"}, "unknown"),
    ],
)
async def test_what_a_service_does_not_know(
    services: RestServices, section: dict[str, Any], state: str
) -> None:
    url = services.url(section.pop("vendor"))
    (first, *_) = await check_online(config(it={**section, "base_url": url}), KEYS)
    assert first.state == state
    assert first.good == (state == "unlisted")
    assert first.advice


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, ""),
        ({"voice": "nobody"}, "Invalid value: 'session.audio.output.voice'"),
        ({"extra": {"tracing_": "auto"}}, "Unknown parameter: 'session.tracing_'"),
        ({"model": "gpt-realtime", "reasoning": {"effort": "low"}}, "reasoning"),
    ],
)
async def test_a_session_of_openai_is_tried(settings: dict[str, Any], words: str) -> None:
    async with OpenAIRealtimeEmulator(key=KEY) as service:
        section = {"type": "openai_realtime", "base_url": service.url, **settings}
        *found, session = await check_online(config(it=section), KEYS)
        assert [each.state for each in found] == ["ok", "ok"]
        assert_tried(session, words)
        assert [each.message["type"] for each in service.received] == ["session.update"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [({}, ""), ({"voice": "nobody"}, "voice"), ({"extra": {"temperature": 1}}, "temperature")],
)
async def test_a_session_of_openai_live_is_tried(settings: dict[str, Any], words: str) -> None:
    async with OpenAILiveEmulator(key=KEY) as service:
        section = {"type": "openai_live", "base_url": service.url, **settings}
        *found, session = await check_online(config(it=section), KEYS)
        assert [each.what for each in found] == [
            "openai_live, model gpt-live-1",
            "openai_live, model gpt-5.4-mini",
        ]
        assert [each.state for each in found] == ["ok", "ok"]
        assert_tried(session, words)
        kinds = ["session.close"] if words else ["session.start", "session.close"]
        assert [each["type"] for each in service.received] == kinds


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, ""),
        (
            {"speak": {"provider": {"type": "deepgram", "model": "aura-2-nobody-en"}}},
            "'aura-2-nobody-en' does not exist",
        ),
        ({"think": {"provider": {"type": "open_ai", "model": "gpt-9"}}}, "'gpt-9' is not managed"),
        ({"listen": {"provider": {"model": "flux-general-xx"}}}, "does not exist"),
    ],
)
async def test_a_session_of_deepgram_is_tried(settings: dict[str, Any], words: str) -> None:
    async with DeepgramAgentEmulator(Script(), key=KEY) as service:
        section = {"type": "deepgram_agent", "base_url": service.url, **settings}
        key, session = await check_online(config(it=section), KEYS)
        assert key.state == "ok"
        assert_tried(session, words)
        (sent,) = service.received_of("Settings")
        assert "greeting" not in sent["agent"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [({}, ""), ({"voice_name": "Nobody"}, "Requested voice Nobody is not available")],
)
async def test_a_session_of_gemini_is_tried(
    settings: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with GeminiLiveEmulator(key=KEY) as service:
        monkeypatch.setenv("SSL_CERT_FILE", str(service.certificate.path))
        section = {"type": "gemini_live", "base_url": service.url, **settings}
        model, session = await check_online(config(it=section), KEYS)
        assert model.state == "ok"
        assert_tried(session, words)
        assert len(service.messages("setup")) == 1


def assert_tried(session: Finding, words: str) -> None:
    """By the service's words, if it did not take the settings."""
    assert session.state == ("refused" if words else "ok"), session
    assert session.good == (not words)
    assert words in session.advice
    assert KEY not in str(session)


@pytest.mark.parametrize(("voice_id", "state"), [(VOICE, "ok"), ("nobody", "unknown")])
async def test_the_voice_of_an_elevenlabs_agent_is_asked_for(voice_id: str, state: str) -> None:
    async with ElevenLabsEmulator(key=KEY) as service:
        section = {
            "type": "elevenlabs_agent",
            "base_url": service.url,
            "agent_id": service.agent_id,
            "tts": {"voice_id": voice_id},
        }
        _, voice = await check_online(config(it=section), KEYS)
        assert (voice.what, voice.state) == (f"elevenlabs_agent, voice {voice_id}", state)
        assert service.connections == 0, "a conversation costs money"


async def test_a_service_that_is_silent_in_the_session_is_not_waited_for() -> None:
    script = Script(faults=(Fault("setup", "stall"),))
    async with OpenAIRealtimeEmulator(script, key=KEY) as service:
        section = {"type": "openai_realtime", "base_url": service.url}
        for seconds in (0.3, 3.0, 15.0):  # enough to get as far as the session
            *_, session = await check_online(config(it=section), KEYS, seconds=seconds)
            if session.advice == "the session was not accepted in time":
                break
        assert (session.state, session.advice) == (
            "unreachable",
            "the session was not accepted in time",
        )


async def test_unknown_voices_and_models_of_parts(services: RestServices) -> None:
    part = {"type": "elevenlabs", "base_url": services.url("elevenlabs")}
    it = {"type": "pipeline", "tts": {**part, "voice_id": "none", "model_id": "odd"}}
    findings = await check_online(config(it=it), KEYS)
    assert [found.state for found in findings] == ["unknown", "unlisted"]


@pytest.mark.parametrize(
    ("end", "state", "good"),
    [
        ("2027-01-06", "ends soon", True),
        ("2027-03-15", "ok", True),
        ("2026-11-22", "refused", False),
        (None, "ok", True),
        ("soon", "ok", True),
    ],
)
def test_the_stated_end_of_a_model(end: str | None, state: str, good: bool) -> None:
    (provider,) = config(it={"type": "openai_realtime"}).providers.values()
    (paid,) = paid_parts(provider)
    probe = probes(paid, "k")[0]
    body = json.dumps({"id": "gpt-realtime-2.1", "shutdown_date": end}).encode()
    told = verdict(probe, 200, body, date(2026, 11, 23))
    assert told.state == state
    assert Finding("it", "x", told.state).good == good
    assert state in ("ok", "refused") or "2027-01-06" in told.detail


async def test_a_model_that_ends_soon_is_told_with_its_day() -> None:
    async with OpenAIRealtimeEmulator() as emulator:
        day = (datetime.now(UTC) + timedelta(days=30)).date().isoformat()
        emulator.shutdown_dates["gpt-realtime-2.1"] = day
        it = {"type": "openai_realtime", "base_url": emulator.url, "api_key": emulator.key}
        findings = await check_online(config(it=it), {})
    assert [found.state for found in findings] == ["ends soon", "ok", "ok"]
    assert day in findings[0].advice


async def test_azure_takes_its_key_in_another_header() -> None:
    """The key of OpenAI itself, which the environment has, is not sent to Azure."""
    async with OpenAIRealtimeEmulator(azure=True) as emulator:
        it = {"type": "openai_realtime", "base_url": emulator.url}
        findings = await check_online(
            config(it={**it, "headers": {"api-key": emulator.key}}), {"OPENAI_API_KEY": KEY}
        )
        assert [found.state for found in findings] == ["ok", "ok"]
        assert not emulator.violations
        (wrong,) = await check_online(config(it=it), {"OPENAI_API_KEY": emulator.key})
        assert wrong.state == "wrong key"


async def test_further_headers_go_to_every_service(services: RestServices) -> None:
    further = {"headers": {"X-Team": "blue"}}
    providers = {name: {**section, **further} for name, section in all_of(services).items()}
    del providers["local"]
    for name in ("one", "two"):
        del providers[name]["headers"]
        for part in ("stt", "brain", "tts"):
            providers[name][part] = {**providers[name][part], **further}
    findings = await check_online(config(**providers), KEYS)
    assert all(found.good for found in findings)
    assert dict(zip(services.asked, services.teams, strict=True)) == dict.fromkeys(
        services.asked, "blue"
    )


async def test_a_service_of_your_own_needs_no_key(services: RestServices) -> None:
    url = f"{services.url('openai')}/v1"
    brain = {"type": "openai_chat", "base_url": url}
    for model, state in (("llama3.2", "ok"), ("llama9", "unlisted")):
        it = {"type": "pipeline", "brain": {**brain, "model": model}}
        (found,) = await check_online(config(it=it), {})
        assert found.state == state


async def test_an_address_that_is_wrong_is_not_taken_for_a_model_that_is(
    services: RestServices,
) -> None:
    brain = {"type": "openai_chat", "base_url": services.url("openai")}
    (found,) = await check_online(config(it={"type": "pipeline", "brain": brain}), {})
    assert (found.state, found.good) == ("refused", False)
    assert "is base_url right?" in found.advice


async def test_a_key_that_may_do_little_is_not_called_wrong(services: RestServices) -> None:
    it = {"type": "elevenlabs_agent", "base_url": services.url("elevenlabs"), "agent_id": "a"}
    (found,) = await check_online(config(it=it), {"ELEVENLABS_API_KEY": "limited"})
    assert found.state == "refused"
    assert not found.good


@pytest.mark.parametrize(("status", "state"), [(503, "unreachable"), (429, "refused")])
async def test_a_service_that_is_not_well(services: RestServices, status: int, state: str) -> None:
    services.trouble = status
    findings = await check_online(config(**all_of(services)), KEYS)
    assert {found.state for found in findings} == {state}


async def test_a_service_that_is_not_there() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        findings = await check_online(
            config(it={"type": "gemini_live", "base_url": url}), KEYS, seconds=2
        )
    assert [found.state for found in findings] == ["unreachable"]
    assert "see that this machine can reach 127.0.0.1" in findings[0].advice


async def test_a_service_that_never_answers() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        it = {"type": "gemini_live", "base_url": f"http://127.0.0.1:{port}"}
        (found,) = await check_online(config(it=it), KEYS, seconds=0.2)
    assert (found.state, found.advice.split(";")[0]) == ("unreachable", "no answer in time")


def test_vendors_own_addresses_are_asked_by_https_without_keys_in_them() -> None:
    sections: list[dict[str, Any]] = [
        {"type": "openai_realtime"},
        {"type": "deepgram_agent"},
        {"type": "gemini_live"},
        {"type": "elevenlabs_agent", "agent_id": "a/../b"},
        {"type": "pipeline", "stt": "deepgram", "brain": "anthropic", "tts": "elevenlabs"},
    ]
    for section in sections:
        (provider,) = config(it=section).providers.values()
        for paid in paid_parts(provider):
            for probe in probes(paid, KEY):
                assert probe.url.startswith("https://")
                assert KEY not in probe.url
                assert "/../" not in probe.url
                assert KEY not in repr(probe)


@given(st.integers(100, 599), st.binary(max_size=200))
def test_whatever_comes_back_has_a_meaning(status: int, body: bytes) -> None:
    (provider,) = config(it={"type": "gemini_live"}).providers.values()
    for paid in paid_parts(provider):
        for probe in probes(paid, "k"):
            assert verdict(probe, status, body).state
    assert verdict(Probe("x", "http://h", {}), 200, b"[1]").state == "ok"


@pytest.mark.parametrize(
    "body",
    [b"[" * 100_000, b"[]", b"3", b'{"data": [{"id": []}]}', b'[{"model_id": {}}]', b'{"data": 1}'],
)
def test_an_answer_of_another_shape_has_a_meaning(body: bytes) -> None:
    sections = config(
        parts={"type": "pipeline", "stt": "deepgram", "brain": "openai_chat", "tts": "elevenlabs"},
        talk={"type": "gemini_live"},
    )
    for provider in sections.providers.values():
        for paid in paid_parts(provider):
            for probe in probes(paid, "k"):
                assert verdict(probe, 200, body).state


async def test_the_command(
    services: RestServices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "a.yaml"
    file.write_text(
        f"providers:\n  g: {{type: gemini_live, base_url: {services.url('gemini')}, model: live}}\n"
        "contexts: {a: {}}\n"
    )

    def run() -> tuple[int, str]:
        result = CliRunner().invoke(app, ["check", "--config", str(file), "--online"])
        return result.exit_code, result.output

    code, output = await asyncio.to_thread(run)
    assert code == 1
    assert "g: gemini_live: no key: set GEMINI_API_KEY or GOOGLE_API_KEY, or api_key" in output
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    code, output = await asyncio.to_thread(run)
    assert code == 0, output
    assert "g: gemini_live, model live: ok" in output
