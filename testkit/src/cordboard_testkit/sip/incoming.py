"""A call to the phone: ringing, answering, refusing, and a caller who gives up."""

from __future__ import annotations

import asyncio
from typing import Literal

from cordboard_testkit.sip.call import PhoneCall, PhoneServices
from cordboard_testkit.sip.dialog import Dialog, sequence_of
from cordboard_testkit.sip.message import (
    NameAddress,
    SipRequest,
    SipResponse,
    parse_name_address,
)
from cordboard_testkit.sip.sdp import parse_sdp


class IncomingCall(PhoneCall):
    """A call that rings at this phone. Raises `MalformedPacket` for an INVITE without audio."""

    def __init__(
        self, services: PhoneServices, invite: SipRequest, source: tuple[str, int], user: str
    ) -> None:
        self.invite = invite
        """The request that began the call: its headers tell who calls."""
        self._remote_audio = parse_sdp(invite.body)
        dialog = Dialog.incoming(invite, services.address, user)
        super().__init__(services, dialog, source)
        self._answer_timer: asyncio.TimerHandle | None = None
        self._last_response: SipResponse | None = None

    @property
    def caller(self) -> NameAddress:
        """The caller, from the From header."""
        return parse_name_address(self.invite.headers.get("from"))

    def ring(self, answer_after: float | None) -> None:
        """Send Ringing; answer after `seconds`, or never without `answer`."""
        self.state = "ringing"
        if not self._remote_audio.speaks_ulaw:
            self.reject(488, "Not Acceptable Here")
            return
        self._respond(180, "Ringing")
        if answer_after is not None:
            self._answer_timer = self._loop.call_later(answer_after, self.answer)

    def answer(self) -> None:
        """Pick up. Does nothing unless it rings."""
        if self.state != "ringing":
            return
        self._stop_timer()
        self._respond(200, "OK", self._answer_to(self._remote_audio))
        self._start_media(self._remote_audio)
        self._answered()

    def reject(self, status: int = 486, reason: str = "Busy Here") -> None:
        """Refuse the call while it rings."""
        if self.state == "ringing":
            self._respond(status, reason)
            self._finish("us", status, reason)

    def redirect(self, uri: str) -> None:
        """Send the caller elsewhere while it rings: 302."""
        if self.state == "ringing":
            response = self.dialog.respond(self.invite, 302, "Moved Temporarily")
            headers = [(k, v) for k, v in response.headers if k != "Contact"]
            headers.append(("Contact", f"<{uri}>"))
            self._transmit(SipResponse(302, response.reason, type(response.headers)(headers)))
            self._finish("us", 302, response.reason)

    def hangup(self) -> None:
        self.reject(603, "Decline")
        super().hangup()

    def take_request(self, request: SipRequest) -> None:
        again = sequence_of(request.headers) == sequence_of(self.invite.headers)
        if again and self._last_response is not None:
            self._send(self._last_response)  # the caller did not get it
        elif request.method == "CANCEL":
            self._reply(request, 200, "OK")
            if self.state == "ringing":
                self._respond(487, "Request Terminated")
                self._finish("them", 487, request.headers.get("reason"))
        else:
            super().take_request(request)

    def _finish(self, by: Literal["us", "them"], status: int = 0, reason: str = "") -> None:
        self._stop_timer()
        super()._finish(by, status, reason)

    def _stop_timer(self) -> None:
        if self._answer_timer is not None:
            self._answer_timer.cancel()
            self._answer_timer = None

    def _respond(self, status: int, reason: str, body: bytes = b"") -> None:
        self._transmit(self.dialog.respond(self.invite, status, reason, body))

    def _transmit(self, response: SipResponse) -> None:
        self._last_response = response
        self._send(response)
