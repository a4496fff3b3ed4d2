"""The first words of a call: announcements and greeting, and the proof that they are heard.

An announcement that the law or the recording needs counts only if the caller has heard it to its
end (`calls.media.heard_proof`). Whether they have is a line of the ledger, with the text and the
digest of its sound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256

from cordboard.agent_api.speech import Speech
from cordboard.calls import events
from cordboard.calls.conversation import Conversation
from cordboard.calls.ledger import Ledger
from cordboard.calls.media.heard_proof import HeardProof
from cordboard.calls.media.sound import CallSound
from cordboard.calls.recording.call_recording import CallRecording
from cordboard.calls.resumption import CallSoFar
from cordboard.config.schema import Context

DISCLOSURE, CONSENT, GREETING = "disclosure", "consent", "greeting"


def opening(context: Context, greeting: str, of_order: str = "") -> tuple[tuple[str, str], ...]:
    """Return kind and text of a call's first words: announcements, the greeting, and the keys that
    are offered. `of_order`: the announcement that the order of an outbound call adds."""
    recording, listening, keys = context.recording, context.listening, context.keys
    parts = (
        (DISCLOSURE, context.disclosure),
        (CONSENT, recording.consent if recording.enabled else ""),
        ("notice", listening.notice if listening.enabled else ""),
        ("order", of_order),
        (GREETING, greeting),
        ("keys", keys.prompt if keys is not None and keys.announce else ""),
    )
    return tuple((kind, text) for kind, text in parts if text)


def is_proven(context: Context, kind: str) -> bool:
    """True if it must be recorded whether the caller has heard these words."""
    return kind == DISCLOSURE or (kind == CONSENT and context.recording.waits_for_consent)


def spoken_opening(context: Context, parts: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return the texts of `opening` as they are spoken: what must be proven ends a piece, so that
    its end can be watched; all else is joined."""
    pieces: list[str] = []
    joins = False
    for kind, text in parts:
        if joins:
            pieces[-1] = f"{pieces[-1]} {text}"
        else:
            pieces.append(text)
        joins = not is_proven(context, kind)
    return tuple(pieces)


class FirstWords:
    """The first words of one call."""

    def __init__(
        self,
        context: Context,
        ledger: Ledger,
        recording: CallRecording,
        so_far: CallSoFar | None = None,
    ) -> None:
        """`so_far`: the call in another engine, which may have spoken some of them."""
        self._context = context
        self._ledger = ledger
        self._recording = recording
        self._so_far = so_far
        self._talk: tuple[Conversation, CallSound] | None = None
        self._announcements: list[tuple[str, str]] = []
        """Kind and text of the words before the greeting."""
        self._proof: HeardProof | None = None
        self._proven: list[str] = []
        """Kinds of announcements that are proven heard."""

    def connect(self, conversation: Conversation, sound: CallSound) -> None:
        """Connect: the caller can be spoken to."""
        self._talk = conversation, sound

    def compose(
        self, greeting: str, of_order: str, fill: Callable[[str], str]
    ) -> list[tuple[str, str]]:
        """Return kind and text of the first words (`opening`); `fill` fills in variables."""
        words = opening(self._context, greeting, of_order)
        parts = [(kind, fill(text)) for kind, text in words if not self._was_spoken(kind)]
        self._announcements = [part for part in parts if part[0] != GREETING]
        return parts

    def prove(self, parts: Sequence[tuple[str, str]]) -> None:
        """Record for each of these words that must be proven whether the caller hears it."""
        if self._talk is None:
            return
        conversation, sound = self._talk
        announced = [part for part in parts if is_proven(self._context, part[0])]
        texts = dict(announced)
        audio = f"{sound.format.encoding} {sound.format.rate}"

        def heard(kind: str, audio_sha256: str) -> None:
            version = sha256(texts[kind].encode()).hexdigest()
            self._ledger.record(
                events.AnnouncementHeard(kind, texts[kind], version, audio_sha256, audio)
            )
            self._proven.append(kind)
            if kind == CONSENT:
                self._recording.consent_heard()

        def unheard(kind: str, reason: str) -> None:
            self._ledger.record(events.AnnouncementUnheard(kind, reason))

        if announced:
            self.close()
            self._proof = HeardProof(announced, heard, unheard)
            conversation.playout.prove(self._proof)

    def announce(self) -> None:
        """Have the announcements spoken now: so far no human was there to hear them."""
        self.prove(self._announcements)
        self.speak(self._announcements)

    def speak(self, parts: Sequence[tuple[str, str]]) -> None:
        """Have first words spoken after the agent has begun."""
        if self._talk is not None:
            for text in spoken_opening(self._context, parts):
                self._talk[0].speech.say(Speech(text, "greeting"))

    def retract(self) -> None:
        """Take back the proofs: a machine, and not a human, has heard the announcements."""
        for kind in self._proven:
            self._ledger.record(events.AnnouncementUnheard(kind, "machine"))
        if CONSENT in self._proven:
            self._recording.consent_void()
        self._proven.clear()

    def _was_spoken(self, kind: str) -> bool:
        """True if another engine has spoken these words; what must be proven counts only if it
        was."""
        if self._so_far is None:
            return False
        if is_proven(self._context, kind):
            return kind in self._so_far.proven
        return self._so_far.was_greeted

    def close(self) -> None:
        """Note that announcements that are still to be spoken are not. Idempotent."""
        if self._proof is not None:
            self._proof.close()
