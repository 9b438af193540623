"""One server with many users, each of whom has a profile of its own; what a load makes of each of them.

What has to be in the tables is Python's own parse of the events.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from local.services import ClickHouseServer
from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.connections.connection import Connection
from sluice.errors import SluiceError
from tests.integration.landed import Event, World, event, land, unit
from tests.integration.test_contents import compared, told

Settings = Mapping[str, str]

KEYS = "_offset Int64, _slice DateTime('UTC'), _cluster LowCardinality(String)"
TABLES = (
    "CREATE TABLE {db}.t (n UInt8 DEFAULT 7, f Float64, fs Array(Float64), g Float32, d Decimal(18, 4), "
    "at DateTime64(3, 'UTC'), e Enum8('x' = 1, 'y' = 2), s Nullable(String), b Bool, j JSON(a UInt8), "
    f"m Map(String, Float64), tn Tuple(a Nullable(UInt8), b UInt8), _timestamp DateTime64(3, 'UTC'), {KEYS}) "
    "ENGINE = MergeTree ORDER BY _offset",
    f"CREATE TABLE {{db}}.sink (f2 Float64, e String, {KEYS}) ENGINE = MergeTree ORDER BY _offset",
    "CREATE MATERIALIZED VIEW {db}.mv TO {db}.sink AS SELECT f * 2 AS f2, toString(e) AS e, "
    "_offset, _slice, _cluster FROM {db}.t WHERE e = 'x'",
)


def floats(count: int, seed: int = 3) -> list[float]:
    """Doubles of any bits, but for those that JSON doesn't have."""
    chance, found = random.Random(seed), []
    while len(found) < count:
        (value,) = struct.unpack("<d", chance.randbytes(8))
        if value == value and abs(value) not in (float("inf"),):
            found.append(value)
    return found


def event_of(number: int, value: float) -> dict[str, Any]:
    at = f"2026-02-28T10:00:{number % 60:02}.{number % 1000:03}Z"
    return {
        "n": number % 200,
        "f": value,
        "fs": [value, -value],
        "g": number / 4,
        "d": f"{number}.0625",
        "at": at,
        "e": "xy"[number % 2],
        **({"s": f"t{number}"} if number % 3 else {}),
        "b": number % 2 == 0,
        "j": {"a": number % 100, "v": value, "t": "2026-02-28", "deep": {"x": [1, 2]}},
        "m": {"k.1": value},
        "tn": {"b": number % 7},
    }


def row_of(number: int, fields: Mapping[str, Any]) -> tuple:
    value = fields["f"]
    return (
        number,
        fields["n"],
        value,
        [value, -value],
        fields["g"],
        fields["d"],
        fields["at"].replace("T", " ").rstrip("Z"),
        fields["e"],
        fields.get("s"),
        int(fields["b"]),
        json.dumps(fields["j"], sort_keys=True),
        [("k.1", value)],
        (None, fields["tn"]["b"]),
    )


EVENTS = [event_of(number, value) for number, value in enumerate(floats(60))]
MISFIT = len(EVENTS)
LANDED: list[Event] = [*(event(**fields) for fields in EVENTS), event(n=300)]
ROWS = [row_of(number, fields) for number, fields in enumerate(EVENTS)]
FED = [(number, one["f"] * 2, "x") for number, one in enumerate(EVENTS) if one["e"] == "x"]


def users(profiles: Mapping[str, Settings]) -> str:
    """The text of a users.xml with a user of each profile's name."""
    network = "<networks><ip>127.0.0.1</ip></networks>"
    made = "".join(
        f"<{name}>{''.join(f'<{key}>{escape(value)}</{key}>' for key, value in settings.items())}</{name}>"
        for name, settings in profiles.items()
    )
    logins = "".join(
        f"<{name}><password/><profile>{name}</profile>{network}</{name}>" for name in ("default", *profiles)
    )
    return f"<clickhouse><profiles><default/>{made}</profiles><users>{logins}</users></clickhouse>"


@dataclass(frozen=True)
class Bent:
    """The server, a folder for lakes, and a client whose profile nobody has bent."""

    server: ClickHouseServer
    root: Path
    plain: Client
    environ: Callable[[str, str], None]

    def outcome(self, login: str) -> str:
        """What a load, a reload and `verify --contents` by this user came to.

        "" where every row is right, "refused: …" where one line refuses it and what was loaded before stays,
        else what is wrong.
        """
        world = World(self.root / login, self.plain, f"db_{login}")
        for text in ("CREATE DATABASE {db}", *TABLES):
            world.sql(text)
        pipeline = world.pipeline({"click": "t"})
        land(world.lake, unit(), LANDED)
        world.load(pipeline, unit())
        wrong = wrong_rows(world, 1)
        assert wrong == "", wrong
        try:
            refusal = self._used(world, login, pipeline)
            return refusal or wrong_rows(world, 2)
        finally:
            world.sql("DROP DATABASE {db} SYNC")
            shutil.rmtree(world.root)

    def _used(self, world: World, login: str, pipeline: Any) -> str:
        self.environ("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", f"clickhouse://{login}@127.0.0.1:{self.server.port}")
        land(world.lake, unit(1), [replace_hour(one) for one in LANDED])
        try:
            client = open_client(Connection(login, host="127.0.0.1", port=self.server.port, login=login))
            mine = World(world.root, client, world.database)
            mine.load(pipeline, unit(1))
            mine.load(pipeline, unit(), mode="reload")
            contents = compared(mine, pipeline, unit(), unit(1))
        except SluiceError as error:
            stays = wrong_rows(world, 1)
            line = str(error)
            shown = f"{type(error).__name__}: {line}"
            return f"WRONG after {shown}: {stays}" if stays or "\n" in line else f"refused: {shown}"
        return f"WRONG: verify says {told(contents)}" if told(contents) else ""


def replace_hour(one: Event) -> Event:
    return Event(one.type, one.payload, "2026-11-20T11")


def wrong_rows(world: World, hours: int) -> str:
    """What isn't as the events say, in the readers' view of the first hour, or of both."""
    view, start = f"sluice.`{world.database}.t`", int(unit().slice.start.timestamp())
    problems = []
    for hour in range(hours):
        where = f"toUnixTimestamp(_slice) = {start + 3600 * hour}"
        rows = world.sql(
            "SELECT _offset, n, f, fs, g, toString(d), toString(at), toString(e), s, toUInt8(b), "
            f"toString(j), m, tn FROM {view} WHERE {where} ORDER BY _offset"
        )
        found = [readable(row) for row in rows]
        if found != ROWS:
            bad = next((pair for pair in zip(found, ROWS, strict=False) if pair[0] != pair[1]), "a count")
            problems.append(f"hour {hour}: {len(found)} rows, {bad}")
        fed = world.sql(f"SELECT _offset, f2, e FROM {{db}}.sink WHERE {where} ORDER BY _offset")
        if fed != FED:
            problems.append(f"hour {hour}: {len(fed)} rows fed")
        misfits = world.sql(
            f"SELECT offset, column FROM sluice.rejected WHERE target = '{world.database}.t' "
            f"AND toUnixTimestamp(slice) = {start + 3600 * hour}"
        )
        if misfits != [(MISFIT, "n")]:
            problems.append(f"hour {hour}: rejected {misfits}")
    return re.sub(r"\s+", " ", "; ".join(problems))[:600]


def readable(row: tuple) -> tuple:
    *some, document, mapped, named = row
    named = (named["a"], named["b"]) if isinstance(named, dict) else tuple(named)
    return (*some, json.dumps(json.loads(document), sort_keys=True), sorted(mapped.items()), named)
