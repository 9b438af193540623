"""A load that cannot succeed changes nothing: every table, the ledger and sluice.rejected hold the same rows
as before. What nobody could know before strikes behind the revocation: the unit is revoked, and the next
`fill` finishes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from local import services
from local.readiness import wait_until
from sluice.clients.clickhouse.connect import open_client
from sluice.clients.clickhouse.errors import ServerError
from sluice.clients.connections import Connection
from sluice.errors import Blocked, TargetRefused
from sluice.state.ledger import committed
from tests.integration.landed import START, World, client_of, event, land, unit
from tests.integration.load.test_rights import EXACT, PLAIN, user
from tests.support.long_form import per_commit

pytestmark = pytest.mark.faults

DEADLINE_SECONDS = 60
KEYS = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
TABLES = (
    f"CREATE TABLE events.clicks (n UInt16, {KEYS}) ENGINE = MergeTree PARTITION BY n % 2 ORDER BY n",
    f"CREATE TABLE events.fed (n UInt16, name String, {KEYS}) ENGINE = MergeTree ORDER BY n",
    f"CREATE TABLE events.sums (total UInt64, {KEYS}) ENGINE = SummingMergeTree ORDER BY (_slice, _cluster)",
    f"CREATE TABLE events.other (n UInt16, {KEYS}) ENGINE = MergeTree ORDER BY n",
    f"CREATE TABLE events.unused (n UInt16, {KEYS}) ENGINE = MergeTree ORDER BY n",
    "CREATE TABLE events.dim (n UInt16, name String) ENGINE = MergeTree ORDER BY n",
    f"CREATE TABLE other.fed (n UInt16, {KEYS}) ENGINE = MergeTree ORDER BY n",
    f"CREATE TABLE other.read (n UInt16, {KEYS}) ENGINE = MergeTree ORDER BY n",
    "CREATE MATERIALIZED VIEW events.rows TO events.fed AS SELECT c.n AS n, d.name AS name, "
    "c._slice AS _slice, c._cluster AS _cluster FROM events.clicks AS c LEFT JOIN events.dim AS d USING (n)",
    "CREATE MATERIALIZED VIEW events.totals TO events.sums AS SELECT sum(n) AS total, _slice, _cluster "
    "FROM events.fed GROUP BY _slice, _cluster",
)
OWN = "_slice, _cluster FROM events.clicks"
MORE = "CREATE MATERIALIZED VIEW {} AS SELECT {}"
# By what stands in the way: the statements that put it there, and words of the refusal.
CAUSES: dict[str, tuple[list[str], str]] = {
    "a constraint of the ledger": (
        ["ALTER TABLE sluice.ledger ADD CONSTRAINT first CHECK generation < 2"],
        r"sluice\.ledger.*violated",
    ),
    "a projection of the rejected rows": (
        ["ALTER TABLE sluice.rejected ADD PROJECTION p (SELECT column, count() GROUP BY column)"],
        r"projection",
    ),
    "a constraint beside a view": (
        ["ALTER TABLE events.clicks ADD CONSTRAINT small CHECK n < 3"],
        r"Constraint `small` for table events\.clicks.* is violated",
    ),
    "a constraint of a view's table": (
        ["ALTER TABLE events.fed ADD CONSTRAINT small CHECK n < 3"],
        r"Constraint `small` for table events\.fed.* is violated",
    ),
    "a view that throws on a value": (
        [MORE.format("events.v TO events.unused", f"n + throwIf(n = 3) AS n, {OWN}")],
        r"while pushing to view events\.v",
    ),
    "a view whose value does not fit its column": (
        [MORE.format("events.v TO events.unused", f"concat('x', toString(n)) AS n, {OWN}")],
        r"Cannot parse.*events\.v",
    ),
    "a view that reads a table which is gone": (["DROP TABLE events.dim SYNC"], r"events\.dim"),
    "a view that gives rows of no unit": (
        [
            "INSERT INTO events.dim VALUES (77, 'x')",
            MORE.format(
                "events.v TO events.unused",
                "c.n AS n, c._slice AS _slice, c._cluster AS _cluster FROM events.clicks AS c "
                "RIGHT JOIN events.dim AS d ON c.n = d.n",
            ),
        ],
        "materialized views give it 1 rows of no slice",
    ),
    "a view that computes the slice": (
        [
            MORE.format(
                "events.v TO events.unused",
                "n, toStartOfDay(_slice) AS _slice, _cluster FROM events.clicks",
            )
        ],
        r"events\.v does not give _slice of events\.clicks as it is",
    ),
    "another table's view into a view's table": (
        [MORE.format("events.v TO events.fed", "n, _slice, _cluster FROM events.other")],
        r"events\.rows of events\.clicks writes to it, and so does events\.v",
    ),
    "another table's view into the target": (
        [MORE.format("events.v TO events.clicks", "n, _slice, _cluster FROM events.other")],
        r"events\.v writes to it, too",
    ),
    "a view that the user may not see": (
        [MORE.format("other.v TO other.fed", "n, _slice, _cluster FROM events.clicks")],
        "GRANT SHOW COLUMNS ON `other`.`v`",
    ),
    "a view into a table without rights": (
        [MORE.format("events.v TO other.fed", "n, _slice, _cluster FROM events.clicks")],
        r"table other\.fed",
    ),
    "a view into a table that may only be read": (
        [MORE.format("events.v TO other.read", "n, _slice, _cluster FROM events.clicks")],
        r"table other\.read: the user of the connection lacks INSERT, ALTER DELETE; GRANT INSERT",
    ),
    "a mutation that fails": (
        ["ALTER TABLE events.fed DELETE WHERE throwIf(n >= 0) SETTINGS mutations_sync = 0"],
        "KILL MUTATION WHERE database = 'events' AND table = 'fed'",
    ),
}  # fmt: skip


TEMPORARY = "SELECT name FROM system.tables WHERE database = 'sluice' AND match(name, '^(fence|tmp)_')"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    default = f"<default><password/><profile>default</profile>{PLAIN}</default>"
    users = f"<users>{default}{user('loader', [*EXACT, ('SELECT', 'other.read')])}</users>"
    text = f"<clickhouse><profiles><default/></profiles>{users}</clickhouse>"
    engines = "<table_engines_require_grant>false</table_engines_require_grant>"
    config = f"<clickhouse><access_control_improvements>{engines}</access_control_improvements></clickhouse>"
    made = services.clickhouse_server(tmp_path_factory.mktemp("clickhouse"), users=text, config=config)
    yield made
    made.kill()


@dataclass
class Scene:
    """`root` may do everything, `world` what docs/guide/production.md says."""

    root: World
    world: World
    pipeline: object = field(init=False)

    def __post_init__(self) -> None:
        self.pipeline = self.root.pipeline({"click": "clicks"}, clickhouse={"read": "push", "lease": "1s"})

    def land(self, generation: int) -> None:
        for hour in range(2):
            values = [n + generation for n in range(4)]
            land(self.root.lake, unit(hour), [event(n=n) for n in values] + [event(n="x")], generation)

    def load(self, **options: object) -> object:
        return self.world.load(self.pipeline, unit(0), unit(1), **options)

    def contents(self) -> dict[str, Counter]:
        """Every row of every table that a load touches."""
        names = [
            "events.clicks",
            "events.fed",
            "events.unused",
            "other.fed",
            "other.read",
            "sluice.ledger",
            "sluice.rejected",
        ]
        found = {name: Counter(map(repr, self.root.sql(f"SELECT * FROM {name}"))) for name in names}
        sums = "SELECT _slice, _cluster, sum(total) FROM events.sums GROUP BY _slice, _cluster"
        return found | {"events.sums": Counter(self.root.sql(sums))}

    def expect_exact(self, generation: int) -> None:
        values = [n + generation for n in range(4)]
        for hour in range(2):
            at = int(START.add(hours=hour).timestamp())
            for name in ("clicks", "fed"):
                rows = self.root.sql(
                    f"SELECT n FROM events.{name} WHERE _slice = toDateTime({at}) ORDER BY n"
                )
                assert rows == [(n,) for n in values]
            sums = f"SELECT sum(total) FROM events.sums WHERE _slice = toDateTime({at})"
            assert self.root.sql(sums) == [(sum(values),)]
            rejected = f"SELECT column, value FROM sluice.rejected WHERE slice = toDateTime({at})"
            assert self.root.sql(rejected) == [("n", "x")]
        ledger = self.committed()
        assert {place: (row.rows, row.rejected_rows) for place, row in ledger.items()} == {
            unit(0): (4, 1),
            unit(1): (4, 1),
        }

    def committed(self) -> dict:
        target = self.pipeline.targets[0]
        return committed(self.root.client, self.pipeline, self.root.lake.url, target)


@pytest.fixture
def scene(server, tmp_path: Path) -> Iterator[Scene]:
    root = World(tmp_path, client_of(server), "events")
    for name in ("sluice", "events", "other"):
        root.sql(f"DROP DATABASE IF EXISTS {name} SYNC")
    for statement in ("CREATE DATABASE events", "CREATE DATABASE other", *TABLES):
        root.sql(statement)
    client = open_client(Connection("x", host=server.host, port=server.port, login="loader"))
    made = Scene(root, World(tmp_path, client, "events"))
    made.land(1)
    made.load()
    made.expect_exact(1)
    return made


@pytest.mark.parametrize("cause", per_commit(CAUSES, 2))
def test_a_load_that_cannot_succeed_changes_nothing(scene: Scene, cause: str, fault_log):
    statements, words = CAUSES[cause]
    for statement in statements:
        scene.root.sql(statement)
    if cause == "a mutation that fails":
        failed = "SELECT count() FROM system.mutations WHERE notEmpty(latest_fail_reason) AND NOT is_done"
        wait_until(lambda: scene.root.sql(failed) == [(1,)], "the mutation's failure", DEADLINE_SECONDS)
    before = scene.contents()
    with fault_log.trial("fault", f"reload and reland, {cause}", victim="load"):
        for mode in ("reload", "reland"):
            if mode == "reland":
                scene.land(2)
            with pytest.raises((TargetRefused, ServerError, Blocked), match=words) as raised:
                scene.load(mode=mode)
            assert "tmp_" not in raised.value.reason
            assert scene.contents() == before
            # What the next attempt may cure leaves its tables to it.
            assert raised.value.retryable or scene.root.sql(TEMPORARY) == []
            assert set(scene.committed()) == {unit(0), unit(1)}


class Struck:
    """A client whose server refuses the `number`-th statement from the revocation on, or answers it so."""

    def __init__(self, client, number: int, done: bool) -> None:
        self._client, self.address = client, client.address
        self._number, self._done, self._behind = number, done, -1
        self.struck = ""

    def reading(self, settings):
        self._client = self._client.reading(settings)
        return self

    def rows(self, sql, parameters=None, settings=None):
        return self._client.rows(sql, parameters, settings)

    def run(self, sql, parameters=None, settings=None, body=None):
        step = dict(settings or {}).get("query_id", "---").split("-")[-2]
        if step == "revoke" or self._behind >= 0:
            self._behind += 1
        if self._behind != self._number or self.struck:
            return self._client.run(sql, parameters, settings, body)
        if self._done:
            self._client.run(sql, parameters, settings, body)
        self.struck = step
        raise ServerError(self.address, 1, "INJECTED", step, "nobody could know it before")


@pytest.mark.parametrize("done", per_commit([False, True]))
@pytest.mark.long
def test_what_nobody_could_know_before_is_finished_by_a_fill(
    scene: Scene, done: bool, fault_log, long_form: bool
):
    steps, generation = [], 1
    for number in range(100):
        generation += 1
        scene.land(generation)
        struck = Struck(scene.world.client, number, done)
        victim = World(scene.world.root, struck, "events")
        with fault_log.trial(
            "fault", f"statement {number} behind the revocation, done: {done}", victim="load"
        ):
            with suppress(ServerError):
                victim.load(scene.pipeline, unit(0), unit(1))
            if not struck.struck or (struck.struck in steps[-1:] == ["drop"] and not long_form):
                break
            steps.append(struck.struck)
            if struck.struck == "revoke" and not done:
                assert set(scene.committed()) == {unit(0), unit(1)}
            elif struck.struck not in ("commit", "drop") or (struck.struck == "commit" and not done):
                assert scene.committed() == {}
                assert scene.root.sql("SELECT count() FROM sluice.`events.clicks`") == [(0,)]
            scene.load()
            scene.expect_exact(generation)
    assert list(dict.fromkeys(steps)) == ["revoke", "delete", "reject", "move", "commit", "drop"]
    assert Counter(steps)["delete"] == 4 and Counter(steps)["move"] == 3


@pytest.mark.long
def test_tables_of_more_partitions_than_a_statement_takes(scene: Scene, fault_log):
    """1,100 rows in as many partitions, and a view's table with 130 days of them."""
    root = scene.root
    for statement in (
        f"CREATE TABLE events.many (n UInt16, {KEYS}) ENGINE = MergeTree PARTITION BY n ORDER BY n",
        f"CREATE TABLE events.days (n UInt16, day Date, {KEYS}) ENGINE = MergeTree PARTITION BY day "
        "ORDER BY n",
        MORE.format(
            "events.v TO events.days",
            "n, toDate('2026-01-01') + n % 130 AS day, _slice, _cluster FROM events.many",
        ),
    ):
        root.sql(statement)
    pipeline = root.pipeline({"view": "many"}, clickhouse={"read": "push", "lease": "1s"})
    land(root.lake, unit(), [event("view", n=n) for n in range(1_100)])
    for mode in ("fill", "reload"):
        with fault_log.trial("fault", f"1,100 partitions, {mode}", victim="load"):
            scene.world.load(pipeline, unit(), mode=mode)
            for name in ("many", "days"):
                found = root.sql(f"SELECT n FROM events.{name} ORDER BY n")
                assert found == [(n,) for n in range(1_100)]
