"""Traffic counts in ClickHouse: loaded with their slices, verified, and what they let one expect."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pendulum
import pytest

from sluice.cli.traffic import TrafficHour, _read, hourly
from sluice.clients.clickhouse.client import Client
from sluice.clients.lake.folder import FolderLake
from sluice.config.pipeline import Pipeline
from sluice.errors import TargetRefused
from sluice.flow.load.load import load
from sluice.flow.verify.check import check
from sluice.flow.verify.facts import VerifyFacts
from sluice.flow.verify.read_tables import SliceSpan, read_target
from sluice.flow.verify.repairs import Repairs
from sluice.slices import Slice, SliceRange, Unit
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.ledger import committed
from sluice.state.manifests import read_manifests
from sluice.state.status import statuses
from sluice.watch.expected import expected as expected_of
from tests.integration.landed import client_of
from tests.support.landing_world import START, World, hours, pipeline
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

BIDS = ("dc1", "bids")
TRAFFIC = (
    "CREATE TABLE {db}.traffic (hour DateTime('UTC'), type LowCardinality(String), "
    "country Nullable(FixedString(2)), os LowCardinality(Nullable(String)), count UInt64, "
    "_slice DateTime('UTC'), _cluster LowCardinality(String), _type String) ENGINE = MergeTree ORDER BY hour"
)
CLICKS = (
    "CREATE TABLE {db}.clicks (country String, _slice DateTime('UTC'), _cluster LowCardinality(String)) "
    "ENGINE = MergeTree ORDER BY tuple()"
)


def record(kind: str, minute: float, arrives: float | None = None, **more: object) -> tuple[bytes, int]:
    stamp = START.add(minutes=minute if arrives is None else arrives)
    fields = {"type": kind, "at": START.add(minutes=minute).isoformat(), **more}
    return json.dumps(fields).encode(), int(stamp.timestamp() * 1000)


@dataclass
class Place:
    """A lake, a server's database, and the pipeline between them."""

    folder: Path
    client: Client
    db: str

    def sql(self, text: str) -> list[tuple]:
        text = text.replace("{db}", self.db)
        if text.startswith("SELECT"):
            return [tuple(row) for row in self.client.rows(text)]
        self.client.run(text)
        return []

    @property
    def lake(self) -> FolderLake:
        return FolderLake(self.folder / "demo")

    def pipeline(self, **more: object) -> Pipeline:
        counts = {"table": f"{self.db}.traffic", "by": {"country": "country", "os": "device.os"}}
        tables = {"click": f"{self.db}.clicks"}
        return pipeline(**{"counts": [counts], "tables": tables, **more})

    def land(self, spec: Pipeline, world: World, slices: SliceRange, mode="fill", token="t") -> None:
        world.resolve(spec, self.lake, slices)
        world.land(spec, self.lake, slices, mode, token)

    def load(self, spec: Pipeline, slices: SliceRange, mode="fill", token="t") -> dict[str, int]:
        """Units loaded, by table's name."""
        units = [Unit(piece, "dc1") for piece in slices]
        found = {}
        for target in spec.targets:
            result = load(spec, target, units, self.lake, self.client, mode=mode, token=token)
            found[target.name] = len(result.loaded)
        return found

    def traffic(self) -> Counter:
        """By (hour, type, country, os), over all slices."""
        select = (
            "SELECT toUnixTimestamp(hour), type, toString(country) AS c, os, sum(count) FROM {db}.traffic"
        )
        rows = self.sql(select + " GROUP BY ALL")
        return Counter({tuple(row[:-1]): row[-1] for row in rows})

    def anomalies(self, spec: Pipeline, slices: SliceRange) -> list:
        units = [Unit(piece, "dc1") for piece in slices]
        manifests = read_manifests(self.lake, units)
        now, log = pendulum.now("UTC"), BoundaryLog(self.lake).read()
        ledgers = {t.table: committed(self.client, spec, self.lake.url, t) for t in spec.targets}
        tables = tuple(
            read_target(self.client, spec, t, ledgers[t.table], SliceSpan.of(slices)) for t in spec.targets
        )
        found = tuple(statuses(spec, units, log, manifests, ledgers, now))
        facts = VerifyFacts(spec, slices, now, log, found, tables=tables)
        return [a for a in check(facts, Repairs("demo")) if "file" not in a.kind]


@pytest.fixture
def place(clickhouse_server, tmp_path, name) -> Place:
    made = Place(tmp_path, client_of(clickhouse_server), name)
    for statement in ("CREATE DATABASE {db}", TRAFFIC, CLICKS):
        made.sql(statement)
    yield made
    made.sql("DROP DATABASE {db} SYNC")


def expected(records: list[tuple[bytes, int]]) -> Counter:
    found = Counter()
    for value, _ in records:
        fields = json.loads(value)
        hour = int(pendulum.parse(fields["at"]).start_of("hour").timestamp())
        os = (fields.get("device") or {}).get("os")
        found[hour, fields["type"], fields.get("country"), os] += 1
    return found


def events(count: int) -> list[tuple[bytes, int]]:
    """Two hours of them; every fifth comes an hour late, so that its row is in a later slice."""
    found = []
    for n in range(count):
        minute = n * 120 / count
        device = ({"os": "ios"}, {"os": "linux"}, {}, None)[n % 4]
        arrives = minute + 60 if n % 5 == 0 else None
        country = ("DE", "US", None)[n % 3]
        found.append(record("click" if n % 2 else "bid", minute, arrives, country=country, device=device))
    return sorted(found, key=lambda item: item[1])


def test_late_events_reruns_and_relands_leave_the_counts_right(place: Place):
    records, spec = events(400), place.pipeline()
    world = World({BIDS: [records[::2], records[1::2]]})
    place.land(spec, world, hours(2))
    place.sql("DROP TABLE {db}.traffic SYNC")
    with pytest.raises(TargetRefused) as refusal:
        place.load(spec, hours(2))
    place.sql("CREATE TABLE" + str(refusal.value).split("CREATE TABLE")[1])
    assert place.load(spec, hours(2)) == {"clicks": 0, "traffic": 2}
    early = [item for item in records if item[1] < START.add(hours=2).timestamp() * 1000]
    assert place.traffic() == expected(early) != expected(records)
    place.land(spec, world, hours(3))
    assert place.load(spec, hours(3)) == {"clicks": 1, "traffic": 1}
    assert place.traffic() == expected(records)
    assert place.load(spec, hours(3)) == {"clicks": 0, "traffic": 0}
    assert place.load(spec, hours(3), "reload", "again") == {"clicks": 3, "traffic": 3}
    assert place.traffic() == expected(records)
    place.land(spec, world, hours(3), "reland", "once more")
    assert place.load(spec, hours(3)) == {"clicks": 3, "traffic": 3}
    assert place.traffic() == expected(records)
    assert place.anomalies(spec, hours(3)) == []


def test_the_printed_table_holds_hours_of_other_centuries(place: Place):
    """In 32 bits of seconds 2162-02-07 07:00 is 2026-01-01 00:31, in the newest hour that the view shows."""
    days = ("1900-01-01 07", "1969-12-31 23", "2026-01-01 00", "2162-02-07 07", "2299-12-31 23")
    counts = {f"{hour}:00:00": rows for rows, hour in enumerate(days, 1)}
    at, event = int(START.timestamp() * 1000), '{"type":"bid","at":"%s"}'
    records = [((event % hour).encode(), at) for hour, rows in counts.items() for _ in range(rows)]
    spec = place.pipeline(max_early="none", tables={})
    place.land(spec, World({BIDS: [records]}), hours(1))
    place.sql("DROP TABLE {db}.traffic SYNC")
    with pytest.raises(TargetRefused) as refusal:
        place.load(spec, hours(1))
    place.sql("CREATE TABLE" + str(refusal.value).split("CREATE TABLE")[1])
    assert place.load(spec, hours(1)) == {"traffic": 1}
    found = place.sql("SELECT toString(hour), sum(count) FROM {db}.traffic GROUP BY hour ORDER BY hour")
    assert found == list(counts.items())
    assert place.sql("SELECT count() FROM sluice.rejected WHERE target = '{db}.traffic'") == [(0,)]
    assert place.anomalies(spec, hours(1)) == []
    view = "SELECT toString(hour), seen FROM sluice.`{db}.traffic expected` WHERE seen > 0"
    assert place.sql(view) == [("2026-01-01 00:00:00", 3)]


@pytest.mark.long
def test_verify_adds_up_the_table_and_its_rejected_rows(place: Place):
    """A country of three letters fits no FixedString(2): its row of counts is a rejected row, and still
    counted."""
    records = [record("bid", n, country="DEU" if n == 3 else "DE") for n in range(10)]
    spec = place.pipeline()
    place.land(spec, World({BIDS: [records]}), hours(1))
    place.load(spec, hours(1))
    found = place.sql("SELECT column, value FROM sluice.rejected WHERE target = '{db}.traffic'")
    assert found == [("country", "DEU")]
    assert sum(place.traffic().values()) == 9
    assert place.anomalies(spec, hours(1)) == []
    # As many rows, and other counts: only their sum tells.
    place.sql("ALTER TABLE {db}.traffic UPDATE count = count + 1 WHERE 1 SETTINGS mutations_sync = 2")
    (anomaly,) = place.anomalies(spec, hours(1))
    assert (anomaly.kind, anomaly.type, anomaly.seen) == ("traffic counts", "bid", "11")
    assert anomaly.command.partition("--mode ")[2] == f"repair --table {anomaly.table}"
    place.load(spec, hours(1), "reload", "repair")
    assert place.anomalies(spec, hours(1)) == []


@pytest.mark.long
@pytest.mark.parametrize(
    "number",
    per_commit(
        ["123456789012345678901", "[1, [123456789012345678901]]", "-9223372036854775809", "1e400", "9" * 400],
        2,
    ),
)
def test_a_number_that_clickhouse_cannot_parse_is_counted(place: Place, number: str):
    """Such an event is a rejected row. Its count is none: the hour could not be done, whatever is run."""
    records = [record("bid", n, country="DE", device={"os": "ios" if n else "x"}) for n in range(3)]
    records[0] = (records[0][0].replace(b'"x"', number.encode()), records[0][1])
    spec = place.pipeline()
    place.land(spec, World({BIDS: [records]}), hours(1))
    place.load(spec, hours(1))
    hour = int(START.timestamp())
    assert place.traffic() == {(hour, "bid", "DE", number): 1, (hour, "bid", "DE", "ios"): 2}
    assert place.anomalies(spec, hours(1)) == []


def test_a_table_that_cannot_hold_counts_is_refused(place: Place):
    place.sql("ALTER TABLE {db}.traffic RENAME COLUMN count TO other")
    spec = place.pipeline()
    with pytest.raises(TargetRefused, match="ALTER TABLE .* ADD COLUMN `count` UInt64"):
        place.load(spec, hours(1))


DAYS = {10: range(1, 8), 24: (7, 14, 21)}


@pytest.mark.parametrize("days", DAYS)
@pytest.mark.long
def test_expected_is_the_mean_of_the_same_hour_of_earlier_days(place: Place, days):
    """Slices of a day. With three or four weeks of the weekday these are taken, else the last seven days."""
    made: dict[tuple[int, int, str], int] = {}
    records = []
    for day in range(days):
        for hour, country in ((9, "DE"), (9, "US"), (17, "DE")):
            amount = 0 if country == "US" and day % 3 else (day * 7 + hour) % 11 + 1
            made[day, hour, country] = amount
            minutes = day * 1440 + hour * 60
            records += [record("bid", minutes + n / 10, country=country) for n in range(amount)]
    spec = place.pipeline(slice="1d")
    place.land(spec, World({BIDS: [sorted(records, key=lambda r: r[1])]}), days_of(days))
    place.load(spec, days_of(days))

    wanted = {}
    for day in (days - 1, days):
        for hour, country in ((9, "DE"), (9, "US"), (17, "DE")):
            earlier = [made[day - back, hour, country] for back in DAYS[days]]
            seen = made[day, hour, country] if day < days else None
            mean = sum(earlier) / len(earlier)
            if mean or seen:
                at = int(START.add(days=day, hours=hour).timestamp())
                difference = None if seen is None else pytest.approx(mean - seen)
                wanted[at, country] = (pytest.approx(mean), seen, difference)
    select = "SELECT toUnixTimestamp(hour), toString(country) AS c, expected, seen, difference"
    rows = place.sql(select + " FROM sluice.`{db}.traffic expected`")
    assert {(at, country): tuple(rest) for at, country, *rest in rows} == wanted
    for at, country in wanted:  # the same rule, as alarms and page have it
        known = {stamp(day, hour): n for (day, hour, c), n in made.items() if c == country}
        ours = expected_of(at, known)
        assert ours is not None
        assert wanted[at, country][0] == ours.count


def stamp(day: int, hour: int) -> int:
    return int(START.add(days=day, hours=hour).timestamp())


def days_of(count: int) -> SliceRange:
    length = pendulum.duration(days=1).as_timedelta()
    assert Slice(START, length).id.startswith("2026-01-01")
    return SliceRange(START, START.add(days=count), length)


@pytest.mark.long
def test_the_first_day_is_what_the_second_is_expected_to_be(place: Place):
    spec = place.pipeline()
    place.land(spec, World({BIDS: [events(40)]}), hours(3))
    place.load(spec, hours(3))
    select = "SELECT toUnixTimestamp(hour) AS at, sum(expected), sum(difference), sum(seen)"
    rows = place.sql(select + " FROM sluice.`{db}.traffic expected` GROUP BY at ORDER BY at")
    at = int(START.timestamp())
    assert rows == [
        (at, None, None, 20),
        (at + 3600, None, None, 20),
        (at + 24 * 3600, 20, None, None),
        (at + 25 * 3600, 20, None, None),
    ]


@pytest.mark.long
def test_what_was_seen_of_an_hour_that_has_not_landed_nobody_knows(place: Place):
    """Hours 9, 10 and 11 of two days; on the second hour 10 has failed, and a late event came at 11."""
    hours_of_both = (9, 10, 11, 33, 34, 35)
    records = [record("bid", hour * 60 + n, country="DE") for hour in hours_of_both for n in range(4)]
    records += [record("bid", 34 * 60 + 30, 35 * 60 + 30, country="DE")]
    spec, world = place.pipeline(), World({BIDS: [sorted(records, key=lambda item: item[1])]})
    for first, count in ((9, 3), (33, 1), (35, 1)):
        place.land(spec, world, hours(count, first))
        place.load(spec, hours(count, first))

    def seen() -> list[tuple]:
        return [((one.at - START.int_timestamp) // 3600, one.expected, one.seen) for one in hourly(read())]

    def read() -> list[TrafficHour]:
        return _read(place.client, spec.counts[0])

    assert seen() == [(33, 4, 4), (34, 4, None), (35, 4, 4), (57, 4, None), (58, 4, None), (59, 4, None)]
    place.land(spec, world, hours(1, 34))
    place.load(spec, hours(1, 34))
    assert seen()[1] == (34, 4, 5)
