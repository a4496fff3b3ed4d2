"""The line of a call that the engine places: create, media, bridge, dial.

The channel is created without being dialled, and bridged with the engine's media, so that both
directions are there at the very moment of the answer. The engine's sound before the answer would go
out as early media: the call plays nothing until `dial` returns. A redirection (302) is not
followed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import structlog

from cordboard.audio.format import SLIN_8K, AudioFormat
from cordboard.calls.offer import Media
from cordboard.calls.outbound_order import Dialling, DialOutcome, NotReached, OutboundOrder
from cordboard.errors import AsteriskError, LineError, MediaError
from cordboard.telephony.asterisk.ari import AriClient
from cordboard.telephony.asterisk.ari_messages import Channel, Event
from cordboard.telephony.asterisk.control import AsteriskLine, Fellows
from cordboard.telephony.asterisk.media_path import MediaPath
from cordboard.telephony.line_media import Ending

log = structlog.get_logger()

LEEWAY = 5
"""Seconds by which Asterisk's own timeout is longer than ours: so it is known which one it was."""
JOIN_SECONDS = 5.0
"""Timeout until a created channel is in our application; measured: a few ms."""
_BY_SIP: Mapping[int, DialOutcome] = {
    302: "redirected",
    403: "declined",
    404: "unknown_number",
    408: "unavailable",
    410: "unknown_number",
    480: "unavailable",
    484: "unknown_number",
    486: "busy",
    600: "busy",
    603: "declined",
    607: "declined",
}
"""By the status of the SIP answer (asterisk 22.10.1, `tech_cause`)."""
_BY_CAUSE: Mapping[int, DialOutcome] = {
    1: "unknown_number",
    3: "unavailable",
    17: "busy",
    18: "unavailable",
    19: "unavailable",
    20: "unavailable",
    21: "declined",
    22: "unknown_number",
    23: "redirected",
    28: "unknown_number",
}
"""By the Q.850 cause, for channels without a SIP status."""


def outcome_of(cause: int, sip: int) -> DialOutcome:
    """Return the outcome of an attempt without an answer. Other causes are the trunk's or the
    network's."""
    return _BY_SIP.get(sip) or ("failed" if sip else _BY_CAUSE.get(cause, "failed"))


class OutboundLine(AsteriskLine):
    """Implements `calls.offer.LineControl` for a channel that we create and dial."""

    def __init__(
        self,
        ari: AriClient,
        path: MediaPath,
        app: str,
        order: OutboundOrder,
        on_released: Callable[[AsteriskLine], None],
        on_stranded: Callable[[str], None],
        on_channels: Callable[[AsteriskLine, Iterable[str]], None],
        unreachable_seconds: float,
        same_break_seconds: float,
        fellows: Fellows | None = None,
    ) -> None:
        channel_id = f"cordboard-{app}-{order.call_id}-outbound"
        # The called person is "the caller", also for a human whom the agent asks to take them.
        channel = Channel(channel_id, state="Up", caller_number=order.number)
        super().__init__(
            ari,
            path,
            app,
            channel,
            UUID(order.call_id),
            on_released,
            on_stranded,
            on_channels,
            unreachable_seconds,
            same_break_seconds,
            fellows,
        )
        self._order = order
        self._created = False
        self._rang = False
        self._hung_up = False
        """A hang-up was requested before the answer was reported."""
        loop = asyncio.get_running_loop()
        self._dialled: asyncio.Future[Dialling] = loop.create_future()
        """How dialling ended: answered, or why not."""

    # Events

    def handle(self, event: Event, channel_id: str) -> None:
        """Take an event about the channel, the media channel, or a consultation's. Before the
        answer only the channel's very end counts: it says why."""
        kind, body = event.type, event.body
        ours = channel_id == self.channel_id
        if ours and kind == "Dial":
            self._take_progress(body.get("dialstatus"))
        elif ours and kind == "ChannelStateChange" and _state(body) == "Up":
            self._settle("answered")
        elif ours and kind == "ChannelDestroyed" and not self._dialled.done():
            cause, sip = _number(body, "cause"), _number(body, "tech_cause")
            self._settle(outcome_of(cause, sip), cause, sip)
            super().handle(event, channel_id)
        elif ours and kind in ("ChannelHangupRequest", "StasisEnd") and not self._answered_by_them:
            # The end says why; but an answer that is reported after it may hide it.
            self._hung_up = True
            asyncio.get_running_loop().call_later(
                self._same_break_seconds, self.left, "caller_hangup"
            )
        elif ours and kind == "StasisEnd" and self._hung_up:
            self.left("caller_hangup")
        else:
            super().handle(event, channel_id)

    def left(self, reason: Ending) -> None:
        """Note that the channel is no longer ours. Before the answer `dial` says why, and the media
        does not: it would seem that the other side hung up."""
        if not self._created:
            return
        self._settle("failed")
        if self._answered_by_them:
            super().left(reason)
        elif not self._ended.done():
            self._ended.set_result(reason)

    @property
    def _answered_by_them(self) -> bool:
        return self._dialled.done() and self._dialled.result().outcome == "answered"

    def _take_progress(self, status: object) -> None:
        if status == "RINGING":
            self._rang = True
        elif status == "ANSWER":
            self._settle("answered")

    def _settle(self, outcome: DialOutcome, cause: int = 0, sip: int = 0) -> None:
        if not self._dialled.done():
            self._dialled.set_result(Dialling(outcome, cause, sip, self._rang))

    # calls.offer.MediaOpener

    async def open_media(
        self,
        formats: Sequence[AudioFormat] = (SLIN_8K,),
        come: Callable[[], Awaitable[None]] | None = None,
    ) -> Media:
        """Create the channel, undialled, and connect its audio with us. Raises `NotReached` where
        Asterisk cannot create it, else as `AsteriskLine.open_media`."""
        await self._create()
        try:
            return await super().open_media(formats, come)
        except (LineError, MediaError):
            if self._dialled.done() and not self._answered_by_them:
                raise NotReached(self._dialled.result()) from None
            raise

    async def _create(self) -> None:
        order = self._order
        variables = {}
        if order.caller_id:
            # The caller id of a created channel: `CALLERID` has no effect (measured on 22.10.1).
            variables["CONNECTEDLINE(all)"] = f'"{order.caller_name}" <{order.caller_id}>'
        self._created = True
        try:
            await self._ari.request(
                "POST",
                "channels/create",
                {"variables": variables},
                endpoint=order.endpoint,
                app=self._app,
                channelId=self.channel_id,
            )
            async with asyncio.timeout(JOIN_SECONDS):
                await self._joined.wait()
        except AsteriskError as error:
            if error.status == 0:
                self._on_stranded(f"channels/{self.channel_id}")
            # 500 "Allocation failed": no contact, or no such endpoint.
            outcome: DialOutcome = "unavailable" if error.status == 500 else "failed"
            raise NotReached(Dialling(outcome), f"not reached: {error}") from error
        except TimeoutError:
            raise NotReached(Dialling("failed"), "not reached: Asterisk is too slow") from None

    async def _enter(self, channel_id: str, **query: str) -> None:
        # Otherwise the media channel's empty caller id replaces ours.
        await super()._enter(channel_id, inhibitConnectedLineUpdates="true")

    # calls.outbound_order.OutboundCall

    async def dial(self) -> None:
        """Dial; return at the answer. Raises `NotReached`, also when `ring_seconds` are over, and
        `LineError`."""
        seconds = self._order.ring_seconds
        await self._command("dial", timeout=str(round(seconds) + LEEWAY))
        done, _ = await asyncio.wait((self._dialled,), timeout=seconds)
        if not done:
            # A dead address never rings.
            self._settle("no_answer" if self._rang else "unavailable")
            await self.hangup()
        dialling = self._dialled.result()
        if dialling.outcome != "answered":
            raise NotReached(dialling)

    # calls.offer.LineControl

    async def answer(self) -> None:
        """Do nothing: the other side answers."""

    async def hangup(self, cause: str = "normal") -> None:
        """End the line, if it has begun."""
        self._settle("cancelled")
        if self._created:
            await super().hangup(cause)

    async def decline(self, status: str) -> None:
        """End the line: there is no dialplan to return to."""
        await self.hangup("congestion")


def _number(body: Mapping[str, Any], key: str) -> int:
    value = body.get(key)
    return value if isinstance(value, int) else 0


def _state(body: Mapping[str, Any]) -> str:
    channel = body.get("channel")
    return str(channel.get("state", "")) if isinstance(channel, dict) else ""
