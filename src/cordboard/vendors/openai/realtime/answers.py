"""OpenAI Realtime's answers: requested, heard, cut, with their tool calls and results.

One `Answers` for one connection, without sockets or clocks; the tool calls outlive it. A result of
a tool is stored in the conversation at once; a response that speaks about it is requested when all
calls of its response are answered and the floor is free.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable

from cordboard.agent_api.service_protocol import CutItem, ProtocolHost
from cordboard.tools.tool import JsonObject
from cordboard.vendors.openai.config import OpenAIRealtimeProvider
from cordboard.vendors.openai.realtime import messages
from cordboard.vendors.openai.realtime.errors import Trouble, trouble_of
from cordboard.vendors.openai.realtime.floor import Floor, Wish
from cordboard.vendors.openai.realtime.messages import object_of, text_of
from cordboard.vendors.openai.realtime.outbox import Outbox
from cordboard.vendors.openai.realtime.tools import ToolCall, ToolCalls

RETRIES = 1
"""Number of retries of a response that the service failed to make."""
PACE_RETRIES = 2
"""Number of retries of a response at a rate limit."""
LONGEST_WAIT = 2.0
"""Most seconds until a retry at a rate limit: the caller waits meanwhile."""
BUSY_RETRIES = 3
BUSY_WAIT = 0.25
"""Seconds until the retry of a request that was refused because of a response that is over."""
_BYTES_PER_MS = 8
_MAX_ITEMS = 64
"""Pieces of sound whose length is remembered."""
_MAX_ARGUMENTS = 100_000


class Answers:
    """The service's answers on one connection."""

    def __init__(
        self,
        host: ProtocolHost,
        outbox: Outbox,
        calls: ToolCalls,
        settings: OpenAIRealtimeProvider,
        key: str,
    ) -> None:
        """`key`: a text that no message may repeat."""
        self._host = host
        self._outbox = outbox
        self._calls = calls
        self._settings = settings
        self._key = key
        self.floor = Floor()
        self.ready = False
        """The service has accepted the session."""
        self.aside = False
        """The engine talks with the caller: the model keeps silent."""
        self._sizes: dict[str, int] = {}
        """Bytes of sound by item, for those that are in the conversation."""
        self._sounded: set[str] = set()
        """Responses in progress that have sounded."""
        self._worded: set[str] = set()
        """Responses in progress that have words."""
        self._failures = self._paced = self._busy = 0
        self._ask_at = 0.0
        """Loop time before which no response is requested; 0: at once."""
        self._cut_by_call: set[str] = set()
        """Responses that were cut although the caller did not speak: their end ends an answer."""
        self._requested_with: tuple[str, ...] = ()
        """The results that were sent before our request."""

    @property
    def handlers(self) -> dict[str, Callable[[JsonObject], None]]:
        """Handlers by the type of message."""
        return {
            "conversation.item.added": self._item_stored,
            "conversation.item.created": self._item_stored,
            "conversation.item.done": self._item_stored,
            "response.created": self._response_created,
            "response.output_audio.delta": self._audio,
            "response.output_audio_transcript.delta": self._words,
            "response.output_item.done": self._item_made,
            "response.done": self._response_done,
        }

    # Requested.

    @property
    def can_begin(self) -> bool:
        """True if a response that is requested now is the next thing to be heard."""
        return self.ready and self.floor.free and not self.waits

    @property
    def waits(self) -> bool:
        """True if a request has its time: `look` must be called until then."""
        return self._ask_at > 0

    def look(self) -> None:
        """Request the response whose time to be retried has come."""
        if self._ask_at and self._host.now() >= self._ask_at:
            self._ask_at = 0.0
            self.respond()

    def want(self, wish: Wish) -> None:
        """Have the model speak as soon as it may."""
        self.floor.wish = wish
        self.respond()

    def respond(self) -> None:
        """Request a response if one is needed and the floor is free."""
        wish = self.floor.wish
        if self.aside or not self.can_begin:
            return
        if wish is not None or self._calls.due:
            self.create(wish or Wish())

    def create(self, wish: Wish) -> None:
        """Request it now."""
        response = dict(wish.parameters)
        if self._settings.tool_choice not in ("auto", "none"):
            # It counts for each response: a tool would be demanded after its own result, for ever.
            response.setdefault("tool_choice", "auto")
        request_id = self._outbox.next_id
        response["metadata"] = {"request": request_id}
        self._outbox.send({"type": "response.create", "response": response}, "response")
        self.floor.request(request_id, wish)
        self._requested_with = self._calls.unseen

    # Cut.

    def cut(self, pieces: tuple[CutItem, ...]) -> None:
        """Handle a cut, by the caller's voice or otherwise; `pieces` have their heard lengths."""
        if self.floor.caller_speaks:
            self._stop_active()
            self._stop_asides()
        else:
            self._stop_heard()
        for piece in pieces:
            size = self._sizes.get(piece.item)
            if size is not None:  # otherwise it was spoken aside, or on an earlier connection
                self._truncate(piece, size)

    def _stop_active(self) -> None:
        active = self.floor.cut_active()
        if active:
            self._cancel(active)

    def _stop_heard(self) -> None:
        """Stop the answer being heard, because a key has cut it: an answer that has not sounded is
        still needed."""
        if self.floor.active in self._sounded:
            self._cut_by_call.add(self.floor.active)
            self._stop_active()
        if self.floor.asides.keys() & self._sounded:
            self._cut_by_call.update(self.floor.asides)
            self._stop_asides()

    def caller_started(self, *, cuts: bool) -> None:
        """Note that the caller speaks. `cuts`: the service stops by itself, except for responses
        outside the conversation."""
        self.floor.caller_started()
        self._cut_by_call.clear()
        if cuts:
            self.floor.cut_active()
            self._stop_asides()

    def _stop_asides(self) -> None:
        for response_id in self.floor.asides.keys() - self.floor.cut:
            self._cancel(response_id)

    def _truncate(self, piece: CutItem, size: int) -> None:
        heard_ms = max(0, min(piece.heard_ms, size // _BYTES_PER_MS))
        self._outbox.send(
            {
                "type": "conversation.item.truncate",
                "item_id": piece.item,
                "content_index": 0,
                "audio_end_ms": heard_ms,
            }
        )

    def _cancel(self, response_id: str) -> None:
        self.floor.cut.add(response_id)
        self._outbox.send({"type": "response.cancel", "response_id": response_id})

    # Heard.

    def _response_created(self, message: JsonObject) -> None:
        response = object_of(message.get("response"))
        response_id = text_of(response, "id")
        floor = self.floor
        if not response_id:
            self._host.ignored("malformed", "response.created")
        elif response_id in (floor.active, *floor.asides, *floor.over):
            self._host.ignored("duplicate", "response.created")
        else:
            request_id = text_of(object_of(response.get("metadata")), "request")
            self._began(response_id, request_id)

    def _began(self, response_id: str, request_id: str = "") -> None:
        floor = self.floor
        mine = floor.began(response_id, request_id)
        self._busy = 0
        if response_id == floor.active:
            self._calls.response_began(response_id, self._requested_with if mine else ())
        if floor.caller_speaks or (self.aside and not mine):
            floor.cut_active()
            self._cancel(response_id)

    def _is_heard(self, response_id: str) -> bool:
        """True if content of that response is for the caller."""
        floor = self.floor
        if floor.speaks(response_id):
            return True
        if response_id in floor.cut:
            return False
        if not response_id or response_id in floor.over or floor.active:
            why = "late" if response_id in floor.over else "out_of_order"
            self._host.ignored(why, "a part of an answer")
            return False
        self._host.ignored("out_of_order", "an answer that had not begun")
        self._began(response_id)
        return floor.speaks(response_id)

    def _audio(self, message: JsonObject) -> None:
        response_id, item = text_of(message, "response_id"), text_of(message, "item_id")
        try:
            sound = binascii.a2b_base64(text_of(message, "delta"))
        except ValueError:
            sound = b""
        if not sound or not item:
            self._host.ignored("malformed", "response.output_audio.delta")
            return
        if not self._is_heard(response_id):
            return
        if response_id == self.floor.active:
            self._sizes[item] = self._sizes.get(item, 0) + len(sound)
            if len(self._sizes) > _MAX_ITEMS:
                del self._sizes[next(iter(self._sizes))]
        self._sounded.add(response_id)
        self._host.agent_speech(self.floor.asides.get(response_id))
        self._host.agent_sound(sound, item)

    def _words(self, message: JsonObject) -> None:
        words = message.get("delta")
        if not isinstance(words, str):
            self._host.ignored("malformed", "response.output_audio_transcript.delta")
        elif self._is_heard(response_id := text_of(message, "response_id")):
            self._worded.add(response_id)
            self._host.agent_speech(self.floor.asides.get(response_id))
            self._host.agent_words(words)

    def _item_stored(self, message: JsonObject) -> None:
        item = object_of(message.get("item"))
        if item.get("type") == "function_call_output":
            self._calls.stored(text_of(item, "call_id"))

    def _item_made(self, message: JsonObject) -> None:
        item = object_of(message.get("item"))
        if item.get("type") != "function_call":
            return
        if text_of(item, "call_id") in self._calls:
            self._host.ignored("duplicate", "a tool call")
        self._tool_call(item, text_of(message, "response_id"))

    def _tool_call(self, item: JsonObject, response_id: str) -> None:
        call_id, name = text_of(item, "call_id"), text_of(item, "name")
        if item.get("status", "completed") != "completed":
            return  # cut off in the middle: there is no call
        if call_id in self._calls:
            return
        written = text_of(item, "arguments") or "{}"
        if not call_id or not name or len(written) > _MAX_ARGUMENTS:
            self._host.ignored("malformed", "a tool call")
            return
        self._calls.asked(ToolCall(call_id, name, written, response_id))
        arguments = messages.json_object(written)
        if response_id in self.floor.cut:
            self._answer_ourselves(call_id, "cancelled", "The caller spoke before it was begun.")
            self._calls.settle(call_id)
        elif arguments is None:
            self._host.ignored("malformed", "arguments of a tool call")
            self._answer_ourselves(call_id, "error", "The arguments were not a JSON object.")
        else:
            self._host.tool_asked(call_id, name, arguments)

    def _answer_ourselves(self, call_id: str, status: str, text: str) -> None:
        output = messages.encoded({"status": status, "message": text}).decode()
        self._calls.answered(call_id, output)
        self._outbox.store(messages.function_output_item(call_id, output))

    def _response_done(self, message: JsonObject) -> None:
        response = object_of(message.get("response"))
        response_id, status = text_of(response, "id"), text_of(response, "status")
        made_for = self.floor.made_for
        aside = self.floor.asides.get(response_id)
        wanted = self.floor.ended(response_id)
        if wanted is None:
            why = "duplicate" if response_id in self.floor.over else "out_of_order"
            self._host.ignored(why, "response.done")
            return
        sounded, worded = response_id in self._sounded, response_id in self._worded
        self._sounded.discard(response_id)
        self._worded.discard(response_id)
        if wanted and status == "completed":
            for item in messages.items_of(response):
                if item.get("type") == "function_call":
                    self._tool_call(item, response_id)
        elif wanted and (sounded or worded) and status != "cancelled":
            self._host.answer_broke()
        amounts = messages.usage_amounts(object_of(response.get("usage")))
        if amounts:
            self._host.used(self._settings.model, amounts)
        unheard = not wanted and not sounded
        self._calls.response_ended(response_id, failed=status == "failed" or unheard)
        if wanted and aside is None:
            if not (sounded or status in ("failed", "cancelled")) and self._written(response):
                return
            self._ended(status, object_of(response.get("status_details")), made_for, sounded)
            return
        if aside is not None and wanted and not sounded:
            self._host.unsaid(aside)
        if (wanted and sounded) or response_id in self._cut_by_call:
            self._cut_by_call.discard(response_id)
            self._host.answer_done()
        self.respond()

    def _written(self, response: JsonObject) -> bool:
        """Have an answer spoken that the service has only written; False: it is none.

        It happens above all after sentences of the agent were given as text (livekit/agents 1143).
        The written item would lead to more of them, so it is deleted.
        """
        items = messages.items_of(response)
        written = [(text_of(item, "id"), messages.written_text(item)) for item in items]
        text = " ".join(words for _, words in written if words)
        calls = any(item.get("type") == "function_call" for item in items)
        if not text or calls:
            return False
        for item_id, words in written:
            if words and item_id:
                self._outbox.send({"type": "conversation.item.delete", "item_id": item_id})
        # A response sees the results that are due, and these words do not tell them.
        again = {} if self._calls.due else messages.verbatim(text)
        wish = Wish({**again, "output_modalities": ["audio"]})
        self.failed(Trouble("server", "", "OpenAI has written an answer in place of speech"), wish)
        return True

    def _ended(self, status: str, details: JsonObject, wish: Wish | None, sounded: bool) -> None:
        """Handle the end of an answer that was not cut."""
        reason = text_of(details, "reason")
        if status == "failed":
            self.failed(trouble_of(object_of(details.get("error")), self._key), wish)
            return
        if status == "cancelled" and reason == "turn_detected":
            self._host.interrupted()
            return
        if status != "completed":
            self._host.ignored("warning", f"a response was {status[:20]}: {reason[:40]}")
        if reason == "content_filter" and not sounded and self._failures < RETRIES:
            self._failures += 1
            self.floor.wish = Wish({"instructions": messages.CANNOT_HELP, "tool_choice": "none"})
        elif status == "completed":
            self._failures = self._paced = 0
        if self.floor.wish is not None or self._calls.due:
            self.respond()
        else:
            self._host.answer_done()

    def output_refused(self, call_id: str, told: Trouble) -> None:
        """Keep a result, because the service does not know the call any more, and give it in
        words."""
        self._host.ignored("warning", told.reason)
        call = self._calls.refused(call_id)
        if call is not None and call.output is not None:
            self._outbox.store(messages.tool_notice(call.name, call.output))
            self.floor.wish = Wish(insists=True)
            self.respond()

    def failed(self, told: Trouble, wish: Wish | None) -> None:
        """Handle a response that the service could not make."""
        if told.meaning in ("auth", "quota", "refused"):
            self._host.failed(told.kind, told.reason)
            return
        if told.meaning == "pace":
            self._paced += 1
            if self._paced > PACE_RETRIES or told.wait_s > PACE_RETRIES * LONGEST_WAIT:
                self._host.failed(told.kind, told.reason)
                return
            self._ask_at = self._host.now() + min(told.wait_s, LONGEST_WAIT)
        else:
            self._failures += 1
        if told.meaning == "expired" or self._failures > RETRIES:
            self._host.reconnect(told.reason)
            return
        self._host.ignored("warning", told.reason)
        self.floor.wish = self.floor.wish or wish or Wish()
        self.respond()

    def refused_as_busy(self, told: Trouble) -> None:
        """Handle the refusal of our request because of an active response. It can arrive after that
        response's end: then nothing else tells us when to ask again."""
        floor = self.floor
        floor.refused(busy=True)
        if floor.active:
            return
        self._busy += 1
        if self._busy > BUSY_RETRIES:
            self._host.reconnect(told.reason)
        else:
            self._ask_at = self._host.now() + BUSY_WAIT
