"""Answers that came too late: to asks that the agent had given up, or that had timed out.

They are kept until they can be told: the conversation's attention says when that fits, the agent
says it, and reports so (`LateTold`). A telling that the caller cuts off is tried once more. Each
ends as one line of the ledger, `tool.late`, told or not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from cordboard.calls import events
from cordboard.calls.ledger import Ledger
from cordboard.observe.metrics import Metrics
from cordboard.tools.tool import ToolReply

MOST_TELLINGS = 2
"""A caller who cuts it off twice does not want to hear it."""


@dataclass(slots=True)
class _Late:
    reply: ToolReply
    came_at: float
    tellings: int = 0
    """How often the caller cut it off."""
    begun: bool = False
    """The agent has said it, this time."""


class LateReplies:
    """The late answers of one call."""

    def __init__(
        self, ledger: Ledger, metrics: Metrics, offer: Callable[[ToolReply], None]
    ) -> None:
        """`offer` gives one to the agent, to be told now."""
        self._ledger = ledger
        self._metrics = metrics
        self._offer = offer
        self._loop = asyncio.get_running_loop()
        self._kept: list[_Late] = []
        """Not told yet, the oldest first."""
        self._offered: _Late | None = None
        """In the agent's hands; it is the first of the kept ones."""
        self._over = False

    @property
    def waiting(self) -> bool:
        """Whether there is one to be told, and none is being told."""
        return bool(self._kept) and self._offered is None

    def keep(self, reply: ToolReply) -> None:
        """One has come."""
        late = _Late(reply, self._loop.time())
        if self._over:
            self._record(late, told=False)
        else:
            self._kept.append(late)

    def tell(self) -> None:
        """It fits now: have the first one told."""
        if self.waiting:
            self._offered = self._kept[0]
            self._offered.begun = False
            self._offer(self._offered.reply)

    def said(self, ask_id: str) -> None:
        """The agent has said it; the caller has yet to hear it."""
        late = self._offered
        if late is not None and late.reply.ask_id == ask_id:
            late.begun = True

    def heard(self, ask_id: str) -> None:
        """The caller has heard it."""
        late = self._offered
        if late is not None and late.reply.ask_id == ask_id:
            self._settle(late)

    def interrupted(self) -> None:
        """The caller cut off what was being said: if that was one of these, it was not heard."""
        late, self._offered = self._offered, None
        if late is not None and late.begun:
            late.tellings += 1
            if late.tellings >= MOST_TELLINGS:
                self._settle(late)

    def close(self) -> None:
        """The call is over: what comes or is left now is only written down. Idempotent."""
        self._over = True
        self._offered = None
        while self._kept:
            self._record(self._kept.pop(0), told=False)

    def _settle(self, late: _Late) -> None:
        self._offered = None
        self._kept.remove(late)
        self._record(late, told=True)

    def _record(self, late: _Late, *, told: bool) -> None:
        self._metrics.tools.late(told=told)
        reply = late.reply
        waited = round((self._loop.time() - late.came_at) * 1000)
        self._ledger.record(
            events.ToolLate(
                reply.ask_id, reply.name, str(reply.status), reply.message, told, waited
            )
        )
