"""ElevenLabs Agents: one call's side of their protocol.

The agent lives at ElevenLabs with its tools and formats (`sync` writes them there); a connection is
one conversation with it, so a new connection gets the conversation so far. Facts that the service
does not report are derived from its behaviour:

- The end of an answer is `agent_response_complete`, which is opt-in and comes late or never; so an
  answer is also over when all its sound has been heard for `QUIET_S` and no more has come, unless
  there was too little of it for its words: then the rest is still to come, or has been lost.
- The start of the caller's speech is an `interruption`, or a tentative transcript while the agent
  is silent.
- A pong goes out at once, as the service's own clients do: `ping_ms` is the time the last one took.
- It takes no report about the heard part of a cut answer: it estimates that by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias
from urllib.parse import urlencode

import orjson

from cordboard.agent_api.agent import AgentSession, Said
from cordboard.agent_api.service_protocol import CutItem, Lost, ProtocolHost, Resumed
from cordboard.agent_api.speech import Speech
from cordboard.agents.realtime.typed_message import typed_message
from cordboard.audio.format import SLIN_8K, SLIN_16K, ULAW_8K, AudioFormat
from cordboard.audio.transcoder import Transcoder
from cordboard.errors import AgentError
from cordboard.net.service_websocket import Address
from cordboard.tools.tool import ToolReply
from cordboard.vendors.elevenlabs.agent import messages
from cordboard.vendors.elevenlabs.agent.tools import OpenCalls
from cordboard.vendors.elevenlabs.config import ElevenLabsAgentProvider
from cordboard.vendors.elevenlabs.errors import Complaint, closed, refused
from cordboard.vendors.elevenlabs.limits import PAYLOAD
from cordboard.vendors.elevenlabs.rest import BASE_URL, ElevenLabsRest

QUIET_S = 0.7
"""Seconds after the last sound was heard; two pieces of an answer are closer together."""
FASTEST, SHORT_S = 22.0, 0.3
"""Characters a second that no voice of the service exceeds (usual are 15), and seconds of sound
that may be missing, for a word or two."""
COUNT_S = 10.0
"""Seconds between two reports of a conversation's duration, the unit of its price."""
MODEL = "agent"
"""Model name in the usage reports; the service has one price for all its agents."""
KEEP_ALIVE_S = 30.0
"""The service gives up after 60 s without input (`transport_receive_timeout`)."""
_OUTPUT = "agent_output_audio_format"
_GO_ON = "Please go on."
_Take: TypeAlias = Callable[[ProtocolHost, Mapping[str, Any]], None]


class ElevenLabsProtocol:
    """Implements `agent_api.service_protocol.ServiceProtocol`."""

    payload = PAYLOAD

    keep_alive_s = KEEP_ALIVE_S

    def __init__(self, settings: ElevenLabsAgentProvider, key: str) -> None:
        """`key`: may be empty for a public agent (`requires_auth: false`)."""
        self._settings = settings
        self._key = key
        self._session: AgentSession | None = None
        self._host: ProtocolHost | None = None
        self._resumed: Resumed | None = None
        self._ready = False
        self._complaint = Complaint()
        self._cut_event = -1
        """Sound up to this event was cut."""
        self._to_service: Transcoder | None = None
        self._from_service: Transcoder | None = None
        self._output = ULAW_8K
        self._calls = OpenCalls()
        self._asked_again = ""
        """The caller's last words, to be sent again when the last orphan is answered."""
        self._sent_texts: list[str] = []
        """Messages sent in the caller's name."""
        self._answering = False
        self._sounded = False
        """There was sound in the answer."""
        self._ends = False
        """The agent hangs up after this answer."""
        self._heard_until = 0.0
        """Loop time at which the caller will have heard all sound of the answer."""
        self._characters = 0
        self._seconds = 0.0
        """Seconds of the agent's sound since the caller's last turn."""
        self._caller_speaks = False
        self._last_said = ("", -1)
        self._last_words = ("", -1)
        self._last_sound = ("", -1)
        self._counted_at = 0.0
        self._takes: Mapping[str, _Take] = {
            "conversation_initiation_metadata": self._take_metadata,
            "audio": self._take_sound,
            "ping": self._take_ping,
            "interruption": self._take_interruption,
            "user_transcript": self._take_transcript,
            "tentative_user_transcript": self._take_tentative,
            "agent_response": self._take_words,
            "agent_response_complete": self._take_complete,
            "client_tool_call": self._take_tool_call,
            "agent_tool_response": self._take_tool_response,
            "error": self._take_error,
            "client_error": self._take_error,
        }

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
            query = urlencode({"agent_id": settings.agent_id, "source": "cordboard", **more})
            url = f"{base}/v1/convai/conversation?{query}"
            return Address(url, settings.request_headers(""))
        if not (self._key or settings.request_headers("")):
            wanted = " or ".join(settings.key_variables)
            reason = f"ElevenLabs needs a key: set {wanted}, or `requires_auth: false`"
            raise AgentError(reason, "auth")
        seconds = settings.connect_timeout_ms / 1000
        headers = settings.request_headers(self._key)
        async with ElevenLabsRest(settings.base_url, self._key, seconds, headers) as rest:
            return Address(await rest.signed_url(settings.agent_id, more))

    def begin(self, session: AgentSession, host: ProtocolHost, resumed: Resumed | None) -> None:
        self._session, self._host, self._resumed = session, host, resumed
        self._ready = False
        self._complaint = Complaint()
        self._cut_event = -1
        self._calls.conversation_lost()
        self._answering = self._sounded = self._ends = self._caller_speaks = False
        self._last_said = self._last_words = self._last_sound = ("", -1)
        self._sent_texts.clear()
        self._nothing_said()
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
        take = self._takes.get(kind)
        if take is None:
            if kind not in messages.QUIET:
                host.ignored("unknown", kind[:60])
        elif self._ready or take in (self._take_metadata, self._take_ping, self._take_error):
            take(host, event)
        else:
            host.ignored("out_of_order", kind)

    def receive_binary(self, data: bytes) -> None:
        if self._host is not None:
            self._host.ignored("unknown", "a binary message")

    def hear(self, sound: bytes) -> None:
        host = self._host
        if host is None:
            return
        if self._to_service is not None:
            sound = self._to_service.convert(sound)
        if sound:
            host.send_text(messages.user_audio(sound))
        now = host.now()
        if self._answering and self._quiet(now) and self._all_said:
            self._end_answer(host)
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

    def listen_aside(self, on: bool) -> bool:
        return False

    def lost(self, status: int | None, code: int | None, problem: str) -> Lost:
        was_ready, self._ready = self._ready, False
        if was_ready and self._host is not None:
            self._count(self._host)
        self._answering = False
        problem = problem.replace(self._key, "***") if self._key else problem
        if status is not None:
            return refused(status, problem, f"the agent {self._settings.agent_id}")
        lost = closed(code, problem, self._complaint, accepted=was_ready)
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

    def _take_metadata(self, host: ProtocolHost, event: Mapping[str, Any]) -> None:
        session = self._session
        if session is None or self._ready:
            host.ignored("duplicate", "the conversation's metadata")
            return
        told = messages.part(event, "conversation_initiation_metadata_event")
        formats: list[AudioFormat] = []
        for side in ("input", "output"):
            name = told.get("user_input_audio_format" if side == "input" else _OUTPUT)
            known = messages.FORMATS.get(name) if isinstance(name, str) else None
            if known is None:
                said = f"the agent's {side} format is {str(name)[:40]}"
                wanted = f"expected {messages.WANTED_FORMAT}; run `cordboard elevenlabs sync`"
                host.failed("refused", f"{said}, {wanted}")
                return
            formats.append(known)
        heard, self._output = formats
        same_in, same_out = heard == session.format, self._output == session.format
        self._to_service = None if same_in else Transcoder(session.format, heard)
        self._from_service = None if same_out else Transcoder(self._output, session.format)
        self._ready = True
        self._counted_at = host.now()
        if not (same_in and same_out):
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

    def _take_ping(self, host: ProtocolHost, event: Mapping[str, Any]) -> None:
        number = messages.number(messages.part(event, "ping_event").get("event_id"))
        if number is None:
            _malformed(host, event)
        else:
            host.send_text(b'{"type":"pong","event_id":%d}' % number)

    def _take_transcript(self, host: ProtocolHost, event: Mapping[str, Any]) -> None:
        told = messages.part(event, "user_transcription_event")
        text, number = told.get("user_transcript"), messages.number(told.get("event_id"))
        if not isinstance(text, str):
            _malformed(host, event)
            return
        text = text.strip()
        self._nothing_said()
        if text in self._sent_texts:
            self._sent_texts.remove(text)
        elif number is not None and (text, number) == self._last_said:
            host.ignored("duplicate", "a transcript")
        else:
            self._last_said = (text, -1 if number is None else number)
            self._caller_speaks = False
            host.caller_text(text)

    def _take_tentative(self, host: ProtocolHost, event: Mapping[str, Any]) -> None:
        """Note that the caller speaks. Over the agent's voice it may be its echo; there the service
        decides (`interruption`)."""
        session = self._session
        told = messages.part(event, "tentative_user_transcription_event")
        heard = self._answering and not self._quiet(host.now())
        if session is None or self._caller_speaks or heard or session.speaking():
            return
        if messages.words(told.get("user_transcript")):
            self._caller_speaks = True
            self._answering = self._sounded = False
            host.caller_started()

    def _take_interruption(self, host: ProtocolHost, event: Mapping[str, Any]) -> None:
        number = messages.number(messages.part(event, "interruption_event").get("event_id"))
        if number is None:
            _malformed(host, event)
            return
        if number <= self._cut_event:
            host.ignored("duplicate", "an interruption")
            return
        self._cut_event = number
        self._answering = self._sounded = False
        self._nothing_said()
        if self._sent_texts:
            host.interrupted()  # by a message in the caller's name
        else:
            self._caller_speaks = True
            host.caller_started()

    def _take_error(self, host: ProtocolHost, event: Mapping[str, Any]) -> None:
        """Note the error. The service closes the connection next; `lost` interprets that."""
        told = messages.part(event, "error_event") or messages.part(event, "client_error_event")
        told = told or event
        said = [messages.words(told.get(key)) for key in ("message", "reason", "debug_message")]
        text = next(filter(None, said), "")[:500]
        text = text.replace(self._key, "***") if self._key else text
        kind = messages.words(told.get("error_type"))[:60]
        self._complaint = Complaint(kind, messages.number(told.get("code")), text)
        host.ignored("warning", f"the service reports an error: {kind or 'unknown'}")

    # The answer.

    def _take_words(self, host: ProtocolHost, event: Mapping[str, Any]) -> None:
        told = messages.part(event, "agent_response_event")
        text, number = told.get("agent_response"), messages.number(told.get("event_id"))
        if not isinstance(text, str):
            _malformed(host, event)
            return
        text = text.strip()
        if number is not None and (text, number) == self._last_words:
            host.ignored("duplicate", "an answer's words")
            return
        self._last_words = (text, -1 if number is None else number)
        if text:
            self._begin_answer(host)
            self._characters += messages.spoken_length(text)
            host.agent_words(f"{text} ")

    def _take_sound(self, host: ProtocolHost, event: Mapping[str, Any]) -> None:
        told = messages.part(event, "audio_event")
        coded, number = told.get("audio_base_64"), messages.number(told.get("event_id"))
        sound = messages.decoded(coded)
        if sound is None or number is None:
            _malformed(host, event)
            return
        if number <= self._cut_event:
            host.ignored("late", "sound of an answer that was cut")
            return
        if (coded, number) == self._last_sound:
            host.ignored("duplicate", "sound")
            return
        self._last_sound = (str(coded), number)
        if not sound:
            return
        self._begin_answer(host)
        self._sounded = True
        length = self._output.duration_ms(len(sound)) / 1000
        self._seconds += length
        self._heard_until = max(self._heard_until, host.now()) + length
        if self._from_service is not None:
            sound = self._from_service.convert(sound)
        if sound:
            host.agent_sound(sound)

    def _take_complete(self, host: ProtocolHost, event: Mapping[str, Any]) -> None:
        if self._answering and self._sounded:
            self._end_answer(host)

    def _quiet(self, now: float) -> bool:
        """True if the caller has heard nothing of the answer for long."""
        return now >= self._heard_until + QUIET_S

    @property
    def _all_said(self) -> bool:
        """True if there was sound for all the words, judging by its length."""
        return self._characters <= FASTEST * (self._seconds + SHORT_S)

    def _nothing_said(self) -> None:
        """Forget the words and the sound: the next ones belong to another answer."""
        self._characters, self._seconds = 0, 0.0

    def _begin_answer(self, host: ProtocolHost) -> None:
        self._calls.proven()
        self._sent_texts.clear()
        if self._caller_speaks:  # it answers words that it has not reported
            self._caller_speaks = False
            host.caller_text("")
        if not self._answering:
            self._answering, self._sounded = True, False
            self._heard_until = host.now()

    def _end_answer(self, host: ProtocolHost) -> None:
        self._answering = self._sounded = False
        host.answer_done()
        if self._ends:
            self._ends = False
            host.ended("the agent has ended the conversation")

    # Tools.

    def _take_tool_call(self, host: ProtocolHost, event: Mapping[str, Any]) -> None:
        told = messages.part(event, "client_tool_call")
        name, call_id = told.get("tool_name"), told.get("tool_call_id")
        if not (isinstance(name, str) and isinstance(call_id, str) and call_id):
            _malformed(host, event)
            return
        if not self._calls.asked(call_id):
            host.ignored("duplicate", "a tool call")
            return
        arguments = told.get("parameters")
        if arguments is not None and not isinstance(arguments, dict):
            _malformed(host, event)
            problem = "the parameters are not an object"
        elif self._calls.too_many:
            host.ignored("warning", "too many tool calls wait")
            problem = "too many calls at once"
        else:
            host.tool_asked(call_id, name, arguments or {})
            return
        self._calls.refuse(call_id)
        host.send_text(messages.tool_error(call_id, problem))

    def _take_tool_response(self, host: ProtocolHost, event: Mapping[str, Any]) -> None:
        """Note the results of the service's own tools: two of them concern us."""
        told = messages.part(event, "agent_tool_response")
        if told.get("is_error") or told.get("tool_type") == "client":
            return
        if told.get("tool_name") == "end_call":
            if self._answering:
                self._ends = True
            else:
                host.ended("the agent has ended the conversation")
        elif told.get("tool_name") == "skip_turn" and not self._answering:
            host.answer_done()

    # To the service.

    def _tell(self, text: str) -> None:
        """Send information that needs no answer."""
        if self._host is not None:
            self._host.send_text(messages.text_message("contextual_update", text))

    def _put(self, text: str) -> None:
        """Send a message to answer, in the caller's name."""
        if self._host is not None:
            self._sent_texts.append(text.strip())
            self._nothing_said()
            self._host.send_text(messages.text_message("user_message", text))

    def _count(self, host: ProtocolHost) -> None:
        seconds = host.now() - self._counted_at
        self._counted_at = host.now()
        if seconds > 0:
            host.used(MODEL, {"seconds": seconds})


def _malformed(host: ProtocolHost, event: Mapping[str, Any]) -> None:
    host.ignored("malformed", str(event.get("type"))[:60])
