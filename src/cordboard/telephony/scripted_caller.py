"""A caller inside of the engine, for a test call: who waits for the greeting, says one sentence,
waits for the answer and hangs up.

Line and media are this one object, without a network. Everything behind it is as for a call by
telephone: admission, agent, tools, ledger, recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias
from uuid import uuid4

from cordboard.audio.format import FRAME_MS, SLIN_8K, AudioFormat
from cordboard.audio.pacer import Pacer
from cordboard.calls.offer import CallTest, LineWithoutTelephone, Media, Offer
from cordboard.telephony.line_media import PacedMedia
from cordboard.tools.tool import Effects
from cordboard.tools.tool_use import ToolUse

SOURCE = "test"
"""The source of the offers, in ledgers."""
GREETING_MS = 10_000
"""Longest wait for a greeting to begin: a context may have none."""
ANSWER_MS = 30_000
"""Longest wait for an answer to begin: a local language model may need as long."""
PAUSE_MS = 1_000
"""Silence after which the agent has finished: sentences have shorter pauses between them."""
LONGEST_MS = 120_000
"""An agent that talks on is hung up on."""
ONLY_READS = CallTest(ToolUse(frozenset({Effects.READ_ONLY})))

Step: TypeAlias = Literal["greeting", "speaking", "answer"]


class ScriptedCaller(PacedMedia, LineWithoutTelephone):
    """One call (implements `calls.offer.Media` and `calls.offer.LineControl`)."""

    line_name = "a test call"

    def __init__(self, pacer: Pacer, words: bytes) -> None:
        """`words`: s16 samples at 8 kHz; empty: hear the greeting only."""
        super().__init__(SLIN_8K)
        self.format = SLIN_8K
        self._pacer = pacer
        self._words = words
        self._said = 0
        self._step: Step = "greeting"
        self._waited_ms = 0
        """Time in this step."""
        self._lasted_ms = 0
        self._quiet_ms: int | None = None
        """Silence since the agent spoke in this step; None before it speaks."""

    def offer(self, context: str) -> Offer:
        """Return the offer of this call to a context."""
        return Offer(
            call_id=str(uuid4()),
            source=SOURCE,
            media=self._open,
            control=self,
            caller_name="Test call",
            variables={"AI_CONTEXT": context},
            test=ONLY_READS,
        )

    async def _open(self, formats: Sequence[AudioFormat] = (SLIN_8K,)) -> Media:
        self._pacer.register(self, lambda _: self.end("media_lost"))
        return self

    # audio.pacer.Outlet

    def tick(self, count: int) -> None:
        """Hear and say the next frames, and hang up after the last step."""
        for _ in range(count):
            if not self._in_use:
                return
            speaks = self.queued_ms > 0
            frame = self._outgoing.frame()
            self._outgoing.settle()
            if self._on_sent is not None:
                self._on_sent(frame)
            if self._on_audio is not None:
                self._on_audio(self._next_frame())
            self._follow(speaks)

    def _next_frame(self) -> bytes:
        silence = self.format.silence()
        if self._step != "speaking":
            return silence
        frame = self._words[self._said : self._said + len(silence)]
        self._said += len(frame)
        return frame + silence[len(frame) :]

    def _follow(self, speaks: bool) -> None:
        """Go on to the next step when this one is over. `speaks`: the agent was heard just now."""
        self._waited_ms += FRAME_MS
        self._lasted_ms += FRAME_MS
        if speaks:
            self._quiet_ms = 0
        elif self._quiet_ms is not None:
            self._quiet_ms += FRAME_MS
        if self._lasted_ms >= LONGEST_MS:
            self.end("caller_hangup")
        elif self._step == "speaking":
            if self._said >= len(self._words):
                self._begin("answer")
        elif self._has_answered(GREETING_MS if self._step == "greeting" else ANSWER_MS):
            if self._step == "answer" or not self._words:
                self.end("caller_hangup")
            else:
                self._begin("speaking")

    def _has_answered(self, patience_ms: int) -> bool:
        """Return True if the agent has spoken and fallen silent, or never began to."""
        if self._quiet_ms is None:
            return self._waited_ms >= patience_ms
        return self._quiet_ms >= PAUSE_MS

    def _begin(self, step: Step) -> None:
        self._step, self._waited_ms, self._quiet_ms = step, 0, None

    # calls.offer.LineControl

    async def hangup(self, cause: str = "normal") -> None:
        self.end("hangup")

    async def decline(self, status: str) -> None:
        """Nothing to do: the file of refused offers has the reason."""

    async def dtmf(self, keys: str) -> None:
        """Drop the keys: there is no telephone."""

    async def release(self) -> None:
        await self.close()

    # calls.offer.Media

    async def close(self) -> None:
        self._begin_closing()
        self._stop_sound()

    def _stop_sound(self) -> None:
        self._pacer.unregister(self)
        self._outgoing.flush()
