"""The certificate and key that this side shows in TLS, from any usual file to one form, in memory.

Java's client reads keys in PKCS#8 only (Kafka's DefaultSslEngineFactory, PemStore), Python's `ssl` files.
So all three clients get the chain in PEM and the key in PKCS#8, whatever the connection names. No key is
written anywhere. A message names files, never what they hold.
"""

from __future__ import annotations

import os
import re
import shlex
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

from sluice.errors import WrongUse
from sluice.named_file import read_named

_KEY = re.compile(rb"-----BEGIN ([A-Z0-9 ]*PRIVATE KEY)-----.*?-----END \1-----", re.DOTALL)
_JAVA_STORES = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")  # JKS, JCEKS
_UNREADABLE = (ValueError, TypeError, UnsupportedAlgorithm)


@dataclass(frozen=True)
class Shown:
    """A chain in PEM, the client's own certificate first, and its key in PKCS#8 without a passphrase."""

    chain: str
    key: str = field(repr=False)


@dataclass(frozen=True)
class ClientCertificate:
    """Where they are: a `certificate` and its `key` in PEM, or both in a `keystore` (PKCS#12)."""

    certificate: str | None = None
    key: str | None = None
    keystore: str | None = None
    password: str | None = field(default=None, repr=False)

    def read(self, cluster: str) -> Shown:
        """Raises WrongUse."""
        try:
            return self._from_pem(self.certificate) if self.certificate else self._from_keystore()
        except _Unusable as error:
            raise WrongUse(f"Kafka cluster {cluster!r}: {error}") from None

    def _from_pem(self, named: str) -> Shown:
        try:
            chain = x509.load_pem_x509_certificates(_content("ssl.certificate.location", named))
        except ValueError:
            raise _Unusable(
                f"ssl.certificate.location {named} holds no certificate in PEM: check it"
            ) from None
        path = self.key or named
        found = _KEY.search(_content("ssl.key.location", path))
        if found is None:
            raise _Unusable(f"ssl.key.location {path} holds no private key in PEM: check the file")
        encrypted = b"ENCRYPTED" in found[0]
        if encrypted and not self.password:
            raise _Unusable(f"ssl.key.location {path} is encrypted: add ssl.key.password")
        try:
            password = self.password.encode() if encrypted and self.password else None
            key = load_pem_private_key(found[0], password)
        except _UNREADABLE:
            wrong = ", or ssl.key.password is wrong: check both" if encrypted else ": check the file"
            raise _Unusable(f"ssl.key.location {path} cannot be read{wrong}") from None
        return _shown(chain, key, f"ssl.certificate.location {named} and ssl.key.location {path}")

    def _from_keystore(self) -> Shown:
        path = self.keystore or ""
        content = _content("ssl.keystore.location", path)
        if content.startswith(_JAVA_STORES):
            files = f"-srckeystore {shlex.quote(path)} -destkeystore {shlex.quote(path + '.p12')}"
            raise _Unusable(
                f"ssl.keystore.location {path} is a Java keystore (JKS), which only Java reads: name one in "
                f"PKCS#12, which `umask 077; keytool -importkeystore {files} -deststoretype PKCS12` writes"
            )
        try:
            held = load_pkcs12(content, self.password.encode() if self.password else None)
        except _UNREADABLE:
            raise _Unusable(
                f"ssl.keystore.location {path} is no PKCS#12, or ssl.keystore.password is wrong: check both"
            ) from None
        if held.key is None or held.cert is None:
            raise _Unusable(f"ssl.keystore.location {path} holds no key with its certificate: check the file")
        chain = [held.cert.certificate, *(more.certificate for more in held.additional_certs)]
        return _shown(chain, held.key, f"ssl.keystore.location {path}")


class _Unusable(Exception):
    """A file that does not do, in words, and what to do."""


def _content(name: str, path: str) -> bytes:
    try:
        return read_named(path)
    except OSError as error:
        raise _Unusable(f"{name} {path} cannot be read ({error.strerror}): check its path and mode") from None


def _shown(chain: list[x509.Certificate], key: PrivateKeyTypes, named: str) -> Shown:
    public = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if chain[0].public_key().public_bytes(*public) != key.public_key().public_bytes(*public):
        raise _Unusable(f"{named} are no pair: the first certificate has to be that of the key")
    texts = [certificate.public_bytes(Encoding.PEM).decode() for certificate in chain]
    form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Shown("".join(texts), key.private_bytes(*form).decode())


def tls_context(authorities: str | None, check_hostname: bool, shown: Shown | None) -> ssl.SSLContext:
    """Returns what trusts `authorities` (PEM), or the machine's own, and shows `shown`.

    Raises ssl.SSLError where there is no certificate in `authorities`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = check_hostname
    if authorities is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(cadata=authorities)
    if shown is not None:
        with _in_memory(shown.chain + shown.key) as path:
            context.load_cert_chain(path)
    return context


@contextmanager
def _in_memory(text: str) -> Iterator[str]:
    """Yields the name of a file that is in no folder, and is gone with this process's descriptor."""
    descriptor = os.memfd_create("certificate")
    try:
        os.write(descriptor, text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
