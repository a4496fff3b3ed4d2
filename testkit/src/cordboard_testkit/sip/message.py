"""SIP messages (RFC 3261 section 7), sans I/O: bytes in, a request or a response out, and back.

    message = parse_message(datagram)
    match message:
        case SipRequest(method="INVITE"): ...
        case SipResponse(status=200): ...

Header names are case-insensitive and their compact forms are understood. Bodies are bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from cordboard.errors import MalformedPacket

_COMPACT = {
    "c": "content-type",
    "f": "from",
    "i": "call-id",
    "k": "supported",
    "l": "content-length",
    "m": "contact",
    "r": "refer-to",
    "t": "to",
    "v": "via",
}
_NAME_ADDRESS = re.compile(
    r'^\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<token>[^<"]*?))\s*<(?P<uri>[^>]+)>(?P<rest>.*)$'
)
_URI_HOST = re.compile(r"^sips?:(?:[^@]*@)?(?P<host>\[[^\]]+\]|[^:;?]+)(?::(?P<port>\d{1,5}))?")
_URI_USER = re.compile(r"^sips?:([^@;:]*)(?::[^@]*)?@")
_REQUEST_LINE = re.compile(r"^([A-Za-z0-9\-.!%*_+`'~]+) (\S+) SIP/2\.0$")
_STATUS_LINE = re.compile(r"^SIP/2\.0 ([1-6]\d\d) ?(.*)$")


class Headers:
    """The header fields of a message, in order; a name may occur more than once."""

    def __init__(self, fields: Iterable[tuple[str, str]] = ()) -> None:
        self._fields: list[tuple[str, str]] = []
        for name, value in fields:
            self.add(name, value)

    def add(self, name: str, value: str) -> None:
        """Append a field. Raises `ValueError` for one that would break the message apart."""
        if not name or any(character in name for character in ": \t\r\n"):
            raise ValueError(f"not a header name: {name!r}")
        if "\r" in value or "\n" in value:
            raise ValueError(f"a line break in the header {name}")
        self._fields.append((name, value.strip()))

    def get(self, name: str, default: str = "") -> str:
        """The first value of a header."""
        return next(iter(self.all(name)), default)

    def all(self, name: str) -> list[str]:
        """Every value of a header, in order."""
        wanted = _canonical(name)
        return [value for held, value in self._fields if _canonical(held) == wanted]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._fields)

    def __contains__(self, name: str) -> bool:
        return bool(self.all(name))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self._fields == other._fields

    def __repr__(self) -> str:
        return f"Headers({self._fields!r})"


@dataclass(frozen=True, slots=True)
class SipRequest:
    method: str
    uri: str
    headers: Headers = field(default_factory=Headers)
    body: bytes = b""

    def to_bytes(self) -> bytes:
        return _serialise(f"{self.method} {self.uri} SIP/2.0", self.headers, self.body)


@dataclass(frozen=True, slots=True)
class SipResponse:
    status: int
    reason: str
    headers: Headers = field(default_factory=Headers)
    body: bytes = b""

    def to_bytes(self) -> bytes:
        return _serialise(f"SIP/2.0 {self.status} {self.reason}", self.headers, self.body)


SipMessage: TypeAlias = SipRequest | SipResponse


@dataclass(frozen=True, slots=True)
class NameAddress:
    """The value of From, To, Contact or Refer-To: `"Display" <uri>;parameter=value`."""

    uri: str
    display: str = ""
    parameters: dict[str, str] = field(default_factory=dict)

    @property
    def user(self) -> str:
        found = _URI_USER.match(self.uri)
        return found[1] if found else ""


def parse_message(data: bytes) -> SipMessage:
    """Read one datagram. Raises `MalformedPacket`."""
    head, separator, rest = data.partition(b"\r\n\r\n")
    if not separator:
        raise MalformedPacket("a SIP message without the empty line after its headers")
    try:
        lines = _unfold(head.decode())
    except UnicodeDecodeError as problem:
        raise MalformedPacket(f"SIP headers are not UTF-8: {problem}") from problem
    headers = Headers()
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        try:
            if not colon:
                raise ValueError(f"no colon in {line!r}")
            headers.add(name.rstrip(), value)
        except ValueError as problem:
            raise MalformedPacket(f"a SIP header that does not parse: {problem}") from problem
    body = _body(headers, rest)
    if status := _STATUS_LINE.match(lines[0]):
        return SipResponse(int(status[1]), status[2], headers, body)
    if request := _REQUEST_LINE.match(lines[0]):
        return SipRequest(request[1], request[2], headers, body)
    raise MalformedPacket(f"neither a SIP request nor a response: {lines[0][:80]!r}")


def parse_name_address(value: str) -> NameAddress:
    """Read a name-addr or a bare URI. Raises `MalformedPacket`."""
    found = _NAME_ADDRESS.match(value)
    if found is None:  # a bare URI: what follows a semicolon belongs to the header (20.10)
        uri, _, rest = value.strip().partition(";")
        if not uri.lower().startswith(("sip:", "sips:", "tel:")):
            raise MalformedPacket(f"not a SIP address: {value[:80]!r}")
        return NameAddress(uri, "", _parameters(rest))
    quoted = found["quoted"]
    display = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else found["token"]
    return NameAddress(found["uri"], display.strip(), _parameters(found["rest"]))


def uri_address(uri: str) -> tuple[str, int]:
    """Host and port of a SIP URI, 5060 where none is given. Raises `MalformedPacket`."""
    found = _URI_HOST.match(uri)
    if found is None or int(found["port"] or 0) > 65535:
        raise MalformedPacket(f"not a SIP URI: {uri[:80]!r}")
    return found["host"], int(found["port"] or 5060)


def _canonical(name: str) -> str:
    lower = name.lower()
    return _COMPACT.get(lower, lower)


def _unfold(head: str) -> list[str]:
    """Lines of the head; a line that begins with white space continues the one before (7.3.1)."""
    lines: list[str] = []
    for line in head.split("\r\n"):
        if line[:1] in (" ", "\t") and len(lines) > 1:
            lines[-1] += " " + line.strip()
        else:
            lines.append(line)
    return lines


def _body(headers: Headers, rest: bytes) -> bytes:
    length = headers.get("content-length")
    if not length:
        return rest
    if not (length.isascii() and length.isdigit()) or int(length) > len(rest):
        raise MalformedPacket(f"Content-Length {length!r} with {len(rest)} bytes of body")
    return rest[: int(length)]


def _parameters(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split(";"):
        name, _, value = part.strip().partition("=")
        if name:
            found[name.lower()] = value
    return found


def _serialise(first_line: str, headers: Headers, body: bytes) -> bytes:
    lines = [first_line]
    lines += [f"{name}: {value}" for name, value in headers if _canonical(name) != "content-length"]
    lines += [f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body
