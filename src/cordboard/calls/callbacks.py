"""Requests of callers to be called back: checked, read back, confirmed, and put in a durable queue.

    number ──firewall, do-not-call list──▶ time ──hours──▶ "You will be called back on ... Is that
    right?" ──yes──▶ the campaigns' queue, or the tools of `deliver` where the engine may not call

Nothing is promised without a clear yes; if the disk fails, the caller hears that the call-back is
uncertain. The number is that of the caller's line. Another number needs the operator's permission
(`other_numbers`), because a caller may name a stranger's.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal
from zoneinfo import ZoneInfo

import structlog

from cordboard.calls import events
from cordboard.calls.call_firewall import CallFirewall
from cordboard.calls.conversation import Conversation
from cordboard.calls.ledger import Ledger
from cordboard.calls.messages import Outbox
from cordboard.calls.outbound_order import CallbackBook, PromisedCall
from cordboard.config.schema import Config
from cordboard.config.tools.messages import CALLBACK, CallbackSettings
from cordboard.errors import CampaignRefused, LineUnsupported
from cordboard.tools.call_line import CallbackOutcome, CallbackResult
from cordboard.tools.speech.codes import phone_number
from cordboard.tools.speech.times import date_time_words

ABOUT = "callback_about"
"""Variable of the call-back with the caller's concern, if its context declares it."""
READ_BACK = "You will be called back on {number}, {time}. Is that right?"

log = structlog.get_logger()


def local_now() -> datetime.datetime:
    """Return the local time with its zone."""
    return datetime.datetime.now().astimezone()


@dataclass(frozen=True, slots=True)
class CallbackParts:
    """The parts of a call that its requests need."""

    config: Config
    context_name: str
    caller_number: str
    firewall: CallFirewall
    outbox: Outbox
    book: CallbackBook | None
    """None in a test call: nothing is kept."""
    ledger: Ledger
    now: Callable[[], datetime.datetime] = local_now


class Callbacks:
    """The requests of one call."""

    def __init__(self, parts: CallbackParts) -> None:
        self._parts = parts
        self._settings = parts.config.callback
        self._conversation: Conversation | None = None

    def connect(self, conversation: Conversation) -> None:
        """Connect the line: the caller can be heard and spoken to."""
        self._conversation = conversation

    async def request(self, number: str, at: str, about: str) -> CallbackResult:
        """Note a request; see `CallLine.request_callback`."""
        settings, conversation, parts = self._settings, self._conversation, self._parts
        if settings is None or conversation is None:
            raise LineUnsupported("callers are not called back from here")
        wanted, outcome = await self._judged(settings, number)
        time = _read_time(at, ZoneInfo(settings.zone))
        if outcome is None:
            outcome = self._unfit(settings, time)
        way = ""
        if outcome is None and time is not None:
            spoken = phone_number(wanted), date_time_words(time.isoformat())
            question = READ_BACK.format(number=spoken[0], time=spoken[1])
            outcome = "not_confirmed"
            if await conversation.confirm(question):
                way = await self._note(settings, PromisedCall(
                    wanted, settings.context or parts.context_name, time, settings.zone, about
                ))  # fmt: skip
                outcome = "noted" if way or parts.book is None else "failed"
        said = time.isoformat(timespec="minutes") if time is not None else ""
        parts.ledger.record(events.CallbackRequested(outcome or "failed", wanted, said, about, way))
        now = parts.now().astimezone(ZoneInfo(settings.zone)).isoformat(timespec="minutes")
        return CallbackResult(outcome or "failed", wanted, said, now, way != "memory")

    async def _judged(
        self, settings: CallbackSettings, number: str
    ) -> tuple[str, CallbackOutcome | None]:
        """Return the number in E.164, and why it is not called back; None if it may be."""
        parts = self._parts
        own = parts.firewall.reads(parts.caller_number)
        wanted = parts.firewall.reads(number) if number.strip() else own
        if not wanted:
            return "", "no_number"
        if wanted != own and not settings.other_numbers:
            return wanted, "other_number"
        if not parts.firewall.callback(wanted):
            return wanted, "not_allowed"
        try:
            blocked = parts.book is not None and await parts.book.is_blocked(wanted)
        except CampaignRefused as error:
            log.error("callback_not_queued", error=str(error))
            return wanted, "failed"
        return wanted, "do_not_call" if blocked else None

    def _unfit(
        self, settings: CallbackSettings, time: datetime.datetime | None
    ) -> CallbackOutcome | None:
        """Return why this time cannot be promised; None if it can."""
        now = self._parts.now()
        if time is None or time <= now:
            return "no_time"
        ahead = datetime.timedelta(days=settings.days_ahead)
        return None if time <= now + ahead and settings.hours.cover(time) else "closed"

    async def _note(
        self, settings: CallbackSettings, promise: PromisedCall
    ) -> Literal["queue", "post", "memory", ""]:
        """Put a promise where it is kept; return the way, empty if there is none."""
        parts, config = self._parts, self._parts.config
        if parts.book is not None and config.outbound.enabled:
            try:
                if await parts.book.add(promise, settings, self._variables(promise)):
                    return "queue"
            except CampaignRefused as error:
                log.error("callback_not_queued", error=str(error))
        facts = {
            "number": promise.number,
            "at": promise.at.isoformat(timespec="minutes"),
            "about": parts.outbox.redacted(promise.about),
            "asked_at": parts.now().isoformat(timespec="seconds"),
        }
        kept = settings.deliver and await parts.outbox.put(settings.deliver, CALLBACK, facts)
        return "post" if kept == "disk" else kept or ""

    def _variables(self, promise: PromisedCall) -> dict[str, str]:
        context = self._parts.config.contexts.get(promise.context)
        has_about = context is not None and ABOUT in context.variables
        return {ABOUT: self._parts.outbox.redacted(promise.about)} if has_about else {}


def _read_time(text: str, zone: ZoneInfo) -> datetime.datetime | None:
    """Return a time in ISO 8601, in `zone` unless it names one; None if it cannot be read."""
    try:
        time = datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return (time.replace(tzinfo=zone) if time.tzinfo is None else time).astimezone(zone)
