"""The forms in which people hold a client certificate, made by OpenSSL."""

from __future__ import annotations

import subprocess

from tests.support.certificates import Authority

PASSPHRASE = "p4ss phrase"
# By name: how OpenSSL makes the key of one in PKCS#8, of a curve or RSA.
_KEYS = {
    "PKCS#8": ("pkcs8", "-topk8", "-nocrypt"),
    "PKCS#8, encrypted": ("pkcs8", "-topk8", "-passout", f"pass:{PASSPHRASE}"),
    "SEC 1": ("ec",),
    "SEC 1, encrypted": ("ec", "-aes128", "-passout", f"pass:{PASSPHRASE}"),
    "PKCS#1": ("rsa", "-traditional"),
    "PKCS#1, encrypted": ("rsa", "-traditional", "-aes256", "-passout", f"pass:{PASSPHRASE}"),
}
FORMS = (
    *_KEYS,
    "SEC 1 with its parameters",
    "PKCS#8 with the chain",
    "one file",
    "PKCS#12",
    "PKCS#12 with the chain",
)


def run(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def files_of(form: str, authority: Authority) -> dict[str, str]:
    """Returns what a connection's extra names, with `_` for `.`."""
    pem, key = authority.sign("client", rsa_key="PKCS#1" in form)
    if form.startswith("PKCS#12"):
        store = authority.folder / "client.p12"
        chain = ("-certfile", str(authority.pem)) if "chain" in form else ()
        made = ("-inkey", str(key), "-in", str(pem), "-out", str(store), *chain)
        run("openssl", "pkcs12", "-export", *made, "-passout", f"pass:{PASSPHRASE}")
        return {"ssl_keystore_location": str(store), "ssl_keystore_password": PASSPHRASE}
    made = authority.folder / "made.key"
    words = _KEYS.get(form) or _KEYS["SEC 1" if "SEC 1" in form else "PKCS#8"]
    run("openssl", *words, "-in", str(key), "-out", str(made))
    if "parameters" in form:
        parameters = run("openssl", "ecparam", "-name", "prime256v1")
        made.write_text(parameters + made.read_text())
    named = {"ssl_certificate_location": str(pem), "ssl_key_location": str(made)}
    if "chain" in form:
        pem.write_text(pem.read_text() + authority.pem.read_text())
    if form == "one file":
        pem.write_text(pem.read_text() + made.read_text())
        del named["ssl_key_location"]
    return named | ({"ssl_key_password": PASSPHRASE} if "encrypted" in form else {})
