"""Ends the ledgers of calls whose engine was killed and queues their post-call steps, at start-up.

Each ledger gets its `call.ended` (`killed`, `engine_killed`), at the time of its last line; an
incomplete line at its end is removed and recorded as `ledger.gap`. Running engines are not touched,
even in the same directory (`open_calls`). If this process is interrupted or killed, the next engine
continues: it finds the same times, so the steps have the same idempotency keys.

A call that another engine has taken over ends as `moved`, without steps: they are that engine's.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import structlog

from cordboard.calls.events import Ended, Gap
from cordboard.calls.history import CallHistory, LedgerLine, parse_lines, read
from cordboard.calls.ledger_file import encode_event
from cordboard.calls.open_calls import AbandonedCalls, abandoned
from cordboard.calls.post_call.job import JobTaker, finished, jobs_of
from cordboard.calls.resumption import MOVED
from cordboard.config.schema import Context
from cordboard.errors import CordboardError
from cordboard.observe.metrics import Metrics
from cordboard.privacy.sealed_file import PLAIN, Vault

log = structlog.get_logger()

KILLED = "killed"
ENGINE_KILLED = "engine_killed"

IsAdopted: TypeAlias = Callable[[str, int], Awaitable[bool]]


async def _by_nobody(call_id: str, moves: int) -> bool:
    """Say that no other engine has the call: there is none."""
    return False


async def end_killed_calls(
    directory: Path,
    contexts: Mapping[str, Context],
    queue: JobTaker,
    metrics: Metrics,
    vault: Vault = PLAIN,
    is_adopted: IsAdopted = _by_nobody,
) -> None:
    """End all such calls in a directory of calls. `contexts` are those in force; they define the
    post-call steps. `is_adopted(call_id, moves)` is True if another engine has taken the call over
    after these moves from engine to engine, even if that has ended since; it raises
    `CordboardError` if that is not known now. Failures are logged and left for the next start."""
    try:
        found = await asyncio.to_thread(lambda: list(abandoned(directory, vault)))
    except OSError as error:
        log.error("killed_calls_not_found", error=str(error))
        return
    try:
        for calls in found:
            await _end_all(calls, contexts, queue, metrics, is_adopted)
    finally:
        for calls in found:
            calls.release()


async def _end_all(
    calls: AbandonedCalls,
    contexts: Mapping[str, Context],
    queue: JobTaker,
    metrics: Metrics,
    is_adopted: IsAdopted,
) -> None:
    """End the calls of one engine."""
    try:
        for file in await asyncio.to_thread(list, calls):
            try:
                await _end(calls, file, contexts, queue, metrics, is_adopted)
            except (
                CordboardError, OSError, ValueError, KeyError, TypeError, OverflowError
            ) as error:  # fmt: skip
                log.error("killed_call_not_ended", file=str(file), error=repr(error))
        await asyncio.to_thread(calls.remove)
    except OSError as error:
        log.error("killed_calls_not_removed", error=str(error))


async def _end(
    calls: AbandonedCalls,
    file: Path,
    contexts: Mapping[str, Context],
    queue: JobTaker,
    metrics: Metrics,
    is_adopted: IsAdopted,
) -> None:
    """End one call. Raises `OSError`, `CordboardError`, and other errors if the files do not hold a
    call."""
    if await asyncio.to_thread(calls.has_no_ledger, file):
        log.warning("killed_call_erased", file=file.name)
        await asyncio.to_thread(file.unlink, missing_ok=True)
        return
    ledger, call = await asyncio.to_thread(calls.read, file)
    moves = len((await asyncio.to_thread(read, ledger, calls.vault)).adopted)
    moved = call.kind == "call" and await is_adopted(call.call_id, moves)
    outcome = MOVED if moved else KILLED
    history, was_open = await asyncio.to_thread(end_ledger, ledger, calls.vault, outcome)
    if was_open:
        log.warning("killed_call_ended", call_id=call.call_id, path=str(ledger))
        if call.kind == "call" and not moved:
            metrics.calls.killed(call.context, call.provider)
    context = contexts.get(call.context)
    if moved or history.outcome == MOVED:
        log.info("killed_call_moved", call_id=call.call_id)
    elif context is None:
        log.warning("killed_call_context_gone", call_id=call.call_id, context_name=call.context)
    elif context.post_call and call.kind != "try":
        written = await queue.put(jobs_of(finished(call, history), context.post_call))
        if not written:
            return  # the next start hands them over again
    await asyncio.to_thread(file.unlink, missing_ok=True)  # the call may be erased meanwhile


def end_ledger(path: Path, vault: Vault = PLAIN, outcome: str = KILLED) -> tuple[CallHistory, bool]:
    """End a ledger with this outcome if it has no end; return its history, and True if it had no
    end. Blocks. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(descriptor, "r+b") as file:  # noqa: PTH123 - a descriptor
        content = file.read()
        sealed = vault.resume(content)
        plain = content if sealed is None else sealed.plain
        size = content.rfind(b"\n") + 1 if sealed is None else sealed.size
        lines = parse_lines(plain[: plain.rfind(b"\n") + 1])
        is_open = not lines or lines[-1]["type"] != "call.ended"
        if is_open:
            end = b"".join(_end_lines(lines, outcome, whole=0 < size == len(content)))
            file.seek(size)
            file.truncate()
            file.write(end if sealed is None else sealed.seal.record(len(plain), end))
            lines += parse_lines(end)
    return CallHistory.from_lines(lines), is_open


def _end_lines(lines: list[LedgerLine], outcome: str, *, whole: bool) -> list[bytes]:
    """Return the last lines of a ledger; if it is not `whole`, including a `ledger.gap`."""
    last_ms = max((line["at_ms"] for line in lines), default=0)
    costs = [line for line in lines if line["type"] == "agent.used" and line["cost"] is not None]
    cost = round(sum(line["cost"] for line in costs), 6) if costs else None
    currency = costs[-1]["currency"] if costs else ""
    ended = Ended(outcome, ENGINE_KILLED, last_ms, cost, currency)
    missing = [] if whole else [Gap(1, last_ms)]
    return [encode_event(last_ms, event) for event in (*missing, ended)]
