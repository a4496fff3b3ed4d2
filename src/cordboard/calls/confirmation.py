"""A yes-or-no question to the caller: asked by voice, answered by voice or key, at most twice.

    ask ──▶ the question is spoken ──▶ a clear yes or no, or key 1 or 2 ──▶ the answer
                    │
                    └─ nothing for `PATIENCE`, or neither ──▶ asked once more ──▶ answer, or None

Only a caller who has begun to hear the question can answer it: speech that began earlier does not
count, and a question that they cut before its first word was heard is asked again. The conversation
speaks and knows the heard part; this module holds the question's state and its timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from cordboard.agent_api.speech import Speech
from cordboard.config.schema import Config
from cordboard.errors import LineError, LineGone
from cordboard.speech.yes_or_no import read_yes_or_no

PATIENCE = 8.0
"""Seconds to answer, from the end of the question or of the caller's last words."""
LONGEST = 60.0
"""Seconds after which a question is given up if noise on the line keeps it open."""
AGAIN = "Sorry, yes or no? You can also press 1 for yes or 2 for no."
ANSWER_KEYS = {"1": True, "2": False}

AnsweredBy = Literal["voice", "key", ""]


def sentences(config: Config) -> Iterator[str]:
    """Yield the question after an answer that was neither yes nor no."""
    yield AGAIN


@dataclass(frozen=True, slots=True)
class QuestionOutlets:
    """The conversation, as a question sees it. All return at once."""

    say: Callable[[Speech], None]
    reached: Callable[[Speech], bool]
    """True if the caller has begun to hear this question."""
    quiet_at: Callable[[], float]
    """Loop time at which the caller has heard, or will have heard, all sound written so far."""
    caller_speaks: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a question."""

    yes: bool | None
    by: AnsweredBy


class _Asking:
    """One question waiting for its answer."""

    def __init__(
        self,
        question: str,
        again: str,
        loop: asyncio.AbstractEventLoop,
        *,
        needs_key: bool,
        expects_key: bool,
    ) -> None:
        self.question = question
        self.again_text = again
        self.needs_key = needs_key
        """True if a spoken yes is not enough."""
        self.expects_key = expects_key
        """True if a key answers even before the question is heard."""
        self.done: asyncio.Future[Answer] = loop.create_future()
        self.speech = Speech(question, "approval")
        """The latest sentence: the question, or the one that asks again."""
        self.again = False
        """True if the question was asked for the second time."""
        self.heard = False
        """True once the caller has begun to hear the question."""
        self.lost = False
        """True if the question was taken back before the caller heard any of it."""
        self.answers = False
        """True if the caller's current turn began after they had begun to hear the question."""
        self.until = self.latest = 0.0
        """Loop times at which the patience ends, as far as known now, and at the latest."""


class Confirmation:
    """The questions of one call, one at a time."""

    def __init__(self, outlets: QuestionOutlets) -> None:
        self._loop = asyncio.get_running_loop()
        self._outlets = outlets
        self._asking: _Asking | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._over = False
        self._on_hold = False

    @property
    def active(self) -> bool:
        """True if a question is waiting for its answer."""
        return self._asking is not None

    async def ask(
        self,
        question: str,
        again: str = AGAIN,
        *,
        needs_key: bool = False,
        expects_key: bool = False,
    ) -> Answer:
        """Ask, and wait for the answer. `needs_key`: only a key can say yes; a voice can say no.
        `expects_key`: the person knows the question; their key counts even if no voice asks it.

        Raises `LineError` when another question is waiting, `LineGone` when the call ends.
        """
        if self._over:
            raise LineGone("the call is over")
        if self._asking is not None:
            raise LineError("the caller is being asked something else")
        asking = _Asking(question, again, self._loop, needs_key=needs_key, expects_key=expects_key)
        self._asking = asking
        try:
            self._speak(asking, question)
            return await asking.done
        finally:
            self._asking = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def caller_started(self) -> None:
        """Note that the caller begins to speak."""
        if self._asking is not None:
            self._asking.answers = self._is_heard(self._asking)

    def caller_stopped(self) -> None:
        """Note that the caller has spoken: restart the patience."""
        if self._asking is not None:
            self._wait_until(self._asking, self._loop.time() + PATIENCE)

    def caller_holds(self, on: bool) -> None:
        """Stop the patience while the caller has us on hold. A question that they had heard before
        it is asked again afterwards."""
        self._on_hold = on
        asking = self._asking
        if asking is None or asking.done.done():
            return
        if on and self._timer is not None:
            self._timer.cancel()
        elif not on and asking.speech.over:
            self._speak(asking, asking.question)
        elif not on:
            asking.latest = self._loop.time() + LONGEST
            self._wait_until(asking, self._loop.time() + PATIENCE)

    def interrupted(self) -> None:
        """Note that the unheard sound is about to be taken back."""
        asking = self._asking
        if asking is not None and not self._is_heard(asking):
            asking.lost = True

    def hear(self, text: str) -> None:
        """Take the words of a turn; empty when they were not understood."""
        asking = self._asking
        if asking is None or asking.done.done():
            return
        if asking.answers:
            yes = read_yes_or_no(text)
            self._take(asking, Answer(None if yes and asking.needs_key else yes, "voice"))
        elif asking.lost:
            self._speak(asking, asking.question)

    def press(self, key: str) -> bool:
        """Take a key. True if it answers the question; then the rest of the question need not be
        heard."""
        asking = self._asking
        if asking is None or asking.done.done():
            return False
        if not (asking.expects_key or self._is_heard(asking)):
            return False
        self._take(asking, Answer(ANSWER_KEYS.get(key), "key"))
        return True

    def give_up(self, why: LineError) -> None:
        """End the question that waits for its answer, if there is one, with this error."""
        asking = self._asking
        if asking is not None and not asking.done.done():
            asking.done.set_exception(why)

    def close(self) -> None:
        """End all questions: the call ends. Idempotent."""
        self._over = True
        self.give_up(LineGone("the call is over"))

    def _is_heard(self, asking: _Asking) -> bool:
        asking.heard = asking.heard or self._outlets.reached(asking.speech)
        return asking.heard

    def _speak(self, asking: _Asking, text: str) -> None:
        asking.speech, asking.lost = Speech(text, "approval"), False
        asking.latest = self._loop.time() + LONGEST
        self._outlets.say(asking.speech)
        self._wait_until(asking, self._loop.time() + PATIENCE)

    def _take(self, asking: _Asking, answer: Answer) -> None:
        """Take a clear answer; ask again after the first unclear one, give up after the second."""
        if answer.yes is not None or asking.again:
            asking.done.set_result(answer)
            return
        asking.again = True
        self._speak(asking, asking.again_text if self._is_heard(asking) else asking.question)

    def _wait_until(self, asking: _Asking, until: float) -> None:
        asking.until = until
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._on_hold:
            self._timer = self._loop.call_at(min(until, asking.latest), self._look)

    def _look(self) -> None:
        """Check the patience, which counts from the end of all sound of both sides. Sound that
        arrived since the timer was set has moved that end, so it is computed again when the timer
        fires."""
        asking = self._asking
        if asking is None or asking.done.done():
            return
        now = self._loop.time()
        until = max(asking.until, self._outlets.quiet_at() + PATIENCE)
        if self._outlets.caller_speaks():
            until = now + PATIENCE
        if now >= min(until, asking.latest) - 1e-3:
            self._take(asking, Answer(None, ""))
        else:
            self._wait_until(asking, until)
