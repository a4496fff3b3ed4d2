"""An emulated service that listens: it recognises the caller's words and finds a tool for them.

`Attendant` makes the answers of a script (`Script.improvises`). It is no language model: it says
goodbye with `hangup_call`, requests the tool whose name and description share most words with the
caller's, and otherwise repeats the words. A `transcriber` only hears. `OfflineSenses` are the ears
and the voice.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from cordboard.agent_api.stt import Recogniser
from cordboard.agent_api.tts import Voice
from cordboard.agent_api.workers import Workers
from cordboard.audio.resample import resample_pcm
from cordboard.vendors.local.models import load_offline_models
from cordboard_testkit.emulators.script import Answer, CallerTurn, Use

HANGUP = "hangup_call"
_BYE = frozenset(("bye", "goodbye"))
_SHORTEST = 4
"""Letters of a word that says something about a topic."""
_ASKING = frozenset(
    "about caller could from have into kindly like mine need only please some tell than thank"
    " thanks that their them then there these they this tool used want wants what when where"
    " which will with would your".split()
)
"""Long words that are about no topic."""
_NUMBERS = {"integer": int, "number": float}

Result = TypeVar("Result")


class Attendant:
    """Answers one turn of the caller at a time; `note` gets a line about each."""

    def __init__(self, listen: Callable[[bytes, int], str], note: Callable[[str], None]) -> None:
        self._listen = listen
        self._note = note

    def __call__(self, turn: CallerTurn) -> Answer:
        words = turn.words or (self._listen(turn.sound, turn.rate) if turn.sound else "")
        answer = _answer(words, turn.tools)
        self._note(f"heard: {words or '(no words)'}")
        for use in answer.asks:
            self._note(f"asks for {use.name} {use.arguments}")
        if answer.says:
            self._note(f"says: {answer.says}")
        return answer


def transcriber(
    listen: Callable[[bytes, int], str], note: Callable[[str], None]
) -> Callable[[CallerTurn], Answer]:
    """Return the ears of an `Attendant` alone, for a service that only recognises."""

    def transcribe(turn: CallerTurn) -> Answer:
        words = listen(turn.sound, turn.rate)
        note(f"heard: {words or '(no words)'}")
        return Answer(heard=words)

    return transcribe


def _answer(words: str, tools: tuple[Mapping[str, Any], ...]) -> Answer:
    if not words:
        return Answer("I did not hear any words.")
    said = _words(words)
    by_name = {str(tool["name"]): tool for tool in tools}
    if said & _BYE or "good bye" in words.lower():
        if HANGUP not in by_name:
            return Answer("Goodbye.", heard=words)
        return Answer(asks=(Use(HANGUP, {}),), heard=words)
    rated = [(len(said & _topics(tool)), name) for name, tool in by_name.items() if name != HANGUP]
    for shared, name in sorted(rated, key=lambda each: -each[0]):
        arguments = _arguments(by_name[name], words)
        if shared and arguments is not None:
            return Answer(asks=(Use(name, arguments),), heard=words)
    return Answer(f"I am an emulator, and I have no tool for that. You said: {words}", heard=words)


def _words(text: str) -> set[str]:
    return set(re.findall("[a-z0-9]+", text.lower()))


def _topics(tool: Mapping[str, Any]) -> set[str]:
    """Return the words of a tool's name, description and choices that are about its topic."""
    texts = [str(tool["name"]).replace("_", " "), str(tool.get("description") or "")]
    for schema in _properties(tool).values():
        texts += map(str, schema.get("enum") or ())
    words = _words(" ".join(texts)) - _ASKING
    return {word for word in words if len(word) >= _SHORTEST}


def _properties(tool: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    parameters = tool.get("parameters") or {}
    properties: Mapping[str, Mapping[str, Any]] = parameters.get("properties") or {}
    return properties


def _arguments(tool: Mapping[str, Any], words: str) -> dict[str, Any] | None:
    """Return the required arguments, as far as they are in the words; None if one is not: a choice
    that the caller named, a number, a code in capitals (`EKCH`)."""
    arguments: dict[str, Any] = {}
    numbers = re.findall(r"\d+", words)
    codes = re.findall(r"\b[A-Z0-9]{3,}\b", re.sub(r"\b([A-Z])[-. ]{0,2}(?=[A-Z]\b)", r"\1", words))
    for name in (tool.get("parameters") or {}).get("required") or ():
        schema = _properties(tool).get(name) or {}
        kind = str(schema.get("type", "string")).lower()
        if choices := schema.get("enum"):
            found = [each for each in choices if _words(str(each)) <= _words(words)]
        elif kind in _NUMBERS:
            found = [_NUMBERS[kind](number) for number in numbers]
        else:
            found = codes if kind == "string" else []
        if not found:
            return None
        arguments[name] = found[0]
    return arguments


class OfflineSenses:
    """The offline recogniser and voice, for a service that waits for them.

    They work in a thread with an event loop of its own: the emulators hear and speak in plain
    function calls. `async with` loads the models, which takes a second, and frees them. Raises
    `ModelError`.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="senses", daemon=True)
        self._end: asyncio.Event | None = None
        self._recogniser: Recogniser | None = None
        self._voice: Voice | None = None

    def listen(self, sound: bytes, rate: int) -> str:
        """Return the words in s16 sound at `rate`. Blocks."""
        if self._recogniser is None:
            return ""
        pcm = resample_pcm(sound, rate, 8000)
        return self._wait(self._recogniser.transcribe(pcm)).text

    def speak(self, text: str, rate: int) -> bytes:
        """Return the text as s16 sound at `rate` (see `Speaker`). Blocks."""
        return self._wait(self._spoken(text, rate))

    async def _spoken(self, text: str, rate: int) -> bytes:
        if self._voice is None:
            return b""
        return b"".join([pcm async for pcm in self._voice.speak(text, rate=rate)])

    async def _serve(self, ready: Future[None]) -> None:
        """Hold the models until the end."""
        workers = Workers()
        try:
            models = await load_offline_models(workers)
            self._recogniser, self._voice = models.recogniser, models.voice
            self._end = asyncio.Event()
            ready.set_result(None)
            await self._end.wait()
            models.close()
        finally:
            await workers.close()

    def _wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    @asynccontextmanager
    async def loaded(self) -> AsyncIterator[OfflineSenses]:
        """Load the models, and free them at the end. Raises `ModelError`."""
        self._thread.start()
        ready: Future[None] = Future()
        serving = asyncio.run_coroutine_threadsafe(self._serve(ready), self._loop)
        try:
            waited = [asyncio.wrap_future(ready), asyncio.wrap_future(serving)]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
            yield self
        finally:
            if self._end is not None:
                self._loop.call_soon_threadsafe(self._end.set)
                await asyncio.wrap_future(serving)
            self._loop.call_soon_threadsafe(self._loop.stop)
            await asyncio.to_thread(self._thread.join)
            self._loop.close()
