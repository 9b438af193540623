"""The services that the cases share, and a case's own pipeline file, database and lake."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import clickhouse_connect
import yaml

from local.services import ClickHouseServer
from sluice.config.files import read
from sluice.config.pipeline import Pipeline
from tests.pairs.expected import configured_types
from tests.pairs.masking import RULES
from tests.pairs.options import Case
from tests.pairs.rollups import rollups_of
from tests.pairs.schemas import Schemas
from tests.pairs.tables import BIDS, CHECK, CHECKED, MAIN, OTHER, TRAFFIC, definitions, paths_of
from tests.support.registry_server import RegistryServer

BUCKET = "pairs"
COLLECTION = "lake"
_FORMATS = {
    "avro": {"avro": "event.avsc"},
    "protobuf": {"protobuf": {"file": "event.proto", "message": "pairs.Event"}},
}
_BOUNDS = {"default": {}, "tight": {"max_early": "15m", "max_late": "2h"}, "none": {"max_early": "none"}}


@dataclass(frozen=True)
class Services:
    """Two ClickHouse servers, of which a case without shards uses the first. Connections in the environment
    lead to them, to the S3 store and to the schema registry."""

    servers: Sequence[ClickHouseServer]
    registry: RegistryServer

    @cached_property
    def clients(self) -> list[Any]:
        return [
            clickhouse_connect.get_client(**s.at.login, autogenerate_session_id=False) for s in self.servers
        ]


@dataclass(frozen=True)
class Home:
    """A case's folder, and its database of the same name on each server."""

    case: Case
    folder: Path
    services: Services
    db: str

    @classmethod
    def make(cls, case: Case, folder: Path, services: Services) -> Home:
        home = cls(case, folder, services, f"p{uuid.uuid4().hex[:12]}")
        home.schemas.write()
        if case.framed:
            home.schemas.register(services.registry)
        for rollup in rollups_of(case):
            (folder / f"{rollup.name}.sql").write_text(rollup.select)
        made = [rollup.definition for rollup in rollups_of(case)]
        for statement in ("CREATE DATABASE {db} ENGINE = Atomic", *definitions(case), *made):
            home.everywhere(statement)
        return home

    @property
    def clients(self) -> list[Any]:
        return self.services.clients[: self.case.shards]

    @cached_property
    def schemas(self) -> Schemas:
        return Schemas(self.case, self.folder)

    def everywhere(self, text: str) -> None:
        for client in self.clients:
            client.command(text.replace("{db}", self.db))

    def rows(self, text: str) -> list[tuple]:
        """What all servers answer, together."""
        return [
            tuple(row)
            for client in self.clients
            for row in client.query(text.replace("{db}", self.db), use_none=True).result_rows
        ]

    @cached_property
    def pipeline(self) -> Pipeline:
        path = self.folder / "paired.yaml"
        path.write_text(yaml.safe_dump(self.spec(), allow_unicode=True, sort_keys=False))
        return read(path, {})

    def spec(self) -> dict[str, Any]:
        """The pipeline file."""
        case = self.case
        lake = f"s3://{BUCKET}/{self.db}" if case.lake == "s3" else f"file://{self.folder}/lake"
        found: dict[str, Any] = {
            "kafka": [
                {"cluster": c, "bootstrap": "nowhere:1", "topics": ["alpha", "beta"]}
                for c in case.cluster_names
            ],
            "event": self._event(),
            "lake": lake,
            "rejected": {"fail_above": 1},
            "clickhouse": self._clickhouse(),
            "tables": self._tables(),
            "slice": case.slice,
            "on_expired": "land_rest" if case.expired == "land_rest" else "fail",
            "max_types": 2 if case.max_types == "exceeded" else 1000,
            "stalled_after": 0,
            **_BOUNDS[case.bounds],
        }
        if case.lake == "s3":
            found["lake_connection"] = "pairs_store"
        if case.mask != "none":
            found["mask"] = RULES[case.mask]
        if case.counts != "none":
            found["counts"] = [
                {"table": f"{self.db}.{TRAFFIC}", "by": {"country": "country", "city": "geo.city"}}
            ]
        rollups = rollups_of(case)
        if rollups:
            found["rollups"] = {f"{self.db}.{one.name}": one.spec(self.db) for one in rollups}
        return found

    def _event(self) -> dict[str, Any]:
        case = self.case
        kind = {"field": "type", "nested": "meta.kind", "header": "kind"}.get(case.type, True)
        source = {"nested": "field"}.get(case.type, case.type)
        path = "meta.at" if case.time == "nested" else "at"
        shape = case.time if case.time in ("epoch_s", "epoch_ms") else "iso8601"
        found: dict[str, Any] = {
            "type": {source: kind},
            "time": {"record": True} if case.time == "record" else {"field": path, "format": shape},
        }
        if case.arrays:
            found["rows"] = "array"
        if case.decoded:
            found["format"] = _FORMATS[case.format]
        if case.framed:
            found["registry"] = {"connection": "pairs_registry"}
        if case.batch != "off":
            found["batch"] = {"header": "sluice_batch"}
        return found

    def _clickhouse(self) -> dict[str, Any]:
        case = self.case
        found: dict[str, Any] = {"read": case.read, "lease": "10s"}
        if case.lake == "s3":
            found["named_collection"] = COLLECTION
        if case.servers == "one":
            return {**found, "connection": "pairs_s1"}
        found["shards"] = [{"name": f"s{n}", "connection": f"pairs_s{n}"} for n in (1, 2)]
        if case.servers == "by expression":
            found["shard_by"] = {f"{self.db}.{MAIN}": "id + n"}
        return found

    def _tables(self) -> Mapping[str, Any]:
        main, bids = configured_types(self.case)
        found: dict[str, Any] = {main: {"table": f"{self.db}.{MAIN}", "columns": paths_of(self.case)}}
        if self.case.checks != "none":
            found[main]["checks"] = {CHECK: {"sql": CHECKED, "on_fail": self.case.checks}}
        found[bids] = f"{self.db}.{BIDS}"
        return {**found, "*": f"{self.db}.{OTHER}"} if self.case.catch_all == "yes" else found
