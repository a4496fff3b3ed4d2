"""The certificate authorities that are trusted."""

from __future__ import annotations

import ssl

import pytest

from cordboard.net.tls import load_trusted, trusted
from cordboard_testkit.emulators.throw_away_certificate import ThrowAwayCertificate


async def test_the_trust_is_made_once_and_shared() -> None:
    assert trusted() is trusted()
    assert await load_trusted() is trusted()
    assert trusted().verify_mode is ssl.CERT_REQUIRED
    assert trusted().check_hostname


def test_another_file_of_authorities_is_another_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = trusted()
    with ThrowAwayCertificate() as certificate:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate.path))
        assert trusted() is not usual
        assert [dict(x[0] for x in one["subject"]) for one in trusted().get_ca_certs()] == [
            {"commonName": "localhost"}
        ]


def test_a_file_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/at/all.pem")
    with pytest.raises(OSError, match="No such file"):
        trusted()
