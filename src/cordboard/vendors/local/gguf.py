"""A language model in a GGUF file: llama.cpp (xllamacpp) in this process, in its own thread.

It has the interface of OpenAI's Chat Completions. It gives one answer at a time; a waiting request
has `first_token_ms`. A cancelled answer stops at its next token or, while the prompt is still being
read, when that is done. The text it has read stays in memory: the next turn of the same
conversation only reads the new part.

llama.cpp parses the file: use one that you trust.
"""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import structlog

from cordboard.agent_api.language_model import Finished, ModelEvent, ModelRequest
from cordboard.agents.llm.wire import Broken
from cordboard.errors import BrainError
from cordboard.net.server_events import ServerSentEvent
from cordboard.tools.payload import DEFAULT_LIMITS, PayloadLimits
from cordboard.tools.schema_profiles import SchemaProfile
from cordboard.tools.tool import JsonObject
from cordboard.vendors.local.config import GgufBrain
from cordboard.vendors.openai.chat_completions import OpenAIChatWire
from cordboard.vendors.openai.config import OpenAIChatBrain
from cordboard.vendors.openai.limits import OPENAI_CHAT

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
    """Implements `LanguageModel`. Made without an event loop."""

    provider = "gguf"

    def __init__(self, settings: GgufBrain) -> None:
        self._settings = settings
        spoken = OpenAIChatBrain(
            type="openai_chat",
            model=Path(settings.model).name,
            temperature=settings.temperature,
            top_p=settings.top_p,
            max_tokens=settings.max_tokens,
            extra={"cache_prompt": True},
        )
        self._wire = OpenAIChatWire(spoken)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gguf")
        self._server: Any = None

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

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        loop = asyncio.get_running_loop()
        chunks: asyncio.Queue[JsonObject | None] = asyncio.Queue()
        given_up = threading.Event()
        body = self._wire.body(request)

        def take(chunk: JsonObject) -> bool:
            """Called in the model's thread; return True to stop the answer."""
            if not given_up.is_set():
                try:
                    loop.call_soon_threadsafe(chunks.put_nowait, chunk)
                except RuntimeError:  # the loop is closed
                    given_up.set()
            return given_up.is_set()

        working = loop.run_in_executor(self._thread, self._work, body, take, given_up)
        working.add_done_callback(lambda _: chunks.put_nowait(None))
        try:
            reader = self._wire.reader()
            seconds = self._settings.first_token_ms / 1000
            while (chunk := await self._next(chunks, seconds)) is not None:
                seconds = self._settings.stall_ms / 1000
                for read in reader.take(ServerSentEvent(data=orjson.dumps(chunk).decode())):
                    if isinstance(read, Broken):
                        raise BrainError(f"the model gave up: {read.message}", read.kind)
                    yield read
            error = working.exception()
            if error is not None:
                raise BrainError(f"the model failed: {error}") from error
            whole = reader.end()
            if not whole:
                raise BrainError("the model ended in the middle of its answer", "dropped")
            for read in whole:
                if isinstance(read, Finished) or not isinstance(read, Broken):
                    yield read
        finally:
            given_up.set()

    async def close(self) -> None:
        """Free the model's memory when its current work is done. Idempotent."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._unload)

    @staticmethod
    async def _next(chunks: asyncio.Queue[JsonObject | None], seconds: float) -> JsonObject | None:
        try:
            async with asyncio.timeout(seconds):
                return await chunks.get()
        except TimeoutError:
            raise BrainError("the model has fallen silent", "stalled") from None

    # In the model's thread.

    def _work(self, body: JsonObject, take: Any, given_up: threading.Event) -> None:
        if not given_up.is_set():
            self._loaded().handle_chat_completions(body, take)

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
            params.n_parallel = 1
            params.cpuparams.n_threads = settings.n_threads
            params.cpuparams_batch.n_threads = settings.n_threads
            params.use_jinja = True
            params.verbosity = -1
            try:
                self._server = xllamacpp.Server(params)
            except RuntimeError as error:
                raise BrainError(f"{settings.model} cannot be loaded: {error}") from error
            log.info("gguf_loaded", model=self.model)
        return self._server

    def _unload(self) -> None:
        self._server = None
