"""How a Kafka cluster is reached, for kafka-python, librdkafka and Spark's Java client, from one description.

The description is an Airflow `kafka` connection: its `extra` in librdkafka's names, as the Airflow Kafka
provider has them (https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md).
"""

from __future__ import annotations

import logging
import os
import re
import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import KafkaError, SaslAuthenticationFailedError, for_code

from sluice.clients import connections as connections
from sluice.clients.connections import Connection
from sluice.clients.kafka.certificates import ClientCertificate, Shown, tls_context
from sluice.clients.kafka.tokens import (
    SECONDS,
    AwsSigner,
    Issuer,
    OAuthClient,
    Provider,
    oauth_callback,
    source_of,
)
from sluice.config.pipeline import Cluster
from sluice.errors import BatchUnreadable, KafkaLoginFails, KafkaUnavailable, WrongUse
from sluice.named_file import read_named

_SECURITY = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_OAUTH, _AWS = "OAUTHBEARER", "AWS_MSK_IAM"
_MECHANISMS = (*_LOGIN_MODULES, _OAUTH, _AWS)
_OF_OAUTH = "org.apache.kafka.common.security.oauthbearer."
ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""The system property without which Java's client asks no token endpoint."""
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
# What a JVM takes as an option, and a shell as a word.
_PLAIN_URL = re.compile(r"https?://[A-Za-z0-9._-]+(:\d{1,5})?([/?][A-Za-z0-9._~:/?&=%+-]*)?")
_EXTENSION = re.compile(r"([A-Za-z]+)=([\x21-\x7e]+)")
_AWS_REGION = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.")
_CHECK_HOSTNAME = "ssl.endpoint.identification.algorithm"
_UNDERSTOOD = frozenset(
    {
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.username",
        "sasl.password",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.extensions",
        _ENDPOINT,
        "https.ca.location",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.keystore.location",
        "ssl.keystore.password",
        _CHECK_HOSTNAME,
    }
)
_CHECKED = {"https": True, "none": False, "": False}  # none is librdkafka's word, no text Java's


@dataclass(frozen=True)
class KafkaSettings:
    """One cluster's address and security; file names are of files on this machine. `issuer` gives the tokens
    of a login by OAUTHBEARER; `rack` is where this client is."""

    cluster: str
    bootstrap: str
    isolation: str = "read_committed"
    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    issuer: Issuer | None = None
    ca_file: str | None = None
    certificate: ClientCertificate | None = None
    check_hostname: bool = True
    rack: str | None = None

    @property
    def read_by_spark(self) -> bool:
        """False where Java's client has no such login, so that tasks read everything themselves."""
        return not isinstance(self.issuer, AwsSigner)

    def for_client(self) -> dict[str, Any]:
        """Returns kafka-python's keyword arguments for the address and the security. Raises WrongUse for a
        file that does not do."""
        arguments: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap.split(","),
            "security_protocol": self.protocol,
        }
        if self.issuer is not None:
            arguments["sasl_mechanism"] = _OAUTH
            arguments["sasl_oauth_token_provider"] = Provider(self.issuer)
        elif self.protocol.startswith("SASL"):
            arguments["sasl_mechanism"] = self.mechanism
            arguments["sasl_plain_username"] = self.username
            arguments["sasl_plain_password"] = self.password
        if self.protocol.endswith("SSL"):
            arguments["ssl_context"] = self._tls_context()
        return arguments

    def for_librdkafka(self) -> dict[str, Any]:
        """Returns the same in librdkafka's names; its `ssl.ca.location` is the system's own without one.
        Raises WrongUse as `for_client`."""
        options: dict[str, Any] = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol}
        if self.issuer is not None:
            options |= {"sasl.mechanisms": _OAUTH, "oauth_cb": oauth_callback(self.issuer)}
        elif self.protocol.startswith("SASL"):
            named = (self.mechanism, self.username, self.password)
            names = ("sasl.mechanisms", "sasl.username", "sasl.password")
            options |= {name: value or "" for name, value in zip(names, named, strict=True)}
        if self.protocol.endswith("SSL"):
            options[_CHECK_HOSTNAME] = "https" if self.check_hostname else "none"
            if self.ca_file:
                options["ssl.ca.location"] = self.ca_file
            if shown := self._shown():
                options |= {"ssl.certificate.pem": shown.chain, "ssl.key.pem": shown.key}
        return options | ({"client.rack": self.rack} if self.rack else {})

    def for_spark(self) -> dict[str, str]:
        """Options of Spark's Kafka source: the address, the security and the isolation.

        Certificates go as text, so that executors need no files. Raises WrongUse when one cannot be read, and
        where Spark does not read at all.
        """
        if not self.read_by_spark:
            raise WrongUse(f"Kafka cluster {self.cluster!r}: Spark's client has no {self.mechanism}")
        options = {
            "bootstrap.servers": self.bootstrap,
            "isolation.level": self.isolation,
            "security.protocol": self.protocol,
        }
        if isinstance(self.issuer, OAuthClient):
            options |= self._java_login(self.issuer)
        elif self.protocol.startswith("SASL"):
            user, password = _jaas_text(self.username or ""), _jaas_text(self.password or "")
            module = _LOGIN_MODULES[self.mechanism or ""]
            options["sasl.mechanism"] = self.mechanism or ""
            options["sasl.jaas.config"] = f"{module} required username={user} password={password};"
        if self.protocol.endswith("SSL"):
            options |= self._java_certificates()
        if self.rack:
            options["client.rack"] = self.rack
        return {f"kafka.{name}": value for name, value in options.items()}

    def login(self) -> None:
        """Gets a token where one is needed, before a client that would hide why there is none. Raises
        KafkaLoginFails."""
        if self.issuer is not None:
            source_of(self.issuer).refusal = None
            source_of(self.issuer).token()

    def login_trouble(self, login_failed: bool) -> KafkaLoginFails | None:
        """Returns that the brokers refuse the token, or, if the login is what failed, why there is none."""
        if self.issuer is None:
            return None
        source = source_of(self.issuer)
        return source.refusal or (source.trouble if login_failed else None)

    def _java_login(self, client: OAuthClient) -> dict[str, str]:
        """The login handler trusts the certificates that its JAAS options have (JaasOptionsUtils, 3.9)."""
        named = {"clientId": client.client_id, "clientSecret": client.secret}
        named |= {"scope": client.scope} if client.scope else {}
        named |= {f"extension_{name}": value for name, value in client.extensions}
        if client.ca_file:
            named |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": self._pem(client.ca_file)}
        words = " ".join(f"{name}={_jaas_text(value)}" for name, value in named.items())
        return {
            "sasl.mechanism": _OAUTH,
            "sasl.jaas.config": f"{_OF_OAUTH}OAuthBearerLoginModule required {words};",
            "sasl.login.callback.handler.class": f"{_OF_OAUTH}OAuthBearerLoginCallbackHandler",
            "sasl.login.connect.timeout.ms": str(SECONDS * 1000),
            "sasl.login.read.timeout.ms": str(SECONDS * 1000),
            "sasl.oauthbearer.header.urlencode": "true",
            _ENDPOINT: client.url,
        }

    def _java_certificates(self) -> dict[str, str]:
        """PEM texts as Kafka's clients take them since 2.7 (KIP-651)."""
        options = {} if self.check_hostname else {_CHECK_HOSTNAME: ""}
        if self.ca_file:
            options["ssl.truststore.type"] = "PEM"
            options["ssl.truststore.certificates"] = self._pem(self.ca_file)
        if shown := self._shown():
            options["ssl.keystore.type"] = "PEM"
            options["ssl.keystore.certificate.chain"] = shown.chain
            options["ssl.keystore.key"] = shown.key
        return options

    def _tls_context(self) -> ssl.SSLContext:
        authorities = self._pem(self.ca_file) if self.ca_file else None
        try:
            return tls_context(authorities, self.check_hostname, self._shown())
        except ssl.SSLError as error:
            reason = " ".join(str(error).split())
            raise WrongUse(
                f"Kafka cluster {self.cluster!r}: OpenSSL refuses its certificates ({reason}): "
                "check the files that its connection names"
            ) from error

    def _shown(self) -> Shown | None:
        return None if self.certificate is None else self.certificate.read(self.cluster)

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
    if protocol.startswith("SASL") and mechanism not in _MECHANISMS:
        if mechanism == "GSSAPI":
            raise WrongUse(
                f"connection {connection.conn_id!r}: sasl.mechanism GSSAPI (Kerberos) is not supported, "
                "because the Python wheels of Kafka's clients lack it: use SCRAM-SHA-512, OAUTHBEARER, or "
                "security.protocol SSL with a client certificate"
            )
        raise WrongUse(_wrong(connection, f"sasl.mechanism {mechanism}", ", ".join(_MECHANISMS)))
    return KafkaSettings(
        cluster,
        bootstrap,
        isolation,
        protocol=protocol,
        mechanism=mechanism,
        username=extra.get("sasl.username") or connection.login,
        password=extra.get("sasl.password") or connection.password,
        issuer=_issuer(cluster, bootstrap, mechanism, connection, extra) if "SASL" in protocol else None,
        ca_file=extra.get("ssl.ca.location"),
        certificate=_certificate(connection, extra),
        check_hostname=connection.chosen(_CHECK_HOSTNAME, _CHECKED, True),
        rack=extra.get("client.rack"),
    )


def token_urls(clusters: Iterable[Cluster]) -> list[str]:
    """Returns the token endpoints that Spark's client has to be allowed. A connection that
    cannot be used is left out: what reads through it reports it."""
    urls: list[str] = []
    for cluster in clusters:
        with suppress(WrongUse):
            issuer = settings_of(cluster).issuer
            urls += [issuer.url] if isinstance(issuer, OAuthClient) else []
    return list(dict.fromkeys(urls))


def _issuer(
    cluster: str, bootstrap: str, mechanism: str | None, connection: Connection, extra: Mapping[str, str]
) -> Issuer | None:
    if mechanism == _AWS:
        return AwsSigner(cluster, bootstrap, _region(connection, bootstrap))
    if mechanism != _OAUTH:
        return None
    method, url = extra.get("sasl.oauthbearer.method", "oidc"), extra.get(_ENDPOINT, "")
    if method.lower() != "oidc":
        raise WrongUse(_wrong(connection, f"sasl.oauthbearer.method {method}", "oidc"))
    if not _PLAIN_URL.fullmatch(url):
        expected = "expected http(s)://host/path, without a login" if url else "it is missing in its extra"
        raise WrongUse(f"connection {connection.conn_id!r}: {_ENDPOINT}: {expected}")
    client_id = extra.get("sasl.oauthbearer.client.id") or connection.login
    secret = extra.get("sasl.oauthbearer.client.secret") or connection.password
    if not client_id or not secret:
        raise WrongUse(
            f"connection {connection.conn_id!r}: OAUTHBEARER needs sasl.oauthbearer.client.id and "
            "sasl.oauthbearer.client.secret in its extra, or a login and a password"
        )
    return OAuthClient(
        cluster,
        bootstrap,
        url=url,
        client_id=client_id,
        secret=secret,
        scope=extra.get("sasl.oauthbearer.scope"),
        extensions=_extensions(connection, extra.get("sasl.oauthbearer.extensions", "")),
        ca_file=extra.get("https.ca.location"),
    )


def _extensions(connection: Connection, text: str) -> tuple[tuple[str, str], ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    found = [_EXTENSION.fullmatch(part) for part in parts]
    if None in found or any(match and match[1] == "auth" for match in found):
        raise WrongUse(
            f"connection {connection.conn_id!r}: sasl.oauthbearer.extensions: expected name=value,…, "
            "with letters as names"
        )
    return tuple((match[1], match[2]) for match in found if match)


def _region(connection: Connection, bootstrap: str) -> str:
    """Returns that of the brokers' names, or else the machine's."""
    named = _AWS_REGION.search(bootstrap)
    region = named[1] if named else os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        raise WrongUse(
            f"connection {connection.conn_id!r}: the brokers' names do not say in which region they are: "
            "set AWS_REGION"
        )
    return region


def _certificate(connection: Connection, extra: Mapping[str, str]) -> ClientCertificate | None:
    certificate, key = extra.get("ssl.certificate.location"), extra.get("ssl.key.location")
    keystore = extra.get("ssl.keystore.location")
    if not certificate and not keystore:
        return None
    if keystore and (certificate or key):
        raise WrongUse(
            f"connection {connection.conn_id!r}: ssl.keystore.location has certificate and key: leave out "
            "ssl.certificate.location and ssl.key.location"
        )
    password = extra.get("ssl.keystore.password" if keystore else "ssl.key.password")
    return ClientCertificate(certificate=certificate, key=key, keystore=keystore, password=password)


def _refuse_unknown(connection: Connection, extra: Mapping[str, str]) -> None:
    """A security setting that is not understood would silently not apply."""
    for key in extra:
        if (
            key.startswith(("sasl.", "ssl.", "https.", "enable.ssl.", "enable.sasl."))
            and key not in _UNDERSTOOD
        ):
            raise WrongUse(_wrong(connection, key, ", ".join(sorted(_UNDERSTOOD))))


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
        if why := settings.login_trouble(isinstance(error, SaslAuthenticationFailedError)):
            raise why from error
        reason = " ".join(str(error).split()) or type(error).__name__
        raise KafkaUnavailable(settings.cluster, settings.bootstrap, reason) from error


@contextmanager
def admin(settings: KafkaSettings, kind: type[Admin]) -> Iterator[Admin]:
    settings.login()
    client = kind(bootstrap_timeout_ms=BOOTSTRAP_MS, request_timeout_ms=REQUEST_MS, **settings.for_client())
    try:
        yield client
    finally:
        client.close()
