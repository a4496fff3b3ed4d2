"""Words that Deepgram's Voice Agent was asked to say, or to take for the caller's.

A refused injection is reported as `InjectionRefused`, as a warning, as both, or not at all
(deepgram-js-sdk issue 463). A sentence that is refused, or that nothing follows, is handed back, so
that another voice can say it. Pure bookkeeping for one connection; no clock of its own.
"""

from __future__ import annotations

from cordboard.agent_api.speech import Speech

PATIENCE_S = 2.0
"""Seconds of silence after which the service will not say a sentence."""
WARNINGS = (
    "INJECT_AGENT_MESSAGE_DURING_USER_SPEECH",
    "INJECT_AGENT_MESSAGE_DURING_AGENT_SPEECH",
)
_MOST = 20


class Injections:
    """The injected sentences and texts that have not come back."""

    def __init__(self) -> None:
        self.waiting = False
        """The service was asked for a sentence that it has not begun."""
        self._sentences: list[Speech] = []
        self._since = 0.0
        """Loop time from which the service could have begun the next sentence."""
        self._refusals: dict[str, int] = {}
        """Number of refusals by the kind of their message."""
        self._refused = 0
        """Number of refused sentences."""
        self._texts: list[str] = []
        """Texts given to the model in the caller's place: they may come back as the caller's."""

    def asked(self, speech: Speech, now: float) -> None:
        """Note a sentence that the service was asked to say."""
        if not self._sentences:
            self._since = now
        self._sentences.append(speech)
        del self._sentences[:-_MOST]
        self.waiting = True

    def said(self, text: str) -> Speech | None:
        """Return the sentence with these words, which the service begins now."""
        ours = next((speech for speech in self._sentences if speech.text == text), None)
        if ours is not None:
            self._sentences.remove(ours)
            self.waiting = bool(self._sentences)
        return ours

    def spoken(self, now: float) -> None:
        """Note that the service has been heard: the next sentence may follow."""
        self._since = now

    def refused(self, kind: str) -> Speech | None:
        """Note a refusal, reported by this kind of message. Return the sentence; None when another
        kind of message has reported the same refusal."""
        number = self._refusals[kind] = self._refusals.get(kind, 0) + 1
        if number <= self._refused:
            return None
        self._refused = number
        return self._hand_back()

    def ignored(self, now: float) -> Speech | None:
        """Return a sentence that the service has not begun in time."""
        if not self.waiting or now - self._since < PATIENCE_S:
            return None
        self._since = now
        return self._hand_back()

    def cut(self, now: float) -> None:
        """Note that the caller speaks: a sentence that the call has not dropped may be refused, or
        said afterwards."""
        self._since = now
        self._sentences = [speech for speech in self._sentences if not speech.over]
        self.waiting = bool(self._sentences)

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

    def _hand_back(self) -> Speech | None:
        speech = self._sentences.pop(0) if self._sentences else None
        self.waiting = bool(self._sentences)
        return speech
