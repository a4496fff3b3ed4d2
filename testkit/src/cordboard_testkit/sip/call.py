"""`PhoneCall`: one call of a `SipPhone`, its signalling and its audio.

`VoiceLine` has the caller's speech and hearing; this module adds those of a telephone: answer, hang
up, hold, transfer. `OutgoingCall` and `IncomingCall` add the start of a call. Signalling runs on
the event loop, audio in the media thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import structlog

from cordboard.errors import CallOver, CallRefused, MalformedPacket
from cordboard_testkit.media_thread import MediaThread
from cordboard_testkit.patience import PATIENCE
from cordboard_testkit.sip.dialog import Dialog, sequence_of
from cordboard_testkit.sip.message import (
    SipMessage,
    SipRequest,
    SipResponse,
    parse_name_address,
)
from cordboard_testkit.sip.rtp_stream import RtpStream
from cordboard_testkit.sip.sdp import AudioDescription, Direction, parse_sdp
from cordboard_testkit.voice_line import CallEnd, VoiceLine

log = structlog.get_logger()

CallState = Literal["calling", "ringing", "answered", "ended"]


@dataclass(frozen=True, slots=True)
class PhoneServices:
    """The phone, as its calls see it."""

    address: tuple[str, int]
    send: Callable[[SipMessage, tuple[str, int]], None]
    dial: Callable[[str], PhoneCall]
    media: MediaThread
    follows_transfers: bool


class PhoneCall(VoiceLine):
    """One call, in either direction."""

    def __init__(self, services: PhoneServices, dialog: Dialog, peer: tuple[str, int]) -> None:
        super().__init__()
        self.state: CallState = "calling"
        self.dialog = dialog
        self.answered_at: float | None = None
        self.held_by_peer = False
        """True while the far side has put this phone on hold."""
        self.transferred_to: PhoneCall | None = None
        """The call that a REFER of the far side made this phone place."""
        self.requests: list[SipRequest] = []
        """Every request of the far side within the call."""
        self._services = services
        self._peer = peer
        self._stream = RtpStream(self._mouth, self._ear, services.address[0])
        self._media_started = False
        self._sdp_version = 0
        self._pending: dict[tuple[int, str], asyncio.Future[SipResponse]] = {}
        self._transfer_status = 0
        self._follow: asyncio.Task[None] | None = None

    # -- the caller's hands --------------------------------------------------------------------

    async def answered(self, timeout: float = PATIENCE) -> float:
        """Wait until the call is answered; return the time. Raises `CallRefused`,
        `TimeoutError`."""

        def look() -> float | None:
            if self.answered_at is None and self.end is not None:
                end = self.end
                raise CallRefused(f"not answered: {end.status} {end.reason}", end.status)
            return self.answered_at

        return await self._until(look, timeout)

    def hangup(self) -> None:
        """End the call: BYE. A call that has ended already is left alone."""
        if self.state == "answered":
            self._send(self.dialog.request("BYE"))
            self._finish("us")

    async def hold(
        self, direction: Direction = "sendonly", *, music: bool = False, timeout: float = PATIENCE
    ) -> None:
        """Put the far side on hold by a re-INVITE. `music`: what the caller says until `resume` is
        sent, as the music of a telephone system would be; else no audio is."""
        await self._reinvite(direction, timeout)
        self._stream.muted = not music

    async def resume(self, timeout: float = PATIENCE) -> None:
        """Take the call from hold."""
        await self._reinvite("sendrecv", timeout)
        self._stream.muted = False

    def mute(self, on: bool = True) -> None:
        """Send no RTP at all, like a phone that suppresses silence."""
        self._stream.muted = on

    async def transfer(self, uri: str, timeout: float = PATIENCE) -> int:
        """Send the far side elsewhere (blind, REFER); the final status of its attempt."""
        refer = self.dialog.request("REFER", [("Refer-To", f"<{uri}>")])
        self._transfer_status = 0
        response = await self._transact(refer, timeout)
        if response.status >= 300:
            return response.status
        return await self._until(
            lambda: self._transfer_status if self._transfer_status >= 200 else None, timeout
        )

    # -- what the phone hands in ---------------------------------------------------------------

    def take_request(self, request: SipRequest) -> None:
        """A request of the far side within this call."""
        self.requests.append(request)
        if request.method in ("INVITE", "UPDATE"):
            self._take_new_terms(request)
        elif request.method == "BYE":
            self._reply(request, 200, "OK")
            self._finish("them", reason=request.headers.get("reason"))
        elif request.method == "REFER":
            self._take_refer(request)
        elif request.method == "NOTIFY":
            self._take_notify(request)
        elif request.method != "ACK":
            self._reply(request, 200, "OK")

    def take_response(self, response: SipResponse) -> None:
        """A response to a request of ours within this call."""
        future = self._pending.get(sequence_of(response.headers))
        if future is not None and response.status >= 200 and not future.done():
            future.set_result(response)

    def abandon(self) -> None:
        """The phone is closing: leave the call and free its resources."""
        self.hangup()
        if self._follow is not None:
            self._follow.cancel()
        self._finish("us")

    # -- inside ----------------------------------------------------------------------------------

    def _send(self, message: SipMessage) -> None:
        self._services.send(message, self._peer)

    def _reply(self, request: SipRequest, status: int, reason: str, body: bytes = b"") -> None:
        self._send(self.dialog.respond(request, status, reason, body))

    def _offer(self, direction: Direction = "sendrecv") -> bytes:
        self._sdp_version += 1
        host = self._services.address[0]
        description = AudioDescription(host, self._stream.port, direction=direction)
        return description.to_bytes(self._sdp_version)

    def _answer_to(self, offer: AudioDescription) -> bytes:
        self._sdp_version += 1
        answer = offer.answer(self._services.address[0], self._stream.port)
        return answer.to_bytes(self._sdp_version)

    def _start_media(self, remote: AudioDescription) -> None:
        """Send to, and hear from, the far side as it described itself."""
        self.held_by_peer = remote.direction in ("sendonly", "inactive")
        self._stream.remote = (remote.host, remote.port)
        self._stream.muted = self.held_by_peer
        if remote.event_type is not None:
            self._stream.event_type = remote.event_type
        if not self._media_started:
            self._media_started = True
            self._services.media.add(self._stream)

    def _answered(self) -> None:
        self.state = "answered"
        self.answered_at = time.monotonic()
        self._changed()

    def _finish(self, by: Literal["us", "them"], status: int = 0, reason: str = "") -> None:
        if self.end is not None:
            return
        self.state = "ended"
        if self._media_started:
            self._services.media.remove(self._stream)
        else:
            self._stream.finish()
        for future in self._pending.values():
            if not future.done():
                future.set_exception(CallOver("the call ended"))
        self._line_over(CallEnd(by, time.monotonic(), status, reason))

    async def _transact(self, request: SipRequest, timeout: float) -> SipResponse:
        """Send a request within the call and wait for its final response."""
        key = sequence_of(request.headers)
        self._pending[key] = self._loop.create_future()
        try:
            self._send(request)
            return await asyncio.wait_for(self._pending[key], timeout)
        finally:
            del self._pending[key]

    async def _reinvite(self, direction: Direction, timeout: float) -> None:
        invite = self.dialog.request("INVITE", body=self._offer(direction))
        response = await self._transact(invite, timeout)
        self._send(self.dialog.ack(invite, response))
        if response.status >= 300:
            raise CallRefused(f"re-INVITE: {response.status} {response.reason}", response.status)

    def _take_new_terms(self, request: SipRequest) -> None:
        if not request.body:
            answer = self._offer() if request.method == "INVITE" else b""
            self._reply(request, 200, "OK", answer)
            return
        try:
            offer = parse_sdp(request.body)
        except MalformedPacket:
            self._reply(request, 488, "Not Acceptable Here")
            return
        self._start_media(offer)
        self._reply(request, 200, "OK", self._answer_to(offer))

    def _take_refer(self, request: SipRequest) -> None:
        if not self._services.follows_transfers:
            self._reply(request, 603, "Decline")
            return
        try:
            target = parse_name_address(request.headers.get("refer-to")).uri
        except MalformedPacket:
            self._reply(request, 400, "Bad Refer-To")
            return
        self._reply(request, 202, "Accepted")
        self.transferred_to = self._services.dial(target)
        self._follow = asyncio.create_task(self._report_transfer(self.transferred_to))

    async def _report_transfer(self, elsewhere: PhoneCall) -> None:
        """Report to the far side the outcome of the call that its REFER requested (RFC 3515)."""
        self._notify("SIP/2.0 100 Trying", "active;expires=60")
        try:
            await elsewhere.answered()
            outcome = "SIP/2.0 200 OK"
        except CallRefused as refusal:
            outcome = f"SIP/2.0 {refusal.status or 503} Refused"
        except TimeoutError:
            outcome = "SIP/2.0 408 Request Timeout"
        if self.state == "answered":
            self._notify(outcome, "terminated;reason=noresource")

    def _notify(self, fragment: str, subscription: str) -> None:
        headers = [
            ("Event", "refer"),
            ("Subscription-State", subscription),
            ("Content-Type", "message/sipfrag;version=2.0"),
        ]
        self._send(self.dialog.request("NOTIFY", headers, f"{fragment}\r\n".encode()))

    def _take_notify(self, request: SipRequest) -> None:
        self._reply(request, 200, "OK")
        first = request.body.split(b"\r\n")[0].split()
        if len(first) >= 2 and first[0] == b"SIP/2.0" and first[1].isdigit():
            self._transfer_status = int(first[1])
            self._changed()
