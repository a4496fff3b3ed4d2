"""A step to run after a call: its data, and the times of its retries. Pure.

A job contains everything it needs: the call, its ledger and its configuration may be gone at the
last try. Its idempotency key consists of the call's id, the step and the time at which the call
ended; it is the same for every delivery, also by another engine after a crash.
"""

from __future__ import annotations

import datetime
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any, Protocol

import orjson

from cordboard.calls.history import CallHistory
from cordboard.calls.open_calls import OpenCall
from cordboard.config.call_phases import RESULTS, PostCallRetries, PostCallStep
from cordboard.config.templates import read_json_template
from cordboard.config.tools.http_tool import CALL
from cordboard.net.backoff import Backoff
from cordboard.tools.templates import fill_json

FORMAT = 1
_UNSAFE = re.compile(r"[^A-Za-z0-9-]")


@dataclass(frozen=True, slots=True)
class PostCallJob:
    """One step after one call."""

    name: str
    """Unique; also the name of its file."""
    call_id: str
    context: str
    provider: str
    step: int
    """Number of the step; 1 is the first."""
    tool: str
    """The tool's exposed name."""
    created_at: float
    """Time when the call ended; seconds since 1970, like all times here."""
    next_at: float
    """Time of the next try."""
    arguments: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    attempts: int = 0
    last_error: str = ""
    given_up: bool = False
    key: str = ""
    """Id of the key that encrypts its file; empty = it is plain."""
    format: int = FORMAT

    @property
    def ask_id(self) -> str:
        """Id of the step's tool call, the same for each try; with the call's id it is the
        idempotency key."""
        return f"post.{self.step}.{round(self.created_at * 1000)}"

    def encode(self) -> bytes:
        """Return the content of its file."""
        return orjson.dumps(asdict(self), default=str, option=orjson.OPT_INDENT_2)


class JobTaker(Protocol):
    """Accepts jobs (`cordboard.calls.post_call.queue`)."""

    async def put(self, jobs: Iterable[PostCallJob]) -> bool:
        """Take over jobs. Return True if they are on the disk, so that no crash can lose them."""


def decode(content: bytes, now: float) -> PostCallJob:
    """Return the job in a file's content. Raises `ValueError` for anything else.

    A job that had been given up, and that the operator has put back, starts again.
    """
    try:
        found = orjson.loads(content)
        job = PostCallJob(**found)
    except (orjson.JSONDecodeError, TypeError) as error:
        raise ValueError(f"not a job: {error}") from None
    if job.format != FORMAT or not _is_whole(job):
        raise ValueError("not a job of this version")
    if job.given_up:
        return replace(job, given_up=False, attempts=0, next_at=now)
    return job


def _is_whole(job: PostCallJob) -> bool:
    texts = (job.name, job.call_id, job.context, job.provider, job.tool, job.key)
    numbers = (job.created_at, job.next_at, job.attempts, job.step)
    return (
        all(isinstance(text, str) for text in texts)
        and all(isinstance(number, (int, float)) for number in numbers)
        and isinstance(job.arguments, dict)
        and isinstance(job.variables, dict)
    )


_LINE = frozenset({"call_id", "caller_number", "called_number", "context_name", "provider_name"})
"""Variables of the line, which are recorded as they are."""


def recordable(variables: Mapping[str, str], redacted: Callable[[str], str]) -> dict[str, str]:
    """Return the variables of a call as they may be written."""
    return {name: text if name in _LINE else redacted(text) for name, text in variables.items()}


@dataclass(frozen=True, slots=True)
class FinishedCall:
    """The data of a call that its post-call steps may use."""

    call_id: str
    context: str
    provider: str
    variables: Mapping[str, str]
    facts: Mapping[str, Any]
    """`config.call_phases.POST_CALL_VARIABLES` by name."""
    results: Mapping[str, Any]
    """Results of `pre_call`."""
    ended_at: float
    key: str = ""
    """As `PostCallJob.key`."""


def jobs_of(
    call: FinishedCall,
    steps: Sequence[PostCallStep],
    more: Mapping[str, Any] = MappingProxyType({}),
) -> list[PostCallJob]:
    """Return the jobs of a call, with their arguments filled in; `more` are further values by
    name."""
    scope = {CALL: {**call.variables, **call.facts}, RESULTS: dict(call.results), **more}
    begin = f"{round(call.ended_at * 1000)}-{_UNSAFE.sub('_', call.call_id)[:80]}"
    return [
        PostCallJob(
            name=f"{begin}-{number}",
            call_id=call.call_id,
            context=call.context,
            provider=call.provider,
            step=number,
            tool=step.tool,
            created_at=call.ended_at,
            next_at=call.ended_at,
            arguments=fill_json(read_json_template(step.arguments), scope),
            variables=dict(call.variables),
            key=call.key,
        )
        for number, step in enumerate(steps, 1)
    ]


def finished(call: OpenCall, history: CallHistory) -> FinishedCall:
    """Return the data of a call whose ledger is closed. All times come from the ledger, so that the
    engine that served the call and the one that finds it after a crash make jobs with the same
    keys."""
    started_at = datetime.datetime.fromisoformat(call.started_at)
    ended_at = started_at + datetime.timedelta(milliseconds=history.ended_ms or 0)
    times = (moment.isoformat("T", "seconds") for moment in (started_at, ended_at))
    return FinishedCall(
        call.call_id,
        call.context,
        call.provider,
        call.variables,
        facts_of(history, *times),
        call.results,
        ended_at.timestamp(),
        call.key,
    )


def facts_of(history: CallHistory, started_at: str, ended_at: str) -> dict[str, Any]:
    """Return the facts about a finished call."""
    said = history.transcript()
    tools = [
        {"name": use.name, "status": use.status, "message": use.message} for use in history.tools
    ]
    done = [move for move in history.transfers if move.get("ok")]
    turns = history.turns.values()
    return {
        "outcome": history.outcome,
        "reason": history.reason,
        "started_at": started_at,
        "ended_at": ended_at,
        "duration_ms": history.ended_ms or 0,
        "transcript": [{"who": who, "text": text} for who, text in said],
        "transcript_text": "\n".join(f"{who}: {text}" for who, text in said),
        "tools": tools,
        "summary": {
            "caller_turns": len(history.caller_turns),
            "interruptions": sum(turn.interrupted is not None for turn in turns),
            "tools": len(tools),
            "failed_tools": sum(tool["status"] != "ok" for tool in tools),
            "transferred_to": done[-1]["destination"] if done else None,
            "troubles": list(history.troubles),
        },
    }


def retry_pause(
    attempts: int, retries: PostCallRetries, chance: Callable[[], float] = random.random
) -> float:
    """Return the seconds until the next try after `attempts` failures; `chance` gives 0 to 1."""
    first, most = retries.first_retry_ms / 1000, retries.max_retry_ms / 1000
    return Backoff(first, most, chance=chance).pause(attempts - 1)


def is_hopeless(job: PostCallJob, retries: PostCallRetries, now: float) -> bool:
    """True if a job that has failed again must be given up."""
    too_old = now - job.created_at >= retries.give_up_ms / 1000
    return job.attempts >= retries.max_attempts or too_old
