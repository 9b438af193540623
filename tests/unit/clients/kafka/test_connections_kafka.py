"""From a connection to what kafka-python and Spark's Java client are told."""

from __future__ import annotations

import ssl
from pathlib import Path

import certifi
import pytest
from confluent_kafka import KafkaException, Producer

from sluice.clients.connections import Connection
from sluice.clients.kafka.settings import from_connection, settings_of
from sluice.config.pipeline import Cluster
from sluice.errors import WrongUse
from tests.support.certificates import Authority


def kafka(login: str | None = None, password: str | None = None, host: str | None = None, **extra):
    named = {key.replace("_", "."): value for key, value in extra.items()}
    found = Connection("kafka_dc1", "kafka", host, login=login, password=password, extra=named)
    return from_connection("dc1", "read_committed", found)


def test_a_bootstrap_in_the_pipeline_file():
    settings = settings_of(Cluster(cluster="dc1", bootstrap="a:1,b:2", topics=["bids"]))
    assert settings.for_client() == {"bootstrap_servers": ["a:1", "b:2"], "security_protocol": "PLAINTEXT"}
    assert settings.for_spark() == {
        "kafka.bootstrap.servers": "a:1,b:2",
        "kafka.isolation.level": "read_committed",
        "kafka.security.protocol": "PLAINTEXT",
    }


def test_the_embedded_connection(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DC1", '{"extra": {"bootstrap.servers": "x:9"}}')
    cluster = Cluster(cluster="dc1", connection="kafka_dc1", topics=["bids"], isolation="read_uncommitted")
    settings = settings_of(cluster)
    assert (settings.bootstrap, settings.isolation) == ("x:9", "read_uncommitted")


# Kafka's JaasConfig reads a quoted value with java.io.StreamTokenizer: \ escapes " and itself.
def test_a_password_with_every_trap_is_quoted_for_jaas():
    settings = kafka("me", 'p"a\\s;s=\n', host="h", security_protocol="sasl_ssl", sasl_mechanism="PLAIN")
    assert settings.bootstrap == "h:9092"
    assert settings.for_spark()["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="me" password="p\\"a\\\\s;s=\\n";'
    )
    assert settings.for_client()["sasl_plain_password"] == 'p"a\\s;s=\n'
    assert "p" + '"a' not in repr(settings)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_from_extra_goes_before_the_login(mechanism: str):
    settings = kafka(
        "login", "no", bootstrap_servers="h:1", security_protocol="SASL_PLAINTEXT",
        sasl_mechanisms=mechanism, sasl_username="u", sasl_password="p",
    )  # fmt: skip
    assert settings.for_client() == {
        "bootstrap_servers": ["h:1"],
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "u",
        "sasl_plain_password": "p",
    }
    spark = settings.for_spark()
    assert spark["kafka.sasl.mechanism"] == mechanism
    assert spark["kafka.sasl.jaas.config"].startswith(
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
    )


def test_authorities_are_text_for_spark_and_a_file_for_librdkafka(tmp_path: Path):
    ca = Authority(tmp_path, "ca").pem
    settings = kafka(
        bootstrap_servers="h:1", security_protocol="SSL", ssl_ca_location=str(ca),
        ssl_endpoint_identification_algorithm="none",
    )  # fmt: skip
    client = settings.for_client()
    context = client.pop("ssl_context")
    assert client == {"bootstrap_servers": ["h:1"], "security_protocol": "SSL"}
    assert context.verify_mode == ssl.CERT_REQUIRED and not context.check_hostname
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert [dict(part[0] for part in one["subject"]) for one in context.get_ca_certs()] == [
        {"commonName": "ca"}
    ]
    spark = settings.for_spark()
    assert spark["kafka.ssl.truststore.type"] == "PEM"
    assert spark["kafka.ssl.truststore.certificates"] == ca.read_text()
    assert spark["kafka.ssl.endpoint.identification.algorithm"] == ""


def test_the_rack_is_told_to_all(tmp_path: Path):
    settings = kafka(host="h", client_rack="zone-a")
    assert settings.for_librdkafka()["client.rack"] == settings.for_spark()["kafka.client.rack"] == "zone-a"
    assert settings.rack == "zone-a" and "zone-a" not in settings.for_client().values()


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({}, "`bootstrap.servers` is missing"),
        ({"bootstrap_servers": "h:1", "security_protocol": "TLS"}, "security.protocol TLS is not supported"),
        ({"bootstrap_servers": "h:1", "security_protocol": "SASL_SSL"}, "sasl.mechanism None"),
        (
            {"bootstrap_servers": "h:1", "security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"},
            r"sasl.mechanism GSSAPI \(Kerberos\) is not supported, because the Python wheels of "
            "Kafka's clients lack it: use SCRAM-SHA-512, OAUTHBEARER, or security.protocol SSL with a client "
            "certificate",
        ),
        ({"bootstrap_servers": "h:1", "ssl_truststore_location": "x"}, "ssl.truststore.location is not"),
        ({"bootstrap_servers": "h:1", "https_ca_pem": "x"}, "https.ca.pem is not supported"),
        (
            {"host": "h", "ssl_keystore_location": "x", "ssl_key_location": "y"},
            "ssl.keystore.location has certificate and key: leave out",
        ),
    ],
)
def test_what_would_silently_not_apply_is_refused(extra: dict[str, str], message: str):
    with pytest.raises(WrongUse, match=f"connection 'kafka_dc1': {message}"):
        kafka(**extra)


@pytest.mark.parametrize(
    ("value", "checked"), [("https", True), ("HTTPS", True), (None, True), ("none", False), ("", False)]
)
def test_the_name_in_the_brokers_certificate_is_checked(value: str | None, checked: bool):
    settings = kafka(host="h", security_protocol="SSL", ssl_endpoint_identification_algorithm=value)
    assert settings.check_hostname is checked


@pytest.mark.parametrize("value", ["htps", "HTTPS ", "true", True, False, 0])
def test_a_check_of_the_name_that_is_not_understood_is_refused(value: object):
    with pytest.raises(WrongUse) as refused:
        kafka(host="h", security_protocol="SSL", ssl_endpoint_identification_algorithm=value)
    key = "ssl.endpoint.identification.algorithm"
    message = f"connection 'kafka_dc1': {key} in its extra is not understood: expected one of https, none"
    assert str(refused.value) == message


def test_authorities_without_a_certificate(tmp_path: Path):
    (tmp_path / "ca").write_text("no certificate")
    settings = kafka(host="h", security_protocol="SSL", ssl_ca_location=str(tmp_path / "ca"))
    with pytest.raises(WrongUse, match="^Kafka cluster 'dc1': OpenSSL refuses its certificates"):
        settings.for_client()


def test_a_certificate_that_is_not_there(tmp_path: Path):
    settings = kafka(bootstrap_servers="h:1", security_protocol="SSL", ssl_ca_location=str(tmp_path / "no"))
    with pytest.raises(WrongUse, match="no is not a readable PEM file"):
        settings.for_spark()


def test_librdkafka_takes_what_it_is_told(tmp_path: Path):
    """By its own names; a producer refuses a name or value that it does not know, and reads the files."""
    ca = tmp_path / "ca.pem"
    ca.write_text(Path(certifi.where()).read_text())
    settings = kafka(
        "me", "se cret", host="h", security_protocol="sasl_ssl", sasl_mechanism="SCRAM-SHA-256",
        ssl_ca_location=str(ca), ssl_endpoint_identification_algorithm="none",
    )  # fmt: skip
    expected = {
        "bootstrap.servers": "h:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-256",
        "sasl.username": "me",
        "sasl.password": "se cret",
        "ssl.ca.location": str(ca),
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert settings.for_librdkafka() == expected
    Producer({**expected, "log_level": 0})
    with pytest.raises(KafkaException):
        Producer({**expected, "ssl.ca.location": str(tmp_path / "missing"), "log_level": 0})


def test_librdkafka_without_security():
    expected = {"bootstrap.servers": "h:9092", "security.protocol": "PLAINTEXT"}
    assert kafka(host="h").for_librdkafka() == expected
