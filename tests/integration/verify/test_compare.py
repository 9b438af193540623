"""`sluice compare` finds what was planted in another table, and nothing else."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from sluice.cli.commands import commands
from sluice.clients.clickhouse.client import Client
from sluice.errors import WrongUse
from tests.integration.landed import World, client_of
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

HOURS, PER_HOUR = 30, 200
START = 1763632800  # 2025-11-20T10:00Z
OURS = """id UInt64, at DateTime64(3, 'UTC'), kind LowCardinality(String), price Nullable(Decimal(18, 2)),
key String, type String, _type LowCardinality(String), _slice DateTime('UTC'), _cluster String"""
# As a Connect sink would have it: other types of the same values, columns of its own and none of Sluice's.
THEIRS = """id String, at DateTime64(6, 'UTC'), kind String, price Nullable(String), key String, type String,
tags Array(String), inserted_at DateTime DEFAULT now()"""


@pytest.fixture
def world(clickhouse_server, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    found = World(tmp_path, client_of(clickhouse_server), name)
    found.sql("CREATE DATABASE {db} ENGINE = Atomic")
    found.sql(f"CREATE TABLE {{db}}.clicks ({OURS}) ENGINE = MergeTree ORDER BY (_slice, id)")
    found.sql(f"CREATE TABLE {{db}}.old ({THEIRS}) ENGINE = MergeTree ORDER BY id")
    (tmp_path / "p.yaml").write_text(
        "kafka: [{cluster: dc1, bootstrap: 'x:1', topics: [events]}]\n"
        "event: {type: {field: type}, time: {field: at}}\n"
        f"lake: file://{tmp_path}\ntables: {{click: {name}.clicks}}\n"
    )
    return found


def fill(client: Client, database: str, rows: int, hours: int) -> None:
    """The same rows in both, with a null and texts that look alike."""
    numbers = f"FROM numbers({rows})"
    second = f"{START} + intDiv(number * {hours} * 3600, {rows})"
    at = f"fromUnixTimestamp64Milli(({second}) * 1000 + number % 1000, 'UTC')"
    price = "if(number % 7 = 0, NULL, toDecimal64(number % 1000 / 100, 2))"
    client.run(
        f"INSERT INTO {database}.clicks SELECT number, {at}, ['a', 'b', ''][number % 3 + 1], {price}, "
        f"toString(number % 5), 'click', 'click', toStartOfHour({at}, 'UTC'), 'dc1' {numbers}"
    )
    client.run(
        f"INSERT INTO {database}.old (id, at, kind, price, key, type) "
        f"SELECT toString(number), {at}, ['a', 'b', ''][number % 3 + 1], toDecimalString({price}, 2), "
        f"toString(number % 5), 'click' {numbers}"
    )


def plant(world: World, rows: int, count: int, seed: int) -> Counter[tuple[str, str]]:
    """Returns the (kind, key) of each difference."""
    chosen = random.Random(seed).sample(range(rows), count)
    planted: Counter[tuple[str, str]] = Counter()
    changes = {
        "missing": "ALTER TABLE {db}.old DELETE WHERE id IN ({ids}) SETTINGS mutations_sync = 2",
        "extra": "INSERT INTO {db}.old SELECT * REPLACE ('x' || id AS id) FROM "
        "(SELECT * FROM {db}.old WHERE id IN ({ids}))",
        "doubled": "INSERT INTO {db}.old SELECT * FROM {db}.old WHERE id IN ({ids})",
        "different": "ALTER TABLE {db}.old UPDATE price = if(price IS NULL, '0', NULL), "
        "kind = concat(kind, ' ') WHERE id IN ({ids}) SETTINGS mutations_sync = 2",
    }
    for number, (kind, change) in enumerate(changes.items()):
        ids = chosen[number :: len(changes)]
        world.sql(change.replace("{ids}", ", ".join(f"'{one}'" for one in ids)))
        planted.update((kind, f"x{one}" if kind == "extra" else str(one)) for one in ids)
    return planted


def compared(world: World, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    edges = ["--from", "2025-11-20T10:00Z", "--to", "2025-11-21T16:00Z"]
    config = ["--config", str(world.root / "p.yaml")]
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        commands(["compare", "p", "--with", f"{world.database}.old", *edges, *config, *words])
    return int(ended.value.code or 0), capsys.readouterr().out


@pytest.mark.parametrize("seed", per_commit(range(5)))
def test_each_planted_difference_is_found_and_none_invented(world: World, capsys, seed: int):
    fill(world.client, world.database, HOURS * PER_HOUR, HOURS)
    code, said = compared(world, capsys, "--key", "id")
    assert code == 0
    alike = f"has the {HOURS * PER_HOUR:,} rows of {world.database}.clicks in these hours, and no others"
    assert f"{world.database}.old {alike}" in said
    planted = plant(world, HOURS * PER_HOUR, 50, seed)
    code, text = compared(world, capsys, "--key", "id", "--samples", "1000", "--json")
    answer = json.loads(text)
    assert code == 1
    assert Counter((one["kind"], one["key"]["id"]) for one in answer["samples"]) == planted
    sums = {
        kind: sum(hour[kind] for hour in answer["hours"])
        for kind in ("missing", "extra", "doubled", "different")
    }
    assert sums == Counter(kind for kind, _ in planted)
    assert (
        sum(hour["same"] for hour in answer["hours"])
        == HOURS * PER_HOUR - sums["missing"] - sums["different"]
    )
    assert all(
        one["columns"].keys() == {"price", "kind"} for one in answer["samples"] if one["kind"] == "different"
    )
    assert answer["how"]["left_out"] == ["inserted_at", "tags"]
    code, said = compared(world, capsys, "--key", "id")
    assert code == 1
    assert f"{world.database}.old differs in" in said
    assert "13 missing, 13 extra, 12 doubled, 12 different" in said


def test_without_a_key_whole_rows_are_compared(world: World, capsys):
    fill(world.client, world.database, 600, HOURS)
    world.sql("ALTER TABLE {db}.old UPDATE price = '9999' WHERE id = '17' SETTINGS mutations_sync = 2")
    code, said = compared(world, capsys)
    assert code == 1 and "1 missing, 1 extra (600 rows here, 600 there)" in said


def test_what_has_no_time_or_is_in_neither_table_proves_nothing(world: World, capsys):
    fill(world.client, world.database, 600, HOURS)
    for name in ("clicks", "old"):
        world.sql(f"ALTER TABLE {{db}}.{name} ADD COLUMN made Nullable(DateTime64(3, 'UTC'))")
        world.sql(f"ALTER TABLE {{db}}.{name} UPDATE made = at WHERE 1 SETTINGS mutations_sync = 2")
    assert compared(world, capsys, "--key", "id", "--time", "made")[0] == 0
    world.sql("INSERT INTO {db}.old (id, at) SELECT 'untimed', at FROM {db}.old LIMIT 2")
    code, said = compared(world, capsys, "--key", "id", "--time", "made")
    assert code == 1 and f"not compared: 2 rows of {world.database}.old without made" in said
    code, text = compared(
        world, capsys, "--key", "id", "--time", "made", "--same", "--samples", "2", "--json"
    )
    assert [one["kind"] for one in json.loads(text)["samples"]] == ["same", "same"]
    config = ["--config", str(world.root / "p.yaml"), "--from", "2024-11-20T10Z", "--to", "2024-11-20T12Z"]
    with pytest.raises(WrongUse, match="neither .* has a row with at from 2024-11-20"):
        commands(["compare", "p", "--with", f"{world.database}.old", *config], standalone_mode=False)
    with pytest.raises(WrongUse, match="id is a UInt64 in one of them: name a DateTime column"):
        commands(
            ["compare", "p", "--with", f"{world.database}.old", *config, "--time", "id"],
            standalone_mode=False,
        )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--key", "tags"], "--key tags: "),
        (["--time", "inserted_at"], "inserted_at: no column of both tables"),
        (["--table", "view"], "name one table by --table: pipeline p has "),
    ],
)
def test_what_cannot_be_compared_is_one_line(world: World, capsys, words: list[str], says: str):
    config = ["--config", str(world.root / "p.yaml")]
    with pytest.raises(Exception, match=says):
        commands(["compare", "p", "--with", f"{world.database}.old", *config, *words], standalone_mode=False)
    with pytest.raises(Exception, match="there is no table db.none"):
        commands(["compare", "p", "--with", "db.none", *config], standalone_mode=False)


@pytest.mark.long
def test_ten_million_rows(world: World, capsys):
    rows = 10_000_000
    fill(world.client, world.database, rows, HOURS)
    planted = plant(world, rows, 50, 7)
    _, text = compared(world, capsys, "--key", "id", "--samples", "100", "--json")
    assert Counter((one["kind"], one["key"]["id"]) for one in json.loads(text)["samples"]) == planted
