"""Ledgers for the tests of the history: short ones, made of the events that the engine writes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from cordboard.calls import events
from cordboard.calls.events import LedgerEvent
from cordboard.calls.ledger_file import encode_event

NOON = dt.datetime(2026, 11, 20, 12, 0, tzinfo=dt.UTC)


@dataclass
class Told:
    """One call as a test describes it."""

    call_id: str
    started: dt.datetime = NOON
    number: str = "+4533112233"
    name: str = ""
    context: str = "booking"
    provider: str = "local"
    source: str = "asterisk"
    test: bool = False
    outcome: str = "completed"
    reason: str = "caller_hangup"
    turns: Iterable[tuple[str, str]] = (("a table for two please", "For what time?"),)
    """What the caller and the agent said."""
    waited: int = 500
    cost: float | None = None
    tools: Iterable[tuple[str, str]] = ()
    """Name and status."""
    troubles: Iterable[str] = ()
    interrupted: str | None = None
    recording: str = ""
    ended: bool = True
    config: str = ""
    direction: str = "in"
    more: list[tuple[int, LedgerEvent]] = field(default_factory=list)

    @property
    def file(self) -> str:
        return f"{self.started:%Y-%m-%d}/{self.call_id}.jsonl"

    def content(self) -> bytes:
        at = self.started.isoformat(timespec="milliseconds")
        found: list[tuple[int, LedgerEvent]] = [
            (
                0,
                events.Offered(
                    self.call_id,
                    at,
                    self.source,
                    self.number,
                    self.name,
                    "100",
                    test=self.test,
                    config=self.config,
                    direction=self.direction,
                ),
            ),
            (1, events.Bound(self.context, self.provider, 1, [])),
            (2, events.Connected()),
        ]
        if self.recording:
            found.append((3, events.RecordingStarted(self.recording, "wav", 8000)))
        ms = 1000
        for number, (caller, agent) in enumerate(self.turns, 1):
            found += self._turn(number, ms, caller, agent)
            ms += 10_000
        found += [(ms, events.Trouble(where, "broke")) for where in self.troubles]
        found += self.more
        if self.ended:
            found.append((ms, events.Ended(self.outcome, self.reason, ms, self.cost, "EUR")))
        return b"".join(encode_event(at_ms, event) for at_ms, event in found)

    def _turn(
        self, number: int, ms: int, caller: str, agent: str
    ) -> Iterable[tuple[int, LedgerEvent]]:
        yield ms, events.SpeechBegan(ms)
        yield ms + 2000, events.TurnEnded(number, ms + 1800)
        yield ms + 2000, events.Heard(number, caller, 0.9)
        for at, (tool, status) in enumerate(self.tools if number == 1 else ()):
            ask = f"{number}.{at}"
            yield ms + 2010, events.ToolCalled(number, ask, tool, f"http:{tool}", {"q": caller})
            yield ms + 2100, events.ToolAnswered(ask, tool, status, "done", 90)
        yield ms + 2200, events.Answering(number, agent)
        yield ms + 2300, events.AudioStarted(number)
        wait = self.waited
        yield ms + 2300, events.Latency(number, wait - 100, 0, 50, 30, 20, wait, 40)
        if self.interrupted is not None and number == 1:
            yield ms + 4000, events.BargedIn(number, self.interrupted, 1700)
        else:
            yield ms + 6000, events.AudioEnded(number)

    def write(self, directory: Path) -> Path:
        path = directory / self.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.content())
        return path


def refuse(directory: Path, call_id: str, number: str = "+4599", reason: str = "busy") -> Path:
    """Add a refused offer to the file of its day."""
    at = NOON.isoformat(timespec="milliseconds")
    line = encode_event(0, events.Refused(call_id, at, "asterisk", number, "Bo", "100", reason))
    path = directory / f"{NOON:%Y-%m-%d}" / "refused.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(line)
    return path
