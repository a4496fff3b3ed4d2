"""The proof that a caller has heard announcements to their end: the AI disclosure, the consent.

They are the first words of a call, so the proof follows the beginning of the agent's speech: once
the spoken sentences have all words of an announcement, and all their sound is written, the playout
marks that place, and the mark is only reached if the caller has heard everything before it. An
announcement that is cut, whose voice fails, or that a service speaks in other words, is not proven.
Pure, but for its callbacks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256

_WORD = re.compile(r"\w+")


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


class HeardProof:
    """The announcements of one call."""

    def __init__(
        self,
        announcements: Sequence[tuple[str, str]],
        on_heard: Callable[[str, str], None],
        on_unheard: Callable[[str, str], None],
    ) -> None:
        """`announcements`: kind and text, in the order in which they begin the greeting.
        `on_heard(kind, SHA-256 of the sound since the beginning of the call)` and
        `on_unheard(kind, why)`: one of them is called for each announcement. `why`: `cut`,
        `other_words`, or `not_spoken` if the call ends before."""
        self._open = list(announcements)
        """Announcements that are not spoken to their end yet."""
        self._marked: list[tuple[str, str]] = []
        """Announcements whose sound is on its way to the caller."""
        self._on_heard = on_heard
        self._on_unheard = on_unheard
        self._before: list[str] = []
        """Words of the announcements that were spoken."""
        self._text = ""
        self._counts = False
        self._sound = sha256()
        self._whole = self._text, self._sound
        """Words and sound before the latest sentence."""

    @property
    def over(self) -> bool:
        return not (self._open or self._marked)

    def sentence(self, text: str, *, of_agent: bool) -> None:
        """Note that a sentence begins; one of the engine's own is not part of the greeting."""
        self._counts = of_agent
        if not of_agent or not self._open:
            return
        if self._text and not self._before and self._begins_anew(text):
            self._text, self._sound = "", sha256()  # another agent has taken over
        self._whole = self._text, self._sound.copy()
        self._text += f" {text}"

    def grow(self, text: str) -> None:
        """Note further words of the sentence."""
        if self._counts:
            self._text += text

    def sound(self, sound: bytes) -> None:
        """Note the sound of the sentence; a fraction of a microsecond for each frame."""
        if self._counts and self._open:
            self._sound.update(sound)

    def broke(self) -> None:
        """Note that the voice failed within the sentence: it does not count."""
        if self._counts and self._open:
            self._text, self._sound = self._whole
            self._counts = False

    def spoken(self, mark: Callable[[Callable[[], None]], None]) -> None:
        """Note that all sound of the sentence is written; `mark` calls back when it is heard."""
        while self._open:
            announcement = self._open[0]
            wanted, found = [*self._before, *_words(announcement[1])], _words(self._text)
            if found[: len(wanted)] != wanted:
                if found != wanted[: len(found)]:
                    self._fail(self._open, "other_words")
                return
            self._before = wanted
            self._marked.append(announcement)
            del self._open[0]
            mark(partial(self._heard, announcement, self._sound.hexdigest()))

    def cut(self) -> None:
        """Note that unheard sound was taken back."""
        if self._text:
            self._fail(self._marked, "cut")
            self._fail(self._open, "cut")

    def close(self) -> None:
        """Note that no further words follow: the greeting, or the call, is over."""
        self._fail(self._marked, "cut")
        self._fail(self._open, "not_spoken")

    def _begins_anew(self, text: str) -> bool:
        begin, before = _words(text)[:3], _words(self._text)[:3]
        return bool(begin) and begin[: len(before)] == before[: len(begin)]

    def _heard(self, announcement: tuple[str, str], digest: str) -> None:
        if announcement in self._marked:
            self._marked.remove(announcement)
            self._on_heard(announcement[0], digest)

    def _fail(self, announcements: list[tuple[str, str]], why: str) -> None:
        failed = [kind for kind, _ in announcements]
        announcements.clear()
        for kind in failed:
            self._on_unheard(kind, why)
