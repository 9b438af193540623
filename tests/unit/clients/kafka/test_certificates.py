"""A client certificate in each form that a connection may name, as the three clients get it."""

from __future__ import annotations

import os
import re
import shlex
import ssl
import stat
import subprocess
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sluice.clients.connections import Connection
from sluice.clients.kafka.settings import KafkaSettings, from_connection
from sluice.errors import WrongUse
from tests.support.certificates import Authority
from tests.support.key_forms import FORMS, PASSPHRASE, files_of, run


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ca")


def settings(**extra: str) -> KafkaSettings:
    named = {key.replace("_", "."): str(value) for key, value in extra.items()}
    tls = {"bootstrap.servers": "h:1", "security.protocol": "SSL"}
    return from_connection("dc1", "read_committed", Connection("kafka_dc1", "kafka", extra=tls | named))


def modulus(text: str, folder: Path, *, private: bool) -> str:
    """The public key of a private key or certificate, as OpenSSL prints it."""
    path = folder / "asked.pem"
    path.write_text(text)
    words = ["pkey", "-pubout"] if private else ["x509", "-pubkey", "-noout"]
    return run("openssl", *words, "-in", str(path))


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_a_chain_and_a_key_in_pkcs8(form: str, authority: Authority, tmp_path: Path):
    """OpenSSL compares Java's; librdkafka and Python load theirs, which fails unless they are a pair."""
    found = settings(**files_of(form, authority), ssl_ca_location=authority.pem)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    java = found.for_spark()
    chain, key = java["kafka.ssl.keystore.certificate.chain"], java["kafka.ssl.keystore.key"]
    assert key.startswith("-----BEGIN PRIVATE KEY-----\n") and java["kafka.ssl.keystore.type"] == "PEM"
    assert chain.count("-----BEGIN CERTIFICATE-----") == (2 if "chain" in form else 1)
    assert isinstance(found.for_client()["ssl_context"], ssl.SSLContext)
    Producer({**found.for_librdkafka(), "log_level": 0})
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before, "something was written"
    assert modulus(key, tmp_path, private=True) == modulus(chain, tmp_path, private=False)
    secrets = {line for line in key.splitlines() if "-----" not in line} | {PASSPHRASE}
    assert not any(secret in repr(found) for secret in secrets)


def test_a_java_keystore_is_converted_by_the_command_in_the_message(authority: Authority, tmp_path: Path):
    p12 = files_of("PKCS#12", authority)["ssl_keystore_location"]
    words = ("-srckeystore", p12, "-srcstoretype", "PKCS12", "-deststoretype", "JKS")
    jks = str(tmp_path / "my store.jks")
    passes = ("-srcstorepass", PASSPHRASE, "-deststorepass", PASSPHRASE)
    run("keytool", "-importkeystore", "-noprompt", *words, "-destkeystore", jks, *passes)
    tls = {"ssl_keystore_location": jks, "ssl_keystore_password": PASSPHRASE}
    with pytest.raises(WrongUse, match="my store.jks is a Java keystore") as refused:
        settings(**tls).for_client()
    command = re.search("`(.*)`", str(refused.value))[1]
    run("sh", "-c", f"{command} {shlex.join(passes)}")
    made = Path(f"{jks}.p12")
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert settings(**tls | {"ssl_keystore_location": str(made)}).for_spark()["kafka.ssl.keystore.key"]


def refusals(folder: Path, authority: Authority) -> dict[str, dict[str, str]]:
    pem, key = authority.sign("one")
    other = authority.sign("other")[1]
    junk = folder / "junk"
    junk.write_bytes(b"-----BEGIN PRIVATE KEY-----\naGVsbG8=\n-----END PRIVATE KEY-----\n")
    hidden = authority.sign("hidden", passphrase=PASSPHRASE.encode())
    p12 = files_of("PKCS#12", authority)["ssl_keystore_location"]
    pair = {"ssl_certificate_location": str(pem)}
    return {
        r"are no pair: the first certificate has to be": pair | {"ssl_key_location": str(other)},
        r"ssl.key.location .*junk cannot be read: check the file": pair | {"ssl_key_location": str(junk)},
        r"ssl.key.location .*ca.pem holds no private key": pair | {"ssl_key_location": str(authority.pem)},
        r"ssl.key.location .*gone cannot be read \(No such file": pair
        | {"ssl_key_location": f"{folder}/gone"},
        r"ssl.certificate.location .*one.key holds no certificate": {"ssl_certificate_location": str(key)},
        r"hidden.key is encrypted: add ssl.key.password": {
            "ssl_certificate_location": str(hidden[0]), "ssl_key_location": str(hidden[1])},
        r"hidden.key cannot be read, or ssl.key.password is wrong": {
            "ssl_certificate_location": str(hidden[0]), "ssl_key_location": str(hidden[1]),
            "ssl_key_password": "wr0ng"},
        r"is no PKCS#12, or ssl.keystore.password is wrong": {
            "ssl_keystore_location": p12, "ssl_keystore_password": "wr0ng"},
        r"junk is no PKCS#12, or": {"ssl_keystore_location": str(junk)},
    }  # fmt: skip


def test_what_does_not_do_is_told_in_one_line(authority: Authority, tmp_path: Path):
    for message, named in refusals(tmp_path, authority).items():
        for asked in ("for_client", "for_librdkafka", "for_spark"):
            with pytest.raises(WrongUse, match=message) as refused:
                getattr(settings(**named), asked)()
            text = str(refused.value)
            assert text.startswith("Kafka cluster 'dc1': ssl.") and "\n" not in text
            assert "wr0ng" not in text and PASSPHRASE not in text and "aGVsbG8" not in text


def test_a_password_for_a_key_without_one_does_not_matter(authority: Authority):
    named = files_of("PKCS#8", authority) | {"ssl_key_password": "of no use"}
    assert settings(**named).for_spark()["kafka.ssl.keystore.key"]


def test_no_descriptor_stays_open(authority: Authority):
    found = settings(**files_of("PKCS#8", authority))
    found.for_client()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        found.for_client()
    assert len(os.listdir("/proc/self/fd")) == before


def test_openssl_is_asked_for_real(authority: Authority, tmp_path: Path):
    """What compares the keys fails for another's."""
    one, other = authority.sign("a"), authority.sign("b")
    key = modulus(one[1].read_text(), tmp_path, private=True)
    assert key != modulus(other[0].read_text(), tmp_path, private=False)
    with pytest.raises(subprocess.CalledProcessError):
        modulus("junk", tmp_path, private=True)
