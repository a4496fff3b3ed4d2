"""Deepgram's recognisers against the emulated service: one socket per call, text at a pause."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from tests.agents.pipeline.lines import feed, silence, until, voice

from cordboard.agent_api.agent import Usage
from cordboard.agent_api.stt import (
    CallRecogniser,
    ListenedCall,
    Listening,
    Transcript,
    TurnVerdict,
)
from cordboard.errors import RecogniserError
from cordboard.vendors.deepgram.config import DeepgramFluxStt, DeepgramStt
from cordboard.vendors.deepgram.flux import DeepgramFluxRecogniser
from cordboard.vendors.deepgram.stt import DeepgramRecogniser, ListenV1
from cordboard_testkit.emulators.deepgram.listen import DeepgramListenEmulator
from cordboard_testkit.emulators.deepgram.socket import KEY
from cordboard_testkit.emulators.script import Answer, Fault, Script

WEATHER = "What is the weather in Oslo?"
BERGEN = "And in Bergen?"
SCRIPT = (Answer(heard=WEATHER), Answer(heard=BERGEN))


@dataclass
class Told:
    """What a recogniser tells of a call."""

    used: list[Usage] = field(default_factory=list)
    failed: list[RecogniserError] = field(default_factory=list)
    verdicts: list[TurnVerdict] = field(default_factory=list)

    def call(self) -> ListenedCall:
        return ListenedCall("c1", self.used.append, self.failed.append, self.verdicts.append)

    @property
    def seconds(self) -> float:
        return sum(usage.amounts["seconds"] for usage in self.used)


def nova(url: str, key: str = KEY, **more: object) -> DeepgramRecogniser:
    return DeepgramRecogniser(DeepgramStt(type="deepgram", base_url=url, **more), key)


def flux(url: str, **more: object) -> DeepgramFluxRecogniser:
    return DeepgramFluxRecogniser(DeepgramFluxStt(type="deepgram_flux", base_url=url, **more), KEY)


@asynccontextmanager
async def listening(recogniser: CallRecogniser, told: Told) -> AsyncIterator[Listening]:
    opened = recogniser.open(told.call())
    try:
        yield opened
    finally:
        await opened.close()


async def hear(opened: Listening, words: str, quiet_ms: int = 120) -> Transcript:
    """A sentence and the pause after it, asked about as the hearing does."""
    pcm = voice(words) + silence(quiet_ms)
    await feed(opened, pcm)
    return await opened.transcribe(pcm, speculative=True)


async def test_each_utterance_has_its_text_at_the_pause_over_one_socket() -> None:
    told = Told()
    async with (
        DeepgramListenEmulator(Script(SCRIPT)) as service,
        listening(nova(service.url, keyterms=("Oslo", "Bergen"), endpointing=0), told) as call,
    ):
        await feed(call, silence(400))
        first = await hear(call, WEATHER)
        await feed(call, silence(700))
        second = await hear(call, BERGEN)
    assert first.text == WEATHER
    assert second.text == BERGEN
    assert first.confidence == pytest.approx(0.97)
    assert service.connections == 1
    assert service.violations == []
    assert service.queries[0]["keyterm"] == ("Oslo", "Bergen")
    assert len(service.texts("Finalize")) == 2
    assert service.texts("CloseStream")
    assert told.seconds == pytest.approx(service.sound_bytes / 16000)


async def test_a_pause_within_a_turn_does_not_cut_its_text() -> None:
    async with (
        DeepgramListenEmulator(Script(SCRIPT)) as service,
        listening(nova(service.url, endpointing=0), Told()) as call,
    ):
        half = voice("What is the") + silence(100)
        await feed(call, half)
        await call.transcribe(half, speculative=True)
        rest = voice("weather") + silence(100)
        await feed(call, rest)
        whole = await call.transcribe(half + rest)
    assert whole.text == WEATHER


async def test_what_the_service_finalized_by_itself_needs_no_question() -> None:
    async with (
        DeepgramListenEmulator(Script(SCRIPT)) as service,
        listening(nova(service.url, endpointing=60), Told()) as call,
    ):
        pcm = voice(WEATHER) + silence(100)
        await feed(call, pcm)
        await until(lambda: call._wire.covered > 0)  # type: ignore[attr-defined]
        assert (await call.transcribe(pcm)).text == WEATHER
    assert service.texts("Finalize") == []


async def test_words_of_a_voice_that_goes_on_come_without_finalize() -> None:
    async with (
        DeepgramListenEmulator(Script(SCRIPT)) as service,
        listening(nova(service.url, endpointing=0), Told()) as call,
    ):
        pcm = voice(WEATHER)[: 16 * 900]
        await feed(call, pcm)
        transcript = await call.transcribe(pcm, goes_on=True)
    assert transcript.text
    assert WEATHER.startswith(transcript.text)
    assert service.texts("Finalize") == []


async def test_silence_has_no_text() -> None:
    async with (
        DeepgramListenEmulator() as service,
        listening(nova(service.url, endpointing=0), Told()) as call,
    ):
        pcm = silence(600)
        await feed(call, pcm)
        transcript = await call.transcribe(pcm)
    assert (transcript.text, transcript.no_speech, transcript.confidence) == ("", 1.0, 0.0)


@pytest.mark.parametrize(
    "fault",
    [
        Fault("sound", "drop", connection=1),
        Fault("sound", "close", code=1011, connection=1),
        Fault("answer", "drop", connection=1),
        Fault("answer", "stall", connection=1),
        Fault("connect", "refuse", code=503, connection=1),
        Fault("setup", "close", code=1011, connection=1),
        Fault("message", "error", connection=1),
    ],
    ids=lambda fault: f"{fault.when}-{fault.do}",
)
async def test_a_lost_connection_costs_no_words(
    fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ListenV1, "patience", 0.4)
    told = Told()
    script = Script((Answer(heard=WEATHER), Answer(heard=WEATHER)), faults=(fault,))
    async with (
        DeepgramListenEmulator(script) as service,
        listening(nova(service.url, endpointing=0), told) as call,
    ):
        transcript = await hear(call, WEATHER)
    assert transcript.text == WEATHER
    # A connection that stalls may have told all words, if not as final ones: they count too.
    assert service.connections in ((1, 2) if fault.do == "stall" else (2,))
    assert told.failed == []


async def test_what_was_final_before_a_loss_is_not_said_twice() -> None:
    script = Script((*SCRIPT, Answer(heard=BERGEN)), faults=(Fault("sound", "drop", after=1),))
    async with (
        DeepgramListenEmulator(script) as service,
        listening(nova(service.url, endpointing=0), Told()) as call,
    ):
        assert (await hear(call, WEATHER)).text == WEATHER
        await feed(call, silence(700))
        assert (await hear(call, BERGEN)).text == BERGEN
    assert service.connections == 2


@pytest.mark.parametrize(
    ("key", "more", "kind"),
    [("wrong", {}, "auth"), (KEY, {"model": "nonsense"}, "refused")],
)
async def test_a_refusal_is_told_at_once(key: str, more: dict[str, str], kind: str) -> None:
    told = Told()
    async with (
        DeepgramListenEmulator() as service,
        listening(nova(service.url, key, **more), told) as call,
    ):
        with pytest.raises(RecogniserError) as raised:
            await hear(call, WEATHER)
    assert [error.kind for error in told.failed] == [kind] == [raised.value.kind]
    assert service.connections == 1
    assert "wrong" not in str(raised.value)


async def test_a_service_that_is_not_there_fails_with_its_kind() -> None:
    told = Told()
    async with listening(nova("http://127.0.0.1:9"), told) as call:
        with pytest.raises(RecogniserError) as raised:
            await hear(call, WEATHER)
    assert raised.value.kind == "connect"
    assert str(raised.value) == "deepgram cannot be reached (connection refused)"


async def test_a_service_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ListenV1, "patience", 0.2)
    faults = (Fault("setup", "stall", connection=1), Fault("setup", "stall", connection=2))
    async with (
        DeepgramListenEmulator(Script(faults=faults)) as service,
        listening(nova(service.url, endpointing=0), Told()) as call,
    ):
        with pytest.raises(RecogniserError) as raised:
            await hear(call, WEATHER)
    assert raised.value.kind == "stalled"
    assert service.connections == 2


async def test_closing_leaves_nothing_and_tells_nothing() -> None:
    told = Told()
    async with DeepgramListenEmulator(Script(SCRIPT)) as service:
        call = nova(service.url).open(told.call())
        await feed(call, voice(WEATHER))
        await call.close()
        await call.close()
        call.hear(silence(20))
        await asyncio.sleep(0)
    assert told.failed == []


async def test_flux_tells_the_end_of_the_turn_and_its_text() -> None:
    told = Told()
    async with (
        DeepgramListenEmulator(Script(SCRIPT)) as service,
        listening(flux(service.url, eager_eot_threshold=0.4), told) as call,
    ):
        first = await hear(call, WEATHER, quiet_ms=500)
        await until(lambda: TurnVerdict.OVER in told.verdicts)
        await feed(call, silence(400))
        second = await hear(call, BERGEN, quiet_ms=500)
    assert (first.text, second.text) == (WEATHER, BERGEN)
    over = [TurnVerdict.GOES_ON, TurnVerdict.PERHAPS_OVER, TurnVerdict.OVER]
    assert told.verdicts[:3] == over
    assert service.violations == []


async def test_flux_takes_back_what_it_thought_to_be_over() -> None:
    told = Told()
    async with (
        DeepgramListenEmulator(Script(SCRIPT)) as service,
        listening(flux(service.url, eager_eot_threshold=0.4), told) as call,
    ):
        await feed(call, voice("what is the") + silence(220) + voice("weather") + silence(500))
        await until(lambda: TurnVerdict.OVER in told.verdicts)
    assert told.verdicts == [
        TurnVerdict.GOES_ON,
        TurnVerdict.PERHAPS_OVER,
        TurnVerdict.GOES_ON,
        TurnVerdict.PERHAPS_OVER,
        TurnVerdict.OVER,
    ]


async def test_flux_is_asked_again_after_a_loss() -> None:
    told = Told()
    faults = (Fault("sound", "drop", connection=1),)
    script = Script((Answer(heard=WEATHER), Answer(heard=WEATHER)), faults=faults)
    async with (
        DeepgramListenEmulator(script) as service,
        listening(flux(service.url), told) as call,
    ):
        assert (await hear(call, WEATHER, quiet_ms=500)).text == WEATHER
    assert service.connections == 2
