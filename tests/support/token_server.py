"""A token endpoint (RFC 6749) that signs JWTs, the keys that check them, and a broker that asks for them."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote_plus

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from local import services
from local.readiness import free_port
from tests.support.certificates import Authority

CLIENT, SECRET, SCOPE = "sluice client", "s3cr3t:of/the+client=", "kafka.read kafka.write"
AUDIENCE, ISSUER = "kafka-of-the-tests", "https://issuer.example"
ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
OAUTH = "org.apache.kafka.common.security.oauthbearer"


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@dataclass
class TokenServer:
    """`mood`: what /token does in place of giving a good token: slow, dead (closes), 500 (for Java), 401,
    junk, huge, empty, expired, foreign (another key's), other (another audience). `given` are all tokens,
    `asked` counts by who asks, `forms` and `logins` are what came."""

    url: str = ""
    jwks: str = ""
    lifetime: float = 30
    mood: str = ""
    given: list[str] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    forms: list[dict[str, list[str]]] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.keys = [rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2)]

    def key_set(self) -> dict[str, object]:
        numbers = self.keys[0].public_key().public_numbers()
        n, e = (
            encoded(number.to_bytes(length, "big")) for number, length in ((numbers.n, 256), (numbers.e, 3))
        )
        return {"keys": [{"kty": "RSA", "kid": "one", "use": "sig", "alg": "RS256", "n": n, "e": e}]}

    def token(self) -> str:
        now = time.time() - (3600 if self.mood == "expired" else 0)
        claims = {
            "iss": ISSUER,
            "aud": "another" if self.mood == "other" else AUDIENCE,
            "sub": CLIENT,
            "scope": SCOPE,
            "jti": uuid.uuid4().hex,
            "iat": int(now),
            "exp": int(now + self.lifetime),
        }
        head = {"alg": "RS256", "kid": "one", "typ": "JWT"}
        signed = ".".join(encoded(json.dumps(part).encode()) for part in (head, claims))
        key = self.keys[1 if self.mood == "foreign" else 0]
        made = f"{signed}.{encoded(key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"
        self.given.append(made)
        return made

    def answer(self, login: str, agent: str) -> tuple[int, bytes]:
        if self.mood == "slow":
            self.released.wait(60)
        if self.mood in ("500", "401", f"500 for {agent}"):
            return int(self.mood[:3]), f'{{"error": "no", "error_description": "{SECRET}"}}'.encode()
        if self.mood == "junk":
            return 200, b"<html>Welcome</html>"
        if self.mood == "empty":
            return 200, b'{"access_token": ""}'
        if self.mood == "huge":
            return 200, b'{"access_token": "' + b"x" * (2 << 20) + b'"}'
        if login != f"{CLIENT}:{SECRET}":
            return 401, b'{"error": "invalid_client"}'
        content = {"access_token": self.token(), "token_type": "Bearer", "expires_in": self.lifetime}
        return 200, json.dumps(content).encode()

    def described(self, broker_port: int, authority: Authority, **more: str) -> dict[str, str]:
        """The extra of a connection, in librdkafka's names."""
        return {
            "bootstrap.servers": f"127.0.0.1:{broker_port}",
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(authority.pem),
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": CLIENT,
            "sasl.oauthbearer.client.secret": SECRET,
            "sasl.oauthbearer.scope": SCOPE,
            "sasl.oauthbearer.token.endpoint.url": self.url,
            "sasl.oauthbearer.extensions": "traceId=tests",
            "https.ca.location": str(authority.pem),
            **more,
        }


@contextmanager
def serve(authority: Authority) -> Iterator[TokenServer]:
    """Tokens over TLS, the keys without."""
    server = TokenServer()

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A handshake that fails is the test's own."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply(200, json.dumps(server.key_set()).encode())

        def do_POST(self) -> None:
            scheme, _, text = self.headers.get("Authorization", "").partition(" ")
            login = ":".join(map(unquote_plus, base64.b64decode(text).decode().split(":")))
            server.forms.append(parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            server.logins.append(scheme)
            agent = self.headers["User-Agent"].partition("/")[0]
            server.asked[agent] += 1
            if server.mood == "dead":
                self.connection.close()
                return
            self.reply(*server.answer(login, agent))

        def reply(self, status: int, body: bytes) -> None:
            with suppress(OSError):  # whoever asked may have gone
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(*authority.sign("token-server"))
    with Quiet(("127.0.0.1", 0), Handler) as tokens, Quiet(("127.0.0.1", 0), Handler) as keys:
        tokens.socket = tls.wrap_socket(tokens.socket, server_side=True, do_handshake_on_connect=False)
        for one in (tokens, keys):
            threading.Thread(target=one.serve_forever, args=(0.02,), daemon=True).start()
        server.url = f"https://127.0.0.1:{tokens.server_address[1]}/token"
        server.jwks = f"http://127.0.0.1:{keys.server_address[1]}/jwks"
        yield server
        server.released.set()
        for one in (tokens, keys):
            one.shutdown()


@dataclass
class SecureBroker:
    """Without a login at `bootstrap`; `oauth` and `tls` (client certificates) are the ports of the others."""

    service: services.KafkaBroker
    oauth: int
    tls: int

    @property
    def bootstrap(self) -> str:
        return self.service.bootstrap


@contextmanager
def secure_broker(folder: Path, authority: Authority, server: TokenServer) -> Iterator[SecureBroker]:
    """A broker that lets a session last as long as its token, to the second."""
    port, controller, oauth, tls = (free_port() for _ in range(4))
    pem, key = authority.sign("broker")
    store = folder / "broker-store.pem"
    store.write_text(key.read_text() + pem.read_text())
    places = f"PLAINTEXT://127.0.0.1:{port},OAUTH://127.0.0.1:{oauth},TLS://127.0.0.1:{tls}"
    own = "listener.name.oauth"
    lines = [
        f"listeners={places},CONTROLLER://127.0.0.1:{controller}",
        f"advertised.listeners={places}",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,OAUTH:SASL_SSL,TLS:SSL",
        *(f"listener.name.{name}.ssl.keystore.{what}" for name in ("oauth", "tls")
          for what in ("type=PEM", f"location={store}")),
        "listener.name.tls.ssl.client.auth=required",
        *(f"listener.name.tls.ssl.truststore.{what}" for what in ("type=PEM", f"location={authority.pem}")),
        f"{own}.sasl.enabled.mechanisms=OAUTHBEARER",
        f"{own}.oauthbearer.sasl.jaas.config={OAUTH}.OAuthBearerLoginModule required;",
        f"{own}.oauthbearer.sasl.server.callback.handler.class={OAUTH}.OAuthBearerValidatorCallbackHandler",
        f"{own}.oauthbearer.connections.max.reauth.ms=3600000",
        f"sasl.oauthbearer.jwks.endpoint.url={server.jwks}",
        f"sasl.oauthbearer.expected.audience={AUDIENCE}",
        f"sasl.oauthbearer.expected.issuer={ISSUER}",
        "sasl.oauthbearer.clock.skew.seconds=0",
    ]  # fmt: skip
    properties = folder / "secure.properties"
    properties.write_text("\n".join(lines) + "\n")
    options = ["--controller-port", str(controller), "--properties", str(properties)]
    service = services.KafkaBroker("local.kafka_broker", folder / "kafka", port, options)
    service.environment = {"KAFKA_OPTS": f"-D{ALLOWED}={server.jwks}"}
    yield SecureBroker(service.start(), oauth, tls)
    service.kill()
