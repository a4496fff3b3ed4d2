"""One simulated call, for `cordboard demo` and `cordboard call`: an engine, a caller, a record.

The engine runs in this process on free ports, so that nothing on the machine is disturbed; the
caller reaches it by a real AudioSocket connection, or by SIP through a throw-away real Asterisk.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import orjson

from cordboard import private_files
from cordboard.agent_api.tts import Voice
from cordboard.agent_api.workers import Workers
from cordboard.calls.events import LedgerEvent, Offered
from cordboard.calls.history import CallHistory, find, ledgers, read_lines
from cordboard.calls.picture import draw
from cordboard.config.load import ConfigSource
from cordboard.config.schema import Asterisk, AudioSocket, Config, Health
from cordboard.config.sections.admin import AdminUi
from cordboard.errors import AsteriskError, CallOver, CallRefused, ConfigError, ConfigProblem
from cordboard.runtime.engine import Engine
from cordboard.vendors.local.models import load_offline_models
from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.audiosocket_caller import SimulatedCaller
from cordboard_testkit.scenario import Conversation, ConversationRecord, ScriptLine
from cordboard_testkit.sip import PhoneCall, SipPhone

PATIENCE = 60.0
"""Seconds within which an answer must begin, and end: a long weather report takes half a minute."""
SETTLE_SECONDS = PATIENCE
CALLS_PER_MINUTE = 600
"""The benchmarks place more calls than an engine accepts from its port by default."""
Via = Literal["audiosocket", "sip"]
CallerLine = SimulatedCaller | PhoneCall
Listener = Callable[[str, int, LedgerEvent], None]


@dataclass(slots=True)
class PlacedCall:
    """A finished call, as both sides saw it."""

    line: CallerLine
    record: ConversationRecord
    offered_at: float | None = None
    """`time.monotonic()` at which the engine got the call."""
    ledger: list[dict[str, object]] = field(default_factory=list)

    @property
    def history(self) -> CallHistory:
        return CallHistory.from_lines(self.ledger)


class Bench:
    """An engine for simulated calls, and the caller's transport to it."""

    def __init__(
        self, engine: Engine, config: Config, via: Via, asterisk: AsteriskInstance | None
    ) -> None:
        self.engine = engine
        self._config = config
        self._via = via
        self.asterisk = asterisk
        self.offered: list[tuple[str, float]] = []
        """Call id and `time.monotonic()` of every offer the engine got."""

    async def place(
        self,
        context: str,
        script: Sequence[ScriptLine],
        *,
        on_line: Callable[[str], None] | None = None,
        wait_for_hangup: float = 10.0,
    ) -> PlacedCall:
        """Place one call, speak the script, and wait until the engine has recorded it."""
        async with AsyncExitStack() as stack:
            line = await self._dial(stack, context)
            conversation = Conversation(
                line, patience=PATIENCE, on_line=on_line, owed=self._answer_owed
            )
            record = await conversation.run(script, wait_for_hangup=wait_for_hangup)
            await self.engine.calls_recorded()
            placed = PlacedCall(line, record)
            if self.offered:
                call_id, placed.offered_at = self.offered[-1]
                placed.ledger = self._ledger(call_id)
            return placed

    async def _dial(self, stack: AsyncExitStack, context: str) -> CallerLine:
        if self.asterisk is None:
            return await stack.enter_async_context(
                SimulatedCaller("127.0.0.1", self.engine.audiosocket_port)
            )
        phone = await stack.enter_async_context(SipPhone("caller"))
        return await phone.call(self.asterisk.sip_uri(f"ctx-{context}"))

    async def _answer_owed(self) -> bool:
        if not self.offered:
            return False
        lines = await asyncio.to_thread(self._ledger, self.offered[-1][0])
        return CallHistory.from_lines(lines).answer_owed

    def _ledger(self, call_id: str) -> list[dict[str, object]]:
        path = find(self._config.calls.directory, call_id)
        return [] if path is None else [dict(line) for line in read_lines(path)]


@asynccontextmanager
async def bench(
    config: Config,
    context: str,
    via: Via,
    directory: Path,
    listener: Listener | None = None,
    progress: Callable[[str], None] = lambda _: None,
    *,
    sheds_load: bool = True,
    page: AdminUi | None = None,
    source: ConfigSource | None = None,
) -> AsyncIterator[Bench]:
    """An engine with `config` on free ports; its ledgers go to `directory`. Without `sheds_load` it
    takes calls however busy the machine is. `page`: its admin port, in place of that of `config`;
    None: it has none. `source`: the file that the page shows."""
    if context not in config.contexts:
        known = ", ".join(config.contexts)
        raise ConfigError([ConfigProblem(f"there is no context {context!r}; known: {known}")])
    await asyncio.to_thread(make_folder, directory)
    async with AsyncExitStack() as stack:
        asterisk: AsteriskInstance | None = None
        if via == "sip":
            begun = time.monotonic()
            asterisk = await stack.enter_async_context(AsteriskInstance())
            progress(f"Asterisk is up ({time.monotonic() - begun:.1f} s)")
        config = _on_free_ports(config, context, directory, asterisk, page or AdminUi())
        heard: list[tuple[str, float]] = []

        def listen(call_id: str, at_ms: int, event: LedgerEvent) -> None:
            if isinstance(event, Offered):
                heard.append((call_id, time.monotonic()))
            if listener is not None:
                listener(call_id, at_ms, event)

        begun = time.monotonic()
        engine = Engine(config, listen, source, sheds_load=sheds_load)
        await engine.start()
        stack.push_async_callback(engine.stop, 0.0)
        progress(f"the engine is ready ({time.monotonic() - begun:.1f} s)")
        if not await engine.line_ready(SETTLE_SECONDS):
            raise AsteriskError("the engine did not reach its Asterisk")
        await engine.tools_settled(SETTLE_SECONDS)
        progress(f"MCP servers have settled ({time.monotonic() - begun:.1f} s)")
        place = Bench(engine, config, via, asterisk)
        place.offered = heard
        yield place


def make_folder(folder: Path) -> None:
    """Make a folder for the records of calls. Raises `ConfigError`."""
    try:
        private_files.make_folder(folder)
    except OSError as error:
        message = f"the call cannot be written to {folder}: {error.strerror or error}"
        raise ConfigError([ConfigProblem(message)]) from None


def voice_of(engine: Engine) -> Voice:
    """The engine's own voice: it speaks the caller's lines too. Raises `CallOver` without one."""
    voice = engine.voice
    if voice is None:
        raise CallOver("this configuration has no offline voice; give the caller WAV files instead")
    return voice


@asynccontextmanager
async def loaded_voice(*, needed: bool) -> AsyncIterator[Voice | None]:
    """The offline voice without an engine; None when there is no text to speak."""
    if not needed:
        yield None
        return
    workers = Workers()
    try:
        models = await load_offline_models(workers)
        yield models.voice
        models.close()
    finally:
        await workers.close()


async def call_target(
    config: Config,
    context: str,
    script: Sequence[ScriptLine],
    via: Via,
    host: str,
    port: int,
    on_line: Callable[[str], None],
) -> PlacedCall:
    """Call a running engine (or an Asterisk in front of one) instead of starting an engine.

    The ledger is found when `config` is that of the engine: an AudioSocket call's by its UUID, a
    SIP call's by the extension it dialled. Raises `CallRefused` when the call is not answered.
    """
    async with AsyncExitStack() as stack:
        line: CallerLine
        began = time.time()
        if via == "sip":
            phone = await stack.enter_async_context(SipPhone("caller"))
            call = await phone.call(f"sip:ctx-{context}@{host}:{port}")
            try:
                await call.answered()
            except TimeoutError:
                raise CallRefused(f"no SIP answer from {host}:{port}") from None
            line, mine = call, {"called_number": f"ctx-{context}"}
        else:
            caller = await stack.enter_async_context(SimulatedCaller(host, port))
            line, mine = caller, {"external_id": str(caller.uuid)}

        async def ledger() -> list[dict[str, object]]:
            return await asyncio.to_thread(_ledger_of, config.calls.directory, mine, began)

        async def answer_owed() -> bool:
            return CallHistory.from_lines(await ledger()).answer_owed

        conversation = Conversation(line, patience=PATIENCE, on_line=on_line, owed=answer_owed)
        record = await conversation.run(script, wait_for_hangup=5.0)
        return PlacedCall(line, record, ledger=await ledger())


def _ledger_of(directory: Path, offer: Mapping[str, str], since: float) -> list[dict[str, object]]:
    """The ledger of the call that was offered with these fields, begun after that `time.time()`;
    empty if there is none, or more than one."""
    found = []
    for path in ledgers(directory):
        with contextlib.suppress(OSError):  # it may be deleted meanwhile
            lines = read_lines(path) if path.stat().st_mtime >= since - 1 else []
            if not lines or not offer.items() <= lines[0].items():
                continue
            offered = datetime.datetime.fromisoformat(str(lines[0]["started_at"])).timestamp()
            if offered >= since - 1:
                found.append([dict(line) for line in lines])
    return found[0] if len(found) == 1 else []


def _on_free_ports(
    config: Config, context: str, directory: Path, asterisk: AsteriskInstance | None, page: AdminUi
) -> Config:
    ari = None
    if asterisk is not None:
        ari = Asterisk.model_validate(
            {
                "url": asterisk.ari_url,
                "username": asterisk.ari_user,
                "password": asterisk.ari_password,
                "app": asterisk.app,
            }
        )
    return config.model_copy(
        update={
            "health": Health(port=0),
            "audiosocket": _port_for(None if asterisk is not None else context),
            "asterisk": ari,
            "admin": config.admin.model_copy(update={"ui": page}),
            "calls": config.calls.model_copy(update={"directory": directory}),
        }
    )


def _port_for(context: str | None) -> AudioSocket:
    """Open to bare calls only when the callers come without Asterisk."""
    return AudioSocket(port=0, context=context, calls_per_minute=CALLS_PER_MINUTE)


def save(placed: PlacedCall, folder: Path) -> list[tuple[str, Path]]:
    """Write the recording (caller left, agent right), the ledger and the picture of a call."""
    make_folder(folder)
    recording, ledger, picture = (folder / f"call.{kind}" for kind in ("wav", "jsonl", "svg"))
    private_files.replace(recording, b"")
    placed.line.write_wav(recording)
    private_files.replace(ledger, b"".join(orjson.dumps(line) + b"\n" for line in placed.ledger))
    offset_ms = 0.0
    if placed.offered_at is not None:
        offset_ms = (placed.line.started_at() - placed.offered_at) * 1000
    caller, agent = placed.line.spoken(), placed.line.heard()
    drawing = draw(placed.history, caller, agent, offset_ms)
    private_files.replace(picture, drawing.encode("utf-8"))
    return [("recording", recording), ("ledger", ledger), ("picture", picture)]
