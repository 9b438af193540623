"""A table of hours, the newest of which is the last that is over, and a pipeline file to say so."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pendulum
import pytest
import yaml

from sluice.cli.commands import commands
from sluice.slices import HOUR, Slice, Unit, floor
from tests.integration.landed import World, client_of, event, land
from tests.integration.stack.test_wheel import UV, run

HOURS = 6
KAFKA = [{"cluster": cluster, "bootstrap": "x:1", "topics": ["events"]} for cluster in ("dc1", "dc2")]


@dataclass
class MartWorld:
    """`folder` is the project's of the tool that makes marts, `first` the first hour."""

    world: World
    folder: Path
    first: pendulum.DateTime

    @classmethod
    def made(cls, server: Any, root: Path, name: str, patch: pytest.MonkeyPatch, clusters: int = 1) -> Self:
        patch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", server.at.variable)
        world = World(root, client_of(server), name)
        world.sql("CREATE DATABASE {db} ENGINE = Atomic")
        world.sql(
            "CREATE TABLE {db}.clicks (n UInt32, kind LowCardinality(String), _slice DateTime('UTC'), "
            "_cluster LowCardinality(String)) ENGINE = MergeTree ORDER BY _slice"
        )
        (root / "p.yaml").write_text(
            f"kafka: {json.dumps(KAFKA[:clusters])}\n"
            "event: {type: {field: type}, time: {record: true}}\n"
            f"lake: file://{root}\ntables: {{click: {name}.clicks}}\n"
        )
        folder = root / "marts"
        (folder / "models").mkdir(parents=True)
        return cls(world, folder, floor(pendulum.now("UTC"), HOUR).subtract(hours=HOURS))

    def at(self, number: int) -> str:
        return f"{self.first.add(hours=number):%Y-%m-%d %H:%M:%S}"

    def unit(self, number: int, cluster: str = "dc1") -> Unit:
        return Unit(Slice(self.first.add(hours=number)), cluster)

    def bring(self, number: int, *rows: tuple[str, int], generation: int = 1, cluster: str = "dc1") -> None:
        """Lands an hour's rows, and loads them."""
        unit, events = self.unit(number, cluster), [event("click", n=n, kind=kind) for kind, n in rows]
        land(self.world.lake, unit, events, generation)
        self.world.load(self.world.pipeline({"click": "clicks"}, kafka=KAFKA), unit)

    def write(self, command: str) -> None:
        """Has `sluice dbt` or `sluice sqlmesh` write its files."""
        place = ["--config", str(self.world.root / "p.yaml"), "--into", str(self.folder)]
        commands([command, "p", *place], standalone_mode=False)

    def mart(self, table: str, columns: str) -> Counter[tuple[int, ...]]:
        """The rows of a mart: the number of the hour, and these columns."""
        rows = self.world.client.rows(f"SELECT toUnixTimestamp(_slice), {columns} FROM {table}")
        return Counter(((at - int(self.first.timestamp())) // 3600, *rest) for at, *rest in rows)


def installed(folder: Path, packages: Sequence[str]) -> Path:
    """Returns the folder of the commands of an environment with these packages."""
    assert run(UV, "-q", "venv", "--python", sys.executable, folder).returncode == 0
    done = run(UV, "-q", "pip", "install", "--python", folder / "bin/python", *packages)
    assert done.returncode == 0, done.stderr
    return folder / "bin"


def write_dbt_project(folder: Path, server: Any, schema: str) -> None:
    """Writes a dbt project without models into the folder, and how dbt logs in to the server."""
    (folder / "dbt_project.yml").write_text("name: marts\nprofile: marts\nversion: '1.0'\n")
    place = server.at.place
    output = {
        "type": "clickhouse",
        "driver": "http",
        "schema": schema,
        "host": place["host"],
        "port": place["port"],
        "user": place.get("login") or "default",
        "password": place.get("password") or "",
        "use_lw_deletes": True,
    }
    profile = {"marts": {"target": "test", "outputs": {"test": output}}}
    (folder / "profiles.yml").write_text(yaml.safe_dump(profile))


Ended = subprocess.CompletedProcess[str]
