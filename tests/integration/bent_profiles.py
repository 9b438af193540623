"""One server with many users, each of whom has a profile of its own; what a load makes of each of them.

What has to be in the tables is Python's own parse of the events.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from local.services import ClickHouseServer
from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.connections import Connection
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError
from sluice.plan.modes import Mode
from tests.integration.flipped_settings import Group, Pair
from tests.integration.landed import Event, World, event, land, unit
from tests.integration.verify.test_contents import compared, told
from tests.support.any_floats import floats

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
REJECTED_ROW = len(EVENTS)
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
    """The server, a lake of two hours, and a client whose profile nobody has bent."""

    server: ClickHouseServer
    plain: World
    environ: Callable[[str, str], None]

    @property
    def pipeline(self) -> Pipeline:
        return self.plain.pipeline({"click": "t"})

    def outcome(self, login: str) -> str:
        """What a load, a reload and `verify --contents` by this user came to.

        "" where every row is right, "refused: …" where one line refuses it and what was loaded before stays,
        else what is wrong.
        """
        self._begin()
        said = self._used(login, "fill", "reload")
        if not said:
            return wrong_rows(self.plain)
        self.plain.load(self.pipeline, unit(), unit(1))
        assert wrong_rows(self.plain) == ""
        said = self._used(login, "reload") or said
        wrong = wrong_rows(self.plain)
        return f"WRONG: {wrong} after {said}" if wrong or "\n" in said else said

    def refusing(self, group: Group) -> dict[Pair, str]:
        """The settings of a group that refuse a load, or do worse, each with what came of it alone."""
        said = self._opened(group.login) or self.outcome(group.login)
        print(f"{group.login}: {len(group.settings)} settings: {said or 'right'}", flush=True)
        if not said:
            return {}
        if not group.halves:
            return dict.fromkeys(group.pairs, said)
        alone = {pair: why for half in group.halves for pair, why in self.refusing(half).items()}
        return alone or {("together", ", ".join(group.settings)): f"TOGETHER: {said}"}

    def _opened(self, login: str) -> str:
        """Nothing can be lost where not even a connection opens."""
        try:
            self._client(login).close()
        except SluiceError as error:
            return f"refused: {type(error).__name__}: {error}"
        return ""

    def _client(self, login: str) -> Client:
        return open_client(Connection(login, host="127.0.0.1", port=self.server.port, login=login))

    def _begin(self) -> None:
        """No table has a row, and Sluice's own are not there."""
        for name in ("sluice", self.plain.database):
            self.plain.sql(f"DROP DATABASE IF EXISTS {name} SYNC")
        for text in ("CREATE DATABASE {db}", *TABLES):
            self.plain.sql(text)
        for hours in range(2):
            events = [Event(one.type, one.payload, f"2026-11-20T{10 + hours}") for one in LANDED]
            land(self.plain.lake, unit(hours), events)

    def _used(self, login: str, *modes: Mode) -> str:
        at = f"clickhouse://{login}@127.0.0.1:{self.server.port}"
        self.environ("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", at)
        try:
            mine = World(self.plain.root, self._client(login), self.plain.database)
            for mode in modes:
                mine.load(self.pipeline, unit(), unit(1), mode=mode)
            contents = compared(mine, self.pipeline, unit(), unit(1))
        except SluiceError as error:
            return f"refused: {type(error).__name__}: {error}"
        return f"WRONG: verify says {told(contents)}" if told(contents) else ""


def wrong_rows(world: World) -> str:
    """What isn't as the events say, in the readers' view, the view's table and the rejected rows."""
    view, start = f"sluice.`{world.database}.t`", int(unit().slice.start.timestamp())
    problems = []
    for hour in range(2):
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
        rejected_rows = world.sql(
            f"SELECT offset, column FROM sluice.rejected WHERE target = '{world.database}.t' "
            f"AND toUnixTimestamp(slice) = {start + 3600 * hour}"
        )
        if rejected_rows != [(REJECTED_ROW, "n")]:
            problems.append(f"hour {hour}: rejected {rejected_rows}")
    return re.sub(r"\s+", " ", "; ".join(problems))[:600]


def readable(row: tuple) -> tuple:
    *some, document, mapped, named = row
    named = (named["a"], named["b"]) if isinstance(named, dict) else tuple(named)
    return (*some, json.dumps(json.loads(document), sort_keys=True), sorted(mapped.items()), named)
