"""An SMTP server on loopback (RFC 5321, 3207, 4954): strict about order, with faults to choose.

async with MailServer(user="ops", password="...") as server:
    server.port
    server.mails      # what it has taken

It answers 503 to commands out of order, offers AUTH only on an encrypted connection when it has a
certificate, and forgets the greeting after STARTTLS, as RFC 3207 asks.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Literal, Self

Fault = Literal["", "silent", "drips", "refuses", "rejects_one", "hangs_up_at_data", "no_starttls"]


@dataclass(frozen=True, slots=True)
class TakenMail:
    sender: str
    to: tuple[str, ...]
    message: EmailMessage
    encrypted: bool
    user: str


class MailServer:
    """One server; its attributes may be changed while it runs."""

    def __init__(
        self,
        *,
        user: str = "",
        password: str = "",
        certificate: ssl.SSLContext | None = None,
        from_the_first_byte: bool = False,
        fault: Fault = "",
    ) -> None:
        """With a `certificate` it offers STARTTLS, or is encrypted `from_the_first_byte`."""
        self.user = user
        self.password = password
        self.fault: Fault = fault
        self.mails: list[TakenMail] = []
        self.connections = 0
        self.taken = asyncio.Event()
        """Set with each mail."""
        self._certificate = certificate
        self._from_the_first_byte = from_the_first_byte
        self._server: asyncio.Server | None = None
        self._sessions: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """The TCP port in use."""
        if self._server is None:
            raise RuntimeError("the mail server is not started")
        return int(self._server.sockets[0].getsockname()[1])

    async def __aenter__(self) -> Self:
        context = self._certificate if self._from_the_first_byte else None
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=context)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        for session in self._sessions:
            session.cancel()
        await asyncio.gather(*self._sessions, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        if task is not None:
            self._sessions.add(task)
            task.add_done_callback(self._sessions.discard)
        try:
            await _Session(self, self._certificate, reader, writer).serve()
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass  # the client has gone
        finally:
            writer.close()


class _Session:
    """One connection."""

    def __init__(
        self,
        server: MailServer,
        certificate: ssl.SSLContext | None,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._server = server
        self._certificate = certificate
        self._reader = reader
        self._writer = writer
        self._greeted = False
        self._user = ""
        self._sender = ""
        self._to: list[str] = []

    @property
    def _encrypted(self) -> bool:
        return self._writer.get_extra_info("ssl_object") is not None

    async def serve(self) -> None:
        """Answer until QUIT."""
        fault = self._server.fault
        if fault == "silent":
            await self._reader.read()  # until the client gives up
            return
        if fault == "drips":
            while True:
                self._writer.write(b"2")
                await self._writer.drain()
                await asyncio.sleep(0.05)
        if fault == "refuses":
            await self._say(b"554 5.7.1 go away")
            return
        await self._say(b"220 mail.test ESMTP")
        while line := await self._reader.readline():
            verb, _, rest = line.strip().decode("utf-8", "replace").partition(" ")
            if not await self._command(verb.upper(), rest):
                return

    async def _command(self, verb: str, rest: str) -> bool:
        """Answer a command. Return False at the end."""
        if verb == "QUIT":
            await self._say(b"221 bye")
            return False
        if verb == "EHLO":
            await self._greet()
        elif verb == "STARTTLS" and self._certificate is not None and self._may_encrypt:
            await self._say(b"220 go ahead")
            await self._writer.start_tls(self._certificate)
            self._greeted = False
        elif verb == "AUTH":
            await self._sign_in(rest)
        elif not self._greeted or (self._server.user and not self._user):
            await self._say(b"503 5.5.1 EHLO and AUTH first")
        elif verb == "MAIL" and rest.upper().startswith("FROM:<") and not self._sender:
            self._sender = rest[6:].partition(">")[0]
            await self._say(b"250 ok")
        elif verb == "RCPT" and rest.upper().startswith("TO:<") and self._sender:
            await self._recipient(rest[4:].partition(">")[0])
        elif verb == "DATA" and self._to:
            return await self._data()
        elif verb == "RSET":
            self._sender, self._to = "", []
            await self._say(b"250 ok")
        else:
            await self._say(b"503 5.5.1 not now")
        return True

    @property
    def _may_encrypt(self) -> bool:
        offered = self._certificate is not None and self._server.fault != "no_starttls"
        return offered and self._greeted and not self._encrypted

    async def _greet(self) -> None:
        self._greeted = True
        offers = [b"mail.test", b"8BITMIME"]
        if self._may_encrypt:
            offers.append(b"STARTTLS")
        if self._server.user and (self._encrypted or self._certificate is None):
            offers.append(b"AUTH PLAIN")
        for each in offers[:-1]:
            await self._say(b"250-" + each)
        await self._say(b"250 " + offers[-1])

    async def _sign_in(self, rest: str) -> None:
        if self._certificate is not None and not self._encrypted:
            await self._say(b"530 5.7.0 STARTTLS first")
            return
        wanted = f"\0{self._server.user}\0{self._server.password}".encode()
        if rest == f"PLAIN {base64.b64encode(wanted).decode()}":
            self._user = self._server.user
            await self._say(b"235 2.7.0 welcome")
        else:
            await self._say(b"535 5.7.8 wrong user or password")

    async def _recipient(self, address: str) -> None:
        if self._server.fault == "rejects_one" and not self._to:
            self._to.append("")
            await self._say(b"550 5.1.1 nobody here")
            return
        self._to.append(address)
        await self._say(b"250 ok")

    async def _data(self) -> bool:
        if self._server.fault == "hangs_up_at_data":
            return False
        await self._say(b"354 go on")
        lines = []
        while (line := await self._reader.readuntil(b"\r\n")) != b".\r\n":
            lines.append(line.removeprefix(b"."))
        message = message_from_bytes(b"".join(lines), EmailMessage, policy=policy.default)
        to = tuple(filter(None, self._to))
        mail = TakenMail(self._sender, to, message, self._encrypted, self._user)
        self._server.mails.append(mail)
        self._server.taken.set()
        self._sender, self._to = "", []
        await self._say(b"250 taken")
        return True

    async def _say(self, line: bytes) -> None:
        self._writer.write(line + b"\r\n")
        await self._writer.drain()
