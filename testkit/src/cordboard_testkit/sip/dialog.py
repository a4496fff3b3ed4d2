"""A SIP dialog (RFC 3261 section 12), sans I/O: builds the requests and responses of one call."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from cordboard.errors import MalformedPacket
from cordboard_testkit.sip.message import (
    Headers,
    SipRequest,
    SipResponse,
    parse_name_address,
)

_ALLOWED = "INVITE, ACK, CANCEL, BYE, REFER, NOTIFY, UPDATE, INFO, OPTIONS"


@dataclass(slots=True)
class Dialog:
    """Both ends of a call as SIP names them. `local` and `remote` are From/To values with tags."""

    call_id: str
    local: str
    remote: str
    target: str
    """The request URI: where the far side wants requests of this dialog."""
    address: tuple[str, int]
    """Our own SIP address."""
    user: str
    """The user part of our Contact."""
    tag: str
    sequence: int = 0
    route: list[str] = field(default_factory=list)

    @classmethod
    def outgoing(
        cls, uri: str, address: tuple[str, int], user: str, display: str, number: str
    ) -> Dialog:
        """The dialog that an INVITE to `uri` will open."""
        tag, host = os.urandom(4).hex(), f"{address[0]}:{address[1]}"
        quoted = display.replace("\\", "\\\\").replace('"', '\\"')
        local = f'"{quoted}" <sip:{number or user}@{host}>;tag={tag}'
        call_id = f"{os.urandom(8).hex()}@{address[0]}"
        return cls(call_id, local, f"<{uri}>", uri, address, user, tag)

    @classmethod
    def incoming(cls, invite: SipRequest, address: tuple[str, int], user: str) -> Dialog:
        """The dialog that a received INVITE opens. Raises `MalformedPacket`."""
        tag, headers = os.urandom(4).hex(), invite.headers
        return cls(
            headers.get("call-id"),
            f"{headers.get('to')};tag={tag}",
            headers.get("from"),
            parse_name_address(headers.get("contact")).uri,
            address,
            user,
            tag,
            route=headers.all("record-route"),
        )

    @property
    def contact(self) -> str:
        return f"<sip:{self.user}@{self.address[0]}:{self.address[1]}>"

    def confirm(self, response: SipResponse) -> None:
        """Take the far side's tag, target and route from the response that opens the dialog."""
        self.remote = response.headers.get("to")
        self.route = list(reversed(response.headers.all("record-route")))
        if contact := response.headers.get("contact"):
            self.target = parse_name_address(contact).uri

    def request(
        self, method: str, headers: Iterable[tuple[str, str]] = (), body: bytes = b""
    ) -> SipRequest:
        """The next request of the dialog."""
        self.sequence += 1
        return self._request(method, self.sequence, _new_branch(), headers, body)

    def ack(self, invite: SipRequest, response: SipResponse) -> SipRequest:
        """The ACK of a final response: of the same transaction unless it is a 2xx (17.1.1.3)."""
        sequence, _ = sequence_of(invite.headers)
        refused = response.status >= 300
        branch = branch_of(invite.headers) if refused else _new_branch()
        ack = self._request("ACK", sequence, branch, (), b"")
        if refused:
            kept = [(k, v) for k, v in ack.headers if k not in ("To", "Route", "Contact", "Allow")]
            headers = Headers([*kept, ("To", response.headers.get("to"))])
            return SipRequest("ACK", invite.uri, headers)
        return ack

    def cancel(self, invite: SipRequest) -> SipRequest:
        """The CANCEL of an INVITE that has had a provisional response (9.1)."""
        headers = Headers(
            (name, invite.headers.get(name))
            for name in ("Via", "Max-Forwards", "From", "To", "Call-ID")
        )
        headers.add("CSeq", f"{sequence_of(invite.headers)[0]} CANCEL")
        return SipRequest("CANCEL", invite.uri, headers)

    def respond(
        self, request: SipRequest, status: int, reason: str, body: bytes = b""
    ) -> SipResponse:
        """A response to a request of this dialog."""
        return respond(request, status, reason, tag=self.tag, contact=self.contact, body=body)

    def _request(
        self,
        method: str,
        sequence: int,
        branch: str,
        extra: Iterable[tuple[str, str]],
        body: bytes,
    ) -> SipRequest:
        host, port = self.address
        headers = Headers(
            [
                ("Via", f"SIP/2.0/UDP {host}:{port};branch={branch};rport"),
                ("Max-Forwards", "70"),
                ("From", self.local),
                ("To", self.remote),
                ("Call-ID", self.call_id),
                ("CSeq", f"{sequence} {method}"),
                ("Contact", self.contact),
                ("Allow", _ALLOWED),
                *(("Route", route) for route in self.route),
                *extra,
            ]
        )
        if body and "content-type" not in headers:
            headers.add("Content-Type", "application/sdp")
        return SipRequest(method, self.target, headers, body)


def respond(
    request: SipRequest,
    status: int,
    reason: str,
    *,
    tag: str = "",
    contact: str = "",
    body: bytes = b"",
) -> SipResponse:
    """A response to any request: its Via, From, To, Call-ID, CSeq and Record-Route come back."""
    held = request.headers
    to = held.get("to")
    if tag and ";tag=" not in to:
        to += f";tag={tag}"
    headers = Headers(("Via", via) for via in held.all("via"))
    for route in held.all("record-route"):
        headers.add("Record-Route", route)
    headers.add("From", held.get("from"))
    headers.add("To", to)
    headers.add("Call-ID", held.get("call-id"))
    headers.add("CSeq", held.get("cseq"))
    headers.add("Allow", _ALLOWED)
    if contact:
        headers.add("Contact", contact)
    if body:
        headers.add("Content-Type", "application/sdp")
    return SipResponse(status, reason, headers, body)


def sequence_of(headers: Headers) -> tuple[int, str]:
    """Number and method of the CSeq header. Raises `MalformedPacket`."""
    number, _, method = headers.get("cseq").partition(" ")
    if not (number.isascii() and number.isdigit()) or not method.strip():
        raise MalformedPacket(f"CSeq that does not parse: {headers.get('cseq')[:40]!r}")
    return int(number), method.strip()


def branch_of(headers: Headers) -> str:
    """The branch parameter of the topmost Via; empty when there is none."""
    for part in headers.get("via").split(";")[1:]:
        name, _, value = part.strip().partition("=")
        if name.lower() == "branch":
            return value
    return ""


def _new_branch() -> str:
    return "z9hG4bK" + os.urandom(8).hex()  # the magic cookie of RFC 3261 8.1.1.7
