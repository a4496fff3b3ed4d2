"""What `check --online` asks, the vendors' SDKs ask at the same places."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import httpx2
import pytest
from anthropic import AsyncAnthropic
from google import genai
from google.genai import types
from openai import AsyncOpenAI
from tests.agents.rest_services import KEY, RestServices


@pytest.fixture
async def services() -> AsyncIterator[RestServices]:
    async with RestServices() as running:
        yield running


async def test_openai(services: RestServices) -> None:
    async with AsyncOpenAI(api_key=KEY, base_url=f"{services.url('openai')}/v1") as api:
        assert (await api.models.retrieve("gpt-realtime-2.1")).id == "gpt-realtime-2.1"
        assert [model.id async for model in api.models.list()] == ["llama3.2", "qwen3"]


async def test_anthropic(services: RestServices) -> None:
    async with AsyncAnthropic(api_key=KEY, base_url=services.url("anthropic")) as api:
        assert (await api.models.retrieve("claude-x")).id == "claude-x"


async def test_gemini(services: RestServices) -> None:
    async with httpx2.AsyncClient() as http:
        options = types.HttpOptions(
            base_url=services.url("gemini"), api_version="v1beta", httpx_async_client=http
        )
        api = genai.Client(api_key=KEY, http_options=options)
        assert (await api.aio.models.get(model="live")).name == "models/live"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_deepgram(services: RestServices) -> None:
    from deepgram import AsyncDeepgramClient
    from deepgram.environment import DeepgramClientEnvironment

    url = services.url("deepgram")
    there = DeepgramClientEnvironment(base=url, production=url, agent=url, agent_rest=url)
    async with httpx.AsyncClient() as http:
        api = AsyncDeepgramClient(api_key=KEY, environment=there, httpx_client=http)
        listed = await api.manage.v1.models.list()
    assert [model.name for model in listed.stt] == ["nova-3"]
    assert [model.canonical_name for model in listed.tts] == ["aura-2-thalia-en"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_elevenlabs(services: RestServices) -> None:
    from elevenlabs.client import ElevenLabs

    with httpx.Client(trust_env=False) as http:
        api = ElevenLabs(api_key=KEY, base_url=services.url("elevenlabs"), httpx_client=http)
        assert (await asyncio.to_thread(api.voices.get, "voice1")).voice_id == "voice1"
        (model,) = await asyncio.to_thread(api.models.list)
        assert model.model_id == "eleven_flash_v2_5"
