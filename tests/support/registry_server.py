"""A stand-in for a schema registry: a real HTTP server that speaks the calls of Confluent's REST API that
Sluice makes. Schemas are registered by the test, without HTTP."""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from sluice.flow.land.formats.proto_source import compiled


@dataclass
class RegistryServer:
    """`schemas` by id, by GUID and by (subject, version). `status`: what every call is answered with, if set.
    `login` is asked for, if set: `name:password`, or `Bearer TOKEN`. Who posts as `client` to /token gets the
    token of `login`, for `expires` seconds; `granted` are the forms. `asked` are the paths, in their order,
    `headers` what came with them. `base`: the path below which the registry is; what is beside it is answered
    as by a plain web server. `bodies`: whole answers (status, headers, bytes) to the next calls.
    `descriptors`: what is answered where Protobuf's are asked for: they themselves, the text, or a status."""

    schemas: dict[object, dict] = field(default_factory=dict)
    status: int | None = None
    login: str = ""
    client: str = ""
    expires: object = 3600
    granted: list[dict[str, list[str]]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    url: str = ""
    base: str = ""
    descriptors: str | int = "serialized"
    bodies: list[tuple[int, dict[str, str], bytes]] = field(default_factory=list)

    def avro(self, number: int, schema: object, references: list[dict] | None = None) -> None:
        self.add(number, {"schema": json.dumps(schema), "references": references or []})

    def protobuf(self, number: int, files: dict[str, str], references: list[dict] | None = None) -> None:
        """The first of `files`, a .proto text by name, is the schema; it may import the others."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                Path(folder, name).write_text(text)
            found = FileDescriptorSet.FromString(compiled(Path(folder, next(iter(files))))).file[-1]
        texts = {"text": next(iter(files.values())), "serialized": _base64(found.SerializeToString())}
        self.add(number, {"schemaType": "PROTOBUF", **texts, "references": references or []})

    def add(self, number: int, schema: dict) -> None:
        """Also as version `number` of the subject `s/<number>`."""
        self.schemas[number] = self.schemas[f"s/{number}", str(number)] = schema

    def whole_answer(self, path: str, login: str) -> tuple[int, dict[str, str], bytes]:
        if self.bodies:
            self.asked.append(path)
            return self.bodies.pop(0)
        if not path.startswith(self.base):
            self.asked.append(path)
            return 404, {"Content-Type": "text/html"}, b"<html><h1>404 Not Found</h1></html>"
        status, content = self.answer(path.removeprefix(self.base), login)
        kind = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        return status, kind, json.dumps(content).encode()

    def answer(self, path: str, login: str) -> tuple[int, dict]:
        self.asked.append(path)
        if self.status is not None:
            return self.status, {"error_code": self.status * 100, "message": "told to"}
        if login != self.login:
            return 401, {"error_code": 40101, "message": "Unauthorized"}
        url, query = urlsplit(path), parse_qs(urlsplit(path).query)
        parts = [unquote(part) for part in url.path.strip("/").split("/")]
        place = (parts[1], parts[3]) if parts[0] == "subjects" else parts[2]
        known = self.schemas.get(int(place) if parts[1] == "ids" else place)
        if known is None:
            return 404, {"error_code": 40403, "message": "Schema not found"}
        if "text" in known:  # Protobuf
            kind = query.get("format", ["text"])[0]
            kind = self.descriptors if kind == "serialized" else kind
            if isinstance(kind, int):
                return kind, {"error_code": kind, "message": "no such format"}
            known = {
                **{n: v for n, v in known.items() if n not in ("text", "serialized")},
                "schema": known[kind],
            }
        return 200, known


@contextmanager
def serve(tls: ssl.SSLContext | None = None) -> Iterator[RegistryServer]:
    registry = RegistryServer()

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """A handshake that fails is the test's own."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.headers.append(dict(self.headers))
            self.answer(*registry.whole_answer(self.path, self.login()))

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            registry.granted.append(form)
            good = self.path == "/token" and self.login() == registry.client
            token = {"access_token": registry.login.removeprefix("Bearer "), "expires_in": registry.expires}
            self.answer(200 if good else 401, {}, json.dumps(token if good else {"error": "no"}).encode())

        def login(self) -> str:
            given = self.headers.get("Authorization", "")
            scheme, _, token = given.partition(" ")
            return base64.b64decode(token).decode() if scheme == "Basic" else given

        def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(ConnectionError):  # a client may have read enough
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with Server(("127.0.0.1", 0), Handler) as server:
        if tls is not None:  # each connection's thread shakes hands, not the one that accepts
            server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        registry.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}"
        yield registry
        server.shutdown()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
