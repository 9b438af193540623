"""Views that `verify` meets as people make them: over rows that are there already, and such as no load could
fill."""

from __future__ import annotations

import re

import pytest

from sluice.clients.clickhouse.sql import Sql
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError
from sluice.flow.contents.compare import ContentsReport
from sluice.flow.contents.derived_tables import reads_more
from sluice.flow.verify.anomaly import AnomalyKind
from sluice.flow.verify.read_tables import SliceSpan, read_target
from tests.integration.landed import World, event, land, unit
from tests.integration.verify import test_contents
from tests.integration.verify.test_contents import compared
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

world = test_contents.world
KEYS = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
OWN = "_slice, _cluster FROM {db}.clicks"
VIEW = "CREATE MATERIALIZED VIEW {db}.v ENGINE = MergeTree ORDER BY tuple()"


@pytest.fixture
def pipeline(world: World) -> Pipeline:
    """Two tables: what is wrong with the first hides nothing of the second."""
    world.sql(
        "CREATE TABLE {db}.clicks (n UInt16, raw String EPHEMERAL, kind String DEFAULT upper(raw), "
        f"{KEYS}) ENGINE = MergeTree ORDER BY n"
    )
    world.sql(f"CREATE TABLE {{db}}.other (n UInt16, {KEYS}) ENGINE = MergeTree ORDER BY tuple()")
    made = world.pipeline({"click": "clicks", "view": "other"})
    land(world.lake, unit(), [event(name, n=n, raw=f"r{n}") for n in range(4) for name in ("click", "view")])
    for target in made.targets:
        world.load(made, unit(), table=target.name)
    return made


def told(found: ContentsReport) -> list[tuple[str, str]]:
    return [(a.kind, a.table.partition(".")[2]) for a in found.anomalies]


@pytest.mark.parametrize("populate", per_commit(["", " POPULATE"]))
def test_a_view_that_was_made_over_rows_that_are_there(world: World, pipeline: Pipeline, populate: str):
    world.sql(f"{VIEW}{populate} AS SELECT n, {OWN}")
    rows = 4 if populate else 0
    assert world.sql("SELECT count() FROM {db}.v") == [(rows,)]
    # A view says to the second when it was made: a unit that was committed in that very second is compared.
    before = [("values differ", "v")]
    found = compared(world, pipeline)
    assert told(found) in ([], before)
    assert all("--mode repair" in a.command for a in found.anomalies)
    world.load(pipeline, unit(), mode="reload", token="again")
    assert world.sql("SELECT count() FROM {db}.v") == [(4,)]
    assert told(compared(world, pipeline)) == []


@pytest.mark.parametrize(
    ("select", "why"),
    [
        (f"n, raw, {OWN}", "raw"),
        (f"throwIf(n = 3, 'three is too many') AS n, {OWN}", "three is too many"),
        (f"n, name, {OWN} INNER JOIN {{db}}.gone USING (n)", "gone"),
    ],
)
def test_a_view_that_no_load_could_fill(world: World, pipeline: Pipeline, select: str, why: str):
    """A view that came after the load has no rows of it, and hides nothing of any table. What no query can
    read is said. The next load by the table as it is names the view."""
    world.sql("CREATE TABLE {db}.gone (n UInt16, name String) ENGINE = MergeTree ORDER BY n")
    world.sql(f"{VIEW} AS SELECT {select}")
    world.sql("DROP TABLE {db}.gone SYNC")
    world.sql("ALTER TABLE {db}.other UPDATE n = 9 WHERE n = 1 SETTINGS mutations_sync = 2")
    found = compared(world, pipeline)
    assert told(found) == [(AnomalyKind.VALUES, "other")]
    blocked = [line.replace(f"{world.database}.", "") for line in found.blocked]
    assert len(blocked) == (why == "gone")
    assert all("clicks: " in line and why in line and re.search(r"view v\b", line) for line in blocked)
    # Counts go on, too.
    facts = read_target(world.client, pipeline, pipeline.targets[0], {}, SliceSpan())
    assert facts.rows[unit()] == {"": 4}
    rows = world.sql("SELECT count() FROM {db}.clicks")
    with pytest.raises(SluiceError, match=why) as failed:
        world.load(pipeline, unit(), mode="reload", token="again")
    assert f"view {world.database}.v" in str(failed.value)
    assert not failed.value.retryable
    assert world.sql("SELECT count() FROM {db}.clicks") == rows


@pytest.mark.parametrize(
    ("select", "more"),
    [
        (f"n, upper(kind) AS kind, {OWN}", False),
        (f"n % 2 AS n, count() AS c, max(n) AS most, {OWN} GROUP BY ALL", False),
        (f"arrayJoin([n, n + 1]) AS n, {OWN}", False),
        (f"* FROM (SELECT n, {OWN} UNION ALL SELECT n + 1 AS n, {OWN})", False),
        (f"n, now() AS at, {OWN}", True),
        (f"n, rand() AS r, {OWN}", True),
        (f"n, (SELECT max(n) FROM {{db}}.other) AS m, {OWN}", True),
        (f"n, {OWN} WHERE n IN (SELECT n FROM {{db}}.other)", True),
        ("c.n AS n, c._slice, c._cluster FROM {db}.clicks AS c LEFT JOIN {db}.other AS o ON c.n = o.n", True),
        ("number AS n, _slice, _cluster FROM {db}.clicks, numbers(2)", True),
        (f"gone, {OWN}", True),
    ],
)
def test_whether_a_select_reads_more_than_its_source(
    world: World, pipeline: Pipeline, select: str, more: bool
):
    text = Sql(f"SELECT {select}".replace("{db}", world.database))
    assert reads_more(world.client, text, f"{world.database}.clicks") is more
