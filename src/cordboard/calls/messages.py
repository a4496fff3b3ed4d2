"""Messages that callers leave: dictated, read back, confirmed, handed to the durable queue.

    prompt ──▶ dictation ──▶ "Your message is: ... Shall I send it?" ──yes──▶ the queue
                  ▲                            │ └── no clear answer, hang-up ──▶ the queue,
                  └──── no, at most twice ─────┘                                  unconfirmed

The agent's own recogniser writes the words, so it works with every agent. The queue is that of the
steps after calls (`calls.post_call`): a message is on the disk before the caller hears that it was
passed on, and each receiver gets it at least once; if the disk fails, it is handed over in memory,
and the caller hears that it may not arrive. A hang-up does not lose the caller's words.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from cordboard.calls import events
from cordboard.calls.binding import Binding
from cordboard.calls.conversation import Conversation
from cordboard.calls.dictation import Dictated
from cordboard.calls.ledger import Ledger
from cordboard.calls.post_call.job import FinishedCall, JobTaker, jobs_of, recordable
from cordboard.calls.recording.call_recording import CallRecording
from cordboard.config.call_phases import PostCallStep
from cordboard.config.schema import Config
from cordboard.config.tools.messages import MESSAGE, MessageSettings
from cordboard.errors import LineError, LineGone, LineUnsupported
from cordboard.tools.call_line import MessageOutcome, MessageResult

MOST_TRIES = 3
"""Number of readings; a caller who rejects all of them does not want the message sent."""
SAY_AGAIN = "Please say your message again, and press the hash key when you have said all."
READ_BACK = "Your message is: {text}. Shall I send it?"

Kept: TypeAlias = Literal["disk", "memory", ""]
"""Where something is until its receivers have it; empty in a test call, in which nothing is handed
over."""


def sentences(config: Config) -> Iterator[str]:
    """Yield what callers hear before a message."""
    if config.message is not None:
        yield from (config.message.prompt, SAY_AGAIN)


class Outbox:
    """Hands what a caller has left to the tools that the operator has named."""

    def __init__(
        self,
        queue: JobTaker | None,
        call_id: str,
        binding: Binding,
        variables: Mapping[str, str],
        ledger: Ledger,
    ) -> None:
        """`queue` is None in a test call, in which nothing is handed over."""
        self._queue = queue
        self._call_id = call_id
        self._binding = binding
        self._variables = variables
        self._ledger = ledger

    def redacted(self, text: str) -> str:
        """Return the caller's words as they may be written and sent."""
        return str(self._ledger.redacted(text))

    async def put(
        self, steps: tuple[PostCallStep, ...], name: str, facts: Mapping[str, Any]
    ) -> Kept:
        """Hand `facts` over to these steps, as {name.FACT}."""
        if self._queue is None:
            return ""
        seal = self._ledger.seal
        call = FinishedCall(
            self._call_id,
            self._binding.context_name,
            self._binding.provider_name,
            recordable(self._variables, self._ledger.redacted),
            {},
            {},
            time.time(),
            seal.key_id if seal is not None else "",
        )
        written = await self._queue.put(jobs_of(call, steps, {name: dict(facts)}))
        return "disk" if written else "memory"


@dataclass(slots=True)
class _Draft:
    """A message before it is handed over."""

    words: Dictated
    clip: tuple[str, int, int] = ("", 0, 0)
    """The file with the caller's voice, and where the message begins and ends in it, in ms."""


class Messages:
    """The messages of one call."""

    def __init__(
        self,
        settings: MessageSettings | None,
        outbox: Outbox,
        recording: CallRecording,
        ledger: Ledger,
    ) -> None:
        self._settings = settings
        self._outbox = outbox
        self._recording = recording
        self._ledger = ledger
        self._conversation: Conversation | None = None

    def connect(self, conversation: Conversation) -> None:
        """Connect the line: the caller can be heard and spoken to."""
        self._conversation = conversation

    async def take(self, about: str) -> MessageResult:
        """Take a message; see `CallLine.take_message`."""
        settings, conversation = self._settings, self._conversation
        if settings is None or conversation is None:
            raise LineUnsupported("no messages can be left here")
        draft = _Draft(Dictated("", "quiet"))
        yes, tries = None, 0
        while tries < MOST_TRIES:
            tries += 1
            prompt = settings.prompt if tries == 1 else SAY_AGAIN
            draft = await self._dictated(conversation, settings, prompt)
            if not draft.words.text or draft.words.ended_by == "gone":
                break
            yes = await self._read_back(conversation, draft.words.text)
            if yes is not False:
                break
        return await self._hand_over(settings, draft, about, yes, tries)

    async def _dictated(
        self, conversation: Conversation, settings: MessageSettings, prompt: str
    ) -> _Draft:
        recording = self._recording
        recorded = settings.record and recording.begin_clip()
        began = recording.position if recorded else None
        try:
            words = await conversation.dictate(
                prompt, settings.pause_ms / 1000, settings.longest_ms / 1000
            )
            ended = recording.position
        finally:
            if settings.record:
                recording.end_clip()
        if began is None:
            return _Draft(words)
        path, from_ms = began
        return _Draft(words, (path, from_ms, ended[1] if ended is not None else from_ms))

    async def _read_back(self, conversation: Conversation, text: str) -> bool | None:
        """Return the caller's yes or no; None if there is no clear answer, or no caller."""
        try:
            return await conversation.confirm(READ_BACK.format(text=text.rstrip(".")))
        except LineError:
            return None

    async def _hand_over(
        self, settings: MessageSettings, draft: _Draft, about: str, yes: bool | None, tries: int
    ) -> MessageResult:
        text = self._outbox.redacted(draft.words.text)
        about = self._outbox.redacted(about)
        outcome: MessageOutcome = "confirmed" if yes else "unconfirmed"
        if not text:
            outcome = "empty"
        elif yes is False:
            outcome = "rejected"
        kept: Kept = ""
        path, from_ms, to_ms = draft.clip
        if outcome in ("confirmed", "unconfirmed"):
            facts = {
                "text": text,
                "about": about,
                "confirmed": outcome == "confirmed",
                "taken_at": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
                "recording": path,
                "from_ms": from_ms,
                "to_ms": to_ms,
            }
            kept = await self._outbox.put(settings.deliver, MESSAGE, facts)
        self._ledger.record(
            events.MessageTaken(outcome, text, about, tries, path, from_ms, to_ms, kept == "disk")
        )
        if draft.words.ended_by == "gone":
            raise LineGone("the caller has hung up")
        return MessageResult(outcome, text, kept != "memory")
