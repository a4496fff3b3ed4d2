"""ElevenLabs Agents: one call's side of their protocol.

The agent lives at ElevenLabs with its tools and formats (`sync` writes them there); a connection is
one conversation with it, so a new connection gets the conversation so far. Facts that the service
does not report are derived from its behaviour:

- The end of an answer is `agent_response_complete`, which is opt-in and comes late or never; so an
  answer is also over when all its sound has been heard for a while and no more has come, unless
  there was too little of it for its words: then the rest is still to come, or has been lost.
- The start of the caller's speech is an `interruption`; while the agent is silent, the shell's own
  voice trace.
- A pong goes out at once, as the service's own clients do: `ping_ms` is the time the last one took.
- It takes no report about the heard part of a cut answer: it estimates that by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from urllib.parse import urlencode

import orjson

from cordboard.agent_api.agent import AgentSession, Said
from cordboard.agent_api.service_protocol import CutItem, Lost, ProtocolHost, Resumed
from cordboard.agent_api.speech import Speech
from cordboard.agents.realtime.typed_message import typed_message
from cordboard.audio.format import SLIN_8K, SLIN_16K, ULAW_8K, AudioFormat
from cordboard.errors import AgentError
from cordboard.net.service_websocket import Address
from cordboard.tools.tool import ToolReply
from cordboard.vendors.elevenlabs.agent import messages
from cordboard.vendors.elevenlabs.agent.answers import Answers, Event
from cordboard.vendors.elevenlabs.agent.sound import FormatError, Sound
from cordboard.vendors.elevenlabs.agent.tools import ToolCalls
from cordboard.vendors.elevenlabs.config import ElevenLabsAgentProvider
from cordboard.vendors.elevenlabs.errors import QUEUE_FULL, Complaint, closed, refused
from cordboard.vendors.elevenlabs.limits import PAYLOAD
from cordboard.vendors.elevenlabs.rest import BASE_URL, ElevenLabsRest

COUNT_S = 10.0
"""Seconds between two reports of a conversation's duration, the unit of its price."""
MODEL = "agent"
"""Model name in the usage reports; the service has one price for all its agents."""
KEEP_ALIVE_S = 30.0
"""The service gives up after 60 s without input (`transport_receive_timeout`)."""
_SOURCE = "unknown"
_GO_ON = "Please go on."
_ALWAYS = frozenset(
    {"conversation_initiation_metadata", "ping", "queue_status", "error", "client_error"}
)
"""Events that may come before the conversation is accepted."""


class ElevenLabsProtocol:
    """Implements `agent_api.service_protocol.ServiceProtocol`."""

    payload = PAYLOAD

    keep_alive_s = KEEP_ALIVE_S

    def __init__(self, settings: ElevenLabsAgentProvider, key: str) -> None:
        """`key`: may be empty for a public agent (`requires_auth: false`)."""
        self._settings = settings
        self._key = key
        self._host: ProtocolHost | None = None
        self._resumed: Resumed | None = None
        self._answers: Answers
        self._handlers: dict[str, Callable[[Event], None]] = {}
        self._ready = False
        self._complaint = Complaint()
        self._calls = ToolCalls()
        self._asked_again = ""
        """The caller's last words, to be sent again when the last orphan is answered."""
        self._accepted_at = self._counted_at = 0.0

    # agent_api.service_protocol.ServiceProtocol

    @property
    def formats(self) -> tuple[AudioFormat, ...]:
        return (ULAW_8K, SLIN_8K, SLIN_16K)

    @property
    def speaks_greeting(self) -> bool:
        return "first_message" in self._settings.overrides

    async def address(self) -> Address:
        settings = self._settings
        named = {"branch_id": settings.branch_id, "environment": settings.environment}
        more = {name: value for name, value in named.items() if value is not None}
        if not settings.requires_auth:
            base = (settings.base_url or BASE_URL).rstrip("/").replace("http", "ws", 1)
            query = urlencode({"agent_id": settings.agent_id, "source": _SOURCE, **more})
            url = f"{base}/v1/convai/conversation?{query}"
            return Address(url, settings.request_headers(""))
        if not (self._key or settings.request_headers("")):
            reason = f"ElevenLabs needs a key: set {settings.key_places}, or `requires_auth: false`"
            raise AgentError(reason, "auth")
        seconds = settings.connect_timeout_ms / 1000
        headers = settings.request_headers(self._key)
        async with ElevenLabsRest(settings.base_url, self._key, seconds, headers) as rest:
            return Address(await rest.signed_url(settings.agent_id, more))

    def begin(self, session: AgentSession, host: ProtocolHost, resumed: Resumed | None) -> None:
        self._host, self._resumed = host, resumed
        self._ready = False
        self._complaint = Complaint()
        self._calls.conversation_lost()
        self._answers = Answers(host, session, self._calls)
        self._handlers = {
            **self._answers.handlers,
            "client_tool_call": partial(self._calls.called, host),
            "conversation_initiation_metadata": partial(self._take_metadata, host, session),
            "ping": partial(_take_ping, host),
            "queue_status": partial(self._take_queue_status, host),
            "error": partial(self._take_error, host),
            "client_error": partial(self._take_error, host),
        }
        # A connection that was lost before the first word has not greeted.
        unheard = resumed is not None and resumed.owes_answer and not resumed.history
        if unheard and self.speaks_greeting:
            resumed = self._resumed = None
        greets = resumed is None and not session.history
        message = messages.initiation(self._settings, session, greets=greets)
        host.send_text(orjson.dumps(message, default=str))

    def receive_text(self, message: bytes) -> None:
        host = self._host
        if host is None:
            return
        read = typed_message(message, host)
        if read is None:
            return
        kind, event = read
        take = self._handlers.get(kind)
        if take is None:
            if kind not in messages.QUIET:
                host.ignored("unknown", kind[:60])
        elif self._ready or kind in _ALWAYS:
            take(event)
        else:
            host.ignored("out_of_order", kind)

    def receive_binary(self, data: bytes) -> None:
        if self._host is not None:
            self._host.ignored("unknown", "a binary message")

    def hear(self, sound: bytes) -> None:
        host = self._host
        if host is None or not self._ready:
            return
        if sound := self._answers.sound.to_service(sound):
            host.send_text(messages.user_audio(sound))
        now = host.now()
        self._answers.look(now)
        if now - self._counted_at >= COUNT_S:
            self._count(host)

    def answer_tool(self, reply: ToolReply) -> None:
        host = self._host
        if host is None:
            return
        match self._calls.answered(reply):
            case "here":
                host.send_text(messages.tool_result(reply))
            case "lost":
                self._tell(messages.result_text(reply))
                if not self._calls.orphans:
                    self._put(self._asked_again or _GO_ON)
            case "nowhere":
                host.ignored("late", "an answer that nothing waits for")

    def interrupted(self, cut: tuple[CutItem, ...]) -> None:
        """Do nothing: the service knows, because every cut is its own."""

    def speak(self, speech: Speech) -> bool:
        return False

    def inform(self, text: str) -> bool:
        if not self._ready:
            return False
        self._put(f"(The telephone system, not the caller: tell the caller this now: {text})")
        return True

    def take_note(self, text: str) -> bool:
        """See `TakesNotes`."""
        if self._ready:
            self._tell(text)
        return self._ready

    def listen_aside(self, on: bool) -> bool:
        return False

    def lost(self, status: int | None, code: int | None, problem: str) -> Lost:
        was_ready, self._ready = self._ready, False
        accepted_for = None
        if was_ready and self._host is not None:
            accepted_for = self._host.now() - self._accepted_at
            self._count(self._host)
        problem = problem.replace(self._key, "***") if self._key else problem
        if status is not None:
            return refused(status, problem, f"the agent {self._settings.agent_id}")
        lost = closed(code, problem, self._complaint, accepted_for)
        if was_ready and code == 1000 and not lost.again and self._host is not None:
            self._host.ended(lost.reason)
        return lost

    def keep_alive(self) -> None:
        if self._host is not None:
            self._host.send_text(b'{"type":"user_activity"}')

    def goodbye(self) -> None:
        if self._ready and self._host is not None:
            self._count(self._host)

    # The conversation.

    def _take_metadata(self, host: ProtocolHost, session: AgentSession, event: Event) -> None:
        if self._ready:
            host.ignored("duplicate", "the conversation's metadata")
            return
        told = messages.part(event, "conversation_initiation_metadata_event")
        try:
            sound = self._answers.sound = Sound(session.format, told)
        except FormatError as error:
            host.failed("refused", str(error))
            return
        self._ready = True
        self._accepted_at = self._counted_at = host.now()
        if sound.converted:
            host.ignored("warning", "sound is converted; `cordboard elevenlabs sync` spares it")
        self._catch_up(session)
        host.ready()

    def _catch_up(self, session: AgentSession) -> None:
        """Send a conversation after the first one the events that it has missed."""
        resumed = self._resumed
        history = resumed.history if resumed is not None else session.history
        if resumed is None and not self.speaks_greeting and session.greeting:
            history = (*history, Said("agent", session.greeting))
        owed = resumed is not None and resumed.owes_answer
        last = next((said.text for said in reversed(history) if said.who == "caller"), "")
        if owed and history and history[-1].who == "caller":
            history = history[:-1]
        if told := messages.history_text(history):
            self._tell(told)
        for reply in self._calls.unproven:
            self._tell(messages.result_text(reply))
        self._asked_again = last
        if owed and not self._calls.orphans:
            self._put(last or _GO_ON)

    def _take_queue_status(self, host: ProtocolHost, event: Event) -> None:
        """Wait in the queue of an agent that is at its limit of conversations, or do not. A
        conversation that has not been accepted cannot be waited for: nothing would be heard."""
        status = messages.part(event, "queue_status_event").get("status")
        if status == "admitted":
            self._answers.hold(False)
        elif status == "waiting" and self._ready and self._settings.queue == "wait":
            host.ignored("warning", "the caller waits in the queue of the agent")
            self._answers.hold(True)
        elif status in ("waiting", "timed_out"):
            host.failed("quota", QUEUE_FULL)
        else:
            host.ignored("malformed", "queue_status")

    def _take_error(self, host: ProtocolHost, event: Event) -> None:
        """Note the error. The service closes the connection next; `lost` interprets that."""
        told = messages.part(event, "error_event") or messages.part(event, "client_error_event")
        told = told or event
        said = [messages.words(told.get(key)) for key in ("message", "reason", "debug_message")]
        text = next(filter(None, said), "")[:500]
        text = text.replace(self._key, "***") if self._key else text
        kind = messages.words(told.get("error_type"))[:60]
        self._complaint = Complaint(kind, messages.number(told.get("code")), text)
        host.ignored("warning", f"the service reports an error: {kind or 'unknown'}")

    # To the service.

    def _tell(self, text: str) -> None:
        """Send information that needs no answer."""
        if self._host is not None:
            self._host.send_text(messages.text_message("contextual_update", text))

    def _put(self, text: str) -> None:
        """Send a message to answer, in the caller's name."""
        if self._host is not None:
            self._answers.sent(text)
            self._host.send_text(messages.text_message("user_message", text))

    def _count(self, host: ProtocolHost) -> None:
        seconds = host.now() - self._counted_at
        self._counted_at = host.now()
        if seconds > 0:
            host.used(MODEL, {"seconds": seconds})


def _take_ping(host: ProtocolHost, event: Event) -> None:
    number = messages.number(messages.part(event, "ping_event").get("event_id"))
    if number is None:
        host.ignored("malformed", "ping")
    else:
        host.send_text(b'{"type":"pong","event_id":%d}' % number)
