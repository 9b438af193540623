"""A stand-in for a schema registry: a real HTTP server that speaks the calls of Confluent's REST API that
Sluice makes. Schemas are registered by the test, without HTTP."""

from __future__ import annotations

import base64
import json
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from sluice.flow.land.formats.protobuf import compiled


@dataclass
class RegistryServer:
    """`schemas` by id and by (subject, version). `status`: what every call is answered with, if set;
    `login` is asked for, if set. `asked` are the paths, in their order. `base`: the path below which the
    registry is; what is beside it is answered as by a plain web server. `bodies`: whole answers (status,
    headers, bytes) to the next calls."""

    schemas: dict[object, dict] = field(default_factory=dict)
    status: int | None = None
    login: str = ""
    asked: list[str] = field(default_factory=list)
    url: str = ""
    base: str = ""
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
        place, query = urlsplit(path), parse_qs(urlsplit(path).query)
        parts = [unquote(part) for part in place.path.strip("/").split("/")]
        known = self.schemas.get(int(parts[2]) if parts[0] == "schemas" else (parts[1], parts[3]))
        if known is None:
            return 404, {"error_code": 40403, "message": "Schema not found"}
        if "text" in known:  # Protobuf
            kind = query.get("format", ["text"])[0]
            known = {
                **{n: v for n, v in known.items() if n not in ("text", "serialized")},
                "schema": known[kind],
            }
        return 200, known


@contextmanager
def serve() -> Iterator[RegistryServer]:
    registry = RegistryServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            scheme, _, token = self.headers.get("Authorization", "").partition(" ")
            login = base64.b64decode(token).decode() if scheme == "Basic" else ""
            status, headers, body = registry.whole_answer(self.path, login)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(ConnectionError):  # a client may have read enough
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        registry.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield registry
        server.shutdown()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
