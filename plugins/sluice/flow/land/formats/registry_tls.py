"""TLS to a schema registry: the files that its connection names, and what a handshake that fails says.

No message shows what a file or the connection holds, only paths: a key may have been pasted in place of one.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from sluice.errors import WrongUse
from sluice.named_file import read_named

FILES = ("ca", "certificate", "key")
_MOST_OF_PATH = 1_000
_CA = "let `ca` in its connection's extra name the authority that signed it"
_OWN = "let `certificate` and `key` in its connection's extra name a pair"
# What stands in the alert of a server that refuses a client, by OpenSSL's names; Java's say the last.
_ALERTS = (
    ("CERTIFICATE_REQUIRED", "it asks for a client certificate", f"{_OWN} that it accepts"),
    ("CERTIFICATE_EXPIRED", "the client certificate has expired", "renew `certificate`"),
    ("CERTIFICATE_REVOKED", "the client certificate is revoked", "renew `certificate`"),
    (
        "UNKNOWN_CA",
        "it does not know the authority of the client certificate",
        f"{_OWN} that its own authority signed",
    ),
    ("BAD_CERTIFICATE", "it refuses the client certificate", f"{_OWN} that it accepts"),
    ("CERTIFICATE_UNKNOWN", "it refuses the client certificate", f"{_OWN} that it accepts"),
    ("HANDSHAKE_FAILURE", "it asks for another TLS, or for a client certificate", f"{_OWN} that it accepts"),
)
_NOT_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")


def check_files(extra: Mapping[str, str], where: str) -> None:
    """Raises WrongUse for what names no files."""
    for name in FILES:
        path = extra.get(name, "")
        if "-----BEGIN" in path or not path.isprintable() or len(path) > _MOST_OF_PATH:
            raise WrongUse(f"{where}: `{name}` in its extra is no path: write the file's, not what it holds")
    if "key" in extra and "certificate" not in extra:
        raise WrongUse(f"{where}: `key` in its extra needs the `certificate` that it belongs to")


def context_of(url: str, ca: str | None, certificate: str | None, key: str | None) -> ssl.SSLContext:
    """Returns what trusts `ca`, or the machine's authorities, and shows `certificate`. Raises WrongUse for
    files that cannot be used."""
    for name, path in (("ca", ca), ("certificate", certificate), ("key", key)):
        _refuse_unreadable(url, name, path)
    try:
        context = ssl.create_default_context(cafile=ca)
    except ssl.SSLError as error:
        raise _unusable(url, f"`ca` {ca} holds no certificates in PEM") from error
    if certificate is None:
        return context
    held = f"`certificate` {certificate}" if key is None else f"`certificate` {certificate} and `key` {key}"
    try:
        # Without a passphrase: OpenSSL would ask the terminal for one.
        context.load_cert_chain(certificate, key, password=_no_passphrase)
    except _Encrypted as error:
        named = f"`key` {key}" if key else f"the key in `certificate` {certificate}"
        raise _unusable(url, f"{named} needs a passphrase: name one without") from error
    except ssl.SSLError as error:
        if "KEY_VALUES_MISMATCH" in (error.reason or ""):
            raise _unusable(url, f"{held} are no pair: the key is another certificate's") from error
        raise _unusable(url, f"{held} hold no certificate with its key in PEM") from error
    return context


class _Encrypted(Exception):
    """A key that cannot be read without a passphrase."""


def _no_passphrase() -> bytes:
    raise _Encrypted


def _refuse_unreadable(url: str, name: str, path: str | None) -> None:
    try:
        if path is not None:
            read_named(path)
    except OSError as error:
        raise _unusable(url, f"`{name}` {path}: {error.strerror}") from error


def _unusable(url: str, what: str) -> WrongUse:
    return WrongUse(f"schema registry {url}: its certificate files cannot be used ({what})")


def refusal(error: BaseException) -> tuple[str, str] | None:
    """Returns (reason, remedy) of a handshake that fails the same each time; None of any other error."""
    found = _tls_error(error)
    if isinstance(found, ssl.SSLCertVerificationError):
        said = f"its certificate is not trusted: {found.verify_message}"
        if "expired" in found.verify_message:
            return said, "renew the registry's certificate"
        if "match" in found.verify_message or "mismatch" in found.verify_message:
            return said, "write as its host the name that its certificate has"
        return said, _CA
    reason = (found.reason or "") if found is not None else ""
    if any(name in reason for name in _NOT_TLS):
        return "no TLS at this address", "write http:// for https:// in its connection, or the TLS port"
    return next(((said, remedy) for name, said, remedy in _ALERTS if name in reason), None)


def _tls_error(error: BaseException | None) -> ssl.SSLError | None:
    """Returns what lies below a client's error."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, ssl.SSLError):
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None
