"""What is certain of the rows that a SELECT gives: a case for each rule, over the server's own trees."""

from __future__ import annotations

import pytest

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.query_tree import explained, parse
from sluice.flow.verify.view_shape import ViewShape, shape_of, together
from tests.integration import test_casts_evaluated

pytestmark = pytest.mark.integration

client = test_casts_evaluated.client
BLOCKS = "depends on the blocks in which rows come"
COMPUTED = f"what is computed of an aggregate {BLOCKS}"
SURE = {"plus", "upper", "toUInt32", "toUInt64", "toFloat64", "_CAST", "CAST", "greater", "equals", "and",
        "in", "length", "arrayMap", "concat", "divide", "assumeNotNull", "toNullable", "toString", "range",
        "toDecimal64", "negate", "count"}  # fmt: skip
KEPT, CUT = ViewShape(), ViewShape(one_by_one=False)


def blocks(**roles: str) -> ViewShape:
    return ViewShape(False, roles)


def unsure(why: str) -> ViewShape:
    return ViewShape(why=why)


# By SELECT. The column `odd` of s.t is not certain; of s.part c are sums, m maxima and u states of blocks.
# Columns without a role are not listed.
CASES: dict[str, ViewShape] = {
    "n, upper(name) AS u FROM s.t WHERE n > 1": KEPT,
    "n FROM s.t PREWHERE n > 1": KEPT,
    "odd AS o, n FROM s.t": ViewShape(unsure={"o": "odd is odd"}),
    "n FROM s.t WHERE odd > 1": unsure("odd is odd"),
    "n FROM s.t PREWHERE odd > 1": unsure("odd is odd"),
    "n FROM s.t WHERE now() > 1": unsure("now() may give another value each time"),
    "n, rand() AS r FROM s.t": ViewShape(unsure={"r": "rand() may give another value each time"}),
    "n, arrayMap(x -> concat(x, name), tags) AS a FROM s.t": KEPT,
    "n, arrayMap(x -> x + odd, range(n)) AS a FROM s.t": ViewShape(unsure={"a": "odd is odd"}),
    "n, arrayMap(x -> x + rand(), range(n)) AS a FROM s.t": ViewShape(
        unsure={"a": "rand() may give another value each time"}
    ),
    "arrayJoin(tags) AS a FROM s.t": KEPT,
    "arrayJoin(range(rand())) AS a FROM s.t": unsure("rand() may give another value each time"),
    "n, tag FROM s.t ARRAY JOIN tags AS tag": KEPT,
    "n, tag FROM s.t ARRAY JOIN arrayMap(x -> toString(now()), tags) AS tag": unsure(
        "now() may give another value each time"
    ),
    "n, tag FROM (SELECT n, tags FROM s.t GROUP BY n, tags) ARRAY JOIN tags AS tag": CUT,
    "tag FROM (SELECT max(tags) AS m FROM s.t GROUP BY n) ARRAY JOIN m AS tag": unsure(COMPUTED),
    "n FROM s.t LIMIT 5": unsure(f"LIMIT {BLOCKS}"),
    "n FROM s.t LIMIT 5, 6": unsure(f"LIMIT {BLOCKS}"),
    "n FROM s.t OFFSET 5": unsure(f"OFFSET {BLOCKS}"),
    "n FROM s.t LIMIT 1 BY n": unsure(f"LIMIT BY {BLOCKS}"),
    "n, row_number() OVER (ORDER BY n) AS r FROM s.t": ViewShape(unsure={"r": f"row_number() OVER {BLOCKS}"}),
    "n, row_number() OVER w AS r FROM s.t WINDOW w AS (ORDER BY n)": ViewShape(
        unsure={"r": f"row_number() OVER {BLOCKS}"}
    ),
    "n FROM s.t QUALIFY row_number() OVER (ORDER BY n) = 1": unsure(f"QUALIFY {BLOCKS}"),
    "n, count() AS c FROM s.t GROUP BY n WITH ROLLUP": unsure("it adds rows of its own"),
    "n, count() AS c FROM s.t GROUP BY n WITH TOTALS": unsure("it adds rows of its own"),
    "n, count() AS c FROM s.t GROUP BY GROUPING SETS ((n), ())": unsure("it adds rows of its own"),
    "n, big FROM s.t ORDER BY n WITH FILL INTERPOLATE (big AS big)": unsure(f"INTERPOLATE {BLOCKS}"),
    "n FROM s.t ORDER BY n WITH FILL": unsure("it adds rows of its own"),
    "DISTINCT n FROM s.t": CUT,
    "DISTINCT n, count() AS c FROM s.t GROUP BY n": ViewShape(False, unsure={"c": f"DISTINCT {BLOCKS}"}),
    "n FROM s.t GROUP BY n": CUT,
    "count() AS c FROM s.t": blocks(c="sum"),
    "n, count() AS c, countIf(n > 1) AS i, sum(big) AS s, sumIf(big, n > 1) AS t, min(big) AS l, "
    "minIf(big, n > 1) AS k, max(name) AS m, maxIf(big, n > 1) AS h FROM s.t GROUP BY n": blocks(
        c="sum", i="sum", s="sum", t="sum", l="min", k="min", m="max", h="max"
    ),
    "avg(big) AS a, sum(odd) AS o, any(n) AS y FROM s.t": ViewShape(
        False, unsure={"a": f"avg() {BLOCKS}", "o": "odd is odd", "y": f"any() {BLOCKS}"}
    ),
    "countState() AS c, sumState(big) AS s, sumIfState(big, n > 1) AS i, minState(n) AS l, maxState(n) AS m, "
    "uniqState(n) AS u, uniqExactState(n) AS e, maxSimpleState(n) AS h, "
    "uniqExactIfState(n, n > 1) AS j FROM s.t":
    blocks(c="countMerge", s="sumMerge", i="sumIfMerge", l="minMerge", m="maxMerge", u="uniqMerge",
           e="uniqExactMerge", h="max", j="uniqExactIfMerge"),
    "avgState(big) AS a FROM s.t": ViewShape(False, unsure={"a": f"avgState() {BLOCKS}"}),
    # What is counted of groups depends on the blocks; what a value more changes nothing of does not.
    "count() AS c, sum(n) AS s, max(n) AS m, min(n) AS l, uniqState(n) AS u, sumState(n) AS t, "
    "uniqExactState(n) AS e, maxState(n) AS x, minState(n) AS y, countState() AS z FROM "
    "(SELECT n FROM s.t GROUP BY n)": ViewShape(
        False,
        {"m": "max", "l": "min", "u": "uniqMerge", "e": "uniqExactMerge", "x": "maxMerge", "y": "minMerge"},
        {"c": f"count() {BLOCKS}", "s": f"sum() {BLOCKS}", "t": f"sumState() {BLOCKS}",
         "z": f"countState() {BLOCKS}"},
    ),
    "n, c, m, u FROM s.part": blocks(c="sum", m="max", u="uniqMerge"),
    "sum(c) AS s, max(m) AS x, uniqMergeState(u) AS v, sumSimpleState(c) AS t FROM s.part": blocks(
        s="sum", x="max", v="uniqMerge", t="sum"
    ),
    "max(c) AS a, sum(m) AS b, uniqMerge(u) AS d, sumIf(c, n > 1) AS e, sum(n) AS f, max(n) AS g "
    "FROM s.part": ViewShape(
        False,
        {"g": "max"},
        {"a": f"max() {BLOCKS}", "b": f"sum() {BLOCKS}", "d": f"uniqMerge() {BLOCKS}",
         "e": f"sumIf() {BLOCKS}", "f": f"sum() {BLOCKS}"},
    ),
    "toFloat64(c) AS d, toUInt32(m) AS e FROM s.part": ViewShape(False, {"d": "sum"}, {"e": COMPUTED}),
    "n FROM s.part WHERE c > 1": unsure(COMPUTED),
    "c + 1 AS d FROM s.part": ViewShape(False, unsure={"d": COMPUTED}),
    # Casts of sums add up where they cut nothing off.
    "toFloat64(sum(big)) AS a, CAST(count() AS Nullable(UInt64)) AS b, toUInt32(sum(f)) AS d, "
    "toUInt64(max(n)) AS e, toFloat64(n) AS k, toString(sum(big)) AS t FROM s.t GROUP BY n": ViewShape(
        False,
        {"a": "sum", "b": "sum"},
        {"d": COMPUTED, "e": COMPUTED, "t": COMPUTED},
    ),
    "assumeNotNull(sum(toNullable(big))) AS a, toNullable(sum(big)) AS b FROM s.t": blocks(a="sum", b="sum"),
    "negate(sum(f)) AS a, sum(big) / count() AS b FROM s.t": ViewShape(
        False, unsure={"a": COMPUTED, "b": COMPUTED}
    ),
    "n, count() AS c FROM s.t GROUP BY n HAVING count() > 0": blocks(c="sum"),
    "n, count() AS c FROM s.t GROUP BY n HAVING n > 3": blocks(c="sum"),
    "n, count() AS c FROM s.t GROUP BY n HAVING count() > 1": unsure(COMPUTED),
    "n FROM s.part HAVING c": unsure(COMPUTED),
    # Other tables.
    "n, (SELECT max(n) FROM s.dim) AS m FROM s.t": ViewShape(unsure={"m": "it reads s.dim"}),
    "n FROM s.t WHERE n IN (SELECT n FROM s.dim)": unsure("it reads s.dim"),
    "n FROM s.t WHERE n IN (SELECT n FROM s.dim UNION ALL SELECT n FROM s.dim_n)": unsure(
        "it reads s.dim, s.dim_n"
    ),
    "t.n AS n FROM s.t AS t, s.dim AS d, s.dim_n AS e": unsure("it reads s.dim, s.dim_n"),
    "t.n AS n, d.n AS m FROM s.t AS t LEFT JOIN (SELECT n FROM s.dim UNION ALL SELECT n FROM s.dim_n) AS d "
    "ON t.n = d.n": ViewShape(False, unsure={"m": "it comes from s.dim, s.dim_n"}),
    "n FROM s.t WHERE n IN s.dim_n": unsure("it reads s.dim_n"),
    "n FROM s.dim": unsure("it reads s.dim"),
    "number AS n FROM numbers(3)": unsure("it reads more than its source"),
    "t.n AS n, d.name AS name FROM s.t AS t LEFT JOIN s.dim AS d ON t.n = d.n": ViewShape(
        False, unsure={"name": "it comes from s.dim"}
    ),
    "t.n AS n, d.name AS name FROM s.t AS t ANY LEFT JOIN s.dim AS d ON t.n = d.n": ViewShape(
        unsure={"name": "it comes from s.dim"}
    ),
    "t.n AS n, t.s AS s, d.name AS name FROM (SELECT n, sum(big) AS s FROM s.t GROUP BY n) AS t "
    "ANY LEFT JOIN (SELECT n, name FROM s.dim) AS d ON t.n = d.n": ViewShape(
        False, {"s": "sum"}, {"name": "it comes from s.dim"}
    ),
    "t.n AS n FROM s.t AS t INNER JOIN s.dim AS d ON t.n = d.n": unsure("its rows depend on s.dim"),
    "t.n AS n FROM s.t AS t RIGHT JOIN s.dim AS d ON t.n = d.n": unsure("its rows depend on s.dim"),
    "t.n AS n FROM s.t AS t SEMI LEFT JOIN s.dim AS d ON t.n = d.n": unsure("its rows depend on s.dim"),
    "t.n AS n FROM s.t AS t INNER JOIN s.t AS d ON t.n = d.n": unsure("its rows depend on another table"),
    "t.n AS n, d.number AS name FROM s.t AS t LEFT JOIN numbers(2) AS d ON t.n = d.number": ViewShape(
        False, unsure={"name": "it comes from another table"}
    ),
    # Subqueries and unions.
    "n + 1 AS k, u FROM (SELECT n, upper(name) AS u FROM s.t)": KEPT,
    "n FROM (SELECT n FROM s.t LIMIT 1)": unsure(f"LIMIT {BLOCKS}"),
    "c AS d FROM (SELECT n, count() AS c FROM s.t GROUP BY n)": blocks(d="sum"),
    "n, c FROM (SELECT n, big AS c FROM s.t UNION ALL SELECT n, big + 1 AS c FROM s.t)": KEPT,
    "n, c FROM (SELECT n, big AS c FROM s.t UNION ALL SELECT n AS k, big AS c FROM s.t)": unsure(
        "its UNION's SELECTs name their columns differently"
    ),
    "n, c FROM (SELECT n, count() AS c FROM s.t GROUP BY n UNION ALL "
    "SELECT n, sum(big) AS c FROM s.t GROUP BY n)":
    blocks(c="sum"),
    "n, c FROM (SELECT n, count() AS c FROM s.t GROUP BY n UNION ALL "
    "SELECT n, max(big) AS c FROM s.t GROUP BY n)":
    ViewShape(False, unsure={"c": "its views give it in different ways"}),
    "n, c FROM (SELECT n, big AS c FROM s.t UNION ALL SELECT n, rand() AS c FROM s.t)": ViewShape(
        unsure={"c": "rand() may give another value each time"}
    ),
    "c, n FROM (SELECT rand() AS c, n FROM s.t UNION ALL SELECT big AS c, n FROM s.t)": ViewShape(
        unsure={"c": "rand() may give another value each time"}
    ),
    "n, c FROM (SELECT n, big AS c FROM s.t UNION ALL SELECT big AS c, n FROM s.t)": unsure(
        "its UNION's SELECTs name their columns differently"
    ),
    "n FROM (SELECT n FROM s.t UNION ALL (SELECT n FROM s.t UNION DISTINCT SELECT n FROM s.t))": unsure(
        f"its UNION {BLOCKS}"
    ),
    "n, c FROM (SELECT n, count() AS c FROM s.t GROUP BY n UNION ALL SELECT n, big AS c FROM s.t)": ViewShape(
        False, unsure={"c": "its views give it in different ways"}
    ),
    "n FROM (SELECT n FROM s.t UNION DISTINCT SELECT n FROM s.t)": unsure(f"its UNION {BLOCKS}"),
    "n FROM (SELECT n FROM s.t UNION ALL SELECT n FROM s.t WHERE rand() > 3)": unsure(
        "rand() may give another value each time"
    ),
}  # fmt: skip
SOURCES = {
    "s.t": ViewShape(unsure={"odd": "odd is odd"}),
    "s.part": ViewShape(False, {"c": "sum", "m": "max", "u": "uniqMerge"}),
}


@pytest.fixture(scope="module")
def tables(client: Client) -> Client:
    for statement in (
        "CREATE DATABASE IF NOT EXISTS s",
        "CREATE TABLE IF NOT EXISTS s.t (n UInt16, big UInt64, f Float64, name String, tags Array(String), "
        "odd UInt8) ENGINE = Memory",
        "CREATE TABLE IF NOT EXISTS s.part (n UInt16, c UInt64, m UInt64, u AggregateFunction(uniq, String)) "
        "ENGINE = Memory",
        "CREATE TABLE IF NOT EXISTS s.dim (n UInt16, name String) ENGINE = Memory",
        "CREATE TABLE IF NOT EXISTS s.dim_n (n UInt16) ENGINE = Memory",
    ):
        client.rows(statement)
    return client


@pytest.mark.parametrize("select", CASES)
def test_what_is_certain_of_a_select(tables: Client, select: str):
    found = shape_of(parse(explained(tables, f"SELECT {select}")), SOURCES, SURE)
    roles = {name: role for name, role in found.columns.items() if role != ""}
    wanted = CASES[select] if not CASES[select].why else ViewShape(why=CASES[select].why)
    assert (found.one_by_one, roles, found.unsure, found.why) == (
        *(wanted.one_by_one, wanted.columns, wanted.unsure),
        wanted.why or "",
    )


PARTS, WHY = ViewShape(False, {"x": "sum", "k": ""}), "its views give it in different ways"


@pytest.mark.parametrize(
    ("shapes", "wanted"),
    [
        ([PARTS], PARTS),
        ([PARTS, PARTS], PARTS),
        ([PARTS, ViewShape(True, {"x": "sum"})], PARTS),
        ([PARTS, ViewShape(True, {"x": "max", "k": ""})], ViewShape(False, {"k": ""}, {"x": WHY})),
        ([PARTS, ViewShape(True, {"k": ""}, {"x": "odd"})], ViewShape(False, {"k": ""}, {"x": "odd"})),
        (
            [ViewShape(True, {}, {"x": "odd"}), ViewShape(True, {}, {"x": "even"})],
            ViewShape(True, {}, {"x": "odd"}),
        ),
        (
            [PARTS, ViewShape(why="it reads e"), ViewShape(why="f")],
            ViewShape(False, {"k": ""}, {"x": WHY}, "it reads e"),
        ),
    ],
)
def test_several_views_of_one_table(shapes: list[ViewShape], wanted: ViewShape):
    found = together(shapes)
    assert (found.one_by_one, found.columns, found.unsure, found.why) == (
        *(wanted.one_by_one, wanted.columns, wanted.unsure),
        wanted.why or "",
    )
