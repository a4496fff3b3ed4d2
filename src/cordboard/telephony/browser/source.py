"""Browsers as a source of calls.

A person orders a call, by the admin port, and their page opens its socket with the order's id
within `ORDER_SECONDS`. `connect` then makes the offer: such a call is admitted, answered and
recorded like one by telephone, and marked as a test. A call through Asterisk is no offer of its
own: the page's sound is relayed to a channel that the source of Asterisk's calls dials
(`browser.relay`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol
from uuid import uuid4

import structlog

from cordboard.audio.format import SLIN_8K, AudioFormat
from cordboard.audio.pacer import Pacer
from cordboard.calls.call_registry import Aside
from cordboard.calls.offer import CallTest, LineWithoutTelephone, Media, Offer
from cordboard.errors import LineGone
from cordboard.telephony.browser.media import BrowserMedia, PageLink
from cordboard.telephony.browser.messages import FormatName
from cordboard.telephony.browser.relay import Dial, Relay
from cordboard.telephony.dialled import Dialled

SOURCE = "browser"
"""The source of the offers, in ledgers."""
ORDER_SECONDS = 15.0
"""Life of an order until its page connects."""
MOST_OF_ONE = 2
"""Calls of one person at a time, those that are not connected yet included."""

log = structlog.get_logger()


class TakeTest(Protocol):
    """Takes the offer of a test; returns at once (`calls.call_registry.CallRegistry.offer`)."""

    def __call__(self, offer: Offer, aside: Aside | None = None) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A call that a person wants to make from their browser."""

    owner: str
    """The user's name, or the key's."""
    context: str
    provider: str = ""
    """Empty: that of the context."""
    number: str = ""
    name: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    format: FormatName = "slin16"
    test: CallTest = field(default_factory=CallTest)
    aside: Aside | None = None
    """Generation of a trial; None: the one in force."""
    used_by: Callable[[Callable[[], None]], Callable[[], None]] | None = None
    """`chat.trial_runs.Trial.used_by`: the order, or the call, ends with its trial."""
    extension: str = ""
    """`EXTENSION@CONTEXT` of Asterisk's dialplan; empty: the engine answers itself."""


class BrowserCalls:
    """The browser calls of one engine: the ordered ones, and the live ones."""

    def __init__(self, pacer: Pacer, on_offer: TakeTest, dial: Dial) -> None:
        """`dial` has Asterisk call an extension."""
        self._pacer = pacer
        self._on_offer = on_offer
        self._dial = dial
        self._orders: dict[str, tuple[Order, asyncio.TimerHandle]] = {}
        self._unused: dict[str, Callable[[], None]] = {}
        """Takes back the note that an order or call uses its trial."""
        self._live: dict[str, tuple[Order, BrowserMedia]] = {}
        self._relays: set[asyncio.Task[None]] = set()
        self.counts: Counter[str] = Counter()
        """Faults of pages, by reason."""

    def __len__(self) -> int:
        """The number of calls that are ordered or live."""
        return len(self._orders) + len(self._live)

    def of(self, owner: str) -> int:
        """Return the number of calls of one person."""
        orders = [order for order, _ in self._orders.values()]
        orders += [order for order, _ in self._live.values()]
        return sum(order.owner == owner for order in orders)

    def order(self, order: Order) -> str:
        """Expect the page of a call; return the id of the call."""
        call_id = str(uuid4())
        loop = asyncio.get_running_loop()
        self._orders[call_id] = order, loop.call_later(ORDER_SECONDS, self._end, call_id)
        if order.used_by is not None:
            self._unused[call_id] = order.used_by(lambda: self._end(call_id))
        return call_id

    def ordered(self, call_id: str, owner: str) -> Order | None:
        """Return the order that this person's page may connect to; None if there is none."""
        order, _ = self._orders.get(call_id, (None, None))
        return order if order is not None and order.owner == owner else None

    def is_call_of(self, call_id: str, owner: str) -> bool:
        """Return True if it is a live call of this person's page."""
        order, _ = self._live.get(call_id, (None, None))
        return order is not None and order.owner == owner

    def connect(self, call_id: str, link: PageLink) -> BrowserMedia:
        """Begin the call of an order whose page is here. The owner of `link` calls `received` and
        `gone` of the media. Raises `KeyError` if there is no such order."""
        order, timer = self._orders.pop(call_id)
        timer.cancel()
        media = BrowserMedia(link, order.format, self._pacer, self.counts)
        self._live[call_id] = order, media
        if order.extension:
            self._begin_relay(call_id, order, media)
        else:
            self._offer(call_id, order, media)
        return media

    async def close(self) -> None:
        """End all calls, and forget all orders."""
        for call_id in tuple(self._orders):
            self._end(call_id)
        for _, media in tuple(self._live.values()):
            media.hang_up("engine_stopped")
            media.end("hangup")
        while self._relays:
            await asyncio.wait(tuple(self._relays))

    def _offer(self, call_id: str, order: Order, media: BrowserMedia) -> None:
        variables = {**order.variables, "AI_CONTEXT": order.context, "AI_PROVIDER": order.provider}
        line = BrowserLine(call_id, media, variables, lambda: self._over(call_id))
        offer = Offer(
            call_id=call_id,
            source=SOURCE,
            media=line.open_media,
            control=line,
            caller_number=order.number,
            caller_name=order.name,
            variables=variables,
            test=order.test,
        )
        self._on_offer(offer, order.aside)

    def _begin_relay(self, call_id: str, order: Order, media: BrowserMedia) -> None:
        dialled = Dialled(
            call_id,
            order.extension,
            order.number,
            order.name,
            {**order.variables, "AI_CONTEXT": order.context, "AI_PROVIDER": order.provider},
        )
        relay = Relay(call_id, media, self._dial, dialled)
        task = asyncio.get_running_loop().create_task(relay.run(), name=f"relay-{call_id}")
        self._relays.add(task)

        def over(task: asyncio.Task[None]) -> None:
            self._relays.discard(task)
            self._over(call_id)

        task.add_done_callback(over)

    def _end(self, call_id: str) -> None:
        """Forget an order, or end its call: its time or its trial is over."""
        _, timer = self._orders.pop(call_id, (None, None))
        if timer is not None:
            timer.cancel()
            self._over(call_id)
        elif call_id in self._live:
            _, media = self._live[call_id]
            media.hang_up("trial_over")
            media.end("trial_over")

    def _over(self, call_id: str) -> None:
        self._live.pop(call_id, None)
        if (unused := self._unused.pop(call_id, None)) is not None:
            unused()


class BrowserLine(LineWithoutTelephone):
    """The line of a browser call (implements `calls.offer.LineControl`)."""

    line_name = "a call from a browser"

    def __init__(
        self,
        call_id: str,
        media: BrowserMedia,
        variables: Mapping[str, str],
        on_released: Callable[[], None],
    ) -> None:
        self._call_id = call_id
        self._media = media
        self._variables = variables
        self._on_released = on_released

    async def open_media(self, formats: Sequence[AudioFormat] = (SLIN_8K,)) -> Media:
        """Return the page's media, in the format that the page has chosen. Raises LineGone."""
        if not self._media.connected:
            raise LineGone("the page was closed before the call was taken")
        self._media.claim(self._call_id)
        return self._media

    async def hangup(self, cause: str = "normal") -> None:
        self._media.hang_up("hangup")

    async def decline(self, status: str) -> None:
        """Tell the page that the call is refused: `busy` or `unavailable`."""
        self._media.hang_up(status)

    async def dtmf(self, keys: str) -> None:
        """Show the keys at the page."""
        self._media.send_keys(keys)

    async def variable(self, name: str) -> str | None:
        return self._variables.get(name)

    async def release(self) -> None:
        try:
            await self._media.close()
        finally:
            self._on_released()
