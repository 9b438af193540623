"""A rollup's rows are replaced only while all of their input is there: else they are frozen, and shown so."""

from __future__ import annotations

import pytest

from sluice.errors import Changed
from sluice.flow.load.rollups.staging import RollupSource
from sluice.state.ledger import committed, is_frozen
from sluice.state.unit_state import UnitState
from tests.integration.landed import World, client_of, unit
from tests.integration.summed import Summed
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

THIRTY = range(30)  # (30, 435)


@pytest.fixture
def summed(clickhouse_server, tmp_path, name) -> Summed:
    made = Summed(World(tmp_path, client_of(clickhouse_server), name))
    made.create()
    yield made
    made.drop()


def test_an_edited_select_takes_expired_rows_out_of_the_lake(summed: Summed):
    summed.land(unit(0), *THIRTY)
    summed.fill(unit(0))
    assert summed.total() == (30, 435)
    summed.expire("x % 3 = 0")
    summed.factor = 2
    assert summed.fill(unit(0)) == [0, 0, 1]
    assert summed.total() == (30, 870)
    [status] = summed.statuses(unit(0))
    assert (status.state, status.frozen) == (UnitState.COMPLETE, ())


def test_an_edited_select_leaves_rows_whose_input_is_gone(summed: Summed):
    summed.land(unit(0), *THIRTY)
    summed.land(unit(1), 7)
    places = (unit(0), unit(1))
    summed.fill(*places)
    summed.expire("_slice = toDateTime('2026-11-20 10:00:00', 'UTC')")
    summed.forget(*places)
    summed.factor = 2
    assert [status.state for status in summed.statuses(*places)] == [UnitState.STALE] * 2
    assert summed.fill(*places) == [0, 0, 1], "the second hour's source is whole"
    assert summed.sums() == {
        (int(unit(0).slice.start.timestamp()), "dc1"): [(30, 435)],
        (int(unit(1).slice.start.timestamp()), "dc1"): [(1, 14)],
    }
    table = f"{summed.world.database}.sums"
    assert [line for line in summed.said if "frozen" in line] == [
        f"{table}: frozen: 1 slices (2026-11-20T10Z/dc1): rows of {summed.world.database}.clicks that they "
        "are made from have expired there, and the lake has forgotten the files: their 1 rows stay as they "
        "are"
    ]
    first, second = summed.statuses(*places)
    assert (first.state, first.frozen, second.frozen) == (UnitState.FORGOTTEN, (table,), ())
    assert first.seen.endswith(f"; frozen: {table}")
    ledger = committed(
        summed.world.client, summed.pipeline(), summed.world.lake.url, summed.pipeline().targets[-1]
    )
    assert [one for one, row in ledger.items() if is_frozen(row)] == [unit(0)]

    assert summed.fill(*places) == [0, 0, 0]
    assert not [line for line in summed.said if "frozen" in line], "it is said once"
    assert summed.load(*places, table="sums", mode="reload").loaded[0].unit == unit(1)
    assert summed.total() == (31, 449)

    # Landed again, there is all of its input: nothing stays frozen.
    summed.land(unit(0), 1, 2, generation=2)
    assert summed.fill(*places) == [1, 1, 1]
    assert summed.total() == (3, 20)
    assert summed.statuses(*places)[0].frozen == ()


def test_a_late_event_into_an_old_hour_is_added(summed: Summed):
    """The hour's source has expired; what comes later is a unit of its own."""
    summed.land(unit(0), *THIRTY)
    summed.fill(unit(0))
    summed.expire("1")
    summed.forget(unit(0))
    summed.land(unit(5), 1000)
    summed.fill(unit(0), unit(5))
    assert summed.total() == (31, 1435)


@pytest.mark.long
def test_one_cluster_without_a_record_leaves_the_other_as_it_is(summed: Summed):
    summed.land(unit(0), *THIRTY)
    summed.land(unit(0, "dc2"), *range(10))
    summed.fill(unit(0), unit(0, "dc2"))
    assert summed.total() == (40, 435 + 45)
    summed.expire("_cluster = 'dc1'")
    summed.forget(unit(0))
    summed.land(unit(0, "dc2"), *range(9), generation=2)
    summed.fill(unit(0), unit(0, "dc2"))
    assert summed.total() == (39, 435 + 36)


@pytest.mark.long
def test_another_source_makes_a_rollup_stale(summed: Summed):
    summed.land(unit(0), *THIRTY)
    summed.fill(unit(0))
    summed.source = "views"
    assert [status.state for status in summed.statuses(unit(0))] == [UnitState.STALE]
    assert summed.fill(unit(0)) == [0, 0, 1]
    assert summed.total() == (30, 30435)


@pytest.mark.long
def test_a_new_rollup_over_expired_hours_says_that_it_has_no_rows(summed: Summed):
    summed.land(unit(0), *THIRTY)
    for table in ("clicks", "views"):
        summed.load(unit(0), table=table)
    summed.expire("1")
    summed.forget(unit(0))
    assert summed.fill(unit(0)) == [0, 0, 0]
    [line] = [line for line in summed.said if "frozen" in line]
    assert line.endswith("and the lake has forgotten the files: they get no rows")
    [status] = summed.statuses(unit(0))
    table = f"{summed.world.database}.sums"
    assert (status.state, status.frozen, status.tables[table].rows) == (UnitState.FORGOTTEN, (table,), 0)
    assert summed.sums() == {}, "(0, 0) would be a row"
    assert summed.fill(unit(0)) == [0, 0, 0]


@pytest.mark.parametrize(
    ("ttl", "numbers", "total"),
    per_commit(
        [
            ("MODIFY COLUMN x UInt64 TTL _slice + INTERVAL 1 DAY", THIRTY, (30, 870)),
            ("MODIFY TTL _slice + INTERVAL 1 DAY GROUP BY _slice SET x = count()", [7], (1, 14)),
        ]
    ),
)
def test_values_that_a_ttl_takes_away_come_from_the_lake(summed: Summed, ttl: str, numbers, total):
    """As many rows are there, and their values are not."""
    summed.land(unit(0), *numbers)
    summed.fill(unit(0))
    summed.world.sql(f"ALTER TABLE {{db}}.clicks {ttl}")
    summed.world.sql("OPTIMIZE TABLE {db}.clicks FINAL")
    [(rows, kept)] = summed.world.sql("SELECT count(), sum(x) FROM {db}.clicks")
    assert (rows, kept != sum(numbers)) == (len(numbers), True)
    summed.factor = 2
    assert summed.fill(unit(0)) == [0, 0, 1]
    assert summed.total() == total


@pytest.mark.long
def test_a_source_that_is_to_be_loaded_first_is_waited_for(summed: Summed):
    """Only the rollup is asked for, rows have expired, and the lake has another generation of the hour."""
    summed.land(unit(0), *THIRTY)
    summed.fill(unit(0))
    summed.expire("x = 3")
    summed.land(unit(0), 5, generation=2)
    summed.factor = 2
    assert summed.load(unit(0), table="sums").loaded == ()
    assert summed.total() == (30, 435)
    summed.fill(unit(0))
    assert summed.total() == (1, 10)


def test_rows_that_expire_while_they_are_read_are_noticed(summed: Summed, monkeypatch):
    summed.land(unit(0), *THIRTY)
    summed.fill(unit(0))
    summed.factor = 2
    found = RollupSource.units

    def then_expire(source: RollupSource, *arguments):
        units = found(source, *arguments)
        summed.expire("x < 9")
        return units

    with monkeypatch.context() as patch:
        patch.setattr(RollupSource, "units", then_expire)
        with pytest.raises(Changed, match="lost rows in slice"):
            summed.load(unit(0), table="sums")
    assert summed.total() == (30, 435)
    summed.load(unit(0), table="sums")
    assert summed.total() == (30, 870)
