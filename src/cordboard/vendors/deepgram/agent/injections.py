"""Words that Deepgram's Voice Agent was asked to say, or to take for the caller's.

A refused injection is reported as `InjectionRefused`, as a warning, as both, or not at all
(deepgram-js-sdk issue 463). A sentence that is refused, or that nothing follows, is handed back, so
that another voice can say it. Pure bookkeeping for one connection; no clock of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from cordboard.agent_api.speech import Speech

PATIENCE_S = 2.0
"""Seconds of silence after which the service will not say a sentence."""
LATE_S = 5.0
"""Seconds after a sentence was handed back in which the next refusal is taken for its own."""
WARNINGS = (
    "INJECT_AGENT_MESSAGE_DURING_USER_SPEECH",
    "INJECT_AGENT_MESSAGE_DURING_AGENT_SPEECH",
)
_MOST = 20


@dataclass(frozen=True, slots=True)
class _Asked:
    speech: Speech
    at: float


class Injections:
    """The injected sentences and texts that have not come back."""

    def __init__(self) -> None:
        self._asked: list[_Asked] = []
        self._spoke_at = self._quiet_since = 0.0
        """Loop times of the end of the last answer, and of the last answer or turn."""
        self._refusals: dict[str, int] = {}
        """Number of refusals by the kind of their message."""
        self._refused = 0
        """Number of refused sentences."""
        self._given_up: list[float] = []
        """Loop times at which sentences were given up whose refusal may still come."""
        self._texts: list[str] = []
        """Texts given to the model in the caller's place: they may come back as the caller's."""

    @property
    def waiting(self) -> bool:
        """True if the service has not begun a sentence that it was asked for."""
        return bool(self._asked)

    def asked(self, speech: Speech, now: float) -> None:
        """Note a sentence that the service was asked to say."""
        self._asked.append(_Asked(speech, now))
        del self._asked[:-_MOST]

    def said(self, text: str) -> Speech | None:
        """Return the sentence with these words, which the service begins now."""
        ours = next((asked for asked in self._asked if asked.speech.text == text), None)
        if ours is None:
            return None
        self._asked.remove(ours)
        self._given_up.clear()  # refusals come in the order of the sentences
        return ours.speech

    def spoken(self, now: float) -> None:
        """Note that the service has finished to speak: the next sentence may follow."""
        self._spoke_at = self._quiet_since = now

    def refused(self, kind: str, now: float) -> Speech | None:
        """Note a refusal, reported by this kind of message. Return the sentence; None when another
        kind of message has reported the same refusal, or when the sentence was given up before."""
        number = self._refusals[kind] = self._refusals.get(kind, 0) + 1
        if number <= self._refused:
            return None
        self._refused = number
        self._given_up = [at for at in self._given_up if now - at < LATE_S]
        if self._given_up:
            del self._given_up[0]
            return None
        return self._asked.pop(0).speech if self._asked else None

    def ignored(self, now: float) -> Speech | None:
        """Return a sentence that the service has not begun in time. A filler before an answer that
        has been spoken is forgotten."""
        while self._asked and now - max(self._asked[0].at, self._quiet_since) >= PATIENCE_S:
            asked = self._asked.pop(0)
            self._given_up.append(now)
            if not (asked.speech.bridges and asked.at <= self._spoke_at):
                return asked.speech
        return None

    def cut(self, now: float) -> None:
        """Note that the caller speaks: a sentence that the call has not dropped may be refused, or
        said afterwards."""
        self._quiet_since = now
        self._asked = [asked for asked in self._asked if not asked.speech.over]

    def told(self, text: str) -> None:
        """Note a text that the model was given in the caller's place."""
        self._texts.append(text)
        del self._texts[:-_MOST]

    def is_echo(self, text: str) -> bool:
        """True if this text of the caller is one of ours."""
        if text not in self._texts:
            return False
        self._texts.remove(text)
        return True
