"""Answers that came too late: to tool calls that the agent had given up, or that had timed out.

They are kept until they can be spoken: the silence watch says when that fits, and the agent says
one as a sentence of the engine. One that the caller cuts off is tried once more, one that was
dropped is tried again. Each ends as one entry of the ledger, `tool.late`, spoken or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from cordboard.agent_api.speech import ABOUT_EARLIER, Speech, SpeechState
from cordboard.calls import events
from cordboard.calls.ledger import Ledger
from cordboard.observe.metrics import Metrics
from cordboard.tools.tool import ToolReply

MOST_TELLINGS = 2
"""A caller who cuts it off this many times does not want to hear it."""
MOST_OFFERS = 6
"""An agent that has dropped it this many times will not say it."""


@dataclass(slots=True)
class _Late:
    reply: ToolReply
    came_at: float
    offers: int = 0
    cuts: int = 0
    """Number of times for which the caller cut it off."""


class LateReplies:
    """The late answers of one call."""

    def __init__(
        self,
        ledger: Ledger,
        metrics: Metrics,
        say: Callable[[Speech], None],
        again: Callable[[], None],
    ) -> None:
        """`say` speaks one now; `again`: there is one to be spoken when it fits."""
        self._ledger = ledger
        self._metrics = metrics
        self._say = say
        self._again = again
        self._loop = asyncio.get_running_loop()
        self._kept: list[_Late] = []
        """Answers not spoken yet, the oldest first."""
        self._offered: _Late | None = None
        """The answer with the agent; it is the first of the kept ones."""
        self._over = False

    @property
    def waiting(self) -> bool:
        """True if there is an answer to be spoken, and none is being spoken."""
        return bool(self._kept) and self._offered is None

    def keep(self, reply: ToolReply) -> None:
        """Keep a new answer."""
        late = _Late(reply, self._loop.time())
        if self._over:
            self._record(late, told=False)
        else:
            self._kept.append(late)

    def tell(self) -> None:
        """Have the first answer spoken now."""
        if self.waiting:
            late = self._offered = self._kept[0]
            late.offers += 1
            words = f"{ABOUT_EARLIER} {late.reply.message}"
            self._say(Speech(words, "late answer", partial(self._changed, late)))

    def _changed(self, late: _Late, speech: Speech) -> None:
        if late is not self._offered or not speech.over:
            return
        late.cuts += speech.state is SpeechState.CUT
        if speech.state is SpeechState.HEARD or late.cuts >= MOST_TELLINGS:
            self._settle(late, told=True)
        elif late.offers >= MOST_OFFERS:
            self._settle(late, told=False)
        else:
            self._offered = None
            self._again()

    def close(self) -> None:
        """Close: the call is over, later and remaining answers are only recorded. Idempotent."""
        self._over = True
        self._offered = None
        while self._kept:
            self._record(self._kept.pop(0), told=False)

    def _settle(self, late: _Late, *, told: bool) -> None:
        self._offered = None
        self._kept.remove(late)
        self._record(late, told=told)

    def _record(self, late: _Late, *, told: bool) -> None:
        self._metrics.tools.late(told=told)
        reply = late.reply
        waited = round((self._loop.time() - late.came_at) * 1000)
        self._ledger.record(
            events.ToolLate(
                reply.ask_id, reply.name, str(reply.status), reply.message, told, waited
            )
        )
