"""E-mail through an SMTP server: encrypted, signed in, and never longer than its deadline."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from cordboard.config.alarms import AlarmEmail
from cordboard.net import mail
from cordboard.net.mail import Mailer, MailNotSent
from cordboard_testkit.emulators.mail_server import Fault, MailServer
from cordboard_testkit.emulators.throw_away_certificate import ThrowAwayCertificate
from cordboard_testkit.free_ports import free_port
from cordboard_testkit.patience import PATIENCE

TO = ("ops@example.org", "boss@example.org")


def settings(port: int, security: str = "none", **more: Any) -> AlarmEmail:
    return AlarmEmail.model_validate(
        {
            "server": "127.0.0.1",
            "port": port,
            "security": security,
            "sender": "cordboard@example.org",
            "to": TO,
            **more,
        }
    )


async def test_a_message_arrives_as_it_was_written() -> None:
    async with MailServer() as server:
        await Mailer(settings(server.port)).send("ALARM slow", "p95 is 1,840 ms\n.\nÆrø: ring\n")
    (taken,) = server.mails
    assert (taken.sender, taken.to) == ("cordboard@example.org", TO)
    assert taken.message["Subject"] == "ALARM slow"
    assert taken.message["Auto-Submitted"] == "auto-generated"
    assert taken.message.get_content().splitlines() == ["p95 is 1,840 ms", ".", "Ærø: ring"]


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_the_password_travels_encrypted(security: str) -> None:
    with ThrowAwayCertificate() as certificate:
        async with MailServer(
            user="ops",
            password="s3cret",
            certificate=certificate.server_context,
            from_the_first_byte=security == "tls",
        ) as server:
            own = settings(server.port, security, user="ops", password="s3cret")
            await Mailer(own, tls=lambda: certificate.client_context).send("a", "b")
    (taken,) = server.mails
    assert (taken.encrypted, taken.user) == (True, "ops")


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_a_certificate_that_is_not_trusted_is_refused(security: str) -> None:
    with ThrowAwayCertificate() as certificate:
        async with MailServer(
            certificate=certificate.server_context, from_the_first_byte=security == "tls"
        ) as server:
            with pytest.raises(MailNotSent, match="CERTIFICATE_VERIFY_FAILED"):
                await Mailer(settings(server.port, security)).send("a", "b")
    assert server.mails == []


async def test_nothing_is_sent_in_clear_text_if_encryption_was_asked_for() -> None:
    async with MailServer(user="ops", password="s3cret", fault="no_starttls") as server:
        own = settings(server.port, "starttls", user="ops", password="s3cret")
        with pytest.raises(MailNotSent, match="503"):
            await Mailer(own).send("a", "b")
    assert server.mails == []


async def test_a_wrong_password_is_said_without_the_password() -> None:
    async with MailServer(user="ops", password="right") as server:
        own = settings(server.port, user="ops", password="wr0ng")
        with pytest.raises(MailNotSent, match=r"535 5\.7\.8 wrong user or password") as caught:
            await Mailer(own).send("a", "b")
    assert "wr0ng" not in str(caught.value)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("refuses", "554 5.7.1 go away"),
        ("rejects_one", "the server refused ops@example.org"),
        ("hangs_up_at_data", "unexpectedly closed"),
    ],
)
async def test_a_server_that_does_not_take_it_is_an_error(fault: Fault, expected: str) -> None:
    async with MailServer(fault=fault) as server:
        with pytest.raises(MailNotSent, match=expected):
            await Mailer(settings(server.port)).send("a", "b")


async def test_a_server_that_is_not_there_is_an_error() -> None:
    with pytest.raises(MailNotSent, match="refused"):
        await Mailer(settings(free_port())).send("a", "b")


@pytest.mark.parametrize("fault", ["silent", "drips"])
async def test_a_server_that_hangs_holds_nobody_beyond_the_deadline(fault: Fault) -> None:
    async with MailServer(fault=fault) as server:
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(MailNotSent, match=r"not sent within 0.3 s"):
                await Mailer(settings(server.port), seconds=0.3).send("a", "b")


async def test_a_cancelled_message_leaves_no_thread_at_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mail, "STEP_SECONDS", PATIENCE)
    async with MailServer(fault="silent") as server:
        began = time.monotonic()
        sending = asyncio.create_task(Mailer(settings(server.port)).send("a", "b"))
        while not server.connections:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert time.monotonic() - began < PATIENCE / 2


async def test_a_subject_of_two_lines_is_one_line() -> None:
    async with MailServer() as server:
        await Mailer(settings(server.port)).send("a\r\nBcc: x@example.org", "b")
    (taken,) = server.mails
    assert taken.to == TO
    assert taken.message["Bcc"] is None
