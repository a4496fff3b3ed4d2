"""A call that the phone places: the INVITE, its retransmission, redirection and CANCEL."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from cordboard.errors import MalformedPacket
from cordboard_testkit.sip.call import PhoneCall, PhoneServices
from cordboard_testkit.sip.dialog import Dialog, sequence_of
from cordboard_testkit.sip.message import (
    SipRequest,
    SipResponse,
    parse_name_address,
    uri_address,
)
from cordboard_testkit.sip.sdp import parse_sdp

_FIRST_RETRANSMISSION = 0.5  # RFC 3261 timer T1; doubles each time (17.1.1.2)
_LAST_RETRANSMISSION = 16.0
_MOST_REDIRECTIONS = 3


class OutgoingCall(PhoneCall):
    """A call placed by this phone. `status` is the latest status of the far side."""

    def __init__(
        self,
        services: PhoneServices,
        dialog: Dialog,
        headers: Iterable[tuple[str, str]],
    ) -> None:
        super().__init__(services, dialog, uri_address(dialog.target))
        self.status = 0
        self._headers = list(headers)
        self._redirections = 0
        self._cancelled = False
        self._timer: asyncio.TimerHandle | None = None
        self._ack: SipRequest | None = None
        self._invite = self._new_invite()

    def place(self) -> None:
        """Send the INVITE, and repeat it until a response arrives."""
        self._transmit(_FIRST_RETRANSMISSION)

    def hangup(self) -> None:
        """BYE; before the answer CANCEL, and the call ends when the far side confirms that."""
        if self.state in ("calling", "ringing") and not self._cancelled:
            self._cancelled = True
            if self.status >= 100:  # a CANCEL may not go out before a provisional response (9.1)
                self._send(self.dialog.cancel(self._invite))
        super().hangup()

    def abandon(self) -> None:
        self._stop_timer()
        super().abandon()

    def take_response(self, response: SipResponse) -> None:
        sequence = sequence_of(response.headers)
        if sequence[1] == "CANCEL":
            return
        if sequence != sequence_of(self._invite.headers):
            super().take_response(response)
            return
        self._stop_timer()
        if response.status >= 200 and self._ack is not None:
            self._send(self._ack)  # our ACK was lost, or came late
            return
        self.status = response.status
        if response.status < 200:
            self._provisional(response)
        elif response.status < 300:
            self._accepted(response)
        else:
            self._refused(response)

    def _new_invite(self) -> SipRequest:
        return self.dialog.request("INVITE", self._headers, self._offer())

    def _transmit(self, wait: float) -> None:
        self._send(self._invite)
        if wait <= _LAST_RETRANSMISSION:
            self._timer = self._loop.call_later(wait, self._transmit, wait * 2)
        else:
            self._timer = self._loop.call_later(wait, self._finish, "them", 408, "no response")

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _provisional(self, response: SipResponse) -> None:
        if self._cancelled:
            self._send(self.dialog.cancel(self._invite))
            return
        if response.status > 100:
            self.state = "ringing"
        if response.body:
            self._hear_far_side(response)
        self._changed()

    def _accepted(self, response: SipResponse) -> None:
        self.dialog.confirm(response)
        self._ack = self.dialog.ack(self._invite, response)
        self._send(self._ack)
        if not self._hear_far_side(response) or self._cancelled:
            self._send(self.dialog.request("BYE"))
            self._finish("us", 0 if self._cancelled else 488, "no usable audio in the answer")
            return
        self._answered()

    def _refused(self, response: SipResponse) -> None:
        self._ack = self.dialog.ack(self._invite, response)
        self._send(self._ack)
        contact = response.headers.get("contact")
        if 300 <= response.status < 400 and contact and self._redirections < _MOST_REDIRECTIONS:
            self._redirect(contact)
            return
        self._finish("us" if self._cancelled else "them", response.status, response.reason)

    def _redirect(self, contact: str) -> None:
        """Retry at the address to which the far side redirects us."""
        try:
            target = parse_name_address(contact).uri
            self._peer = uri_address(target)
        except MalformedPacket:
            self._finish("them", self.status, f"redirected to {contact!r}")
            return
        self._redirections += 1
        self.dialog.target, self.dialog.remote = target, f"<{target}>"
        self._ack = None
        self._invite = self._new_invite()
        self.place()

    def _hear_far_side(self, response: SipResponse) -> bool:
        try:
            remote = parse_sdp(response.body)
        except MalformedPacket:
            return False
        if not remote.speaks_ulaw:
            return False
        self._start_media(remote)
        return True
