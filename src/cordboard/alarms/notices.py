"""Tells people of alarms: by a tool through the durable queue of post-call steps, and by e-mail.

A notice stays pending, in the file of the alarms too, until the queue has it on the disk and the
mail server has taken it. E-mail is tried again with growing pauses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import structlog

from cordboard.calls.post_call.job import JobTaker, PostCallJob
from cordboard.config.alarms import ALARM, AlarmEmail, AlarmTool
from cordboard.config.schema import Config
from cordboard.config.templates import read_json_template
from cordboard.mcp.printable import printable
from cordboard.net.backoff import Backoff
from cordboard.net.mail import Mailer, MailNotSent
from cordboard.tools.templates import fill_json

log = structlog.get_logger()

WAYS = ("tool", "email")
KEEP_SECONDS = 86_400.0
"""Age at which an undelivered notice is dropped."""
RETRY = Backoff(15.0, 900.0)
_SUBJECTS = {"firing": "ALARM {name}", "over": "Over: {name}", "test": "Test of alarms"}


@dataclass(frozen=True, slots=True)
class Notice:
    """One message about an alarm."""

    facts: Mapping[str, Any]
    """`config.alarms.ALARM_FACTS` by name."""
    made_at: float
    """Unix time."""
    ways: tuple[str, ...] = WAYS
    """Those of `WAYS` that have not taken it."""


class Notifier:
    """Delivers notices, as the configuration in force says."""

    def __init__(
        self,
        config: Callable[[], Config],
        outbox: JobTaker,
        mailer: Callable[[AlarmEmail], Mailer] = Mailer,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._outbox = outbox
        self._mailer = mailer
        self._clock = clock
        self._monotonic = monotonic
        self._mail_failures = 0
        """Since the mail server took the last message."""
        self._mail_at = 0.0
        """Time of the next try of it, in monotonic seconds."""

    async def deliver(self, notice: Notice, way: str) -> Notice | None:
        """Try one way, if it is due. Return the notice with the ways that remain; None if it is
        done, or too old."""
        if way not in notice.ways:
            return notice
        alarms = self._config().alarms
        if way == "tool":
            done = alarms.tool is None or await self._queue(alarms.tool, notice)
        else:
            done = alarms.email is None or await self._mail_when_due(alarms.email, notice)
        ways = tuple(each for each in notice.ways if each != way or not done)
        if ways and self._clock() - notice.made_at > KEEP_SECONDS:
            log.error("alarm_not_told", alarm=notice.facts["name"], ways=ways)
            return None
        return replace(notice, ways=ways) if ways else None

    async def _mail_when_due(self, settings: AlarmEmail, notice: Notice) -> bool:
        if self._monotonic() < self._mail_at:
            return False
        error = await self._mail(settings, notice)
        if not error:
            self._mail_failures, self._mail_at = 0, 0.0
            return True
        log.warning("alarm_mail_not_sent", alarm=notice.facts["name"], error=error)
        self._mail_at = self._monotonic() + RETRY.pause(self._mail_failures)
        self._mail_failures += 1
        return False

    async def test(self, facts: Mapping[str, Any]) -> dict[str, str]:
        """Try each configured way once. Return the error by way, empty for one that took it."""
        alarms, notice = self._config().alarms, Notice(facts, self._clock())
        found: dict[str, str] = {}
        if alarms.tool is not None:
            queued = await self._queue(alarms.tool, notice)
            found["tool"] = "" if queued else "the queue of post-call steps cannot be written"
        if alarms.email is not None:
            found["email"] = await self._mail(alarms.email, notice)
        return found

    async def _queue(self, tool: AlarmTool, notice: Notice) -> bool:
        config, name = self._config(), str(notice.facts["name"])
        job = PostCallJob(
            name=f"{round(notice.made_at * 1000)}-alarm-{name}-{notice.facts['state']}",
            call_id=f"alarm-{name}",
            context=config.default_context or "",
            provider="",
            step=1,
            tool=tool.tool,
            created_at=notice.made_at,
            next_at=notice.made_at,
            arguments=fill_json(read_json_template(tool.arguments), {ALARM: dict(notice.facts)}),
        )
        return await self._outbox.put([job])

    async def _mail(self, settings: AlarmEmail, notice: Notice) -> str:
        facts = notice.facts
        subject = _SUBJECTS[str(facts["state"])].format(name=facts["name"])
        lines = [str(facts["text"]), ""]
        for name in ("note", "context", "since"):
            lines += [f"{name}: {facts[name]}"] if facts.get(name) else []
        if facts.get("calls"):
            lines += ["", "Calls:", *map(str, facts["calls"])]
        try:
            await self._mailer(settings).send(subject, "\n".join(lines) + "\n")
        except MailNotSent as error:
            return printable(str(error))
        return ""
