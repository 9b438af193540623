"""A lineage server for tests: it keeps the events that it gets, and compares them with the specification."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource

ROOT = Path(__file__).parents[2]
SPECIFICATION = Path(__file__).with_name("openlineage")
OWN = ROOT / "plugins/sluice/clients/openlineage/offsets.schema.json"
EVENT = "https://openlineage.io/spec/2-0-2/OpenLineage.json"
OWNERS = ("run", "job", "inputs", "outputs")
FACETS = ("facets", "inputFacets", "outputFacets")

Event = dict[str, Any]


@dataclass
class LineageServer:
    """`status` is what every event is answered with; `silent`: it accepts connections and never answers."""

    status: int = 201
    silent: bool = False
    events: list[Event] = field(default_factory=list)
    keys: set[str | None] = field(default_factory=set)
    port: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def of_job(self, name: str) -> list[Event]:
        return [event for event in self.events if event["job"]["name"] == name]

    def jobs(self) -> list[tuple[str, str]]:
        """(job, state) of each event, in their order."""
        return [(event["job"]["name"], event["eventType"]) for event in self.events]


@contextmanager
def lineage_server(**options: Any) -> Iterator[LineageServer]:
    found = LineageServer(**options)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if found.silent:
                found.ended.wait()
                return
            assert self.path == "/api/v1/lineage"
            found.keys.add(self.headers.get("Authorization"))
            found.events.append(json.loads(body))
            self.send_response(found.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        found.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield found
        found.ended.set()
        server.shutdown()


@cache
def _registry() -> Registry:
    schemas = [json.loads(path.read_text()) for path in (*SPECIFICATION.glob("*.json"), OWN)]
    return Registry().with_resources((one["$id"], Resource.from_contents(one)) for one in schemas)


def check(value: object, schema: str) -> None:
    """Raises ValidationError, and Unresolvable for a schema that is not of the specification or Sluice's."""
    Draft202012Validator({"$ref": schema}, registry=_registry(), format_checker=FormatChecker()).validate(
        value
    )


def facets_of(event: Event) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(key, facet) of all that the event says of run, job and datasets."""
    for name in OWNERS:
        owners = event.get(name) or []
        for owner in owners if isinstance(owners, list) else [owners]:
            for kind in FACETS:
                yield from owner.get(kind, {}).items()


def check_event(event: Event) -> None:
    """Against the schema of the event, and each facet against the schema that it names."""
    check(event, EVENT)
    for _, facet in facets_of(event):
        check(facet, facet["_schemaURL"])
