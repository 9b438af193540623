"""What `sluice traffic` shows of the view's rows."""

from __future__ import annotations

from sluice.cli.output import console
from sluice.cli.traffic import TrafficHour, _tables, added, by_value, hourly, of_shards, plot
from sluice.config.counts import Counts

H = 1767225600  # 2026-01-01T00Z
NOW = H + 2 * 3600 - 1  # an hour that begins at H + 3600 is not over


def test_hours_and_values_are_summed_and_what_is_unknown_stays_so():
    found = [
        TrafficHour(H, "DE", 10.5, 8),
        TrafficHour(H, "US", 4.5, 6),
        TrafficHour(H + 3600, "DE", 7.0, None),
        TrafficHour(H - 3600, "DE", None, 3),
    ]
    assert hourly(found) == [
        TrafficHour(H - 3600, "", None, 3),
        TrafficHour(H, "", 15.0, 14),
        TrafficHour(H + 3600, "", 7.0, None),
    ]
    assert added([found[0], TrafficHour(H, "DE", 1.5, 1)]) == [TrafficHour(H, "DE", 12.0, 9)]
    assert by_value(found) == [("DE", 11, 10, 8, 2, 7), ("US", 6, 4, 6, -2, 0)]


def test_expected_and_seen_are_of_the_same_hours():
    """A first day of 5,860 rows, of which 1,501 came in the one hour for which something is expected."""
    first = [TrafficHour(H + 3600 * hour, "DE", None, rows) for hour, rows in enumerate((2000, 2359))]
    found = [*first, TrafficHour(H + 7200, "DE", 1450.0, 1501), TrafficHour(H + 10800, "DE", 1480.0, None)]
    assert by_value(found) == [("DE", 5860, 1450, 1501, -51, 1480)]
    assert by_value(first) == [("DE", 4359, "-", "-", "-", 0)]


def test_the_plot_draws_what_was_seen_and_what_is_missing():
    rows = plot(
        [
            TrafficHour(H - 3600, "", None, 5),
            TrafficHour(H, "", 20.0, 10),
            TrafficHour(H + 3600, "", 10.0, None),
        ],
        NOW,
    )
    assert rows == [
        ("2025-12-31 23:00", "-", 5, "-", "█" * 10),
        ("2026-01-01 00:00", 20, 10, 10, "█" * 20 + "░" * 20),
        ("2026-01-01 01:00", 10, "-", "-", "░" * 20),
    ]
    assert plot([], NOW) == []


def test_an_hour_that_has_not_landed_is_not_one_without_traffic():
    """Hour 1 has failed, hour 2 has landed without a row, hours 3 and 4 not yet, 4 is not over."""
    hours = [(0, 10.0, 8), (1, 11.0, None), (2, 12.0, 0), (3, 13.0, None), (4, 14.0, None)]
    found = [TrafficHour(H + 3600 * hour, "DE", expected, seen) for hour, expected, seen in hours]
    rows = plot(hourly(found), H + 4 * 3600 + 60)
    assert [row[1:4] for row in rows] == [
        (10, 8, 2),
        (11, "not landed", "-"),
        (12, 0, 12),
        (13, "not landed", "-"),
        (14, "-", "-"),
    ]
    # Compared are hours 0 and 2, and hours 3 and 4 are next.
    assert by_value(found) == [("DE", 8, 22, 8, 14, 27)]


def test_what_one_shard_has_not_seen_has_not_landed():
    parts = [TrafficHour(H, "DE", 4.0, 5), TrafficHour(H, "US", 3.0, 2), TrafficHour(H, "DE", 4.0, None)]
    assert added(parts) == [TrafficHour(H, "DE", 8.0, None), TrafficHour(H, "US", 3.0, None)]


def view(last: int, rows: int, expected: float = 1.0, value: str = "DE") -> list[TrafficHour]:
    """What a shard's view gives whose last hour is `last`."""
    hours = range(last - 23, last + 25)
    return [TrafficHour(H + 3600 * n, value, expected, rows if n <= last else None) for n in hours]


def test_shards_are_compared_in_the_hours_that_all_of_them_give():
    """The second one is two hours ahead: what it expects of its last two hours is no total."""
    hours = hourly(of_shards([view(23, 1, 10.0), view(25, 1000, 5.0)]))
    assert [(hour.at - H) // 3600 for hour in hours] == list(range(2, 48))
    assert [hour.seen for hour in hours] == [1001] * 22 + [None] * 24
    assert {hour.expected for hour in hours} == {15.0}


def test_what_the_shard_behind_has_not_seen_has_not_landed_also_where_it_expects_nothing():
    """It has other values, and says nothing of those of the shard that is ahead."""
    ahead, behind = view(25, 1000, value="US"), [hour for hour in view(23, 1) if hour.seen is not None]
    seen = {hour.at: hour.seen for hour in of_shards([ahead, behind]) if hour.value == "US"}
    assert [seen[H + 3600 * hour] for hour in (22, 23, 24, 25)] == [1000, 1000, None, None]
    assert of_shards([[], []]) == []
    assert of_shards([[], view(23, 1)]) == view(23, 1)


def test_what_people_see(capsys):
    found = [TrafficHour(H, "DE", 10.0, 8), TrafficHour(H + 3600, "DE", 1234.0, None)]
    console().print(_tables(Counts(table="db.traffic", by=["country"]), found, NOW, 40))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("db.traffic: rows by hour")
    (next_hour,) = [line for line in lines if "2026-01-01 01:00" in line]
    assert [cell.strip() for cell in next_hour.split("│")[1:6]] == [
        "2026-01-01 01:00",
        "1,234",
        "-",
        "-",
        "░" * 40,
    ]
    assert any(line.startswith("│ DE ") and "1,234" in line for line in lines)
