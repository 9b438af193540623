"""Tables and materialized views behind a target `{db}.clicks`, by what a view does."""

from __future__ import annotations

KEYS = "_slice DateTime('UTC'), _cluster LowCardinality(String)"
ENGINE = "ENGINE = MergeTree ORDER BY n"
BEFORE = (
    "CREATE TABLE {db}.clicks (n UInt16, kind String, tags Array(String), twice UInt32 MATERIALIZED n * 2, "
    f"half UInt16 ALIAS intDiv(n, 2), {KEYS}) ENGINE = MergeTree PARTITION BY toDate(_slice) ORDER BY n",
    "CREATE TABLE {db}.dim (n UInt16, name String) ENGINE = MergeTree ORDER BY n",
    "INSERT INTO {db}.dim VALUES (1, 'one'), (2, 'two'), (3, 'three')",
    f"CREATE TABLE {{db}}.fed (n UInt32, name String DEFAULT 'none', more String, {KEYS}) {ENGINE}",
)
DICTIONARY = (
    "CREATE DICTIONARY {db}.names (n UInt64, name String) PRIMARY KEY n "
    "SOURCE(CLICKHOUSE(USER '{user}' PASSWORD '{password}' TABLE 'dim' DB '{db}')) LAYOUT(FLAT()) LIFETIME(0)"
)


def view(select: str, to: str = "{db}.fed", name: str = "v") -> str:
    """`OWN` is the source with the two columns that every view gives."""
    select = select.replace("OWN", "_slice, _cluster FROM {db}.clicks")
    return f"CREATE MATERIALIZED VIEW {{db}}.{name} TO {to} AS SELECT {select}"


CASES: dict[str, list[str]] = {
    "rows as they are": [view("n, OWN")],
    "names qualified by the table": [view("clicks.n, {db}.clicks.kind AS name, OWN")],
    "an alias": [view("c.n AS n, c.kind AS name, c._slice, c._cluster FROM {db}.clicks AS c")],
    "its own name in strings": [view("n, '{db}.clicks' AS name, 'FROM {db}.clicks AS x' AS more, OWN")],
    "another order, other types": [
        view("_cluster, toString(n) AS name, toInt64(n) AS n, _slice FROM {db}.clicks")
    ],
    "columns that the source computes": [view("twice AS n, toString(half) AS name, OWN")],
    "a condition": [view("n, OWN WHERE n % 2 = 0")],
    "a join": [
        view(
            "c.n AS n, d.name AS name, c._slice AS _slice, c._cluster AS _cluster "
            "FROM {db}.clicks AS c LEFT JOIN {db}.dim AS d ON c.n = d.n"
        )
    ],
    "a join by USING, unqualified": [view("n, name, OWN INNER JOIN {db}.dim USING (n)")],
    "a comma join": [view("clicks.n AS n, name, OWN, {db}.dim WHERE clicks.n = dim.n")],
    "WITH": [
        "CREATE MATERIALIZED VIEW {db}.v TO {db}.fed AS "
        "WITH even AS (SELECT * FROM {db}.clicks WHERE n % 2 = 0), 'x' AS word "
        "SELECT n, word AS name, _slice, _cluster FROM even"
    ],
    "GROUP BY": [view("n % 3 AS n, toString(count()) AS name, OWN GROUP BY ALL")],
    "a window": [
        view("n, toString(row_number() OVER (PARTITION BY _slice, _cluster ORDER BY n)) AS name, OWN")
    ],
    "ARRAY JOIN": [view("n, tag AS name, OWN ARRAY JOIN tags AS tag")],
    "a subquery": [view("* FROM (SELECT n + 1 AS n, kind AS name, OWN) WHERE n > 2")],
    "UNION ALL in a subquery": [
        view("* FROM (SELECT n, 'a' AS name, OWN UNION ALL SELECT n * 10 AS n, 'b' AS name, OWN WHERE n > 1)")
    ],
    "UNION ALL, of which the server pushes the first SELECT": [
        view("n, 'a' AS name, OWN UNION ALL SELECT n, 'b' AS name, OWN")
    ],
    "IN a subquery of another table": [view("n, OWN WHERE n IN (SELECT n FROM {db}.dim)")],
    "a scalar subquery": [view("n + (SELECT max(n) FROM {db}.dim) AS n, OWN")],
    "a dictionary": [
        DICTIONARY,
        view("n, dictGetOrDefault('{db}.names', 'name', n, '?') AS name, OWN"),
    ],
    "now": [view("n, toString(now() > 0) AS name, OWN")],
    "settings of its own": [view("n, OWN SETTINGS max_block_size = 3")],
    "two views of one table": [
        view("n, 'a' AS name, OWN"),
        view("n, 'b' AS name, OWN WHERE n < 3", name="w"),
    ],
    "views of views": [
        f"CREATE TABLE {{db}}.through (n UInt32, doubled UInt32 MATERIALIZED n * 2, {KEYS}) ENGINE = Null",
        f"CREATE TABLE {{db}}.last (n UInt32, name String, {KEYS}) {ENGINE}",
        view("n + 1 AS n, OWN", "{db}.through", "one"),
        view("n, 'through' AS name, _slice, _cluster FROM {db}.through", name="two"),
        view("doubled AS n, 'last' AS name, _slice, _cluster FROM {db}.through", "{db}.last", "three"),
        view("n, name, _slice, _cluster FROM {db}.fed", "{db}.last", "four"),
    ],
    "states of aggregates": [
        "CREATE TABLE {db}.last (n UInt8, uniq AggregateFunction(uniqExact, UInt16), "
        f"sum SimpleAggregateFunction(sum, UInt64), {KEYS}) "
        "ENGINE = AggregatingMergeTree ORDER BY (n, _slice, _cluster)",
        view(
            "n % 2 AS n, uniqExactState(clicks.n) AS uniq, sum(clicks.n) AS sum, OWN GROUP BY ALL",
            "{db}.last",
        ),
    ],
    "a table of its own": [
        "CREATE MATERIALIZED VIEW {db}.last ENGINE = MergeTree PARTITION BY n ORDER BY n "
        "AS SELECT n, kind, _slice, _cluster FROM {db}.clicks"
    ],
    "a table with projection, index, constraint and TTL": [
        f"CREATE TABLE {{db}}.last (n UInt32, at DateTime DEFAULT '2050-01-01', {KEYS}, "
        "PROJECTION p (SELECT n ORDER BY n), INDEX i n TYPE minmax, CONSTRAINT c CHECK n < 100) "
        "ENGINE = MergeTree PARTITION BY n % 3 ORDER BY n TTL at + INTERVAL 1 DAY",
        view("n, OWN", "{db}.last"),
    ],
    "names that need quotes": [
        f"CREATE TABLE {{db}}.`fed.\\`{{db}}.clicks\\`` (n UInt32, `a b` String, {KEYS}) {ENGINE}",
        view("n, kind AS `a b`, OWN", "{db}.`fed.\\`{db}.clicks\\``", "`v w`"),
    ],
    "a table called like the database": [
        f"CREATE TABLE {{db}}.{{db}} (n UInt32, {KEYS}) ENGINE = Null",
        view("n, OWN", "{db}.{db}", "one"),
        view("n, name, _slice, _cluster FROM {db}.{db} LEFT JOIN {db}.dim USING (n)", name="two"),
    ],
}
