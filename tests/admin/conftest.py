"""An admin port over calls and an engine that a test sets, and clients of every kind."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import functools
import json
import secrets
import time
import wave
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import httpx2
import pytest
from tests.history.ledgers import Told

from cordboard.accounts import passwords
from cordboard.accounts.audit import AuditLog
from cordboard.accounts.rights import EVERYWHERE, Grant, Permission, Role, Scope
from cordboard.accounts.store import Accounts
from cordboard.admin.application import BASE, AdminApplication
from cordboard.admin.config_process import Desk
from cordboard.admin.guard import Guard
from cordboard.admin.pace import Paces
from cordboard.admin.page import Page
from cordboard.admin.services import AdminServices, Editing
from cordboard.admin.table import ENDPOINTS
from cordboard.agent_api.tts import Voice
from cordboard.agents.provider_desk import ProviderDesk
from cordboard.agents.provider_health import ProviderHealth
from cordboard.agents.providers import Providers
from cordboard.alarms.notices import Notifier
from cordboard.alarms.readings import Live
from cordboard.alarms.watch import AlarmWatch
from cordboard.api.administration import ServerOperations
from cordboard.api.administration_view import Fix, ReloadReport, Step
from cordboard.api.app import ComponentState, EngineView
from cordboard.audio.pacer import Pacer
from cordboard.calls.call import Call, CallState
from cordboard.calls.call_registry import Aside
from cordboard.calls.offer import Offer
from cordboard.calls.outbound_order import OutboundOrder
from cordboard.calls.post_call.job import PostCallJob
from cordboard.chat.answer import Answer, ChatEvent
from cordboard.chat.session import ChatTest
from cordboard.chat.sessions import ChatSessions
from cordboard.chat.tool_examples import ToolExamples
from cordboard.chat.tool_trial import ToolTrials, TrialReport
from cordboard.chat.trial_runs import Draft, Trial, TrialRuns
from cordboard.config.drafts import Drafts
from cordboard.config.files import digest_of
from cordboard.config.load import ConfigSource, read
from cordboard.config.publish import publish
from cordboard.config.schema import Config
from cordboard.config.sections.admin import AdminUi
from cordboard.config.stored_secrets import StoredSecrets
from cordboard.config.versions import Author, Versions
from cordboard.config.workspace import Workspace
from cordboard.errors import ChatRefused, LineError, NotThere
from cordboard.firewall.counts import Counts
from cordboard.firewall.policy import Policy
from cordboard.firewall.usage import cap_usage
from cordboard.generation.tool_listing import ToolListing, ToolRow
from cordboard.history.erased import ErasedCalls
from cordboard.history.keeper import IndexKeeper
from cordboard.history.measured import Cell, Measured
from cordboard.history.sql_store import SqlHistoryStore
from cordboard.history.views import Views
from cordboard.observe.degradation import Degradation
from cordboard.observe.logging import KeptLog
from cordboard.observe.tool_usage import ToolUsage
from cordboard.observe.tool_usage_files import ToolUsageFiles
from cordboard.outbound.campaigns.callbacks import CallbackQueue
from cordboard.outbound.placed import PlacedCalls
from cordboard.outbound.placing import OutboundCalls
from cordboard.telephony.browser.source import BrowserCalls
from cordboard.telephony.dialled import Dialled, DialledLine
from cordboard.tools.tool import Effects, Status, ToolReply, ToolSpec
from cordboard_testkit.fake_administration import FakeAdministration
from cordboard_testkit.patience import PATIENCE

GOOD = "plum tangible orbit 41"
STORED = passwords.hashed(GOOD)
CONFIG = """
contexts: {demo: {variables: [ORDER]}, sales: {}}
tools: {transfer: {destinations: {desk: {target: "200"}, \
otto: {target: "201", endpoint: PJSIP/201, takeover: true}}}}
admin: {ui: {extensions: ["7??@phones"]}}
outbound: {enabled: true}
firewall: {country: "NO"}
"""
ALARMS = """
calls: {index: {enabled: true}}
alarms:
  rules:
    demo-busy: {measure: calls, above: 0, context: demo}
    sales-busy: {measure: calls, above: 0, context: sales}
    ledger: {component: ledger}
"""
TOOLS = tuple(
    ToolRow(name, "python", effects=effects, offered=True)
    for name, effects in (
        ("look", "read_only"),
        ("book", "idempotent"),
        ("delete", "destructive"),
    )
)
SPECS = tuple(ToolSpec(row.name, "python", "", {"type": "object"}) for row in TOOLS)

P = ParamSpec("P")
Result = TypeVar("Result")


class Clock:
    """Unix time, and monotonic time, that pass only when a test says so."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class ShownView:
    def __init__(self) -> None:
        self.components = {"ari": ComponentState(True), "agents": ComponentState(True)}

    def readiness(self) -> Mapping[str, ComponentState]:
        return self.components

    def counts(self) -> dict[str, Any]:
        return {"version": "1.2.3", "uptime_seconds": 5.5, "active_calls": 2, "max_calls": 100}

    def health(self) -> dict[str, Any]:
        lag = {"latest": 0.2, "p99": 1.5, "worst": 9.0, "times_blocked": 0, "longest_blocked": 0}
        return {
            **self.counts(),
            "active_calls": [{"call_id": "call-sales"}],
            "generation": 3,
            "generations": [
                {"number": 3, "version": "c7f3", "calls": 1},
                {"number": 2, "version": "9b1e", "calls": 1},
            ],
            "deferred": [{"what": "health.port", "until": "the engine is restarted"}],
            "event_loop_lag_ms": lag,
            "audio": {"late_ticks": 4, "skipped_ticks": 0},
            "degradation": {"level": 0, "given_up": []},
        }

    async def metrics(self) -> bytes:
        return b""


class LiveOperator:
    """Stands in for `OperatorControl`; the real one is tried in tests/calls/test_operator.py."""

    delay_ms = 1_500
    listened = 0

    def __init__(self, call: LiveCall) -> None:
        self._call = call
        self.asked: list[tuple[str, ...]] = []
        self.failure: Exception | None = None
        self.may_listen = True
        self.frames: list[bytes] = []
        self.listening = asyncio.Event()
        self.over = asyncio.Event()

    def _ask(self, *asked: str) -> None:
        if self.failure is not None:
            raise self.failure
        self.asked.append(asked)

    async def say(self, text: str, who: str, *, interrupt: bool = False) -> bool:
        self._ask("say", text, who, *(["interrupt"] if interrupt else []))
        return True

    def hint(self, text: str, who: str) -> None:
        self._ask("hint", text, who)

    def flag(self, text: str, who: str) -> None:
        self._ask("flag", text, who)

    def verify(self, who: str) -> None:
        self._ask("verify", who)

    async def transfer(self, destination: str) -> None:
        self._ask("transfer", destination)

    async def take_over(self, destination: str, who: str) -> None:
        self._ask("take_over", destination, who)

    async def confer(self, destination: str, who: str, *, quiet: bool) -> None:
        self._ask("confer", destination, who, *(["quiet"] if quiet else []))

    async def whisper(self, text: str, who: str, to: str) -> bool:
        self._ask("whisper", text, who, to)
        return True

    def hang_up(self, reason: str, who: str) -> None:
        self._ask("hang_up", reason, who)
        self._call.end("completed", "operator_hangup")

    @contextlib.contextmanager
    def listen(self, who: str) -> Iterator[Any]:
        self._ask("listen", who)
        yield LiveListener(self)
        self._ask("listened", who)


class LiveListener:
    encoding, rate, from_ms, too_slow = "slin", 8000, 40, False

    def __init__(self, operator: LiveOperator) -> None:
        self._operator = operator

    async def frames(self) -> AsyncIterator[bytes]:
        for frame in self._operator.frames:
            yield frame
        self._operator.listening.set()
        await self._operator.over.wait()

    def end(self) -> None:
        self._operator.over.set()


class LiveAdmission:
    draining_since: datetime.datetime | None = None
    overloaded = False

    def begin_drain(self) -> None:
        self.draining_since = datetime.datetime(2026, 11, 23, 12, tzinfo=datetime.UTC)

    def end_drain(self) -> None:
        self.draining_since = None


@dataclass
class LiveCall:
    call_id: str
    context_name: str
    provider_name: str = "local"
    state: CallState = CallState.TALKING
    cost: float | None = 0.25
    currency: str = "EUR"
    source: str = "asterisk"
    recording: str = "off"
    conversation: Any = None
    ledger_path: Path = Path()
    outbound: Any = None
    ended: list[tuple[str, str]] = field(default_factory=list)
    operator: LiveOperator = field(init=False)
    started_at: datetime.datetime = field(
        default_factory=lambda: datetime.datetime.now().astimezone()
    )

    def __post_init__(self) -> None:
        self.operator = LiveOperator(self)

    @property
    def offer(self) -> Offer:
        nothing: Any = None
        return Offer(
            self.call_id, self.source, nothing, nothing, "+4930123456", "Erika Mustermann", "1000",
            outbound=self.outbound,
        )  # fmt: skip

    def end(self, outcome: str, reason: str) -> None:
        self.ended.append((outcome, reason))


class LiveTrials:
    def __init__(self) -> None:
        self.tried: list[tuple[str, str, dict[str, Any]]] = []
        self.effects: list[list[Effects]] = []

    async def run(
        self, name: str, context: str, arguments: dict[str, Any], **more: Any
    ) -> TrialReport:
        self.tried.append((name, context, arguments))
        self.effects.append(more["effects"])
        reply = ToolReply("1.1", name, Status.OK, "It is done.", {"rows": [1]})
        payload = {"payload": {"rows": [1]}, "bytes": 12, "cut": []}
        return TrialReport("try-1", "run", reply, {"pipeline": payload})


class Beep:
    """A voice of one tone; it waits while a test holds it."""

    def __init__(self) -> None:
        self.may_speak = asyncio.Event()
        self.may_speak.set()
        self.prepared: list[str] = []

    async def speak(self, text: str, *, rate: int = 8000) -> AsyncIterator[bytes]:
        await self.may_speak.wait()
        yield b"\1\0" * rate

    async def prepare(self, texts: Iterable[str], *, rate: int = 8000) -> None:
        self.prepared += texts


class LiveFleet:
    leases: Mapping[str, Any] = {}

    def status(self) -> tuple[()]:
        return ()

    async def wait_settled(self, timeout: float) -> bool:
        return True


class LiveRuns:
    """One trial of each context, which belongs to everybody."""

    def __init__(self) -> None:
        self.begun: list[tuple[Draft, str]] = []
        self.ended: list[tuple[str, str]] = []
        self.failure: Exception | None = None

    async def begin(self, draft: Draft, who: str) -> Trial:
        if self.failure is not None:
            raise self.failure
        self.begun.append((draft, who))
        return self.find("trial-demo", who)

    def find(self, trial_id: str, who: str) -> Trial:
        context = trial_id.removeprefix("trial-")
        if context not in ("demo", "sales"):
            raise NotThere(f"there is no trial {trial_id}")
        return Trial(
            id=trial_id,
            owner=who,
            context=context,
            generation=cast(Any, SimpleNamespace(version="ab12", fleet=LiveFleet())),
            providers=cast(Any, None),
            problems=(),
            expires_at=datetime.datetime.now().astimezone(),
        )

    def of(self, who: str) -> list[Trial]:
        return [self.find("trial-demo", who)]

    async def end(self, trial_id: str, who: str) -> None:
        self.ended.append((trial_id, who))


class LiveChat:
    def __init__(self, context: str) -> None:
        self.session_id, self.context_name = f"chat-{context}", context
        self.opening = SimpleNamespace(
            provider_name="local",
            model="rules",
            notice="",
            version="ab12",
            toolbox=SimpleNamespace(specs=[], missing=[]),
        )
        self.taken: list[str | None] = []
        self.asks = False
        self.ended: list[tuple[str, str]] = []

    def take(self, message: str | None) -> Answer:
        self.taken.append(message)
        answer = Answer()
        answer.put(ChatEvent("done", {"state": "open"}))
        answer.end()
        return answer

    async def end(self, outcome: str, reason: str) -> None:
        self.ended.append((outcome, reason))


class LiveChats:
    """One conversation in each context, which belongs to everybody."""

    def __init__(self) -> None:
        self.chats = {f"chat-{name}": LiveChat(name) for name in ("demo", "sales")}
        self.opened: list[tuple[str | None, Mapping[str, str], str | None, ChatTest]] = []

    def open(
        self, context: str | None, given: Mapping[str, str], model: str | None, *, test: ChatTest
    ) -> LiveChat:
        self.opened.append((context, given, model, test))
        return LiveChat(context or "demo")

    def find(self, chat_id: str, owner: str) -> LiveChat:
        if chat_id not in self.chats:
            raise ChatRefused("unknown_session", "there is no such conversation")
        return self.chats[chat_id]


class Administration(FakeAdministration):
    source: ConfigSource
    versions: Versions

    async def publish(self, text: str, base: str, author: Author) -> ReloadReport:
        path, environ = self.source.path, self.source.environ
        await asyncio.to_thread(publish, text, base, author, path, self.versions, environ)
        return await super().publish(text, base, author)

    def tools(self, context: str | None = None) -> ToolListing:
        return ToolListing(context, TOOLS, SPECS)


class Outbox:
    async def put(self, jobs: Iterable[PostCallJob]) -> bool:
        return True


class ChecksHere:
    """The work of `ConfigProcess`, without a process."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    def run(
        self,
        running: Config,
        environ: Mapping[str, str],
        work: Callable[Concatenate[Desk, P], Result],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Result:
        return work(Desk(self.workspace, running, environ), *args, **kwargs)

    def close(self) -> None:
        """Nothing is held."""


@functools.cache
def configured(text: str) -> Config:
    """Read a configuration once for all rooms: it cannot be changed, and no room asks for its
    place."""
    return read(text, Path("agent.yaml"), {}).config


class Room:
    """One port, with its users."""

    def __init__(self, folder: Path, settings: AdminUi, **limits: Any) -> None:
        self.clock = Clock()
        self.accounts = Accounts(folder / "admin", clock=self.clock)
        self.audit = AuditLog(folder / "admin" / "audit.jsonl", self.clock)
        self.fake = Administration()
        self.view = ShownView()
        self.trials = LiveTrials()
        self.usage = ToolUsage()
        self.provider_health = ProviderHealth(self.clock)
        self.degradation = Degradation()
        self.voice = Beep()
        self.offers: list[Offer] = []
        self.tested: list[str] = []
        """Contexts of the test calls."""
        loop = asyncio.get_running_loop()
        self.orders: list[OutboundOrder] = []
        """Outbound calls that were placed."""
        self.counts = Counts()
        path = folder / "agent.yaml"
        path.write_text(CONFIG)
        config = configured(CONFIG)
        campaigns = {"campaigns": folder / "campaigns.db"}
        outbound = config.outbound.model_copy(update=campaigns)
        self.running = config.model_copy(update={"outbound": outbound})
        self.placed = PlacedCalls(self.running.outbound.campaigns)
        self.outbound = OutboundCalls(
            lambda: self.running,
            lambda order, _: self.orders.append(order),
            self.policy,
            self.counts,
            CallbackQueue(self.running.outbound.campaigns).is_blocked,
            self.placed,
        )
        self.browser_calls = BrowserCalls(Pacer(loop), self._offered, self._dial)
        self.runs, self.chats = LiveRuns(), LiveChats()
        self.admission = LiveAdmission()
        self.calls = {
            each.call_id: each
            for each in (LiveCall("call-demo", "demo"), LiveCall("call-sales", "sales"))
        }
        self.fake.source = ConfigSource(path, {})
        self.fake.versions = Versions(folder / "admin" / "versions", path)
        self.errors: list[str] = []
        self.ended: list[tuple[str, Measured]] = []
        """Calls that alarms count."""
        self.outbox = Outbox()
        watched = configured(CONFIG + ALARMS)
        self.alarms = AlarmWatch(
            lambda: watched,
            lambda: Live({"ledger": "disk full"}),
            lambda _: self.ended,
            Notifier(lambda: watched, self.outbox),
            folder / "alarms.json",
            ErasedCalls(folder / "calls"),
        )
        self.calls_folder = folder / "calls"
        self.on_record = [Told(f"call-{name}", context=name) for name in ("demo", "sales")]
        """Ledgers that are there from the beginning."""
        self.has_history = True
        self.keeper: IndexKeeper | None = None
        self.may_check = asyncio.Event()
        """Unless set, a check of the set-up goes on."""
        self.may_check.set()
        self.services = AdminServices(
            accounts=self.accounts,
            audit=self.audit,
            view=cast(EngineView, self.view),
            operations=ServerOperations(self.fake),
            calls=lambda: cast(Mapping[str, Call], self.calls),
            admission=self.admission,
            trials=cast(ToolTrials, self.trials),
            usage=ToolUsageFiles(self.usage, folder / "calls"),
            examples=ToolExamples(folder / "admin"),
            providers=self._provider_desk(config),
            browser=self.browser_calls,
            outbound=self.outbound,
            caps=lambda: cap_usage(self.policy(), self.counts, self.running.contexts),
            runs=cast(TrialRuns, self.runs),
            chats=cast(ChatSessions, self.chats),
            config=lambda: self.running,
            source=self.fake.source,
            editing=self.editing(),
            versions=None,
            history=self._history,
            views=Views(folder / "admin" / "views.json"),
            scenarios=folder / "admin" / "evaluations",
            setup=self._setup,
            place_test_call=self._place_test_call,
            alarms=self.alarms,
            log=KeptLog(),
            internal_error=self.errors.append,
            paces=Paces(self.clock),
            port=lambda: 15001,
            public_address="http://127.0.0.1:15001",
        )
        self.page = Page.read(folder / "assets")
        self.app = AdminApplication(ENDPOINTS, self.services, Guard(settings), self.page, **limits)

    def _provider_desk(self, config: Config) -> ProviderDesk:
        return ProviderDesk(
            lambda: config,
            lambda: cast(Providers, self),
            self.provider_health,
            {},
            self.degradation,
        )

    @property
    def unmade(self) -> dict[str, str]:
        """Providers whose plug-ins cannot make them."""
        return {}

    def voice_of(self, provider: str) -> Voice:
        return self.voice

    def editing(self, *, writes: bool = True) -> Editing:
        folder, source = self.audit.path.parent, self.fake.source
        workspace = Workspace(source.path, source.environ, self.fake.versions, writes=writes)
        return Editing(
            workspace,
            ChecksHere(workspace),
            Drafts(folder / "drafts", self.clock),
            StoredSecrets(folder),
            lambda: (3, ""),
        )

    def use(self, text: str, **environ: str) -> str:
        """Have another file, which is in force; return its digest."""
        path = self.fake.source.path
        path.write_text(text)
        self.fake.source = self.services.source = ConfigSource(path, environ)
        self.services.editing = self.editing()
        self.running = read(text.removeprefix("\ufeff"), path, environ).config
        return digest_of(path.read_bytes())

    def _offered(self, offer: Offer, aside: Aside | None = None) -> None:
        self.offers.append(offer)

    async def _dial(self, dialled: Dialled) -> DialledLine:
        raise LineError(f"there is no {dialled.extension} here")

    def policy(self) -> Policy:
        return Policy(self.running.firewall, self.running.destinations)

    def _history(self) -> IndexKeeper | None:
        """Begun at its first use: most tests have none."""
        if self.keeper is None and self.has_history:
            for each in self.on_record:
                each.write(self.calls_folder)
            self.keeper = IndexKeeper(self.calls_folder, SqlHistoryStore(self.calls_folder))
            self.keeper.start()
            self.keeper.catch_up()
        return self.keeper

    def close(self) -> None:
        self.services.close()
        if self.keeper is not None:
            self.keeper.close()

    async def _place_test_call(self, context: str) -> tuple[str, str]:
        self.tested.append(context)
        return f"call-{len(self.tested)}", "Hello?"

    async def _setup(self, source: ConfigSource, freepbx: bool) -> list[Step]:
        await self.may_check.wait()
        file = "extensions_custom.conf" if freepbx else "extensions.conf"
        return [Step("dialplan", "skipped", "dialplan", "add it", Fix(file, "[cordboard]"))]

    def add(
        self,
        name: str,
        role: Role = Role.ADMIN,
        grants: tuple[Grant, ...] = (),
        scope: Scope = EVERYWHERE,
    ) -> None:
        """Add a user with the password `GOOD`."""
        self.accounts.add(name, role, grants, scope)
        self.accounts.use_link(self.accounts.reset(name), STORED)

    def browser(self, name: str = "", *, elevated: bool = False, **more: Any) -> Browser:
        """A browser in which that user is signed in."""
        browser = Browser(self, **more)
        if name:
            token = self.accounts.begin_session(name, "127.0.0.1", STORED, elevated=elevated)
            browser.cookies[browser.cookie] = token
        return browser

    def program(
        self, owner: str, permissions: set[Permission] | None = None, scope: Scope = EVERYWHERE
    ) -> Browser:
        """A program with a key of that user."""
        user = self.accounts.user(owner)
        assert user is not None
        allowed = user.rights.permissions if permissions is None else permissions
        _, token = self.accounts.add_key(owner, "bot", allowed, scope, 3_600)
        return Browser(self, headers={"Authorization": f"Bearer {token}"})

    async def fire(self, *contexts: str) -> None:
        """Let the alarms of these contexts fire."""
        now = round(time.time() * 1000)
        for context in contexts:
            self.ended.append(
                (f"busy-{context}", Measured(Cell(0, 1, context), now, Counter({"calls": 1})))
            )
        await self.alarms.look()

    def entries(self) -> list[dict[str, Any]]:
        """The audit, the oldest first."""
        return self.audit.read(200)[0][::-1]


class Browser:
    """A client of our page, unless a test sets other headers."""

    def __init__(
        self,
        room: Room,
        *,
        host: str = "127.0.0.1:15001",
        headers: Mapping[str, str] | None = None,
        client: str = "127.0.0.1",
        cookie: str = "cordboard-15001",
    ) -> None:
        self._app, self._client = room.app, client
        self._transport = httpx2.ASGITransport(room.app, client=(client, 40_000))
        self.cookie = cookie
        self.cookies: dict[str, str] = {}
        ours = {"Origin": f"http://{host}", "X-Cordboard": "1"}
        self.headers = {"Host": host, **(ours if headers is None else headers)}

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> httpx2.Response:
        sent = {**self.headers, **(headers or {})}
        if self.cookies:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
            content = json.dumps(body).encode()
        async with httpx2.AsyncClient(transport=self._transport, base_url="http://x") as client:
            answer = await client.request(method, BASE + path, content=content, headers=sent)
        for line in answer.headers.get_list("set-cookie"):
            name, _, value = line.partition(";")[0].partition("=")
            self.cookies[name] = value.strip('"')
            if not self.cookies[name]:
                del self.cookies[name]
        return answer

    async def connect(
        self,
        path: str,
        *protocols: str,
        headers: Mapping[str, str] | None = None,
        app: AdminApplication | None = None,
    ) -> Visit:
        """Open a websocket; `Visit.status` is 101, or that of the refusal."""
        sent = {**self.headers, **(headers or {})}
        if self.cookies:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        visit = Visit(app or self._app)
        await visit.begin(BASE + path, sent, protocols, self._client)
        return visit

    async def get(self, path: str, **more: Any) -> httpx2.Response:
        return await self.ask("GET", path, **more)

    async def post(self, path: str, body: Any = None, **more: Any) -> httpx2.Response:
        return await self.ask("POST", path, body, **more)


class Visit:
    """A websocket of a browser, without a network."""

    def __init__(self, app: AdminApplication) -> None:
        self._app = app
        self._to_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._from_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._reading = asyncio.Event()
        self._reading.set()
        self._task: asyncio.Task[None] | None = None
        self.status = 0
        self.protocol = ""
        self.refusal: dict[str, Any] = {}

    async def begin(
        self, path: str, headers: Mapping[str, str], protocols: tuple[str, ...], client: str
    ) -> None:
        path, _, query = path.partition("?")
        scope = {
            "type": "websocket",
            "path": path,
            "query_string": query.encode(),
            "headers": [(k.lower().encode(), v.encode()) for k, v in headers.items()],
            "subprotocols": [*protocols],
            "client": (client, 40_000),
            "extensions": {"websocket.http.response": {}},
        }
        self._to_app.put_nowait({"type": "websocket.connect"})
        self._task = asyncio.create_task(self._app(scope, self._to_app.get, self._take))
        first = await self._next()
        if first["type"] == "websocket.accept":
            self.status, self.protocol = 101, first["subprotocol"]
            return
        self.status = first["status"]
        self.refusal = json.loads((await self._next())["body"])

    async def _take(self, message: Any) -> None:
        await self._reading.wait()
        self._from_app.put_nowait(dict(message))

    async def _next(self) -> dict[str, Any]:
        return await asyncio.wait_for(self._from_app.get(), PATIENCE)

    def stop_reading(self) -> None:
        """Take nothing more, as a browser on a dead line."""
        self._reading.clear()

    def resume_reading(self) -> None:
        self._reading.set()

    def send(self, content: Any) -> None:
        text = content if isinstance(content, str) else json.dumps(content)
        self._to_app.put_nowait({"type": "websocket.receive", "text": text})

    def send_bytes(self, content: bytes) -> None:
        self._to_app.put_nowait({"type": "websocket.receive", "bytes": content})

    async def frame(self) -> Any:
        """The next frame, from JSON."""
        message = await self._next()
        assert message["type"] == "websocket.send", message
        return json.loads(message["text"])

    async def binary(self) -> bytes:
        """The next frame, which is binary."""
        message = await self._next()
        assert message["type"] == "websocket.send", message
        return bytes(message["bytes"])

    async def closed(self) -> int:
        """Wait for the end and return its code; frames before it are dropped."""
        while (message := await self._next())["type"] != "websocket.close":
            pass
        return int(message["code"])

    async def leave(self, code: int = 1001) -> None:
        """Close the page."""
        assert self._task is not None
        self._to_app.put_nowait({"type": "websocket.disconnect", "code": code})
        await asyncio.wait_for(self._task, PATIENCE)


def code(answer: httpx2.Response) -> str:
    """The stable word of a refusal; empty for an answer."""
    error = answer.json().get("error", {})
    return str(error.get("code", "")) if isinstance(error, dict) else ""


def record(room: Room, call_id: str, seconds: float = 0.1) -> bytes:
    """Give a call on record a sound of its own; return its samples."""
    (told,) = (each for each in room.on_record if each.call_id == call_id)
    told.recording = f"{told.file.removesuffix('.jsonl')}.wav"
    samples = bytes(range(256)) * (int(seconds * 8000) * 4 // 256)
    path = room.calls_folder / told.recording
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(samples)
    return samples


def foreign_name() -> str:
    return f"{secrets.token_hex(4)}.example"


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Room]:
    made = Room(tmp_path, AdminUi())
    yield made
    made.close()
