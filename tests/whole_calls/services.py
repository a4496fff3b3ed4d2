"""Every provider behind the same desk: real calls, emulated services, one script for all."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cordboard_testkit.emulators.deepgram.agent import DeepgramAgentEmulator
from cordboard_testkit.emulators.deepgram.listen import DeepgramListenEmulator
from cordboard_testkit.emulators.elevenlabs.agent import ElevenLabsEmulator
from cordboard_testkit.emulators.elevenlabs.speech import ElevenLabsSpeechEmulator
from cordboard_testkit.emulators.gemini.live import GeminiLiveEmulator
from cordboard_testkit.emulators.openai.live import OpenAILiveEmulator
from cordboard_testkit.emulators.openai.realtime import OpenAIRealtimeEmulator
from cordboard_testkit.emulators.openai.text import OpenAITextEmulator
from cordboard_testkit.emulators.script import Script

from .conftest import Caller, Hotline, OpenHotline

GREETING = "Welcome to the desk."
BRIDGE = "Just a second, I am getting help."
FILLER = "One moment please."
STORY = (
    "Once upon a time there was a telephone exchange on a hill, and every evening the operator "
    "plugged the last caller of the valley into the line to the city, and then she went home."
)
FAULTY = [sys.executable, "-m", "cordboard_testkit.mcp_servers.faulty", "good"]
KEY = "key-of-the-tests"
SLOW_SECONDS = 5
"""Of the slow tool: its filler is due after 0.4 s."""


def tool(kind: str, name: str) -> str:
    """One desk's tool. Each has a server of its own, as a server does one thing at a time."""
    return f"{kind}_{name}"


def rules(name: str) -> dict[str, Any]:
    """The dialogue of the offline desk."""
    return {
        "intents": {
            "look_up": {
                "sentences": ["[please] [tell me] [what are] [the|your] opening times"],
                "tool": tool("look_up", name),
            },
            "slow": {
                "sentences": ["[please] (place|send) (my|the|an) order [now|please]"],
                "tool": tool("slow", name),
                "arguments": {"seconds": SLOW_SECONDS},
            },
            "fails": {"sentences": ["[please] cancel my order [now|please]"],
                      "tool": tool("fails", name)},
            "story": {"sentences": ["[please] tell me a [long] story"], "say": STORY},
            "sales": {"sentences": ["[please] put me through to sales"], "transfer": "sales"},
        }
    }  # fmt: skip


@dataclass
class Emulated:
    """What one provider needs to run, and what can be looked up of it."""

    section: dict[str, Any]
    """Of `providers:`."""
    violations: Callable[[], list[str]] = list
    connections: Callable[[], int] = lambda: 0
    told: Callable[[], list[dict[str, Any]]] = list
    """The messages that the service got, where that is of interest."""


@dataclass
class Desk:
    """One provider's call centre for the length of one behaviour."""

    name: str
    hotline: Hotline
    service: Emulated
    notes: list[str] = field(default_factory=list)

    async def dial(self) -> Caller:
        return await self.hotline.dial(f"ctx-desk_{self.name}")


@contextlib.asynccontextmanager
async def openai_realtime(script: Script) -> AsyncIterator[Emulated]:
    async with OpenAIRealtimeEmulator(script, key=KEY) as service:
        yield Emulated(
            {"type": "openai_realtime", "base_url": service.url, "api_key": KEY},
            lambda: service.violations,
            lambda: service.connections,
            lambda: [received.message for received in service.received],
        )


@contextlib.asynccontextmanager
async def openai_live(script: Script) -> AsyncIterator[Emulated]:
    async with OpenAILiveEmulator(script, key=KEY, speed=1.0) as service:
        yield Emulated(
            {"type": "openai_live", "base_url": service.url, "api_key": KEY},
            lambda: service.violations,
            lambda: service.connections,
            lambda: service.received,
        )


@contextlib.asynccontextmanager
async def deepgram_agent(script: Script) -> AsyncIterator[Emulated]:
    async with DeepgramAgentEmulator(script, key=KEY) as service:
        yield Emulated(
            {"type": "deepgram_agent", "base_url": service.url, "api_key": KEY},
            lambda: service.violations,
            lambda: service.connections,
            lambda: [received.message for received in service.received],
        )


@contextlib.asynccontextmanager
async def gemini_live(script: Script) -> AsyncIterator[Emulated]:
    async with GeminiLiveEmulator(script, key=KEY) as service:
        before = os.environ.get("SSL_CERT_FILE")
        os.environ["SSL_CERT_FILE"] = str(service.certificate.path)
        try:
            yield Emulated(
                {"type": "gemini_live", "base_url": service.url, "api_key": KEY},
                lambda: service.violations,
                lambda: service.connections,
                lambda: [received.message for received in service.received],
            )
        finally:
            if before is None:
                del os.environ["SSL_CERT_FILE"]
            else:
                os.environ["SSL_CERT_FILE"] = before


@contextlib.asynccontextmanager
async def elevenlabs_agent(script: Script) -> AsyncIterator[Emulated]:
    async with ElevenLabsEmulator(script, key=KEY) as service:
        yield Emulated(
            {
                "type": "elevenlabs_agent",
                "base_url": service.url,
                "api_key": KEY,
                "agent_id": service.agent_id,
            },
            lambda: service.violations,
            lambda: service.connections,
            lambda: [received.message for received in service.received],
        )


@contextlib.asynccontextmanager
async def hybrid(script: Script) -> AsyncIterator[Emulated]:
    """A pipeline of three services."""
    heard = dataclasses.replace(script, faults=())
    async with (
        DeepgramListenEmulator(heard, key=KEY) as listen,
        OpenAITextEmulator(script, key=KEY) as think,
        ElevenLabsSpeechEmulator(key=KEY) as speak,
    ):
        yield Emulated(
            {
                "type": "pipeline",
                "stt": {"type": "deepgram", "base_url": listen.url, "api_key": KEY},
                "brain": {"type": "openai_chat", "base_url": think.url, "api_key": KEY},
                "tts": {"type": "elevenlabs", "base_url": speak.url, "api_key": KEY},
            },
            lambda: [*listen.violations, *think.violations, *speak.violations],
            told=lambda: think.asked,
        )


@contextlib.asynccontextmanager
async def local(_: Script) -> AsyncIterator[Emulated]:
    yield Emulated({"type": "pipeline"})


SERVICES: Mapping[str, Callable[[Script], contextlib.AbstractAsyncContextManager[Emulated]]] = {
    "openai_realtime": openai_realtime,
    "openai_live": openai_live,
    "deepgram_agent": deepgram_agent,
    "gemini_live": gemini_live,
    "elevenlabs_agent": elevenlabs_agent,
    "hybrid": hybrid,
    "local": local,
}
"""By the names that stand in the table of `docs/providers.md`."""


def context(name: str) -> dict[str, Any]:
    """The desk of one provider."""
    desk: dict[str, Any] = {
        "prompt": "You are the desk of the tests.",
        "greeting": GREETING,
        "provider": name,
        "fallback": [] if name == "local" else ["local"],
        "fallback_phrase": BRIDGE,
        "tools": [tool(kind, name) for kind in ("look_up", "slow", "fails", "rows")]
        + ["hangup_call", "transfer"],
    }
    return desk | {"rules": rules(name)}


@contextlib.asynccontextmanager
async def desks(
    open_hotline: OpenHotline, script: Callable[[str], Script], names: tuple[str, ...]
) -> AsyncIterator[dict[str, Desk]]:
    """An engine with one desk for each of these providers. `script(name)`: its service's."""
    async with contextlib.AsyncExitStack() as stack:
        services: dict[str, Emulated] = {}
        for name in names:
            services[name] = await stack.enter_async_context(SERVICES[name](script(name)))

        def change(tree: dict[str, Any]) -> None:
            providers = {name: service.section for name, service in services.items()}
            tree["providers"] = {"local": {"type": "pipeline"}} | providers
            for name in names:
                tree["contexts"][f"desk_{name}"] = context(name)
                defaults = {"timeout_ms": 60_000}
                tree["mcp"]["servers"][f"desk_{name}"] = {
                    "command": FAULTY,
                    "defaults": defaults,
                    "tools": [
                        {"name": "plain", "expose_as": tool("look_up", name)},
                        {"name": "fails", "expose_as": tool("fails", name)},
                        {"name": "rows", "expose_as": tool("rows", name)},
                    ],
                }
                tree["mcp"]["servers"][f"slow_{name}"] = {
                    "command": FAULTY,
                    "defaults": defaults
                    | {"slow_response_threshold_ms": 400, "slow_response_message": FILLER},
                    "tools": [{"name": "slow", "expose_as": tool("slow", name)}],
                }

        hotline = await stack.enter_async_context(open_hotline(change))
        yield {name: Desk(name, hotline, services[name]) for name in names}


def failed(problem: BaseException) -> str:
    """The first line of what went wrong."""
    return f"{type(problem).__name__}: {str(problem).splitlines()[0] if str(problem) else ''}"
