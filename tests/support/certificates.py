"""An authority's certificate, and those that it signs, as PEM files with their keys."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID


class Authority:
    """`NAME.pem` in the folder is its certificate."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self._name, self._key = folder, _named(name), ec.generate_private_key(ec.SECP256R1())
        self.pem = self._write(name, self._key.public_key(), self._name, days=2, is_ca=True)

    def sign(
        self, name: str, days: int = 2, passphrase: bytes | None = None, rsa_key: bool = False
    ) -> tuple[Path, Path]:
        """Writes `NAME.pem` and `NAME.key`, for 127.0.0.1; with days below 0 it has expired."""
        key = rsa.generate_private_key(65537, 2048) if rsa_key else ec.generate_private_key(ec.SECP256R1())
        pem = self._write(name, key.public_key(), _named(name), days, is_ca=False)
        hidden = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
        path = self.folder / f"{name}.key"
        path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, hidden))
        return pem, path

    def _write(
        self,
        name: str,
        key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey,
        subject: x509.Name,
        days: int,
        is_ca: bool,
    ) -> Path:
        now = dt.datetime.now(dt.UTC)
        address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=9))
            .not_valid_after(now + dt.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .add_extension(address, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        path = self.folder / f"{name}.pem"
        path.write_bytes(certificate.public_bytes(Encoding.PEM))
        return path


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
