"""E-mail by SMTP: one message at a time, in a thread, within a deadline.

smtplib's timeout is that of one read: a server that sends a byte now and then could hold its thread
for hours. At the deadline the connection is shut from outside, which ends the thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import smtplib
import socket
import ssl
from collections.abc import Callable
from email.message import EmailMessage
from email.utils import formatdate, make_msgid

from cordboard.config.alarms import AlarmEmail

STEP_SECONDS = 10.0
"""Timeout of one read or write."""
SECONDS = 60.0
"""Deadline of a whole message."""


MOST_SUBJECT = 200
"""Characters of a subject."""


class MailNotSent(Exception):
    """The server did not take a message; the text says why, in the server's words: make it
    printable before it is logged or shown."""


class Mailer:
    """Sends one message. Use once."""

    def __init__(
        self,
        settings: AlarmEmail,
        *,
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        seconds: float = SECONDS,
    ) -> None:
        """`tls` returns the trust for the server's certificate."""
        self._settings = settings
        self._tls = tls
        self._seconds = seconds
        self._socket: socket.socket | None = None
        self._late = False

    async def send(self, subject: str, text: str) -> None:
        """Send a message to all addresses. Raises `MailNotSent`, also if a server takes it for none
        or only some of them."""
        message = self._message(subject, text)
        work = asyncio.get_running_loop().run_in_executor(None, self._send, message)
        try:
            async with asyncio.timeout(self._seconds):
                await asyncio.shield(work)
        except TimeoutError:
            raise MailNotSent(f"not sent within {self._seconds:g} s") from None
        finally:
            if not work.done():
                self._abort()
                await asyncio.wait({work})
                work.exception()

    def _message(self, subject: str, text: str) -> EmailMessage:
        settings, message = self._settings, EmailMessage()
        message["From"], message["To"] = settings.sender, ", ".join(settings.to)
        message["Subject"], message["Date"] = (
            " ".join(subject.split())[:MOST_SUBJECT],
            formatdate(localtime=True),
        )
        message["Message-ID"] = make_msgid(domain=settings.sender.rpartition("@")[2])
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(text)
        return message

    def _send(self, message: EmailMessage) -> None:
        settings = self._settings
        try:
            with contextlib.closing(smtplib.SMTP(timeout=STEP_SECONDS)) as smtp:
                self._connect(smtp)
                if settings.password is not None:
                    smtp.login(settings.user, settings.password.get_secret_value())
                refused = smtp.send_message(message, settings.sender, settings.to)
                with contextlib.suppress(OSError):  # it has taken the message
                    smtp.quit()
        except smtplib.SMTPResponseException as error:
            reason = error.smtp_error
            told = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
            raise MailNotSent(f"{error.smtp_code} {told}") from None
        except (OSError, ValueError) as error:  # an SMTPException is an OSError
            raise MailNotSent(str(error) or type(error).__name__) from None
        if refused:
            raise MailNotSent(f"the server refused {', '.join(sorted(refused))}")

    def _connect(self, smtp: smtplib.SMTP) -> None:
        """Connect and greet. smtplib's own `connect` gives out the socket too late to shut it."""
        settings = self._settings
        found = socket.create_connection((settings.server, settings.port), STEP_SECONDS)
        self._keep(smtp, found)
        if settings.security == "tls":
            self._encrypt(smtp, found)
        code, greeting = smtp.getreply()
        if code != 220:
            raise smtplib.SMTPConnectError(code, greeting)
        if settings.security == "starttls":
            smtp.ehlo_or_helo_if_needed()
            code, reply = smtp.docmd("STARTTLS")
            if code != 220:
                raise smtplib.SMTPResponseException(code, reply)
            self._encrypt(smtp, found)
            smtp.ehlo_resp = smtp.helo_resp = None
            smtp.esmtp_features = {}
        smtp.ehlo_or_helo_if_needed()

    def _encrypt(self, smtp: smtplib.SMTP, plain: socket.socket) -> None:
        wrapped = self._tls().wrap_socket(plain, server_hostname=self._settings.server)
        self._keep(smtp, wrapped)

    def _keep(self, smtp: smtplib.SMTP, found: socket.socket) -> None:
        smtp.sock, smtp.file = found, None  # what was sent in clear text is dropped
        self._socket = found
        if self._late:
            self._abort()

    def _abort(self) -> None:
        """End the connection, by another thread."""
        self._late = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
