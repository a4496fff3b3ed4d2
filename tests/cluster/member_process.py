"""A member of a cluster in a process of its own, to be killed and stopped: `test_killed_members.py`
starts it.

    member_process.py URL FOLDER NODE CALLS

Its calls say a line every 20 ms. It prints a line of JSON when something happens, with the clock
that all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import orjson
import structlog

from cordboard.cluster import nats_connection
from cordboard.cluster.adoption import Adoption
from cordboard.cluster.call_records import Claimed
from cordboard.cluster.events import Story
from cordboard.cluster.member import Member, MemberEvents, Standing
from cordboard.cluster.nats_connection import NatsConnection, NatsLink
from cordboard.cluster.wire import CallRecord
from cordboard.config.sections.cluster import Cluster, Nats
from cordboard.config.sections.privacy import Encryption

ANSWER_SECONDS = 5.0
"""Of the bus, in place of 0.6 s and 0.3 s."""


def tell(event: str, **more: object) -> None:
    line = orjson.dumps({"event": event, "at": time.monotonic(), **more})
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


class Process:
    """The engine around the member: it has calls, and can adopt some."""

    def __init__(self, url: str, folder: Path, node: str) -> None:
        self.folder = folder
        self.calls: dict[str, int] = {}
        """Number of the last line of each call."""
        self.member = Member(
            Cluster(node=node, nats=Nats(servers=(url,))),
            lambda: Standing(50 - len(self.calls), len(self.calls), False),
            folder,
            encryption=Encryption(),
            events=MemberEvents(
                gone=self.gone,
                lease=lambda state: tell("lease", state=state),
                taken=self.drop,
                internal_error=lambda where: tell("error", where=where),
            ),
        )
        self.adoption = Adoption(
            self.member.bus.calls,
            self.member.records,
            self.member.events,
            self.member.roster,
            self.member.lease,
            self.member.describe,
            self,
        )

    def gone(self, instance: str) -> None:
        tell("gone", instance=instance)
        self.adoption.gone(instance)

    def drop(self, call_id: str) -> None:
        if self.calls.pop(call_id, None) is not None:
            tell("dropped", call=call_id)

    async def fence(self, instance: str) -> None:
        tell("fenced", instance=instance)

    async def adopt(self, claimed: Claimed, story: Story, *, has_room: bool) -> None:
        call_id = claimed.record.call_id
        path = self.folder / f"{call_id}.jsonl"
        self.member.events.open(call_id, lambda: path, story, claimed.epoch)
        self.member.records.put(claimed.record)
        self.calls[call_id] = len(story.lines)
        tell("adopted", call=call_id, lines=len(story.lines))

    def begin(self, call_id: str) -> None:
        self.member.records.put(CallRecord(call_id, "", state="talking"))
        self.member.events.open(call_id, lambda: self.folder / f"{call_id}.jsonl")
        self.calls[call_id] = 0

    def say(self) -> None:
        for call_id in self.calls:
            self.calls[call_id] += 1
            line = {"number": self.calls[call_id], "by": self.member.instance}
            self.member.events.take(call_id, orjson.dumps(line) + b"\n")


async def main(url: str, folder: str, node: str, calls: str) -> None:
    process = Process(url, Path(folder), node)
    await process.member.start()
    await process.member.bus.ready()
    for number in range(int(calls)):
        process.begin(f"{node}-call-{number}")
    tell("begun", instance=process.member.instance)
    trusted = False
    while True:
        process.say()
        if not trusted and process.member.lease.steady_seconds > 4:
            trusted = True
            tell("trusts")
        await asyncio.sleep(0.02)


# Its answers may be late on a busy machine, which is no bus that is away.
NatsLink.ask.__defaults__ = (b"", None, ANSWER_SECONDS)
NatsConnection.ask.__defaults__ = (b"", None, ANSWER_SECONDS)
NatsConnection.api.__defaults__ = (None, ANSWER_SECONDS)
NatsConnection._answer.__defaults__ = (None, ANSWER_SECONDS)
nats_connection.PING_SECONDS = ANSWER_SECONDS
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
asyncio.run(main(*sys.argv[1:]))
