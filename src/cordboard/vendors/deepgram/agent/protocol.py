"""Deepgram Voice Agent v1: its wire, for one call. Implements `ServiceProtocol`.

    Welcome → Settings → SettingsApplied → sound and messages both ways

Sound is raw binary, the telephone's G.711. The service hears the caller begin
(`UserStartedSpeaking`) and cuts its own answer then; it has no message to report how much was
heard. It may begin an answer before the end of the caller's turn is certain: then it requests a
function before the caller's words are there, and may cancel it.

Facts: deepgram-sdk 7.17 (`agent/v1/types`), the service's documentation of November 2026. Its users
report that an interrupted answer may end without `AgentAudioDone`, and that sound of it may still
arrive. Nothing here was tried on the real service.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import Enum, auto
from typing import Any

import orjson

from cordboard.agent_api.agent import AgentSession, Said
from cordboard.agent_api.service_protocol import CutItem, Lost, ProtocolHost, Resumed
from cordboard.agent_api.speech import Speech
from cordboard.agents.realtime.typed_message import typed_message
from cordboard.audio.format import ALAW_8K, SLIN_8K, SLIN_16K, ULAW_8K, AudioFormat
from cordboard.net.service_websocket import Address
from cordboard.tools.payload import as_payload
from cordboard.tools.tool import JsonObject, ToolReply
from cordboard.vendors.deepgram.agent.errors import SESSION_ENDS_SOON, of_connection, of_error
from cordboard.vendors.deepgram.agent.injections import WARNINGS, Injections
from cordboard.vendors.deepgram.agent.messages import settings_message
from cordboard.vendors.deepgram.agent.tools import (
    FunctionCall,
    FunctionCalls,
    cancelled,
    requested,
)
from cordboard.vendors.deepgram.config import DeepgramAgentProvider
from cordboard.vendors.deepgram.limits import PAYLOAD

BASE_URL = "https://agent.deepgram.com"
PATH = "/v1/agent/converse"
KEEP_ALIVE_S = 8.0
"""The service needs a message every 10 s (its page "Keep Alive")."""
LONGEST_SPEECH_S = 60.0
"""A caller who began to speak counts as silent after this time without a transcript."""
ACCOUNT_S = 10.0
"""Seconds between two reports of the time used."""
BAD_ARGUMENTS = "The arguments were not a JSON object. Call the function again with one."
GO_ON = "Please go on."
"""Text for the model, after a lost connection, when the last words are not the caller's."""
_SILENCE_MS = 20
Message = dict[str, Any]


class _Phase(Enum):
    CONNECTED = auto()
    """Waiting for Welcome: no message may be sent."""
    INTRODUCED = auto()
    """Settings are sent."""
    READY = auto()


class _Dropping(Enum):
    """The origin of the cut whose late sound is dropped."""

    NOTHING = auto()
    SERVICES_CUT = auto()
    """The service has cut its answer: words that follow belong to the next one."""
    OUR_CUT = auto()
    """The service does not know: everything belongs to the cut answer until it is over."""


class DeepgramProtocol:
    """One call's side of the protocol."""

    payload = PAYLOAD
    formats: tuple[AudioFormat, ...] = (ULAW_8K, ALAW_8K, SLIN_16K, SLIN_8K)
    speaks_greeting = True
    keep_alive_s = KEEP_ALIVE_S

    def __init__(self, settings: DeepgramAgentProvider, key: str) -> None:
        self._settings = settings
        self._key = key
        self._session: AgentSession | None = None
        self._host: ProtocolHost | None = None
        self._calls = FunctionCalls()
        self._introduction: JsonObject = {}
        self._prompt = ""
        """Prompt of this connection, with the notes that were taken since it began."""
        self._to_answer = ""
        """Text for the model to answer as soon as it is ready."""
        self._counted_until: float | None = None
        self._handlers: dict[str, Callable[[ProtocolHost, Message], None]] = {
            "ConversationText": self._conversation_text,
            "UserStartedSpeaking": self._user_started_speaking,
            "AgentStartedSpeaking": self._agent_started_speaking,
            "AgentAudioDone": self._agent_audio_done,
            "FunctionCallRequest": self._function_call_request,
            "FunctionCallCancelled": self._function_call_cancelled,
            "InjectionRefused": self._injection_refused,
        }
        self._handlers |= dict.fromkeys(
            (
                *("AgentThinking", "LatencyReport", "History", "FunctionCallResponse"),
                *("PromptUpdated", "SpeakUpdated", "ThinkUpdated", "ListenUpdated"),
                *("ThinkLiveUpdated", "FrustrationDetected"),
            ),
            _of_no_consequence,
        )
        self._reset()

    def _reset(self) -> None:
        """Set the state in which every connection begins."""
        self._phase = _Phase.CONNECTED
        self._failure: Lost | None = None
        self._caller_since: float | None = None
        """Loop time at which the caller began the words that have no transcript yet."""
        self._answering = False
        """Sound or words of an answer have come, but not its end."""
        self._worded = False
        """The current answer already has words."""
        self._dropping = _Dropping.NOTHING
        self._injections = Injections()
        self._refuses = False
        """The service has not said the requested sentence in this turn."""
        self._ends_soon = False

    # The connection.

    async def address(self) -> Address:
        base = (self._settings.base_url or BASE_URL).rstrip("/")
        url = "ws" + base.removeprefix("http") + PATH
        return Address(url, self._settings.request_headers(self._key))

    def begin(self, session: AgentSession, host: ProtocolHost, resumed: Resumed | None) -> None:
        self._account()
        self._reset()
        self._session, self._host = session, host
        self._counted_until = host.now()
        self._calls.connection_lost()
        history = session.history if resumed is None else resumed.history
        owes = _caller_has_the_word(history) if resumed is None else resumed.owes_answer
        self._to_answer = ""
        if owes and not self._calls.old_pending:
            # Sent as if it were spoken again: the model answers only words that it hears.
            self._to_answer = history[-1].text if _caller_has_the_word(history) else GO_ON
            history = history[:-1] if _caller_has_the_word(history) else history
        self._introduction = settings_message(
            self._settings,
            session,
            history=history,
            calls=self._calls.context(),
            greeting=session.greeting if resumed is None and not session.history else "",
        )
        think = self._introduction["agent"]["think"]
        self._prompt = (think[0] if isinstance(think, list) else think)["prompt"]

    def lost(self, status: int | None, code: int | None, problem: str) -> Lost:
        self._account()
        self._counted_until = None
        if status is None and self._failure is not None:
            return self._failure
        return of_connection(status, code, problem, accepted=self._phase is _Phase.READY)

    def keep_alive(self) -> None:
        """Send silence too: the message alone did not always keep a session (deepgram-js-sdk issue
        419)."""
        if self._send({"type": "KeepAlive"}) and self._host is not None and self._session:
            self._host.send_binary(self._session.format.silence(_SILENCE_MS))

    def goodbye(self) -> None:
        """Do nothing: the service expects no goodbye, the connection is closed."""
        self._account()
        self._counted_until = None

    # Requests of the call.

    def hear(self, sound: bytes) -> None:
        host = self._host
        if host is None or self._phase is not _Phase.READY:
            return
        host.send_binary(sound)
        now, counted = host.now(), self._counted_until
        if counted is not None and now - counted >= ACCOUNT_S:
            self._account()
        if self._injections.waiting and not (self._answering or self._caller_speaks()):
            self._look_for_sentences(host, now)

    def answer_tool(self, reply: ToolReply) -> None:
        content = _encoded(as_payload(reply)).decode()
        call = self._calls.answer(reply.ask_id, content)
        if call is not None:
            self._respond(call, content)
        elif self._calls.answer_old(reply.ask_id, content):
            self._give_old_results()
        elif self._host is not None:
            self._host.ignored("late", "the answer to a function call")

    def interrupted(self, cut: tuple[CutItem, ...]) -> None:
        """Drop the rest that the service sends: there is no message to report a cut."""
        if self._answering:
            self._answering = False
            self._dropping = _Dropping.OUR_CUT

    def speak(self, speech: Speech) -> bool:
        if not speech.text.strip() or self._refuses or self._caller_speaks():
            return False
        over = self._dropping is _Dropping.OUR_CUT
        message = {"type": "InjectAgentMessage", "message": speech.text}
        if not self._send({**message, "behavior": "interrupt" if over else "queue"}):
            return False
        if self._host is not None:
            self._injections.asked(speech, self._host.now())
        return True

    def inform(self, text: str) -> bool:
        busy = self._caller_speaks() or self._answering or self._calls.pending
        return not busy and self._tell_model(text)

    def take_note(self, text: str) -> bool:
        """See `TakesNotes`. The whole prompt is sent with the note, as the service's pages differ:
        UpdatePrompt adds to the prompt (docs/voice-agent-update-prompt), or replaces it
        (docs/voice-agent-conversation-context; both read on 2026-11-23)."""
        self._prompt = f"{self._prompt}\n\n{text}"
        return self._send({"type": "UpdatePrompt", "prompt": self._prompt})

    def listen_aside(self, on: bool) -> bool:
        """Return False: the service cannot transcribe the caller without answering."""
        return False

    # Messages of the service.

    def receive_text(self, message: bytes) -> None:
        host = self._host
        if host is None:
            return
        read = typed_message(message, host)
        if read is None:
            return
        kind, event = read
        if kind == "Welcome":
            self._welcome(host)
        elif kind == "SettingsApplied":
            self._settings_applied(host)
        elif kind == "Error":
            self._error(host, event)
        elif kind == "Warning":
            self._warning(host, event)
        elif (handler := self._handlers.get(kind)) is None:
            host.ignored("unknown", kind[:60])
        elif self._phase is not _Phase.READY:
            host.ignored("out_of_order", kind)
        else:
            handler(host, event)

    def receive_binary(self, data: bytes) -> None:
        host = self._host
        if host is None:
            return
        if self._phase is not _Phase.READY:
            host.ignored("out_of_order", "sound")
        elif self._dropping is _Dropping.NOTHING:
            self._answering = True
            host.agent_sound(data)

    def _welcome(self, host: ProtocolHost) -> None:
        if self._phase is not _Phase.CONNECTED or self._failure is not None:
            host.ignored("duplicate", "Welcome")
            return
        self._phase = _Phase.INTRODUCED
        host.send_text(_encoded(self._introduction))
        self._introduction = {}

    def _settings_applied(self, host: ProtocolHost) -> None:
        if self._phase is not _Phase.INTRODUCED:
            ready = self._phase is _Phase.READY
            host.ignored("duplicate" if ready else "out_of_order", "SettingsApplied")
            return
        self._phase = _Phase.READY
        host.ready()
        if self._to_answer:
            self._tell_model(self._to_answer)
            self._to_answer = ""

    def _error(self, host: ProtocolHost, event: Message) -> None:
        if self._failure is not None:
            host.ignored("duplicate", "Error")
            return
        accepted = self._phase is _Phase.READY
        description = _text(event, "description").replace(self._key or "\0", "***")
        code = _text(event, "code") or "error"
        lost = self._failure = of_error(code, description, accepted=accepted)
        if not lost.again:
            host.failed(lost.kind, lost.reason)
        elif accepted:
            host.reconnect(lost.reason)
        # Otherwise the service closes the connection, and `lost` reports it.

    def _warning(self, host: ProtocolHost, event: Message) -> None:
        code = _text(event, "code")
        host.ignored("warning", code[:60])
        if code in WARNINGS:
            self._refuse(host, self._injections.refused("Warning", host.now()))
        if code == SESSION_ENDS_SOON:
            self._ends_soon = True
            self._renew(host)

    def _conversation_text(self, host: ProtocolHost, event: Message) -> None:
        role, content = event.get("role"), event.get("content")
        if not isinstance(content, str) or role not in ("user", "assistant"):
            host.ignored("malformed", "ConversationText")
        elif role == "user":
            self._caller_said(host, content)
        else:
            self._agent_said(host, content)

    def _caller_said(self, host: ProtocolHost, content: str) -> None:
        self._dropping = _Dropping.NOTHING
        if self._injections.is_echo(content):
            return
        self._answering = self._worded = self._refuses = False
        if self._caller_since is not None:
            self._caller_since = None
            host.caller_text(content, host.caller_stopped())
        else:
            host.caller_text(content)

    def _agent_said(self, host: ProtocolHost, content: str) -> None:
        ours = self._injections.said(content)
        if ours is None and self._dropping is _Dropping.OUR_CUT:
            return
        if self._dropping is not _Dropping.NOTHING:
            self._dropping = _Dropping.NOTHING
            self._worded = False
        self._caller_since = None  # it speaks only when the end of the turn is certain
        host.agent_speech(ours)
        host.agent_words(f" {content}" if self._worded and ours is None else content)
        self._answering = self._worded = True

    def _user_started_speaking(self, host: ProtocolHost, event: Message) -> None:
        cut, self._answering = self._answering, False
        self._dropping = _Dropping.SERVICES_CUT
        self._caller_since = host.now()
        self._worded = self._refuses = False
        self._calls.turn_begins()
        host.caller_started()
        self._injections.cut(host.now())
        if cut:
            host.interrupted()

    def _agent_started_speaking(self, host: ProtocolHost, event: Message) -> None:
        if self._dropping is _Dropping.SERVICES_CUT:
            self._dropping = _Dropping.NOTHING

    def _agent_audio_done(self, host: ProtocolHost, event: Message) -> None:
        dropped, self._dropping = self._dropping, _Dropping.NOTHING
        self._answering = self._worded = False
        self._injections.spoken(host.now())
        if dropped is _Dropping.NOTHING:
            host.answer_done()
        self._give_old_results()
        self._renew(host)

    def _injection_refused(self, host: ProtocolHost, event: Message) -> None:
        host.ignored("warning", "InjectionRefused")
        self._refuse(host, self._injections.refused("InjectionRefused", host.now()))

    def _refuse(self, host: ProtocolHost, speech: Speech | None) -> None:
        """Hand back a sentence that the service will not say, and ask for no other in this turn."""
        self._refuses = True
        if speech is not None:
            host.unsaid(speech)

    # Functions.

    def _function_call_request(self, host: ProtocolHost, event: Message) -> None:
        if self._dropping is _Dropping.SERVICES_CUT:
            self._dropping = _Dropping.NOTHING
        new = []
        for call in requested(event):
            if call is None:
                host.ignored("malformed", "a function call")
            elif not self._calls.add(call):
                host.ignored("duplicate", "a function call")
            else:
                new.append(call)
        for call in new:
            arguments = call.parsed()
            if arguments is not None:
                host.tool_asked(call.call_id, call.name, arguments)
                continue
            host.ignored("malformed", "the arguments of a function call")
            content = _encoded({"status": "error", "message": BAD_ARGUMENTS}).decode()
            self._calls.answer(call.call_id, content)
            self._respond(call, content)

    def _function_call_cancelled(self, host: ProtocolHost, event: Message) -> None:
        for call_id in cancelled(event):
            if call_id is None:
                host.ignored("malformed", "a cancelled function call")
            elif self._calls.cancel(call_id):
                host.tool_cancelled(call_id)
            else:
                host.ignored("late", "a cancelled function call")

    def _respond(self, call: FunctionCall, content: str) -> None:
        response = {"type": "FunctionCallResponse", "id": call.call_id}
        self._send({**response, "name": call.name, "content": content})

    def _give_old_results(self) -> None:
        """Give the model the results that a lost connection had requested; the model has forgotten
        the requests."""
        if self._caller_speaks() or self._answering or self._phase is not _Phase.READY:
            return
        if results := self._calls.old_results():
            self._tell_model(f"(What you looked up before the connection was renewed:)\n{results}")

    # Inside.

    def _tell_model(self, text: str) -> bool:
        """Send the text in the caller's place: the model answers only words that it hears."""
        if not self._send({"type": "InjectUserMessage", "content": text}):
            return False
        self._injections.told(text)
        return True

    def _send(self, message: Message) -> bool:
        if self._host is None or self._phase is not _Phase.READY:
            return False
        self._host.send_text(_encoded(message))
        return True

    def _caller_speaks(self) -> bool:
        """True while the caller may be speaking. The service also reports noise as the start of
        speech, and then sends nothing more."""
        since = self._caller_since
        return (
            since is not None
            and self._host is not None
            and (self._host.now() - since < LONGEST_SPEECH_S)
        )

    def _look_for_sentences(self, host: ProtocolHost, now: float) -> None:
        speech = self._injections.ignored(now)
        if speech is not None:
            host.ignored("warning", "an injected sentence is not said")
            host.unsaid(speech)

    def _renew(self, host: ProtocolHost) -> None:
        """Replace a session that is about to end, while caller and agent are silent."""
        busy = self._caller_speaks() or self._answering or self._calls.pending
        if self._ends_soon and not busy:
            self._ends_soon = False
            host.reconnect(SESSION_ENDS_SOON)

    def _account(self) -> None:
        """Report the usage: the service bills the connected time."""
        if self._counted_until is None or self._host is None:
            return
        now = self._host.now()
        seconds, self._counted_until = now - self._counted_until, now
        if seconds > 0:
            self._host.used(self._settings.think.provider.model, {"seconds": seconds})


def _of_no_consequence(host: ProtocolHost, event: Message) -> None:
    """Accept a known message without consequence."""


def _caller_has_the_word(history: tuple[Said, ...]) -> bool:
    return bool(history) and history[-1].who == "caller"


def _text(values: Message, name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""


def _encoded(message: object) -> bytes:
    try:
        return orjson.dumps(message)
    except TypeError:  # half a character, or a number beyond 64 bit
        return json.dumps(message, default=str).encode()
