"""What an hour's panel says first: what holds of what, what is wrong and its remedy, then the numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sluice.flow.land import reject_reasons
from sluice.flow.land.formats import avro, protobuf
from sluice.flow.rejected.rejections import OF_FORMATS
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.check import check
from sluice.flow.verify.facts import TableFacts
from sluice.flow.verify.repairs import Repairs
from sluice.flow.verify.verdict import Verdict, Verification, opened_by
from sluice.manifest import Forgotten, ForgottenRecords, Loss
from sluice.page.models import Cell, Finding, FindingKind, OverviewCell
from sluice.page.odd import Odd, OddKind
from sluice.page.overview import expired_units, with_expired
from sluice.page.rejected_samples import (
    MOST_GROUPS,
    RejectedSample,
    forgotten_counts,
    rejected_records_counts,
    rejects_of,
)
from sluice.page.slice_findings import RunRow, SliceFacts, TaskRow, findings, tone_of
from sluice.page.slice_findings import said as said_of
from sluice.page.slice_view import (
    SliceView,
    balance,
    count_rows,
    slice_view,
    table_counts,
    totals_of,
)
from sluice.state.held import Held, HeldRows
from sluice.state.months import Summaries
from sluice.state.status import LackingTopic, UnitStatus
from sluice.state.unit_state import UnitState
from sluice.watch.problems import Alarm, Problem, ProblemKind
from tests.support.verified import FACTS, FOUND, OTHER, TEN, manifest, pipeline

FILL = "sluice run ads --from 2026-11-20T10:00Z --to 2026-11-20T11:00Z --mode fill"
WHOLE = FOUND[0]
AT_NOON = "2026-11-20T12:00:00+00:00"
AT = Verification("2026-11-21T00:00:00Z", "2026-11-20T10:00:00Z", "2026-11-20T12:00:00Z", 1, 10, 1)
MISSING = replace(WHOLE, state=UnitState.MISSING, manifest=None, tables={})


def landed(*tables: str) -> UnitStatus:
    return replace(WHOLE, state=UnitState.LANDED, tables={name: WHOLE.tables[name] for name in tables})


def facts(cell: Cell, *statuses: UnitStatus, **more: Any) -> SliceFacts:
    spec, found = more.pop("spec", pipeline()), more.pop("found", ())
    shown = OverviewCell(id=TEN.slice.id, cell=cell)
    verdict = Verdict(anomalies=tuple(opened_by(one, AT) for one in found))
    return SliceFacts(spec, shown, statuses or (WHOLE,), TEN.slice.end, verdict, **more)


def said(shown: SliceFacts) -> str:
    return said_of(shown, findings(shown))


def titles(found: list[Finding]) -> list[str]:
    return [one.line for one in found]


BROKEN = Anomaly(
    AnomalyKind.ROWS_MISSING,
    "5 rows",
    "4",
    Repairs("ads").repair(TEN.slice, "e.clicks"),
    slice=TEN.slice.id,
    cluster="dc1",
    table="e.clicks",
)
UNFINISHED = Anomaly(AnomalyKind.INCOMPLETE, "complete", "missing", FILL, slice=TEN.slice.id, cluster="dc1")


def test_an_hour_that_a_check_holds_names_the_check_and_offers_its_release():
    rows = HeldRows("e.clicks", "dc1", "", WHOLE.manifest.id, {"positive": ("n > 0", 12)}, 0)
    shown = facts(Cell.LATE, landed("e.other"), held=[Held(TEN.slice, rows)])
    (one,) = [each for each in findings(shown) if each.kind is FindingKind.HELD]
    assert (one.what, one.message) == ("A check holds it out of e.clicks", "12 rows fail positive.")
    assert (one.release, one.first) == ("e.clicks", TEN.slice.id)
    assert [each.command for each in one.repairs] == [
        "sluice release ads --table e.clicks --from 2026-11-20T10:00Z --to 2026-11-20T11:00Z",
        FILL,
    ]
    assert not [each for each in findings(shown) if "Not loaded" in each.what]


def test_complete_and_broken_say_what_each_is_about():
    """Every table has a commit of the hour, and one of them has lost a row since."""
    assert said(facts(Cell.VERIFIED)) == "Every table has it, and all counts match."
    assert (
        said(facts(Cell.LOADED)) == "Every table has it, and verify has not counted it since it was loaded."
    )
    assert said(facts(Cell.EMPTY)) == "Every table has it, and it has no row."
    assert said(facts(Cell.BROKEN, found=[BROKEN])) == "Every table has it, but rows are missing (e.clicks)."
    assert [tone_of(cell) for cell in (Cell.BROKEN, Cell.LATE, Cell.ODD, Cell.VERIFIED, Cell.OPEN)] == [
        "bad",
        "warn",
        "warn",
        "good",
        "",
    ]


def test_an_unusual_hour_says_the_share_of_the_table():
    what, numbers = "43.8 % of rows of e.clicks rejected", "300 of 685 in 2026-11-20T10Z"
    odd = Odd(OddKind.REJECTED, TEN.slice.id, "table e.clicks", what, numbers)
    shown = facts(Cell.ODD, odd=(odd,))
    assert said(shown) == f"Every table has it, but {what}."
    (found,) = findings(shown)
    assert (found.line, found.tone, found.message) == (f"{what}: this hour", "warn", numbers)


@pytest.mark.parametrize(
    ("statuses", "cell", "expected"),
    [
        ((MISSING,), Cell.LATE, "Nothing of it has landed."),
        (
            (WHOLE, replace(MISSING, unit=replace(TEN, cluster="dc2"))),
            Cell.LATE,
            "Cluster dc2 has not landed; the others have.",
        ),
        ((landed("e.clicks"),), Cell.LANDED, "It is in the lake, but not in e.other."),
        ((replace(MISSING, state=UnitState.NOT_OVER),), Cell.OPEN, "The hour is not over."),
        ((MISSING,), Cell.BEFORE, "The pipeline begins later."),
    ],
)
def test_what_an_unfinished_hour_lacks(statuses, cell, expected):
    assert said(facts(cell, *statuses)) == expected


def test_an_hour_that_nothing_takes_says_so_and_how_it_is_filled():
    (paused,) = findings(facts(Cell.LATE, MISSING, paused=True))
    assert (paused.line, paused.message, paused.advice) == (
        "DAG ads is paused: not landed",
        "The lake has nothing of it from cluster dc1.",
        "`airflow dags unpause ads`",
    )
    (repair,) = paused.repairs
    assert (repair.command, repair.mode, repair.start, repair.end) == (
        FILL,
        "fill",
        "2026-11-20T10:00Z",
        "2026-11-20T11:00Z",
    )
    assert titles(findings(facts(Cell.LATE, MISSING, paused=None))) == [
        "DAG ads is not in Airflow: not landed"
    ]
    (waits,) = findings(facts(Cell.WAITING, MISSING))
    assert (waits.line, waits.tone, waits.advice[:18]) == ("Not landed", "", "No run of Airflow ")


def test_a_failed_run_names_its_step_what_it_left_and_where_its_log_is():
    def task(name: str, state: str) -> TaskRow:
        return TaskRow(task_id=name, map_index=2, state=state, tries=3, started="s", seconds=1.0)

    def run(name: str, *tasks: TaskRow) -> RunRow:
        return RunRow(dag_id="ads", run_id=name, state="failed", started="", asked="", tasks=list(tasks))

    runs = (
        run("new", task("batch.land", "success"), task("batch.load.e.clicks", "failed")),
        run("old", task("batch.land", "failed")),
    )
    (failed,) = findings(facts(Cell.FAILED, landed("e.other"), runs=runs))
    assert (failed.what, failed.tone) == ("batch.load.e.clicks failed", "bad")
    assert failed.message.startswith("e.clicks lacks it, or has the rows of an earlier landing. Attempt 3 in")
    assert [one.command for one in failed.repairs] == [FILL]
    where = {"dag_id": "ads", "run_id": "new", "task_id": "batch.load.e.clicks", "map_index": 2}
    assert failed.run.model_dump() == {**where, "tries": 3}
    again = (run("new", task("batch.land", "up_for_retry")),)
    assert titles(findings(facts(Cell.LATE, MISSING, runs=again))) == [
        "batch.land failed, and is tried again"
    ]


def alarm(kind: ProblemKind, place: str, message: str = "its message", over: bool = False) -> Alarm:
    return Alarm(Problem(kind, place, message), AT_NOON, over=over)


def test_what_the_watch_has_seen_of_the_hour_or_of_the_servers():
    alarms = (
        alarm(ProblemKind.UNAVAILABLE, "kafka"),
        alarm(ProblemKind.OVERDUE, "slice 2026-11-20T10Z/dc1"),
        alarm(ProblemKind.OVERDUE, "slice 2026-11-20T09Z/dc1"),
        alarm(ProblemKind.LAG, "seconds"),
        alarm(ProblemKind.TABLE, "table e.clicks", over=True),
    )
    shown = findings(facts(Cell.LATE, MISSING, alarms=alarms))
    assert [(one.line, one.since) for one in shown] == [
        ("No answer from kafka", AT_NOON),
        ("Not landed", AT_NOON),
    ]
    assert findings(facts(Cell.VERIFIED, alarms=alarms)) == []


def test_an_hour_that_no_run_has_resolved_expires_as_the_watch_has_seen():
    """The badge, the finding and the alarm are one: no second entry says to fill it."""
    alarms = [
        alarm(ProblemKind.EXPIRED, "slice 2026-11-20T10Z/dc1", "up to 60 of its offsets expired"),
        alarm(ProblemKind.EXPIRED, "slice 2026-11-20T10Z/dc2", "another cluster's", over=True),
        alarm(ProblemKind.EXPIRED, "slice 2026-11-20T11Z/dc1", "another hour's"),
    ]
    seen = expired_units(alarms)
    assert seen == {"2026-11-20T10Z": {"dc1"}, "2026-11-20T11Z": {"dc1"}}
    second = replace(MISSING, unit=replace(TEN, cluster="dc2"))
    gone, other, done = with_expired([MISSING, second, WHOLE], seen)
    assert [gone.state, other.state, done.state] == ["expired", "missing", "complete"]
    shown = facts(Cell.EXPIRED, gone, alarms=alarms, found=[UNFINISHED])
    assert said(shown) == "Nothing of it has landed, and Kafka no longer has all of it."
    (expired,) = findings(shown)
    assert (expired.line, expired.tone) == ("Kafka no longer has the records: cluster dc1", "bad")
    assert (expired.since, expired.repairs) == (AT_NOON, [])
    assert expired.message == alarms[0].problem.message
    counted = replace(gone, losses=(Loss("bids", 0, 100, 160, exact=True),))
    (expired,) = findings(facts(Cell.EXPIRED, counted, alarms=alarms))
    assert expired.message == "Up to 60 of its offsets are gone, and the hour has not landed."
    assert (expired.since, "land_rest" in expired.advice) == (AT_NOON, True)


def test_a_missing_table_and_one_that_only_lacks_the_hour():
    gone, lacks = findings(facts(Cell.NO_TABLE, landed(), gone={"e.clicks"}))
    assert gone.line == "e.clicks is missing in ClickHouse: this hour"
    assert (lacks.what, lacks.message) == (
        "Not loaded",
        "e.other lacks it, or has the rows of an earlier landing.",
    )


def test_what_the_hours_state_says_is_not_said_again_as_an_anomaly():
    late = facts(Cell.LATE, MISSING, found=[UNFINISHED, BROKEN])
    assert titles(findings(late)) == [
        "rows are missing (e.clicks): this hour",
        "Not landed",
    ]


def test_an_hour_before_the_beginning_lacks_nothing_wherever_it_is_said():
    """Somebody has verified it, too: what is not there is no anomaly of it."""

    def view(cell: Cell, status: UnitStatus) -> SliceView:
        shown = facts(cell, status, found=[UNFINISHED])
        return slice_view(shown, TEN.slice, "", Summaries([]), TEN.slice.end)

    before, late = view(Cell.BEFORE, MISSING), view(Cell.LATE, MISSING)
    states = [
        [(one.state, {table.state for table in one.tables}) for one in it.units] for it in (before, late)
    ]
    assert states == [[("before", {"before"})], [("missing", {"missing"})]]
    assert (before.said, before.findings) == ("The pipeline begins later.", [])
    # What has landed of it all the same is shown.
    (unit,) = view(Cell.BEFORE, landed("e.clicks")).units
    assert (unit.state, [table.state for table in unit.tables]) == ("landed", ["committed", "missing"])


def test_a_dropped_table_is_said_once_with_one_repair():
    """Verify, the watch and the page itself have all seen it; and the hour waits for another table, too."""
    gone = TableFacts("e.clicks", missing="create it")
    found = check(replace(FACTS, statuses=(landed(),), tables=(gone, OTHER)), Repairs("ads"))
    assert [one.kind for one in found] == ["incomplete", "table missing"]
    alarms = [
        alarm(ProblemKind.TABLE, place, "h:8123 has no such table; create it")
        for place in ("table e.clicks", "table e.x")
    ]
    shown = facts(Cell.NO_TABLE, landed(), found=found, alarms=alarms, gone={"e.clicks"})
    table, lacks = findings(shown)
    assert (table.line, lacks.line) == ("e.clicks is missing in ClickHouse: this hour", "Not loaded")
    assert (table.since, [one.command for one in table.repairs]) == (AT_NOON, [FILL])
    # The table is there again: what verify and the watch have seen is over.
    there = replace(shown, gone=frozenset())
    assert titles(findings(there)) == ["Not loaded"]


def test_what_a_complete_hour_is_without():
    lost = replace(manifest(TEN, 0), lost=(Loss("bids", 0, 0, 7, exact=True),))
    spec = pipeline(tables={"click": "e.clicks"})
    one = replace(WHOLE, manifest=lost, lacking=(LackingTopic("views", 25),))
    found = findings(facts(Cell.LOSSY, one, spec=spec))
    assert [(each.what, each.message) for each in found] == [
        ("Cluster dc1: topics", "It lacks topic views (25 offsets): the pipeline file names it since then."),
        ("Cluster dc1: loss", "7 offsets had expired in Kafka when it landed: nothing brings them back."),
        (
            "Cluster dc1: without a table",
            "3 rows of type view are in the lake, and no table takes them.",
        ),
    ]
    assert found[0].repairs[0].mode == "reland"


def test_rows_without_a_table_of_a_forgotten_hour_are_not_said_to_be_in_the_lake():
    spec = pipeline(tables={"click": "e.clicks"})
    gone = replace(manifest(TEN, 0), forgotten=Forgotten(lake="2026-11-25T09:00:00Z"))
    one = replace(WHOLE, state=UnitState.FORGOTTEN, manifest=gone)
    (found,) = findings(facts(Cell.FORGOTTEN, one, spec=spec))
    assert found.message == "3 rows of type view had no table, and the lake forgot them on 2026-11-25."
    assert "`reland`" in found.advice and "`fill`" not in found.advice


def test_rows_of_a_type_without_a_table_are_counted_as_such():
    """6 clicks, of which one is a rejected row, and 3 views that no table takes."""
    spec = pipeline(tables={"click": "e.clicks"})
    only = replace(WHOLE, tables={"e.clicks": WHOLE.tables["e.clicks"]})
    found = balance(totals_of(spec, [only]))
    assert found.model_dump() == {
        "landed": 9,
        "loaded": 5,
        "rejected_rows": 1,
        "without_table": 3,
        "not_loaded": 0,
        "types": {"view": 3},
    }
    waits = balance(totals_of(spec, [replace(only, tables={})]))
    assert (waits.landed, waits.loaded, waits.without_table, waits.not_loaded) == (9, 0, 3, 6)
    assert balance(totals_of(spec, [MISSING])) is None


def test_numbers_stand_beside_those_of_yesterday_and_of_a_week_ago():
    now, day = totals_of(pipeline(), [WHOLE]), totals_of(pipeline(), FOUND)
    rows = {row.name: (row.now, row.day, row.week) for row in count_rows(now, day, None)}
    assert rows == {
        "Records read": (10, 20, None),
        "Rows landed": (9, 18, None),
        "Rejected records": (1, 2, None),
        "Rejected rows": (1, 2, None),
        "Later than grace": (0, 0, None),
        "In the lake": (1000, 2000, None),
    }
    tables = [
        (t.table, t.landed, t.committed, t.rejected_rows, t.day, t.week) for t in table_counts(now, day, now)
    ]
    assert tables == [("e.clicks", 6, 5, 1, 10, 5), ("e.other", 3, 3, 0, 6, 3)]
    assert count_rows(None, day, day) == [] and table_counts(None, day, day) == []


def sample(kind: str, reason: str, place: str = "", offset: int = 0) -> RejectedSample:
    where = {"cluster": "dc1", "topic": "bids", "partition": 0, "offset": offset}
    return RejectedSample(kind=kind, place=place, reason=reason, value="", payload="{}", **where)


def test_rejects_are_grouped_by_reason_and_column_with_three_samples_at_most():
    rejected_rows = [
        ("e.clicks", "price", "does not fit Float64", 40),
        ("e.clicks", "items[].n", "does not fit UInt8", 7),
        ("e.clicks", "price", "does not fit Float64", 2),  # the other shard's
    ]
    fits = "does not fit UInt8"
    samples = [
        *(sample("record", "no type", offset=n) for n in range(5)),
        sample("row", fits, "e.clicks.items[3].n", 10),
        sample("row", fits, "e.clicks.items[12].n", 11),
        sample("row", "does not fit Float64", "e.clicks.price", 12),
    ]
    found = rejects_of({"no type": 9, "not JSON": 1}, rejected_rows, samples, "masked")
    assert [(g.kind, g.table, g.column, g.reason, g.records) for g in found.groups] == [
        ("row", "e.clicks", "price", "does not fit Float64", 42),
        ("record", "", "", "no type", 9),
        ("row", "e.clicks", "items[].n", "does not fit UInt8", 7),
        ("record", "", "", "not JSON", 1),
    ]
    assert [[s.offset for s in g.samples] for g in found.groups] == [[12], [0, 1, 2], [10, 11], []]
    assert "a type that takes it" in found.groups[0].advice and "event.type" in found.groups[1].advice
    assert (found.payloads, found.more) == ("masked", 0)


def test_groups_have_a_bound_and_names_of_data_are_safe():
    rejected_rows = [("e.clicks", f"a\x1b{n}", "does not fit UInt8", n + 1) for n in range(MOST_GROUPS + 3)]
    found = rejects_of({}, rejected_rows, [], "hidden")
    assert (len(found.groups), found.more) == (MOST_GROUPS, 3)
    assert found.groups[0].column == f"a\\x1b{MOST_GROUPS + 2}"


def test_rejected_records_of_all_clusters_are_counted_by_reason():
    one = manifest(TEN, 0)
    rows = replace(one, rejected_records={"not JSON": 2}, rejected_elements={"no time": 4})
    assert rejected_records_counts([one, rows]) == {"not JSON": 3, "no time": 4}


def test_of_records_without_bytes_the_page_says_so():
    gone = ForgottenRecords("2028-01-01T00:00:00Z", {"not JSON": 2, "no type": 1})
    one = replace(manifest(TEN, 0), rejected_records={"not JSON": 2, "no type": 4}, without_bytes=(gone,))
    found = rejects_of(rejected_records_counts([one]), [], [], "masked", forgotten_counts([one]))
    assert [(g.reason, g.records, g.forgotten) for g in found.groups] == [
        ("no type", 4, 1),
        ("not JSON", 2, 2),
    ]
    some, all_ = (group.advice for group in found.groups)
    assert "event.type" in some and some.endswith(
        "; the lake has forgotten the bytes of 1 of them: `reland` brings the hour, as long as Kafka has it"
    )
    assert all_.startswith("the lake has forgotten the bytes of 2 of them")


def test_rejected_rows_of_a_forgotten_hour_are_not_told_to_reload():
    rejected_rows = [("e.clicks", "price", "does not fit Float64", 4)]
    (kept,) = rejects_of({}, rejected_rows, [], "masked").groups
    (gone,) = rejects_of({}, rejected_rows, [], "masked", without_files=True).groups
    assert "retry the rejected records" in kept.advice
    assert "`reload`" not in gone.advice and "`reland`" in gone.advice


def test_every_reason_has_an_advice():
    assert OF_FORMATS == (avro.NOT_AVRO, avro.NOT_THE_READERS, protobuf.NOT_PROTOBUF)
    reasons = [v for name, v in vars(reject_reasons).items() if name.isupper() and isinstance(v, str)]
    found = rejects_of(dict.fromkeys([*reasons, *OF_FORMATS], 1), [], [], "masked")
    assert len(found.groups) == len(reasons) + 3 > 20
    assert all(len(group.advice) > 10 for group in found.groups)
