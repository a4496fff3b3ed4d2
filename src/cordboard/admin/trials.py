"""Endpoints of trials, drafts that run aside, and of written conversations that test an agent.

Both belong to the person or key that began them: for others they do not exist.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator
from starlette.responses import Response, StreamingResponse

from cordboard.accounts.rights import Permission, Rights
from cordboard.admin.endpoint import (
    UNRECORDED,
    Ask,
    Content,
    Done,
    Endpoint,
    Gives,
    Scope,
    Takes,
)
from cordboard.admin.pace import Pace
from cordboard.api.chat import stream
from cordboard.api.gate import HttpLimits
from cordboard.chat.session import ChatSession, ChatTest
from cordboard.chat.trial_runs import Draft, Trial, TrialRuns
from cordboard.config.load import MOST_KIB
from cordboard.errors import (
    ChatRefused,
    ConfigError,
    ConfigProblem,
    EditRefused,
    NeedsPublish,
    NotThere,
    RequestRefused,
)
from cordboard.tools.known_secrets import KnownSecrets
from cordboard.tools.tool import Effects
from cordboard.tools.tool_use import CannedAnswer, ToolUse

SETTLE_SECONDS = 3.0
"""Time for the servers of a new trial to come up before it is shown."""
TRIAL = Pace("trial", 10, 60)
"""Each takes about as much work as a reload."""
_HIDDEN = "the value that this takes from outside of the file is not in order"
TO_TRY = {
    Effects.READ_ONLY: Permission.TOOLS_TRY_READ_ONLY,
    Effects.IDEMPOTENT: Permission.TOOLS_TRY_IDEMPOTENT,
    Effects.DESTRUCTIVE: Permission.TOOLS_TRY_DESTRUCTIVE,
}
"""Permission to run tools with such effects outside of a call."""
ToolMode = Literal["real", "read_only", "canned"]


class TrialOf(Takes):
    """A text or a version to try; one of both."""

    text: str | None = Field(None, max_length=MOST_KIB * 1024)
    """YAML, with holes («secret:1») in place of literal secrets."""
    base: str = Field("", max_length=64)
    """Digest of the version from which `text` was made; left out: the one in force."""
    version: str | None = Field(None, max_length=64)
    """Digest of a version that is kept, or the beginning of one."""
    context: str = Field(max_length=100)
    """The context to try."""

    @model_validator(mode="after")
    def _one_of_both(self) -> TrialOf:
        if (self.text is None) == (self.version is None):
            raise ValueError("give either `text` or `version`")
        return self

    def facts(self) -> dict[str, Any]:
        """Return what is tried, without the text."""
        return {"context": self.context, "version": self.version or ""}


class TrialProblem(Gives):
    line: int | None
    key: str
    message: str


class TrialServer(Gives):
    server: str
    state: str
    tools: list[str]
    last_error: str
    own: bool
    """True if it was started for trials; false if it is the one that calls use."""


class TrialState(Gives):
    trial: str
    context: str
    version: str
    """Digest of its text, as in its ledgers; empty if the text could not be kept."""
    expires_at: str
    problems: list[TrialProblem]
    mcp: list[TrialServer]


class TrialStates(Gives):
    trials: list[TrialState]


class Canned(Takes):
    """The answer of a tool that does not run."""

    message: str = Field("", max_length=4_000)
    """Spoken text; left out: as for a real result."""
    data: Any = None
    failed: bool = False
    """True: the tool fails with `message`."""
    after_ms: int = Field(0, ge=0, le=60_000)
    """Time that the tool takes."""


class ChatCaller(Takes):
    number: str = Field("", max_length=200)
    name: str = Field("", max_length=200)
    called_number: str = Field("", max_length=200)
    variables: dict[str, str] = Field({}, max_length=100)
    """Of the line, as the context declares them."""

    @property
    def given(self) -> dict[str, str]:
        """The variables of the line; empty ones are not given."""
        numbers = {
            "caller_number": self.number,
            "caller_name": self.name,
            "called_number": self.called_number,
        }
        return {**self.variables, **{name: text for name, text in numbers.items() if text}}


class ToolChoice(Takes):
    """The base of requests that begin a test: which tools run in it."""

    tools: ToolMode = "real"
    """`real`: all that the caller may try; `read_only`: of these, the ones that change nothing;
    `canned`: none, they answer as `answers` says."""
    answers: dict[str, Canned] = Field({}, max_length=100)
    """Answers of `canned`, by the tool's name."""

    @model_validator(mode="after")
    def _answers_are_for_canned(self) -> ToolChoice:
        if self.answers and self.tools != "canned":
            raise ValueError("`answers` needs `tools: canned`")
        return self

    def use(self, rights: Rights) -> ToolUse:
        """Return the tools that run for a caller with these rights."""
        if self.tools == "canned":
            return ToolUse(
                frozenset(),
                {
                    name: CannedAnswer(each.message, each.data, each.failed, each.after_ms)
                    for name, each in self.answers.items()
                },
            )
        effects = frozenset(effects for effects, needed in TO_TRY.items() if rights.may(needed))
        return ToolUse(effects & {Effects.READ_ONLY} if self.tools == "read_only" else effects)


class ChatOf(ToolChoice):
    context: str | None = Field(None, max_length=100)
    """Left out: that of the trial, or the default one."""
    trial: str | None = Field(None, max_length=64)
    provider: str | None = Field(None, max_length=200)
    """A provider, or the model of its brain; left out: the context's."""
    caller: ChatCaller = ChatCaller()

    def facts(self) -> dict[str, Any]:
        """Return what is tried, without the caller."""
        return {"trial": self.trial or "", "tools": self.tools}


class ChatBegun(Gives):
    chat: str
    """Id, and name of its ledger."""
    context: str
    provider: str
    model: str
    notice: str
    tools: list[str]
    missing_tools: list[str]
    version: str
    trial: str


class ChatMessage(Takes):
    """Something to answer. Without message and yes or no: the greeting alone."""

    message: str | None = Field(None, max_length=100_000)
    approve: bool | None = None
    """The yes or no to a question (event `approval`)."""

    @model_validator(mode="after")
    def _one_at_most(self) -> ChatMessage:
        if self.message is not None and self.approve is not None:
            raise ValueError("give either `message` or `approve`")
        if self.message is not None and not self.message.strip():
            raise ValueError("message: it is empty")
        return self


# Trials.


async def begin_trial(ask: Ask) -> TrialState:
    """Run a draft aside, for 30 minutes: to try it by a conversation, a call or a single tool.

    Its author may try other programs, addresses and secrets only with `config.publish`.
    """
    runs, body = _runs(ask), ask.body
    draft = Draft(
        text=body.text or "",
        version=body.version or "",
        base=body.base,
        context=body.context,
        may_publish=ask.who.rights.may(Permission.CONFIG_PUBLISH),
    )
    try:
        trial = await runs.begin(draft, ask.who.name)
    except NeedsPublish as error:
        at = _problems(ask, error.problems)
        message = "this draft needs the permission config.publish: " + _first(at)
        raise RequestRefused(403, "needs_publish", message, at=_as_places(at)) from None
    except ConfigError as error:
        at = _problems(ask, error.problems)
        message = f"no engine could run with this: {_first(at)}"
        raise RequestRefused(422, "not_in_order", message, at=_as_places(at)) from None
    except EditRefused as error:
        raise RequestRefused(422, "invalid", f"text: {error}") from None
    await trial.generation.fleet.wait_settled(SETTLE_SECONDS)
    return _shown(ask, trial)


async def list_trials(ask: Ask) -> TrialStates:
    """List the caller's own trials, with the states of their MCP servers."""
    return TrialStates(trials=[_shown(ask, trial) for trial in _runs(ask).of(ask.who.name)])


async def end_trial(ask: Ask) -> Done:
    """End a trial, with its conversations, calls and servers."""
    await _runs(ask).end(ask.params["trial_id"], ask.who.name)
    return Done()


def _runs(ask: Ask) -> TrialRuns:
    if ask.services.runs is None:
        raise RequestRefused(409, "no_file", "this engine was not started from a file")
    return ask.services.runs


def own_trial(ask: Ask, trial_id: str | None) -> Trial | None:
    """Return the caller's trial; None for no id. Raises `NotThere`."""
    return _runs(ask).find(trial_id, ask.who.name) if trial_id else None


def _context_of_trial(ask: Ask) -> str | None:
    try:
        return _runs(ask).find(ask.params["trial_id"], ask.who.name).context
    except NotThere:
        return None


def _shown(ask: Ask, trial: Trial) -> TrialState:
    leases = trial.generation.fleet.leases
    return TrialState(
        trial=trial.id,
        context=trial.context,
        version=trial.generation.version,
        expires_at=trial.expires_at.isoformat(timespec="seconds"),
        problems=_problems(ask, trial.problems),
        mcp=[
            TrialServer(
                server=status.server,
                state=status.state,
                tools=list(status.tools),
                last_error=status.last_error,
                own=leases[status.server].of_trials,
            )
            for status in trial.generation.fleet.status()
        ],
    )


def _problems(
    ask: Ask, problems: list[ConfigProblem] | tuple[ConfigProblem, ...]
) -> list[TrialProblem]:
    """Return the problems without values from outside of the text."""
    source = ask.services.source
    known = KnownSecrets(source.environ.values() if source is not None else ())
    return [
        TrialProblem(
            line=each.line,
            key=each.key,
            message=_HIDDEN if each.from_outside else known.text(each.message),
        )
        for each in problems
    ]


def _as_places(problems: list[TrialProblem]) -> list[dict[str, object]]:
    return [problem.model_dump() for problem in problems]


def _first(problems: list[TrialProblem]) -> str:
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{problems[0].key}: {problems[0].message}{more}".lstrip(": ")


# Conversations.


async def begin_chat(ask: Ask) -> ChatBegun:
    """Begin a written conversation as a test; its first message begins with the greeting."""
    body: ChatOf = ask.body
    trial = own_trial(ask, body.trial)
    test = ChatTest(owner=ask.who.name, tools=body.use(ask.who.rights), trial=trial)
    chats = ask.services.chats
    session = chats.open(body.context, body.caller.given, body.provider, test=test)
    opening = session.opening
    return ChatBegun(
        chat=session.session_id,
        context=session.context_name,
        provider=opening.provider_name,
        model=opening.model,
        notice=opening.notice,
        tools=[spec.name for spec in opening.toolbox.specs],
        missing_tools=list(opening.toolbox.missing),
        version=opening.version,
        trial=trial.id if trial is not None else "",
    )


async def answer_chat(ask: Ask) -> Response:
    """Answer a message, as server-sent events: `session`, `token`, `tool_call`, `tool_result`,
    `filler`, `approval`, `error`, `done`.

    The same events as those of `POST /chat` on the engine's HTTP port.
    """
    session, body = _own_chat(ask), ask.body
    message: str | None = body.message
    if body.approve is not None:
        if not session.asks:
            raise RequestRefused(409, "not_now", "the conversation waits for no yes or no")
        message = "yes" if body.approve else "no"
    return StreamingResponse(
        stream(session.take(message), HttpLimits().heartbeat_seconds),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
    )


async def end_chat(ask: Ask) -> Done:
    """End a written conversation of the caller's."""
    await _own_chat(ask).end("completed", "caller_hangup")
    return Done()


def _own_chat(ask: Ask) -> ChatSession:
    return ask.services.chats.find(ask.params["chat_id"], ask.who.name)


def _context_of_new_chat(ask: Ask) -> str | None:
    body: ChatOf = ask.body
    if body.trial:
        try:
            return _runs(ask).find(body.trial, ask.who.name).context
        except NotThere:
            return None
    config = ask.services.config()
    context = body.context or str(config.default_context)
    return context if context in config.contexts else None


def _context_of_chat(ask: Ask) -> str | None:
    try:
        return _own_chat(ask).context_name
    except ChatRefused:
        return None


ENDPOINTS = (
    Endpoint(
        "POST",
        "/trials",
        may=Permission.CONFIG_DRAFT,
        scope=Scope.NONE,
        takes=TrialOf,
        gives=TrialState,
        audit="trial.start",
        does=begin_trial,
        pace=TRIAL,
        most_bytes=2 * 1024 * 1024,
    ),
    Endpoint(
        "GET",
        "/trials",
        may=Permission.CONFIG_DRAFT,
        scope=Scope.FILTERED,
        takes=None,
        gives=TrialStates,
        audit=UNRECORDED,
        does=list_trials,
    ),
    Endpoint(
        "DELETE",
        "/trials/{trial_id}",
        may=Permission.CONFIG_DRAFT,
        scope=_context_of_trial,
        takes=None,
        gives=Done,
        audit="trial.end",
        does=end_trial,
    ),
    Endpoint(
        "POST",
        "/chats",
        may=Permission.TRY_CHAT,
        scope=_context_of_new_chat,
        takes=ChatOf,
        gives=ChatBegun,
        audit="chat.start",
        does=begin_chat,
    ),
    Endpoint(
        "POST",
        "/chats/{chat_id}/messages",
        may=Permission.TRY_CHAT,
        scope=_context_of_chat,
        takes=ChatMessage,
        gives=Content(("text/event-stream",)),
        audit=UNRECORDED,
        does=answer_chat,
    ),
    Endpoint(
        "DELETE",
        "/chats/{chat_id}",
        may=Permission.TRY_CHAT,
        scope=_context_of_chat,
        takes=None,
        gives=Done,
        audit="chat.end",
        does=end_chat,
    ),
)
