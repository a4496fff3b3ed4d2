"""Hotlines: the real engine behind a real Asterisk, and callers with SIP phones who speak to it.

Everything is what a user has: Asterisk, SIP, the offline voices, MCP servers over stdio, the HTTP
port and the ledger on disk. A test sees only what a caller hears and an operator can look up.
Asterisk, the callers' voice and the models of the engines are shared by the whole folder, an engine
by the tests of a file.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import os
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import orjson
import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs
from structlog.typing import EventDict

from cordboard.agent_api.offline_models import OfflineModels
from cordboard.agent_api.workers import Workers
from cordboard.calls.events import (
    Answered,
    Answering,
    AudioEnded,
    AudioStarted,
    BargedIn,
    Ended,
    LedgerEvent,
    Offered,
)
from cordboard.calls.history import CallHistory, ledgers, read
from cordboard.config.load import ConfigSource, load
from cordboard.errors import BusAway
from cordboard.runtime.engine import Engine
from cordboard.telephony.asterisk import caller_side, rtp_media, rtp_path
from cordboard.telephony.asterisk.ari import AriClient
from cordboard.telephony.asterisk.websocket_path import WebsocketPath
from cordboard.vendors.local.models import load_offline_models
from cordboard_testkit.asterisk import AsteriskInstance
from cordboard_testkit.caller_voice import render_speech
from cordboard_testkit.child_process import start_child
from cordboard_testkit.free_ports import free_port
from cordboard_testkit.leaks import assert_line_clean
from cordboard_testkit.patience import PATIENCE, until
from cordboard_testkit.sip import PhoneCall, SipPhone
from cordboard_testkit.timeline import Samples
from cordboard_testkit.voice_line import CallEnd

from .configuration import REPOSITORY, TOKEN, Change, write_config
from .freepbx import QUEUE, freepbx_dialplan

DIALPLAN = """[from-test-extra]
exten => careful,1,Stasis(cordboard)
 same => n,GotoIf($["${CORDBOARD_STATUS}"="busy"]?busy)
 same => n,GotoIf($["${CORDBOARD_STATUS}"="unavailable"]?unavailable)
 same => n,Hangup()
 same => n(busy),Busy(1)
 same => n(unavailable),Congestion(1)
exten => attested,1,Set(CORDBOARD_ATTESTATION=A)
 same => n,Set(AI_CONTEXT=reception)
 same => n,Goto(careful,1)
exten => 4711,1,Set(ORDER=blue bicycle)
 same => n,Stasis(cordboard)
 same => n,Hangup()
exten => known,1,Set(KNOWN_NUMBER=+4790000003)
 same => n,Set(AI_CONTEXT=orders)
 same => n,Stasis(cordboard)
 same => n,Hangup()
exten => head-office,1,Answer()
 same => n,Wait(20)
 same => n,Hangup()
[queues]
exten => lonely,1,Queue(lonely,c,,,2)
 same => n,Stasis(cordboard,return,queue,${QUEUESTATUS})
 same => n,Hangup()
[mailboxes]
exten => _X.,1,VoiceMail(${EXTEN}@default,s)
 same => n,Stasis(cordboard,return,voicemail,${VMSTATUS})
 same => n,Hangup()
[refers]
exten => _[hn][eo].,1,Transfer(PJSIP/sip:${EXTEN}@${CHANNEL(pjsip,local_addr)})
 same => n,Stasis(cordboard,return,refer,${TRANSFERSTATUS})
 same => n,Hangup()
"""
VOICEMAIL = "[general]\nformat=wav\n[default]\n6001 => 1234,Front desk\n"
QUEUES = "[general]\n[lonely]\nstrategy=ringall\njoinempty=yes\n"

BEGINS = (AudioStarted, Answered)
"""The agent begins to be heard."""
SPEECH = (*BEGINS, AudioEnded, BargedIn, Ended)
"""It begins, or has come to an end."""

NOT_UNDERSTOOD = 20.0
"""Seconds after which a caller says a word again that was not understood."""

CALLERS: ContextVar[list[PhoneCall]] = ContextVar("CALLERS")
"""Those of a test that runs at the same time as others."""

Event = TypeVar("Event", bound=LedgerEvent)
Found = TypeVar("Found")


def processes(marker: str) -> list[int]:
    """Ids of the live processes that have `marker` in their command line."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if marker.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return [pid for pid in found if pid != os.getpid()]


async def http_get(port: int, path: str) -> tuple[int, bytes]:
    """Status and body; status 0 when nobody listens."""
    return await http_request(port, path, "GET", {})


async def http_request(
    port: int, path: str, method: str, headers: dict[str, str]
) -> tuple[int, bytes]:
    """The same for any request without a body."""
    url = f"http://127.0.0.1:{port}{path}"
    request = urllib.request.Request(url, method=method, headers=headers)

    def get() -> tuple[int, bytes]:
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, refusal.read()
        except OSError:
            return 0, b""

    return await asyncio.to_thread(get)


async def wait_ready(port: int, ready: bool = True, *, seconds: float = PATIENCE) -> None:
    """Until `/ready` says 200 (or no longer does)."""
    async with asyncio.timeout(seconds):
        while ((await http_get(port, "/ready"))[0] == 200) is not ready:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def eventually(
    look: Callable[[], Awaitable[object]], what: str, seen: Collection[object] = ()
) -> None:
    """Look until it is so; else say what was `seen` last. A look that cannot reach what it looks at
    is repeated."""
    deadline = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(BusAway, OSError):
            if await look():
                return
        assert time.monotonic() < deadline, f"{what}: {[*seen]}"
        await asyncio.sleep(0.05)


class Speech:
    """The callers' voice, and an ear that writes down what they heard."""

    def __init__(self, models: OfflineModels) -> None:
        self._models = models
        self._lines: dict[str, Samples] = {}

    async def say(self, text: str) -> Samples:
        """The sound of a line; rendered once."""
        if text not in self._lines:
            self._lines[text] = await render_speech(self._models.voice, text)
        return self._lines[text]

    async def understand(self, sound: Samples) -> str:
        """The words in the sound, in small letters."""
        pcm = sound.astype("<i2").tobytes()
        return (await self._models.recogniser.transcribe(pcm)).text.lower()


@dataclass
class Caller:
    """Somebody on the phone, and the engine's view of the same call."""

    line: PhoneCall
    number: str
    hotline: Hotline
    known_as: str = ""
    """The engine's name of this call, where the number does not tell it."""

    async def call_id(self) -> str:
        """The engine's name of this call, as soon as it has been offered."""
        if self.known_as:
            return self.known_as

        def look() -> str | None:
            for call_id, _, event in self.hotline.events:
                if isinstance(event, Offered) and event.caller_number == self.number:
                    return call_id
            return None

        return await self.hotline.seen(look, f"an offer of {self.number}")

    async def event(self, kind: type[Event], count: int = 1) -> Event:
        """The `count`-th event of a kind in this call's ledger, once it is there."""
        call_id = await self.call_id()

        def look() -> Event | None:
            matching = [event for event in self.hotline.of(call_id) if isinstance(event, kind)]
            return matching[count - 1] if len(matching) >= count else None

        return await self.hotline.seen(look, f"{kind.type} number {count} of {self.number}")

    async def greeted(self) -> float:
        """Until the first sound of the greeting; when that was."""
        await self.line.answered()
        return await self.line.hear_speech(after=-math.inf)

    async def listen(self) -> None:
        """Until the agent has said all it owes and the phone has heard it, however long the agent
        pauses in between."""
        call_id = await self.call_id()

        def over() -> bool | None:
            speech = [event for event in self.hotline.of(call_id) if isinstance(event, SPEECH)]
            return None if speech and isinstance(speech[-1], BEGINS) else True

        while True:
            await self.hotline.seen(over, f"the end of the answer to {self.number}")
            await self.line.hear_silence(700)
            if over():
                return

    async def told_after(self, kind: type[LedgerEvent], count: int = 1) -> None:
        """Until the phone has heard what the agent says next after the `count`-th event of a kind,
        however long the agent takes to begin."""
        call_id, first = await self.call_id(), await self.event(kind, count)

        def said() -> bool | None:
            events = iter(self.hotline.of(call_id))  # each search goes on behind the one before
            found = any(event is first for event in events)
            found = found and any(isinstance(event, Answering) for event in events)
            return (found and any(isinstance(event, AudioEnded) for event in events)) or None

        await self.hotline.seen(said, f"words after {kind.type} number {count} of {self.number}")
        await self.listen()

    async def greeted_to_the_end(self) -> None:
        await self.greeted()
        await self.listen()

    async def say(self, text: str) -> float:
        """Speak a line; when its last sample left."""
        self.line.say(await self.hotline.speech.say(text))
        return await self.line.said()

    async def says_goodbye(self) -> CallEnd:
        """Say goodbye until the agent hangs up: a busy machine may tear the word."""
        for _ in range(2):
            await self.say("Goodbye.")
            with contextlib.suppress(TimeoutError):
                return await self.line.ended(NOT_UNDERSTOOD)
        await self.say("Goodbye.")
        return await self.line.ended()

    async def ask(self, text: str) -> float:
        """Speak a line and hear the answer to its end; when the answer began."""
        call_id = await self.call_id()

        def answered() -> int:
            """The last turn of which something was heard."""
            begun = [event for event in self.hotline.of(call_id) if isinstance(event, BEGINS)]
            return max((event.turn for event in begun), default=-1)

        before = answered()
        began = await self.line.hear_speech(after=await self.say(text))
        await self.hotline.seen(lambda: answered() > before or None, f"an answer to {text!r}")
        await self.listen()
        return began

    async def heard(self, since: float = -math.inf) -> str:
        """What the caller heard since a moment, written down by a recogniser."""
        understand = self.hotline.speech.understand
        return " ".join([await understand(part) for part in self.line.utterances_heard(since)])

    async def history(self) -> CallHistory:
        """The call from its file on disk, once it is over."""
        return await self.hotline.history(await self.call_id())


@dataclass
class Hotline:
    """A running engine, and what an operator sees of it."""

    engine: Engine
    folder: Path
    asterisk: AsteriskInstance
    speech: Speech
    phone: SipPhone
    log: list[EventDict]
    """What the engine logged."""
    events: list[tuple[str, int, LedgerEvent]] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(4790000001))

    def take(self, call_id: str, at_ms: int, event: LedgerEvent) -> None:
        """The engine's listener."""
        self.events.append((call_id, at_ms, event))
        self._news.set()

    def of(self, call_id: str) -> list[LedgerEvent]:
        """The ledger events of one call so far."""
        return [event for name, _, event in self.events if name == call_id]

    async def seen(self, look: Callable[[], Found | None], what: str) -> Found:
        """Wait until the ledger events show what is looked for."""
        try:
            async with asyncio.timeout(PATIENCE):
                while (found := look()) is None:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            latest = "\n  ".join(f"{at} {event}" for _, at, event in self.events[-12:])
            raise AssertionError(f"waited for {what}; the latest events:\n  {latest}") from None
        return found

    async def dial(self, extension: str, **headers: str) -> Caller:
        """Place a call. `X_AI_Context="demo"` becomes the SIP header `X-AI-Context: demo`."""
        number = str(next(self._numbers))
        line = await self.phone.call(
            self.asterisk.sip_uri(extension),
            caller_number=number,
            headers={name.replace("_", "-"): value for name, value in headers.items()},
        )
        CALLERS.get([]).append(line)
        return Caller(line, number, self)

    def hang_up_all(self) -> None:
        """Whoever is still on the phone hangs up."""
        for call in self.phone.calls.values():
            call.hangup()

    async def idle(self) -> None:
        """Until no call is live, in the engine or in Asterisk."""
        async with asyncio.timeout(PATIENCE):
            await self.engine.registry.idle()
        await assert_line_clean(self.asterisk)

    async def history(self, call_id: str) -> CallHistory:
        return await finished_history(self.folder, call_id)

    def call_ids(self, numbers: Collection[str]) -> list[str]:
        """The engine's names of the calls of these callers, as far as they were offered."""
        offers = [(name, e) for name, _, e in self.events if isinstance(e, Offered)]
        return [name for name, offer in offers if offer.caller_number in numbers]

    def server_pid(self, server: str) -> int:
        """The process of an MCP server, as the log told when it became ready."""
        ready = [line for line in self.log if line["event"] == "mcp_server_ready"]
        return int(next(line["pid"] for line in reversed(ready) if line["server"] == server))

    def server_words(self, server: str) -> list[str]:
        """What an MCP server wrote to its log."""
        lines = [line for line in self.log if line["event"] == "mcp_stderr"]
        return [line["line"] for line in lines if line["server"] == server]

    async def ready(self, ready: bool = True) -> None:
        """Until `/ready` says so (or no longer does)."""
        await wait_ready(self.engine.http_port, ready)

    async def mcp_settled(self, server: str, state: str = "ready") -> None:
        """Until `/health` says that an MCP server is in this state."""
        async with asyncio.timeout(PATIENCE):
            while (await self.get("/health"))[1]["mcp_servers"][server]["state"] != state:  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def get(self, path: str) -> tuple[int, Any]:
        """An answer of the HTTP port to the operator, who has the token."""
        return await self._request("GET", path)

    async def post(self, path: str) -> tuple[int, Any]:
        """The same for a request that changes something."""
        return await self._request("POST", path)

    async def _request(self, method: str, path: str) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        status, body = await http_request(self.engine.http_port, path, method, headers)
        return status, orjson.loads(body)

    async def metric(self, name: str, **labels: str) -> float:
        """One figure of `/metrics`; 0 when there is no such series yet."""
        _, body = await http_get(self.engine.http_port, "/metrics")
        for family in text_string_to_metric_families(body.decode()):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return float(sample.value)
        return 0.0


async def finished_history(folder: Path, call_id: str = "*") -> CallHistory:
    """The only call of that id in a folder of ledgers, once its last line is written."""

    def finished() -> CallHistory | None:
        paths = list(folder.glob(f"*/{call_id}.jsonl"))
        if len(paths) != 1:
            return None
        history = read(paths[0])
        return history if history.outcome else None

    await until(lambda: finished() is not None)
    history = finished()
    assert history is not None
    return history


OpenHotline = Callable[..., contextlib.AbstractAsyncContextManager[Hotline]]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def asterisk() -> AsyncIterator[AsteriskInstance]:
    """One Asterisk for all whole calls. Missing, it is an error that says how to get it."""
    async with AsteriskInstance(
        dialplan=DIALPLAN + freepbx_dialplan(),
        files={"queues.conf": QUEUES + QUEUE, "voicemail.conf": VOICEMAIL},
    ) as instance:
        yield instance


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def speech() -> AsyncIterator[Speech]:
    """The callers' voice and ear; models of their own, so that the engine's are not touched."""
    workers = Workers()
    models = await load_offline_models(workers)
    yield Speech(models)
    models.close()
    await workers.close()


@pytest.fixture(scope="module", autouse=True)
def _lent_models(
    lend_models: Callable[[], contextlib.AbstractContextManager[None]],
) -> Iterator[None]:
    with lend_models():
        yield


@pytest.fixture(scope="module", autouse=True)
def _patient_engines() -> Iterator[None]:
    """Engine and test share an event loop, and each stall of it is one of the line, too: the
    engine's limits for Asterisk and its media are far above the stalls of a busy machine."""
    with pytest.MonkeyPatch.context() as patch:
        for made, name, seconds in (
            (AriClient, "request_seconds", 20.0),
            (WebsocketPath, "connect_seconds", 30.0),
        ):
            defaults = made.__init__.__kwdefaults__
            assert name in defaults
            patch.setitem(defaults, name, seconds)
        patch.setattr(rtp_media, "FLOOD_SECONDS", 10.0)
        patch.setattr(rtp_path, "CONNECT_SECONDS", 30.0)
        patch.setattr(caller_side, "ENTRY_SECONDS", 20.0)
        yield


@pytest.fixture(scope="session")
def open_hotline(
    asterisk: AsteriskInstance, speech: Speech, tmp_path_factory: pytest.TempPathFactory
) -> OpenHotline:
    """Starts an engine: `async with open_hotline(change) as hotline`."""

    @contextlib.asynccontextmanager
    async def opened(
        change: Change | None = None, *, settled: bool = True
    ) -> AsyncIterator[Hotline]:
        folder = tmp_path_factory.mktemp("hotline")
        loaded = load(write_config(folder, asterisk, change), os.environ)
        source = ConfigSource(loaded.path, os.environ, loaded.digests)
        with capture_logs() as log:
            async with SipPhone() as phone:
                engine = Engine(
                    loaded.config, lambda *entry: hotline.take(*entry), source, sheds_load=False
                )
                hotline = Hotline(engine, folder / "calls", asterisk, speech, phone, log)
                await engine.start()
                try:
                    await hotline.ready()
                    if settled:
                        await engine.tools_settled(PATIENCE)
                    yield hotline
                finally:
                    await engine.stop(grace=0)
        await assert_line_clean(asterisk)

    return opened


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared_hotline(open_hotline: OpenHotline) -> AsyncIterator[Hotline]:
    """The engine that the tests of one file share."""
    async with open_hotline() as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="session")
async def hotline(shared_hotline: Hotline) -> AsyncIterator[Hotline]:
    """The file's engine; after each test no call may be left in it, nor in Asterisk."""
    yield shared_hotline
    shared_hotline.hang_up_all()
    await shared_hotline.idle()

    async def no_audio() -> bool:
        return (await shared_hotline.get("/health"))[1]["audio"]["connections"] == 0

    await eventually(no_audio, "no audio connection is left")


@dataclass
class Program:
    """`cordboard run` as a process of its own."""

    folder: Path
    http_port: int
    audiosocket_port: int
    process: asyncio.subprocess.Process | None = None

    async def run(self) -> None:
        """Start it; returns at once."""
        command = [sys.executable, "-m", "cordboard", "run", "-c", str(self.config)]
        self.process = await start_child(command, folder=REPOSITORY, output=self.log)

    @property
    def config(self) -> Path:
        return self.folder / "ai-agent.yaml"

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    async def ended(self) -> int:
        """Its exit status."""
        assert self.process is not None
        return await asyncio.wait_for(self.process.wait(), PATIENCE)

    async def ready(self) -> None:
        """Until calls are taken and the MCP servers are up."""
        await wait_ready(self.http_port)
        await until(lambda: "server=aviation_atis tools" in self.log.read_text())

    def ledgers(self) -> list[Path]:
        return ledgers(self.folder / "calls")

    def histories(self) -> list[CallHistory]:
        return [read(path) for path in self.ledgers()]

    async def no_servers(self) -> None:
        """Until its servers are gone; they are not our children, so there is no event."""
        await until(lambda: not self.servers())

    def servers(self) -> list[int]:
        """Ids of its ATIS server's processes: those that name this folder's file."""
        return processes(str(self.folder / "aviation_atis.yaml"))


@pytest_asyncio.fixture(loop_scope="session")
async def program(asterisk: AsteriskInstance, tmp_path: Path) -> AsyncIterator[Program]:
    """A configured engine, to be `run` by the test; killed at the end if it still lives."""
    made = Program(tmp_path, free_port(), free_port())

    def change(tree: dict[str, Any]) -> None:
        tree["health"]["port"] = made.http_port
        tree["audiosocket"]["port"] = made.audiosocket_port
        tree["calls"]["shutdown_grace_ms"] = 500

    write_config(tmp_path, asterisk, change)
    yield made
    if made.process is not None and made.process.returncode is None:
        made.process.kill()
        await made.process.wait()
