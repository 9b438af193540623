"""A token of an endpoint, and of AWS: when it is asked for, what it says, and why there is none."""

from __future__ import annotations

import base64
import hashlib
import hmac
import threading
import time
from collections.abc import Iterator
from urllib.parse import parse_qsl, quote, urlsplit

import pytest
from confluent_kafka import Producer

from sluice.clients.connections import Connection
from sluice.clients.kafka import tokens
from sluice.clients.kafka.settings import KafkaSettings, from_connection, token_urls
from sluice.clients.kafka.tokens import TokenSource, source_of
from sluice.config.pipeline import Cluster
from sluice.errors import KafkaLoginFails, WrongUse
from tests.support.certificates import Authority
from tests.support.token_server import CLIENT, SCOPE, SECRET, TokenServer, serve

URL = "https://issuer.example/realms/one/token"
OIDC = {
    "bootstrap.servers": "h:1",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": URL,
}
AWS = {"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"}


def settings(login: str | None = None, password: str | None = None, /, **extra: str) -> KafkaSettings:
    found = Connection("kafka_dc1", "kafka", login=login, password=password, extra=extra)
    return from_connection("dc1", "read_committed", found)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "ca")


@pytest.fixture(scope="module")
def module_server(authority: Authority) -> Iterator[TokenServer]:
    with serve(authority) as started:
        yield started


@pytest.fixture
def server(module_server: TokenServer, monkeypatch: pytest.MonkeyPatch) -> TokenServer:
    source_of.cache_clear()
    module_server.mood, module_server.lifetime = "", 30
    module_server.asked.clear()
    monkeypatch.setattr(tokens, "WAITS", (0.0, 0.0))
    return module_server


def test_what_each_client_is_told(server: TokenServer, authority: Authority):
    found = settings(**server.described(9093, authority))
    client = found.for_client()
    assert (client["security_protocol"], client["sasl_mechanism"]) == ("SASL_SSL", "OAUTHBEARER")
    provider = client["sasl_oauth_token_provider"]
    assert provider.token() == server.given[-1] and provider.extensions() == {"traceId": "tests"}
    told = found.for_librdkafka()
    callback = told.pop("oauth_cb")
    assert told == {
        "bootstrap.servers": "127.0.0.1:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "OAUTHBEARER",
        "ssl.ca.location": str(authority.pem),
        "ssl.endpoint.identification.algorithm": "https",
    }
    text, expires, principal, extensions = callback("")
    assert (text, principal, extensions) == (server.given[-1], "", {"traceId": "tests"})
    assert 25 < expires - time.time() <= 30
    assert len(server.given) == server.asked.total() == 1, "the clients of a process share a token"
    assert server.forms[-1] == {"grant_type": ["client_credentials"], "scope": [SCOPE]}
    Producer({**found.for_librdkafka(), "log_level": 0})
    pem = authority.pem.read_text().replace("\n", "\\n")
    module = "org.apache.kafka.common.security.oauthbearer."
    spark = found.for_spark()
    assert {name: spark[name] for name in spark if "sasl" in name} == {
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.jaas.config": (
            f'{module}OAuthBearerLoginModule required clientId="{CLIENT}" clientSecret="{SECRET}" '
            f'scope="{SCOPE}" extension_traceId="tests" ssl.truststore.type="PEM" '
            f'ssl.truststore.certificates="{pem}";'
        ),
        "kafka.sasl.login.callback.handler.class": f"{module}OAuthBearerLoginCallbackHandler",
        "kafka.sasl.login.connect.timeout.ms": "10000",
        "kafka.sasl.login.read.timeout.ms": "10000",
        "kafka.sasl.oauthbearer.header.urlencode": "true",
        "kafka.sasl.oauthbearer.token.endpoint.url": server.url,
    }
    shown = repr((found, found.issuer, source_of(found.issuer).token()))
    assert SECRET not in shown and server.given[-1] not in shown


def test_login_and_password_are_client_id_and_secret():
    issuer = settings("me", "hush", **OIDC).issuer
    assert (issuer.client_id, issuer.secret, issuer.scope, issuer.extensions) == ("me", "hush", None, ())
    named = OIDC | {"sasl.oauthbearer.client.id": "a", "sasl.oauthbearer.client.secret": "b"}
    assert (settings("me", "hush", **named).issuer.client_id) == "a"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sasl.oauthbearer.method": "default"}, "sasl.oauthbearer.method default is not supported"),
        ({"sasl.oauthbearer.token.endpoint.url": ""}, "endpoint.url: it is missing in its extra"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://me:hush@h/t"}, "without a login"),
        ({"sasl.oauthbearer.token.endpoint.url": "file:///etc/passwd"}, "expected http"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://h/t' -Dx=y"}, "expected http"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://h/t,https://other/t"}, "expected http"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://[::1/t"}, "expected http"),
        ({"sasl.oauthbearer.extensions": "no pair"}, "expected name=value"),
        ({"sasl.oauthbearer.extensions": "auth=Bearer x"}, "expected name=value"),
        ({"sasl.oauthbearer.grant.type": "x"}, "sasl.oauthbearer.grant.type is not supported"),
    ],
)
def test_a_description_that_does_not_do(changes: dict[str, str], message: str):
    with pytest.raises(WrongUse, match=f"connection 'kafka_dc1': .*{message}") as refused:
        settings("me", "hush", **OIDC | changes)
    assert "hush" not in str(refused.value)


def test_a_client_needs_its_secret():
    with pytest.raises(WrongUse, match="OAUTHBEARER needs sasl.oauthbearer.client.id and"):
        settings("me", **OIDC)


FAILURES = {
    "slow": ("no whole answer within 0.3 s", "check that it runs", 3),
    "dead": ("Server disconnected", "check that it runs", 3),
    "500": ("it answers with status 500", "check that it runs", 3),
    "401": ("it answers with status 401", "check client id, client secret, scope", 1),
    "junk": ("its answer holds no token", "check that it runs", 1),
    "empty": ("its answer holds no token", "check that it runs", 1),
    "huge": ("its answer is too long", "check that it runs", 1),
    "expired": ("its token has expired already", "set the clocks", 1),
}


@pytest.mark.parametrize("mood", FAILURES)
def test_why_there_is_no_token(mood: str, server: TokenServer, authority: Authority, monkeypatch):
    """What may pass is asked three times; nothing that the endpoint answers is in the message."""
    reason, remedy, asked = FAILURES[mood]
    server.mood = mood
    server.released.clear()
    if mood == "slow":
        monkeypatch.setattr(tokens, "SECONDS", 0.3)
    began = time.monotonic()
    with pytest.raises(KafkaLoginFails) as failed:
        settings(**server.described(1, authority)).login()
    server.released.set()
    text, issuer = str(failed.value), server.url.split("/")[2]
    assert text.startswith(f"Kafka cluster 'dc1' at 127.0.0.1:1: no login with a token of {issuer} ({reason}")
    assert f"): {remedy}" in text and "\n" not in text
    assert SECRET not in text and not any(token in text for token in server.given)
    assert server.asked.total() == asked and time.monotonic() - began < 8


def test_an_endpoint_that_is_not_there_or_not_trusted(server: TokenServer, authority: Authority):
    extra = server.described(1, authority) | {"sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/t"}
    with pytest.raises(KafkaLoginFails, match=r"127.0.0.1:1 \(.*refused\): check that it runs"):
        settings(**extra).login()
    extra = {
        name: value for name, value in server.described(1, authority).items() if name != "https.ca.location"
    }
    with pytest.raises(KafkaLoginFails, match=r"\(its certificate is not trusted\): let https.ca.location"):
        settings(**extra).login()
    assert server.asked.total() == 0
    with pytest.raises(KafkaLoginFails, match="nowhere.pem holds no certificates in PEM"):
        settings(**server.described(1, authority) | {"https.ca.location": "/nowhere.pem"}).login()


def test_a_token_is_kept_for_most_of_its_time_and_serves_while_the_endpoint_fails(
    server: TokenServer, authority: Authority, monkeypatch: pytest.MonkeyPatch
):
    now = {"monotonic": time.monotonic(), "time": time.time()}
    for name in now:
        monkeypatch.setattr(tokens.time, name, lambda name=name: now[name])

    def passed(seconds: float) -> None:
        now.update({name: at + seconds for name, at in now.items()})

    server.lifetime = 100
    source = TokenSource(settings(**server.described(1, authority)).issuer)
    first = source.token()
    passed(79)
    assert source.token() == first and server.asked.total() == 1
    server.mood = "500"
    passed(2)
    assert source.token() == first and "status 500" in str(source.trouble)
    passed(20)
    with pytest.raises(KafkaLoginFails, match="status 500"):
        source.token()
    server.mood = ""
    assert source.token().text != first.text and source.trouble is None


def test_threads_that_ask_at_once_share_a_question(server: TokenServer, authority: Authority):
    source, found = TokenSource(settings(**server.described(1, authority)).issuer), []
    threads = [threading.Thread(target=lambda: found.append(source.token().text)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == server.asked.total() == 1 and len(found) == 8


def test_the_endpoints_that_spark_is_allowed(monkeypatch: pytest.MonkeyPatch):
    more = "&".join(f"{name}={quote(value, safe='')}" for name, value in OIDC.items())
    monkeypatch.setenv("AIRFLOW_CONN_A", f"kafka://me:hush@h:1/?{more}")
    monkeypatch.setenv("AIRFLOW_CONN_B", "kafka://h:1/?security.protocol=nonsense")
    named = [Cluster(cluster=name, connection=name, topics=["t"]) for name in ("a", "b")]
    plain = Cluster(cluster="c", bootstrap="h:1", topics=["t"])
    assert token_urls([*named, plain]) == [URL]


# Amazon's algorithm, written down from "Create a signed AWS API request" (IAM User Guide), for the query.
def signature(secret: str, url: str) -> str:
    parts = urlsplit(url)
    query = [(name, value) for name, value in parse_qsl(parts.query) if name not in _UNSIGNED]
    text = "&".join(f"{quote(n, safe='-_.~')}={quote(v, safe='-_.~')}" for n, v in sorted(query))
    canonical = f"GET\n/\n{text}\nhost:{parts.netloc}\n\nhost\n{hashlib.sha256(b'').hexdigest()}"
    given = dict(query)
    _, scope = given["X-Amz-Credential"].split("/", 1)
    signed = hashlib.sha256(canonical.encode()).hexdigest()
    to_sign = f"AWS4-HMAC-SHA256\n{given['X-Amz-Date']}\n{scope}\n{signed}"
    key = f"AWS4{secret}".encode()
    for part in (*scope.split("/"), to_sign):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key.hex()


_UNSIGNED = ("X-Amz-Signature", "User-Agent")


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("b-1.prod.x1.c2.kafka.eu-central-1.amazonaws.com:9098", "eu-central-1"),
        ("boot-x1.c1.kafka-serverless.us-east-2.amazonaws.com:9098", "us-east-2"),
        ("privatelink.example:9098", "ap-south-1"),
    ],
)
def test_a_token_for_amazon_msk_is_a_signed_query(host: str, region: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_REGION", "ap-south-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session/token+=")
    found = settings(**AWS, **{"bootstrap.servers": host})
    client, rdkafka = found.for_client(), found.for_librdkafka()
    assert client["sasl_mechanism"] == rdkafka["sasl.mechanisms"] == "OAUTHBEARER"
    text = client["sasl_oauth_token_provider"].token()
    assert rdkafka["oauth_cb"]("")[0] == text and "=" not in text
    url = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    query = dict(parse_qsl(urlsplit(url).query))
    assert url.startswith(f"https://kafka.{region}.amazonaws.com/?")
    assert (query["Action"], query["X-Amz-Expires"]) == ("kafka-cluster:Connect", "900")
    assert query["X-Amz-Credential"].endswith(f"/{region}/kafka-cluster/aws4_request")
    assert query["X-Amz-Security-Token"] == "session/token+="
    assert query["X-Amz-Signature"] == signature("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", url)


def test_amazon_without_region_or_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path):
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(WrongUse, match="the brokers' names do not say in which region they are: set AWS_REG"):
        settings(**AWS, **{"bootstrap.servers": "h:1"})
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    found = settings(**AWS, **{"bootstrap.servers": "b-1.x.kafka.eu-west-1.amazonaws.com:9098"})
    with pytest.raises(
        KafkaLoginFails, match=r"AWS IAM in eu-west-1 \(this machine has no AWS credentials\)"
    ):
        found.login()


def test_spark_does_not_read_where_its_client_has_no_login(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    found = settings(**AWS, **{"bootstrap.servers": "h:1"})
    assert not found.read_by_spark and settings("me", "x", **OIDC).read_by_spark
    with pytest.raises(WrongUse, match="Spark's client has no AWS_MSK_IAM"):
        found.for_spark()
