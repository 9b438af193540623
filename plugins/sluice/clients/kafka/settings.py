"""How a Kafka cluster is reached, for kafka-python, librdkafka and Spark's Java client, from one description.

The description is an Airflow `kafka` connection: its `extra` in librdkafka's names, as the Airflow Kafka
provider has them (https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md).
"""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import KafkaError, for_code

from sluice.clients import connections as connections
from sluice.clients.connections import Connection
from sluice.config.pipeline import Cluster
from sluice.errors import BatchUnreadable, KafkaUnavailable, WrongUse
from sluice.named_file import read_named

_SECURITY = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
_OLD_KEY = re.compile(rb"^-----BEGIN (RSA|EC|DSA) PRIVATE KEY-----", re.MULTILINE)
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_CHECK_HOSTNAME = "ssl.endpoint.identification.algorithm"
_UNDERSTOOD = frozenset(
    {
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
        _CHECK_HOSTNAME,
    }
)
_CHECKED = {"https": True, "none": False, "": False}  # none is librdkafka's word, no text Java's


@dataclass(frozen=True)
class KafkaSettings:
    """One cluster's address and security; file names are PEM files on this machine."""

    cluster: str
    bootstrap: str
    isolation: str = "read_committed"
    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True

    def for_client(self) -> dict[str, Any]:
        """Returns kafka-python's keyword arguments for the address and the security."""
        arguments: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap.split(","),
            "security_protocol": self.protocol,
        }
        if self.protocol.startswith("SASL"):
            arguments["sasl_mechanism"] = self.mechanism
            arguments["sasl_plain_username"] = self.username
            arguments["sasl_plain_password"] = self.password
        if self.protocol.endswith("SSL"):
            arguments["ssl_check_hostname"] = self.check_hostname
            arguments["ssl_cafile"] = self.ca_file
            arguments["ssl_certfile"] = self.certificate_file
            arguments["ssl_keyfile"] = self.key_file
            arguments["ssl_password"] = self.key_password
        return arguments

    def for_librdkafka(self) -> dict[str, str]:
        """Returns the same in librdkafka's names; its `ssl.ca.location` is the system's own without one."""
        options = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol}
        if self.protocol.startswith("SASL"):
            named = (self.mechanism, self.username, self.password)
            names = ("sasl.mechanisms", "sasl.username", "sasl.password")
            options |= {name: value or "" for name, value in zip(names, named, strict=True)}
        if self.protocol.endswith("SSL"):
            options[_CHECK_HOSTNAME] = "https" if self.check_hostname else "none"
            files = {
                "ssl.ca.location": self.ca_file,
                "ssl.certificate.location": self.certificate_file,
                "ssl.key.location": self.key_file,
                "ssl.key.password": self.key_password,
            }
            options |= {name: value for name, value in files.items() if value}
        return options

    def for_spark(self) -> dict[str, str]:
        """Options of Spark's Kafka source: the address, the security and the isolation.

        Certificates go as text, so that executors need no files. Raises WrongUse when one cannot be read.
        """
        options = {
            "kafka.bootstrap.servers": self.bootstrap,
            "kafka.isolation.level": self.isolation,
            "kafka.security.protocol": self.protocol,
        }
        if self.protocol.startswith("SASL"):
            options["kafka.sasl.mechanism"] = self.mechanism or ""
            options["kafka.sasl.jaas.config"] = self._jaas()
        if self.protocol.endswith("SSL"):
            options |= self._spark_certificates()
        return options

    def _jaas(self) -> str:
        module = _LOGIN_MODULES[self.mechanism or ""]
        user, password = _jaas_text(self.username or ""), _jaas_text(self.password or "")
        return f"{module} required username={user} password={password};"

    def _spark_certificates(self) -> dict[str, str]:
        """PEM texts as Kafka's clients take them since 2.7 (KIP-651)."""
        options = {} if self.check_hostname else {f"kafka.{_CHECK_HOSTNAME}": ""}
        if self.ca_file:
            options["kafka.ssl.truststore.type"] = "PEM"
            options["kafka.ssl.truststore.certificates"] = self._pem(self.ca_file)
        if self.certificate_file and self.key_file:
            options["kafka.ssl.keystore.type"] = "PEM"
            options["kafka.ssl.keystore.certificate.chain"] = self._pem(self.certificate_file)
            options["kafka.ssl.keystore.key"] = self._pem(self.key_file)
            if self.key_password:
                options["kafka.ssl.key.password"] = self.key_password
        return options

    def _pem(self, name: str) -> str:
        try:
            return read_named(name).decode("ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise WrongUse(f"Kafka cluster {self.cluster!r}: {name} is not a readable PEM file") from error


def settings_of(cluster: Cluster) -> KafkaSettings:
    """Returns the settings of one of the pipeline's clusters. Raises WrongUse for a connection that does not
    do."""
    if cluster.bootstrap is not None:
        return KafkaSettings(cluster.cluster, cluster.bootstrap, cluster.isolation)
    return from_connection(cluster.cluster, cluster.isolation, connections.find(cluster.connection or ""))


def from_connection(cluster: str, isolation: str, connection: Connection) -> KafkaSettings:
    """Reads a connection. Its login and password are used where the extra has no `sasl.username` and
    `sasl.password`."""
    extra = {key: str(value) for key, value in connection.extra.items() if value is not None}
    _refuse_unknown(connection, extra)
    bootstrap = extra.get("bootstrap.servers") or _host(connection)
    protocol = extra.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _SECURITY:
        raise WrongUse(_wrong(connection, f"security.protocol {protocol}", ", ".join(sorted(_SECURITY))))
    mechanism = extra.get("sasl.mechanism") or extra.get("sasl.mechanisms")
    if protocol.startswith("SASL") and mechanism not in _LOGIN_MODULES:
        raise WrongUse(_wrong(connection, f"sasl.mechanism {mechanism}", ", ".join(_LOGIN_MODULES)))
    _refuse_old_key(connection, extra.get("ssl.key.location"))
    return KafkaSettings(
        cluster,
        bootstrap,
        isolation,
        protocol=protocol,
        mechanism=mechanism,
        username=extra.get("sasl.username") or connection.login,
        password=extra.get("sasl.password") or connection.password,
        ca_file=extra.get("ssl.ca.location"),
        certificate_file=extra.get("ssl.certificate.location"),
        key_file=extra.get("ssl.key.location"),
        key_password=extra.get("ssl.key.password"),
        check_hostname=connection.chosen(_CHECK_HOSTNAME, _CHECKED, True),
    )


def _refuse_unknown(connection: Connection, extra: Mapping[str, str]) -> None:
    """A security setting that is not understood would silently not apply."""
    for key in extra:
        if key.startswith(("sasl.", "ssl.", "enable.ssl.")) and key not in _UNDERSTOOD:
            raise WrongUse(_wrong(connection, key, ", ".join(sorted(_UNDERSTOOD))))


def _refuse_old_key(connection: Connection, name: str | None) -> None:
    """Refuses PKCS#1 and SEC 1: two of the three clients read them, and Java fails in the middle of a
    landing. A file that cannot be read is reported by the client that needs it.

    Source: Kafka's DefaultSslEngineFactory, PemStore: `PRIVATE KEY` and `ENCRYPTED PRIVATE KEY` only.
    """
    if not name:
        return
    with suppress(OSError):
        old = _OLD_KEY.search(read_named(name))
        if old is not None:
            form = "PKCS#1" if old[1] == b"RSA" else "an old form"
            files = f"-in {shlex.quote(name)} -out {shlex.quote(name + '.pk8')}"
            raise WrongUse(
                f"connection {connection.conn_id!r}: ssl.key.location {name} is a key in {form}, which "
                "Spark's client does not read: name one in PKCS#8, which "
                f"`umask 077; openssl pkcs8 -topk8 -nocrypt {files}` writes (it asks for a password without "
                "-nocrypt)"
            )


def _host(connection: Connection) -> str:
    if not connection.host:
        raise WrongUse(f"connection {connection.conn_id!r}: `bootstrap.servers` is missing in its extra")
    return f"{connection.host}:{connection.port or 9092}"


def _wrong(connection: Connection, what: str, expected: str) -> str:
    return f"connection {connection.conn_id!r}: {what} is not supported: expected one of {expected}"


def _jaas_text(value: str) -> str:
    """Returns a quoted value for Kafka's JaasConfig, which reads with java.io.StreamTokenizer's escapes."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


# Opens kafka-python's clients with short time-outs, and turns their errors into Sluice's.

Admin = TypeVar("Admin", bound=KafkaAdminClient)

BOOTSTRAP_MS = 10_000
REQUEST_MS = 15_000

# Whatever it complains of is raised as well, and Sluice says it in one line of its own.
logging.getLogger("kafka").setLevel(logging.CRITICAL)


class DamagedBatch(KafkaError):
    """A stored batch of `place` that cannot be read; it begins at offset `start`."""

    def __init__(self, place: TopicPartition, start: int, reason: str) -> None:
        super().__init__(f"{place.topic}/{place.partition} at offset {start}: {reason}")
        self.place, self.start, self.reason = place, start, reason


def error_of(code: int) -> type[KafkaError]:
    """Returns the class of a broker's error code; NoError for 0."""
    error_class: type[KafkaError] = for_code(code)  # type: ignore[no-untyped-call]  # its stub has no types
    return error_class


@contextmanager
def reached(settings: KafkaSettings) -> Iterator[None]:
    """Raises KafkaUnavailable for whatever the client cannot do: no answer, no leader, no permission; and
    BatchUnreadable for a batch that is damaged."""
    try:
        yield
    except DamagedBatch as error:
        where = (settings.cluster, *error.place, error.start, error.start + 1)
        raise BatchUnreadable(*where, error.reason) from error
    except (KafkaError, OSError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise KafkaUnavailable(settings.cluster, settings.bootstrap, reason) from error


@contextmanager
def admin(settings: KafkaSettings, kind: type[Admin]) -> Iterator[Admin]:
    client = kind(bootstrap_timeout_ms=BOOTSTRAP_MS, request_timeout_ms=REQUEST_MS, **settings.for_client())
    try:
        yield client
    finally:
        client.close()
