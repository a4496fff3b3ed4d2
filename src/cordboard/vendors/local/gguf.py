"""A language model in a GGUF file: llama.cpp (xllamacpp) in this process, in its own thread.

It has the interface of OpenAI's Chat Completions. It gives one answer at a time; a waiting request
has `wait_ms`, and then `first_token_ms` for its first word. A cancelled answer stops at its next
token or, while the prompt is still being read, after the next `BATCH_TOKENS`. The text that it has
read stays in memory: the next turn of the same conversation only reads the new part, and the
beginning of a conversation can be read before it is needed (`read_ahead`).

Tools are called in text (`cordboard.vendors.local.tools_in_text`), within a grammar where llama.cpp
was built with llguidance, as in the wheels for Linux.

While the file is being loaded, xllamacpp (2026.10) keeps Python's interpreter lock: nothing else of
the engine runs for some seconds. So the engine loads it at start-up, before there are calls.

llama.cpp parses the file: use one that you trust.
"""

from __future__ import annotations

import asyncio
import importlib.util
import secrets
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import structlog

from cordboard.agent_api.language_model import (
    Finished,
    ModelEvent,
    ModelRequest,
    TextPiece,
    ToolWish,
)
from cordboard.agents.llm.wire import Broken, Read
from cordboard.agents.llm.written_calls import WrittenCalls
from cordboard.errors import BrainError
from cordboard.net.server_events import ServerSentEvent
from cordboard.tools.payload import DEFAULT_LIMITS, PayloadLimits
from cordboard.tools.schema_profiles import SchemaProfile
from cordboard.tools.tool import JsonObject
from cordboard.vendors.local.config import GgufBrain
from cordboard.vendors.local.tools_in_text import (
    UNSAID_BIAS,
    chat_messages,
    grammar,
    question,
    unsaid,
)
from cordboard.vendors.openai.chat_completions import OpenAIChatWire
from cordboard.vendors.openai.config import OpenAIChatBrain
from cordboard.vendors.openai.limits import OPENAI_CHAT

PREFIX_MEMORY_MB = 512
"""Memory for the beginnings of several contexts, besides the one in use (llama.cpp's `cache_ram`):
about 30 kB a token with a model of 1.5 billion parameters."""
BATCH_TOKENS = 128
"""Tokens of a prompt after which llama.cpp reports its progress, and can be stopped."""
FREE_SECONDS = 0.1
"""Time in which a free model takes a request; a longer wait is for other answers, and logged."""

log = structlog.get_logger()


def gguf_problem(settings: GgufBrain) -> BrainError | None:
    """Return the reason why such a model cannot be loaded, as far as it is known without loading
    it."""
    if importlib.util.find_spec("xllamacpp") is None:
        words = "a GGUF model needs the extra local-llm: pip install 'cordboard[local-llm]'"
        return BrainError(words, "internal")
    if not Path(settings.model).is_file():
        return BrainError(f"there is no file {settings.model}", "internal")
    return None


class GgufModel:
    """Implements `LanguageModel` and `ReadsAhead`. Made without an event loop."""

    provider = "gguf"

    def __init__(self, settings: GgufBrain) -> None:
        self._settings = settings
        spoken = OpenAIChatBrain(
            type="openai_chat",
            model=Path(settings.model).name,
            temperature=settings.temperature,
            top_p=settings.top_p,
            max_tokens=settings.max_tokens,
            extra={"cache_prompt": True, "return_progress": True},
        )
        self._wire = OpenAIChatWire(spoken)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gguf")
        self._server: Any = None
        self._waiting: set[threading.Event] = set()
        """Answers that the model has not begun; each has its `given_up`."""
        self._grammars = False
        """True if llama.cpp understands the grammars of `tools_in_text`."""

    @property
    def model(self) -> str:
        return self._wire.model

    @property
    def schemas(self) -> SchemaProfile:
        return OPENAI_CHAT

    @property
    def payload(self) -> PayloadLimits:
        return DEFAULT_LIMITS

    def load(self) -> None:
        self._thread.submit(self._loaded).result()

    def warm(self) -> None:
        """Do nothing: there is nothing to connect."""

    def read_ahead(self, beginning: ModelRequest) -> Future[None]:
        reading: Future[None] = Future()
        self._thread.submit(self._read, beginning, reading)
        return reading

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        loop = asyncio.get_running_loop()
        chunks: asyncio.Queue[JsonObject | None] = asyncio.Queue()
        given_up = threading.Event()

        def take(chunk: JsonObject) -> bool:
            """Called in the model's thread; return True to stop the answer."""
            if not given_up.is_set() and "prompt_progress" not in chunk:
                try:
                    loop.call_soon_threadsafe(chunks.put_nowait, chunk)
                except RuntimeError:  # the loop is closed
                    given_up.set()
            return given_up.is_set()

        self._waiting.add(given_up)
        working = loop.run_in_executor(self._thread, self._work, request, take, given_up)
        working.add_done_callback(lambda _: chunks.put_nowait(None))
        try:
            await self._its_turn(chunks)
            reader = self._wire.reader()
            calls = _CheckedCalls(request, self._settings)
            seconds = self._settings.first_token_ms / 1000
            while (chunk := await self._next(chunks, seconds)) is not None:
                seconds = self._settings.stall_ms / 1000
                for read in reader.take(ServerSentEvent(data=orjson.dumps(chunk).decode())):
                    if isinstance(read, Broken):
                        raise BrainError(f"the model gave up: {read.message}", read.kind)
                    for event in calls.take(read):
                        yield event
            error = working.exception()
            if error is not None:
                raise BrainError(f"the model failed: {error}") from error
            whole = reader.end()
            if not whole:
                raise BrainError("the model ended in the middle of its answer", "dropped")
            for read in whole:
                for event in calls.take(read):
                    yield event
        finally:
            given_up.set()

    async def close(self) -> None:
        """Free the model's memory when its current work is done. Idempotent."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._unload)

    async def _its_turn(self, chunks: asyncio.Queue[JsonObject | None]) -> None:
        """Wait until the model takes this request."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(max(self._settings.wait_ms / 1000, FREE_SECONDS)):
                await chunks.get()
        except TimeoutError:
            log.warning("gguf_busy", model=self.model, waited_ms=self._settings.wait_ms)
            raise BrainError("the model is busy with other answers", "quota") from None
        waited = time.monotonic() - began
        if waited >= FREE_SECONDS:
            log.info("gguf_waited", model=self.model, waited_ms=round(waited * 1000))

    @staticmethod
    async def _next(chunks: asyncio.Queue[JsonObject | None], seconds: float) -> JsonObject | None:
        try:
            async with asyncio.timeout(seconds):
                return await chunks.get()
        except TimeoutError:
            raise BrainError("the model has fallen silent", "stalled") from None

    # In the model's thread.

    def _work(
        self,
        request: ModelRequest,
        take: Callable[[JsonObject], bool],
        given_up: threading.Event,
    ) -> None:
        self._waiting.discard(given_up)
        if not take(_BEGUN):
            self._loaded().handle_chat_completions(self._body(request), take)

    def _body(self, request: ModelRequest) -> JsonObject:
        if self._settings.tool_calls == "template":
            return self._wire.body(request)
        body = self._wire.body(replace(request, tools=()))
        body["messages"] = chat_messages(request)
        if self._grammars:
            body["grammar"] = grammar(request)
            body["logit_bias"] = UNSAID_BIAS if request.tools else []
        return body

    def _read(self, beginning: ModelRequest, reading: Future[None]) -> None:
        """Read a beginning into the memory of a loaded model. An answer comes first: the reading
        stops, and continues after it. It ends when `reading` is cancelled, with its call. Raises
        nothing: a failure is that of the first answer too, which reports it."""

        def stops() -> bool:
            return bool(self._waiting) or reading.cancelled()

        if self._server is not None and not stops():
            self._read_now(beginning, stops)
        if self._server is not None and self._waiting:
            self._thread.submit(self._read, beginning, reading)
            return
        with suppress(InvalidStateError):  # cancelled
            reading.set_result(None)

    def _read_now(self, beginning: ModelRequest, stops: Callable[[], bool]) -> None:
        began = time.monotonic()
        last: JsonObject = {}

        def take(chunk: JsonObject) -> bool:
            last.update(chunk)
            return stops()

        try:
            body = {**self._body(beginning), "max_tokens": 0}
            self._server.handle_chat_completions(body, take)
        except (RuntimeError, ValueError) as error:
            last["error"] = str(error)
        if stops():
            return
        if last.get("error"):
            log.warning("gguf_not_read_ahead", model=self.model, reason=str(last["error"])[:200])
            return
        tokens = (last.get("timings") or {}).get("prompt_n")
        took = round((time.monotonic() - began) * 1000)
        log.info("gguf_read_ahead", model=self.model, tokens=tokens, took_ms=took)

    def _loaded(self) -> Any:
        """Return the model; the first user loads it. Raises `BrainError`."""
        if self._server is None:
            problem = gguf_problem(self._settings)
            if problem is not None:
                raise problem
            import xllamacpp

            settings = self._settings
            params = xllamacpp.CommonParams()
            params.model.path = settings.model
            params.n_ctx = settings.n_ctx
            params.n_batch = BATCH_TOKENS
            params.n_parallel = 1
            params.cache_ram_mib = PREFIX_MEMORY_MB
            params.cpuparams.n_threads = settings.n_threads
            params.cpuparams_batch.n_threads = settings.n_threads
            params.use_jinja = True
            params.prefill_assistant = False  # a beginning ends with words of the agent
            params.verbosity = -1
            # llama.cpp also listens on a port of the loopback interface; only we may use it.
            params.api_keys = [secrets.token_hex()]
            began = time.monotonic()
            try:
                self._server = xllamacpp.Server(params)
            except RuntimeError as error:
                raise BrainError(f"{settings.model} cannot be loaded: {error}") from error
            took = round((time.monotonic() - began) * 1000)
            form = xllamacpp.json_schema_to_grammar({"type": "object"})
            self._grammars = form.startswith("%llguidance")
            log.info("gguf_loaded", model=self.model, grammars=self._grammars, took_ms=took)
        return self._server

    def _unload(self) -> None:
        self._server = None


_BEGUN: JsonObject = {}
"""Stands in the queue for the moment at which the model takes a request."""


class _CheckedCalls:
    """Finds the calls in an answer's text; one that lacks arguments becomes a question."""

    def __init__(self, request: ModelRequest, settings: GgufBrain) -> None:
        self._request = request
        self._settings = settings
        self._calls = WrittenCalls(request.tools)

    def take(self, read: Read) -> Iterator[ModelEvent]:
        match read:
            case Broken():
                return
            case TextPiece(text) if self._settings.tool_calls == "text":
                yield from map(self._checked, self._calls.feed(text))
            case Finished(reason):
                yield from map(self._checked, self._calls.flush(cut=reason == "length"))
                yield read
            case _:
                yield read

    def _checked(self, piece: TextPiece | ToolWish) -> TextPiece | ToolWish:
        missing = unsaid(piece, self._request) if isinstance(piece, ToolWish) else ()
        return TextPiece(question(missing, self._settings.missing_arguments)) if missing else piece
