"""A certificate for one test: for an emulator on loopback, trusted only where it is configured.

with ThrowAwayCertificate() as certificate:
    certificate.server_context   # for the emulator
    certificate.client_context   # for the client that trusts it
    certificate.path             # the same by file: SSL_CERT_FILE
"""

from __future__ import annotations

import datetime
import ipaddress
import ssl
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

SERVICE_NAME = "service.test"
"""Name of a service behind a proxy of the test kit."""
_DAY = datetime.timedelta(days=1)


class ThrowAwayCertificate:
    """Self-signed, for `localhost`, `127.0.0.1` and `service.test`, for a day."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="cordboard-certificate-")
        self.path = Path(self._folder.name, "certificate.pem")
        key_path = Path(self._folder.name, "key.pem")
        key = ec.generate_private_key(ec.SECP256R1())
        self.path.write_bytes(_signed(key).public_bytes(serialization.Encoding.PEM))
        key_path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        self.server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server_context.load_cert_chain(self.path, key_path)

    @property
    def client_context(self) -> ssl.SSLContext:
        """Trusts this certificate and no other."""
        return ssl.create_default_context(cafile=str(self.path))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Delete its files. Idempotent."""
        self._folder.cleanup()


def _signed(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names = [
        x509.DNSName("localhost"),
        x509.DNSName(SERVICE_NAME),
        x509.IPAddress(ipaddress.IPv4Address("127.0.0.1")),
    ]
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
