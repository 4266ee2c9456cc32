"""Certificates that a test makes for itself."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tidegate.runtime.network.tls_files import TlsFiles

_DAY = datetime.timedelta(days=1)


class Authority:
    """A certificate authority with its files in a directory."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        self._directory = directory
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Tidegate test {name}")])
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._path = directory / f"{name}.crt"
        authority = self._unsigned(self._name, self._key, days=30).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self._path.write_bytes(self._pem(authority))

    def files(self, name: str, days: int = 30, addresses: Iterable[str] = ()) -> TlsFiles:
        """A certificate, signed by this authority, and its key.

        Args:
            name: Of the files and in the certificate.
            days: How long it is valid; negative if it has expired.
            addresses: IP addresses for which it is valid, which Ray verifies.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        certificate = self._unsigned(subject, key, days).add_extension(
            x509.SubjectAlternativeName([x509.DNSName("localhost"), *names]), critical=False
        )
        paths = [self._directory / f"{name}.{kind}" for kind in ("crt", "key")]
        paths[0].write_bytes(self._pem(certificate))
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return TlsFiles(str(paths[0]), str(paths[1]), str(self._path))

    def _unsigned(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.timezone.utc)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 60 * _DAY)
            .not_valid_after(now + days * _DAY)
        )

    def _pem(self, certificate: x509.CertificateBuilder) -> bytes:
        return certificate.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
