"""All written conversations of one engine: begin, find, and end when idle.

Their number is limited (`chat.max_sessions`). After a reload they keep the configuration they began
with; they count as its calls, so its MCP servers stay as long.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from cordboard.agent_api.dialogue import Brain
from cordboard.calls.history import LedgerLine, read_lines
from cordboard.calls.services import CallServices
from cordboard.chat.answer import Answer
from cordboard.chat.answering import provider_for
from cordboard.chat.session import ChatSession, ChatTest, check_length
from cordboard.chat.trial_runs import Trial
from cordboard.config.schema import Config
from cordboard.errors import AgentError, ChatRefused
from cordboard.generation.generation import Generation
from cordboard.privacy.sealed_file import PLAIN, Vault
from cordboard.tools.desk.desk import TOOL_GRACE

LINE_VARIABLES = ("caller_number", "caller_name", "called_number")
"""Variables about the writer, besides those that the context declares."""
MOST_OF_ONE = 10
"""Conversations of one person or key at the same time, where they are tests."""
CLOSE_SECONDS = 3.0
"""Grace period of answers, and of tools that change the world, when the engine stops."""

log = structlog.get_logger()


class ChatSessions:
    """The conversations by id."""

    def __init__(
        self,
        generation: Callable[[], Generation],
        brain: Callable[[str, str], Brain],
        services: CallServices,
        *,
        close_seconds: float = CLOSE_SECONDS,
        tool_grace: float = TOOL_GRACE,
    ) -> None:
        """`generation` returns the one in force, `brain` the brain of one of its contexts with one
        of its providers, or raises `AgentError` while there is none. `tool_grace`: as for
        `ChatSession`."""
        self._close_seconds = close_seconds
        self._tool_grace = tool_grace
        self._generation = generation
        self._brain = brain
        self._services = services
        self._sessions: dict[str, ChatSession] = {}
        self._leave_trial: dict[str, Callable[[], None]] = {}
        """Per conversation on a trial: takes back the note that the trial has of it."""
        self._closed = False

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def directory(self) -> Path:
        """Folder of the ledgers."""
        return self._services.directory

    def begin(
        self,
        context: str | None,
        message: str | None,
        variables: Mapping[str, str] | None = None,
        model: str | None = None,
    ) -> tuple[ChatSession, Answer]:
        """Begin a conversation; return it with the answer to its first message: the greeting, and
        the reply if there is a message. See `open`. Raises `ChatRefused`."""
        check_length(message, self._generation().config.chat)
        session = self.open(context, variables, model)
        return session, session.take(message)

    def open(
        self,
        context: str | None,
        variables: Mapping[str, str] | None = None,
        model: str | None = None,
        *,
        test: ChatTest | None = None,
    ) -> ChatSession:
        """Begin a conversation that waits for its first message. `context`: default is
        `default_context`. `variables`: about the writer. `model`: see `provider_for`. `test`: it is
        one, perhaps on a trial. Raises `ChatRefused`."""
        trial = test.trial if test is not None else None
        generation = trial.generation if trial is not None else self._generation()
        config = generation.config
        if not config.chat.enabled:
            raise ChatRefused("off", "written conversations are switched off (chat.enabled)")
        if self._closed:
            raise ChatRefused("stopping", "the engine is stopping")
        context = context or (trial.context if trial else str(config.default_context))
        known_context(config, context, trial)
        provider = provider_for(config, context, model)
        given = dict(variables or {})
        declared = (*LINE_VARIABLES, *config.contexts[context].variables)
        if strange := [name for name in given if name not in declared]:
            known = ", ".join(declared)
            words = f"the context {context!r} takes no variable {strange[0][:64]!r}; known: {known}"
            raise ChatRefused("bad_variable", words)
        if test is not None and self._count_of(test.owner) >= MOST_OF_ONE:
            raise ChatRefused("full", f"you have {MOST_OF_ONE} conversations already; end one")
        if len(self._sessions) >= config.chat.max_sessions:
            words = f"there are {len(self._sessions)} conversations already (chat.max_sessions)"
            raise ChatRefused("full", words)
        try:
            brain = (trial.providers.brain if trial else self._brain)(context, provider)
        except AgentError as error:
            raise ChatRefused("not_ready", str(error)) from None
        session = ChatSession(
            context,
            provider,
            generation,
            brain,
            self._services,
            given,
            config.chat,
            self._over,
            tool_grace=self._tool_grace,
            test=test,
        )
        self._sessions[session.session_id] = session
        if trial is not None:
            end = partial(session.end_soon, "completed", "trial_over")
            self._leave_trial[session.session_id] = trial.used_by(end)
        self._services.metrics.calls.chat_sessions(len(self._sessions))
        log.info("chat_started", call_id=session.session_id, context_name=context)
        return session

    def _count_of(self, owner: str) -> int:
        return sum(session.owner == owner for session in self._sessions.values())

    def find(self, session_id: str, owner: str | None = None) -> ChatSession:
        """Return a conversation in progress; with `owner`, only a test of theirs. Raises
        `ChatRefused`."""
        session = self._sessions.get(session_id)
        if session is None or session.over or owner not in (None, session.owner):
            words = f"there is no conversation {session_id[:64]!r}, or it is over"
            raise ChatRefused("unknown_session", words)
        return session

    async def transcript(self, session_id: str) -> dict[str, Any]:
        """Return the transcript of a conversation, also of one that is over (`transcript`).
        Raises `ChatRefused`."""

        def read() -> dict[str, Any] | None:
            self._services.writer.flush()
            return read_transcript(self.directory, session_id, self._services.writer.vault)

        found = await asyncio.to_thread(read)
        if found is None:
            words = f"there is no conversation {session_id[:64]!r}"
            raise ChatRefused("unknown_session", words)
        return found

    async def close(self, grace: float = 0) -> None:
        """End all conversations, and begin no more. Unfinished answers have `grace` seconds,
        `close_seconds` at most, and so have tools that change the world: an engine without calls
        must be gone before `docker stop` kills it (10 s). Idempotent."""
        self._closed = True
        most = self._close_seconds
        sessions = self._sessions.values()
        endings = [session.close(min(grace, most), most) for session in sessions]
        for failed in await asyncio.gather(*endings, return_exceptions=True):
            if isinstance(failed, Exception):  # a border: the others and the engine end too
                log.error("chat_end_failed", error=repr(failed), exc_info=failed)

    def _over(self, session_id: str) -> None:
        self._sessions.pop(session_id, None)
        self._leave_trial.pop(session_id, lambda: None)()
        self._services.metrics.calls.chat_sessions(len(self._sessions))


def known_context(config: Config, context: str, trial: Trial | None = None) -> None:
    """Raise `ChatRefused` for a context that the configuration, or the trial, does not have."""
    contexts = config.contexts if trial is None else (trial.context,)
    if context not in contexts:
        known = ", ".join(contexts)
        words = f"there is no context {context[:64]!r}; known: {known}"
        raise ChatRefused("unknown_context", words)


_SESSION_ID = re.compile(r"chat-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
_SPEAKERS = {"caller.text": "user", "agent.text": "agent"}


def read_transcript(
    directory: Path, session_id: str, vault: Vault = PLAIN
) -> dict[str, Any] | None:
    """Return the conversation with that id, in progress or over; None if unknown. Blocks.

    Only names of written conversations find a file: calls cannot be read this way.
    """
    if not _SESSION_ID.match(session_id):
        return None
    for path in directory.glob(f"????-??-??/{session_id}.jsonl"):
        return transcript(read_lines(path, vault))
    return None


def transcript(lines: Iterable[LedgerLine]) -> dict[str, Any]:
    """Return the transcript from the lines of a ledger. Times are ms since the beginning."""
    about: dict[str, Any] = {"state": "open", "outcome": "", "reason": ""}
    messages: list[dict[str, Any]] = []
    tools: dict[str, dict[str, Any]] = {}
    approvals: list[dict[str, Any]] = []
    troubles: list[dict[str, Any]] = []
    for line in lines:
        kind = line["type"]
        fields = {name: value for name, value in line.items() if name != "type"}
        if kind in _SPEAKERS:
            messages.append(_said(_SPEAKERS[kind], fields))
        elif kind == "tool.asked":
            tools[line["ask_id"]] = fields
        elif kind == "tool.approval":  # of the conversation, not of one tool call
            approvals.append(fields)
        elif kind.startswith("tool.") and line.get("ask_id") in tools:
            _add_event(tools[line["ask_id"]], kind, fields)
        elif kind == "call.trouble":
            troubles.append(fields)
        elif kind == "call.offered":
            about |= {"session_id": line["call_id"], "started_at": line["started_at"]}
        elif kind == "call.bound":
            about |= {name: line[name] for name in ("context", "provider", "generation")}
            about |= {"toolbox": line["tools"], "missing_tools": line["missing_tools"]}
        elif kind == "call.ended":
            about |= {"state": "ended", "outcome": line["outcome"], "reason": line["reason"]}
    found = {"messages": messages, "tools": [*tools.values()]}
    return {**about, **found, "approvals": approvals, "troubles": troubles}


def _said(who: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {name: fields[name] for name in ("at_ms", "turn")} | {"who": who, "text": fields["text"]}


def _add_event(tool: dict[str, Any], kind: str, fields: dict[str, Any]) -> None:
    """Add an event to a tool call's entry."""
    if kind == "tool.filler":
        tool.setdefault("fillers", []).append(fields["text"])
    elif kind == "tool.answered":
        tool["answered_ms"] = fields["at_ms"]
        tool |= {name: value for name, value in fields.items() if name not in ("at_ms", "name")}
    elif kind == "tool.late":
        tool["late"] = {name: fields[name] for name in ("at_ms", "status", "message", "told")}
