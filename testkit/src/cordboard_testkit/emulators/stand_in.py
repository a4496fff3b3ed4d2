"""Emulated services for a person without a key (`cordboard emulate`): by vendor, on fixed ports.

Each service answers as an `Attendant` does; recognisers only hear.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Any, Protocol, Self, TypeAlias

from cordboard.errors import CallRefused
from cordboard_testkit.emulators.anthropic.text import AnthropicEmulator
from cordboard_testkit.emulators.attendant import Attendant, OfflineSenses, transcriber
from cordboard_testkit.emulators.deepgram.agent import DeepgramAgentEmulator
from cordboard_testkit.emulators.deepgram.listen import DeepgramListenEmulator
from cordboard_testkit.emulators.deepgram.speak import DeepgramSpeakEmulator
from cordboard_testkit.emulators.elevenlabs.agent import ElevenLabsEmulator
from cordboard_testkit.emulators.elevenlabs.speech import ElevenLabsSpeechEmulator
from cordboard_testkit.emulators.gemini.live import GeminiLiveEmulator
from cordboard_testkit.emulators.gemini.text import GeminiTextEmulator
from cordboard_testkit.emulators.openai.audio import OpenAIAudioEmulator
from cordboard_testkit.emulators.openai.live import OpenAILiveEmulator
from cordboard_testkit.emulators.openai.realtime import OpenAIRealtimeEmulator
from cordboard_testkit.emulators.openai.text import OpenAITextEmulator
from cordboard_testkit.emulators.script import Script

KEY = "emulated-key"
PACE = 2.0
"""Speed of the emulators' audio, as a multiple of real time: a service sends ahead, too."""


class Emulator(Protocol):
    """An emulator of the kit."""

    @property
    def url(self) -> str: ...

    @property
    def violations(self) -> list[str]: ...

    async def __aenter__(self) -> Any: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...


Maker: TypeAlias = Callable[[Script, OfflineSenses, int], Emulator]


@dataclass(frozen=True, slots=True)
class Service:
    """One service of a vendor."""

    make: Maker
    """Makes it, of a script, a voice and a port."""
    sections: tuple[str, ...]
    """The places in a configuration that reach it; `URL` is its `base_url`."""
    voice: bool = True
    """True if it hears or speaks."""
    answers: bool = True
    """False if it turns speech into text or text into speech only."""


@dataclass(frozen=True, slots=True)
class Vendor:
    """The services that share a key."""

    variable: str
    """Environment variable of the key."""
    services: tuple[Service, ...]
    note: str = ""


def _providers(name: str, kind: str, more: str = "") -> str:
    return f"providers: {{{name}: {{type: {kind}, base_url: URL{more}}}}}"


def _part(part: str, kind: str) -> str:
    return f"{part}: {{type: {kind}, base_url: URL}}"


VENDORS: Mapping[str, Vendor] = MappingProxyType(
    {
        "openai": Vendor(
            "OPENAI_API_KEY",
            (
                Service(
                    lambda script, voice, port: OpenAIRealtimeEmulator(
                        script, speaker=voice, key=KEY, port=port, speed=PACE
                    ),
                    (_providers("openai", "openai_realtime"),),
                ),
                Service(
                    lambda script, _, port: OpenAITextEmulator(script, key=KEY, port=port),
                    (_part("brain", "openai_chat"), _part("brain", "openai_responses")),
                    voice=False,
                ),
                Service(
                    lambda script, voice, port: OpenAIAudioEmulator(
                        script, speaker=voice, key=KEY, port=port
                    ),
                    (_part("stt", "openai"), _part("tts", "openai")),
                    answers=False,
                ),
                Service(
                    lambda script, voice, port: OpenAILiveEmulator(
                        script, speaker=voice, key=KEY, port=port, speed=PACE
                    ),
                    (_providers("live", "openai_live"),),
                ),
            ),
        ),
        "deepgram": Vendor(
            "DEEPGRAM_API_KEY",
            (
                Service(
                    lambda script, voice, port: DeepgramAgentEmulator(
                        script, speaker=voice, key=KEY, port=port
                    ),
                    (_providers("deepgram", "deepgram_agent"),),
                ),
                Service(
                    lambda script, voice, port: DeepgramSpeakEmulator(
                        script, speaker=voice, key=KEY, port=port
                    ),
                    (_part("tts", "deepgram"),),
                    answers=False,
                ),
                Service(
                    lambda script, _, port: DeepgramListenEmulator(script, key=KEY, port=port),
                    (_part("stt", "deepgram"), _part("stt", "deepgram_flux")),
                    answers=False,
                ),
            ),
        ),
        "gemini": Vendor(
            "GEMINI_API_KEY",
            (
                Service(
                    lambda script, voice, port: GeminiLiveEmulator(
                        script,
                        speaker=voice,
                        key=KEY,
                        port=port,
                        secure=False,
                        pace=PACE,
                        many_calls=True,
                    ),
                    (_providers("gemini", "gemini_live"),),
                ),
                Service(
                    lambda script, _, port: GeminiTextEmulator(script, key=KEY, port=port),
                    (_part("brain", "gemini"),),
                    voice=False,
                ),
            ),
        ),
        "elevenlabs": Vendor(
            "ELEVENLABS_API_KEY",
            (
                Service(
                    lambda script, voice, port: ElevenLabsEmulator(
                        script, speaker=voice, key=KEY, port=port, any_tool=False, faster=PACE
                    ),
                    (_providers("elevenlabs", "elevenlabs_agent", ", agent_id: agent_emulated"),),
                ),
                Service(
                    lambda script, voice, port: ElevenLabsSpeechEmulator(
                        script, speaker=voice, key=KEY, port=port
                    ),
                    (_part("tts", "elevenlabs"),),
                    answers=False,
                ),
            ),
            "give its agent your tools, after each start: cordboard elevenlabs sync elevenlabs",
        ),
        "anthropic": Vendor(
            "ANTHROPIC_API_KEY",
            (
                Service(
                    lambda script, _, port: AnthropicEmulator(script, key=KEY, port=port),
                    (_part("brain", "anthropic"),),
                    voice=False,
                ),
            ),
        ),
    }
)
"""The vendors that can be emulated, by name."""


class StandIns:
    """The services of some vendors, from `async with` to its end; the ports count up from `port`.

    `note` gets a line for each thing that a service hears, requests or says. Raises `ModelError`
    without the offline models, `CallRefused` for a port that is taken.
    """

    def __init__(self, vendors: Sequence[str], port: int, note: Callable[[str], None]) -> None:
        self._vendors = vendors
        self._port = port
        self._note = note
        self._stack = AsyncExitStack()
        self._running: list[tuple[str, Emulator]] = []
        self._told = 0
        self.lines: list[str] = []
        """Environment and configuration that lead to the services."""

    @property
    def refusals(self) -> list[str]:
        """Everything that the services refused."""
        return [f"{name} refused: {why}" for name, one in self._running for why in one.violations]

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            senses = OfflineSenses()
            services = [(name, one) for name in self._vendors for one in VENDORS[name].services]
            if any(service.voice for _, service in services):
                await stack.enter_async_context(senses.loaded())
            for place, (name, service) in enumerate(services):
                await self._start(stack, senses, name, service, self._port + place)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def _start(
        self, stack: AsyncExitStack, senses: OfflineSenses, name: str, service: Service, port: int
    ) -> None:
        def note(line: str) -> None:
            self._note(f"{name} {line}")
            for refusal in self.refusals[self._told :]:
                self._note(refusal)
            self._told = len(self.refusals)

        reacts = Attendant if service.answers else transcriber
        script = Script(improvises=reacts(senses.listen, note))
        emulator = service.make(script, senses, port)
        try:
            await stack.enter_async_context(emulator)
        except OSError as error:
            message = f"port {port} of 127.0.0.1 cannot be opened: {error.strerror or error}"
            raise CallRefused(f"{message}; give another with --port") from None
        vendor = VENDORS[name]
        if all(each != name for each, _ in self._running):
            self.lines.append(f"export {vendor.variable}={KEY}")
            self.lines += [f"# {vendor.note}"] if vendor.note else []
        self._running.append((name, emulator))
        self.lines += [section.replace("URL", emulator.url) for section in service.sections]
