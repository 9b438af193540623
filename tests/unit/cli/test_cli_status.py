"""`sluice status` as it is read in a terminal, once and live."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pendulum
import pytest
import typer
from rich.console import Console, Group

from sluice.cli import status as command
from sluice.cli import status_lines
from sluice.cli.commands import commands
from sluice.cli.options import known_range
from sluice.cli.status import Behind, read_behind
from sluice.errors import WrongUse
from sluice.plan.backlog import Backlog
from sluice.plan.lag import Lag, PartitionLag
from sluice.slices import SliceRange
from sluice.state.departed_tables import DepartedTable, GoneTable
from sluice.state.status import LackingTopic, UnitStatus
from sluice.state.unit_state import UnitState
from tests.unit.doctor.test_doctor_kafka import pipeline
from tests.unit.watch.test_alarms_rules import TEN, status, unit

PIPELINE = """\
kafka: [{cluster: dc1, bootstrap: "x:1", topics: [bids]}]
event: {type: {field: type}, time: {record: true}}
lake: file:///lake
tables: {click: e.clicks}
"""
PARTITION = PartitionLag(
    cluster="dc1",
    topic="bids",
    partition=3,
    landed_until=100,
    log_start=0,
    log_end=1250,
    records=1150,
    seconds=None,
    rate=2.5,
    held=40,
    lacking=10,
    outside=70,
)

NOTHING = Behind([], Backlog())


@pytest.fixture
def config(tmp_path: Path) -> list[str]:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    return ["p", "--config", str(tmp_path / "p.yaml")]


def text_of(*view) -> str:
    out = io.StringIO()
    Console(file=out, width=160).print(Group(*view))
    return out.getvalue()


def test_hours_and_what_waits_in_kafka():
    spec = pipeline(tables={"click": "e.clicks"})
    found = [status(0, UnitState.COMPLETE, tables=["e.clicks"]), status(1, UnitState.MISSING)]
    there = Lag(at="", partitions=[PARTITION], errors=["Kafka cluster 'dc2' does not answer"])
    lines = text_of(*command.shown(spec, found, "p", Behind(found, Backlog(), there))).splitlines()
    (missing,) = [line for line in lines if "2026-11-20T11Z" in line]
    assert missing.split("│")[3].strip() == "missing"
    (partition,) = [line for line in lines if "dc1/bids/3" in line]
    assert [cell.strip() for cell in partition.split("│")[1:-1]] == [
        "dc1/bids/3",
        "100",
        "1,250",
        "1,150",
        "40",
        "10",
        "70",
        "-",
        "2.5",
    ]
    assert "Kafka cluster 'dc2' does not answer" in lines
    assert (
        "1,150 records wait in Kafka, 40 of them behind open transactions, 10 of them in hours that landed "
        "without the topic: reland brings them"
    ) in lines
    assert "e.clicks: 0 rows, 0 rejected rows" in lines


def test_live_it_looks_until_it_is_stopped(config, monkeypatch, capsys):
    looks = iter([UnitState.MISSING, UnitState.LANDED, UnitState.COMPLETE])
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(command, "_survey", lambda *_: ([status(0, next(looks), tables=["e.clicks"])], "p"))
    monkeypatch.setattr(command.time, "sleep", sleep)
    monkeypatch.setattr(command, "read_behind", lambda *_: NOTHING)
    with pytest.raises(KeyboardInterrupt):
        command.status(*config[:1], watch=True, every=7, config=Path(config[2]))
    out = capsys.readouterr().out
    places = [out.index(f"│ {state} ") for state in ("missing", "landed", "complete")]
    assert places == sorted(places)
    assert out.count("again in 7 s; Ctrl-C ends it") == 3
    assert slept == [7, 7, 7]


def test_json_answers_once(config):
    with pytest.raises(WrongUse, match="--json answers once"):
        commands(args=["status", *config, "--watch", "--json"], standalone_mode=False)


def counted(number: int, state: UnitState) -> UnitStatus:
    """Its slice brought as many records as its number says."""
    found = status(number, state, tables=["e.clicks"])
    return replace(found, manifest=found.manifest and replace(found.manifest, read=number))


def test_many_hours_are_told_by_day():
    """Of 20 November from 10 o'clock on there are 14 hours, 0 to 13; one of them is missing."""
    spec = pipeline(tables={"click": "e.clicks"})
    found = [
        counted(number, UnitState.MISSING if number == 3 else UnitState.COMPLETE)
        for number in range(status_lines.MOST_HOURS + 1)
    ]
    lines = text_of(*command.shown(spec, found, "p", NOTHING)).splitlines()
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if "2026-" in line]
    assert lines[0].strip() == "p, by day (--json has the 501 hours)"
    assert cells[0][:4] == ["2026-11-20", "dc1", "13 complete, 1 missing", str(sum(range(14)) - 3)]
    assert cells[1][:4] == ["2026-11-21", "dc1", "24 complete", str(sum(range(14, 38)))]
    few = text_of(*command.shown(spec, found[:-1], "p", NOTHING))
    assert "by day" not in few and "2026-11-20T13Z" in few


def test_a_run_is_told_on_a_screen(monkeypatch, capsys):
    """Of 72 hours: three days, and each hour that is not done."""
    spec = pipeline(tables={"click": "e.clicks"})
    found = [counted(n, UnitState.LANDED if 20 < n < 33 else UnitState.COMPLETE) for n in range(72)]
    monkeypatch.setattr(command, "read_behind", lambda *_: NOTHING)
    command.show_run(spec, found, "p", wide=False, verbose=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].strip() == "p, by day (--verbose has the 72 hours)"
    assert len(lines) < 40
    left = [line for line in lines if line.endswith("/dc1 is landed")]
    assert left == [f"{unit(n)} is landed" for n in range(21, 31)]
    assert "and 2 more: --verbose has all" in lines
    command.show_run(spec, found, "p", wide=False, verbose=True)
    hours = [line for line in capsys.readouterr().out.splitlines() if "T" in line and "│ dc1" in line]
    assert len(hours) == 72
    many = [counted(n, UnitState.LANDED) for n in range(501)]
    for verbose in (False, True):  # by day in both: only JSON has each hour
        command.show_run(spec, many, "p", wide=False, verbose=verbose)
        out = capsys.readouterr().out
        assert "(--json has the 501 hours)" in out and "and 491 more: --json has all" in out
    command.show_run(spec, found[:24], "p", wide=False, verbose=False)
    few = capsys.readouterr().out
    assert "by day" not in few and "is landed" not in few


def test_many_days_are_told_by_month():
    """Two hours of each of 501 days from 20 November 2026 on: eleven are of that month."""
    many = [counted(24 * number + more, UnitState.COMPLETE) for number in range(501) for more in (0, 1)]
    lines = status_lines.grouped(many)
    assert status_lines.title("p", many, lines) == "p, by month (--json has the 1,002 hours)"
    cells = [status_lines.line(units, pipeline(tables={"click": "e.clicks"})) for units in lines]
    assert [cell[0] for cell in (cells[0], cells[1], cells[-1])] == ["2026-11", "2026-12", "2028-04"]
    assert len(cells) == 18 and cells[0][2] == "22 complete"
    assert sum(cell[3] for cell in cells) == sum(status.manifest.read for status in many)


def test_an_hour_names_the_tables_that_lack_it():
    """Of two landed ones the first is in one table, and the other in none."""
    spec = pipeline(tables={"click": "e.clicks", "view": "e.views"})
    half, none, whole = (
        status(0, UnitState.LANDED, tables=["e.clicks"]),
        status(1, UnitState.LANDED),
        status(2, UnitState.COMPLETE, tables=["e.clicks", "e.views"]),
    )
    waits = status(3, UnitState.MISSING)
    lacked = [status_lines.lacked_by([one], spec) for one in (half, none, whole, waits)]
    assert lacked == ["e.views", "e.clicks, e.views", "", ""]
    assert status_lines.lacked_by([half, none, whole, waits], spec) == "e.views (2), e.clicks (1)"
    assert command.as_json(spec, half)["lacked_by"] == ["e.views"]
    assert "lacked by" in text_of(*command.shown(spec, [half], "p", NOTHING))


def test_older_hours_that_are_not_complete_are_told(config, monkeypatch, capsys):
    lacks = (LackingTopic("wins", 1_200), LackingTopic("views", None))
    found = [replace(status(0, UnitState.COMPLETE, tables=["e.clicks"]), lacking=lacks)]
    older = Backlog({unit(-40): UnitState.MISSING, unit(-39): UnitState.EXPIRED})
    monkeypatch.setattr(command, "_survey", lambda *_: (found, "p"))
    monkeypatch.setattr(command, "read_behind", lambda *_: Behind(found, older))
    monkeypatch.setattr(command, "_departed", lambda _: (DepartedTable("e.old", 2, 1_200, 3),))
    commands(args=["status", *config], standalone_mode=False)
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "older: 2 slices from 2026-11-18T18Z to 2026-11-18T19Z are not complete (1 missing, 1 expired)"
        in said
    )
    left = "table e.old has 1,200 rows and 3 rejected rows of this pipeline and is no longer in the file"
    hour = f"--from {TEN:%Y-%m-%dT%H:%MZ} --to {TEN.add(hours=1):%Y-%m-%dT%H:%MZ}"
    brings = f"sluice run p --config {config[-1]} {hour} --mode reland"
    assert f"{left}: name it in the file again, or drop it" in said
    assert "1 slice lacks topic dc1/wins (1,200 offsets)" in said and f"`{brings}` brings it" in said
    plan = brings.replace("run", "plan").removesuffix(" --mode reland")
    assert f"lacks topic dc1/views (unknown offsets), from 2026-11-20T10Z to 2026-11-20T10Z: `{plan}`" in said
    commands(args=["status", *config, "--json"], standalone_mode=False)
    answer = json.loads(capsys.readouterr().out)
    assert answer["departed_tables"] == [{"name": "e.old", "units": 2, "rows": 1200, "rejected_rows": 3}]
    assert answer["units"][0]["lacking_topics"] == {"wins": 1200, "views": None}
    assert answer["older"] == {"missing": ["2026-11-18T18Z/dc1"], "expired": ["2026-11-18T19Z/dc1"]}


def test_the_lag_after_an_old_hour_was_repaired_is_that_of_the_newest(monkeypatch):
    """The old hour's age is no lag: the last complete slice ended at 15:00, and it is 16:10."""
    spec = pipeline(tables={"click": "e.clicks"})
    asked = []

    def survey(_: object, slices: SliceRange) -> list[UnitStatus]:
        asked.append(str(slices))
        return [status(4, UnitState.COMPLETE, tables=["e.clicks"]), status(5, UnitState.MISSING)]

    monkeypatch.setattr("sluice.state.survey.survey", survey)
    monkeypatch.setattr(command, "known_range", lambda *_, **__: SliceRange(TEN, TEN.add(hours=6)))
    monkeypatch.setattr(command, "_older", lambda _: Backlog())
    monkeypatch.setattr("sluice.state.departed_tables.gone_tables", lambda _: ())
    monkeypatch.setattr(pendulum, "now", lambda tz=None: TEN.add(hours=6, minutes=10))
    old = [status(0, UnitState.COMPLETE, tables=["e.clicks"])]
    assert text_of(*command.lag_lines(read_behind(spec, old))).strip() == "lag: 4,200 s"
    assert asked == [str(SliceRange(TEN, TEN.add(hours=6)))]
    newest = [status(5, UnitState.COMPLETE, tables=["e.clicks"])]
    assert read_behind(spec, newest).seconds == 600
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("end", "newest", "hours"),
    [
        ("now", 48, (52, 100)),
        ("now", None, (0, 100)),
        ("2026-11-21T10:00Z", 48, (0, 24)),
        ("2026-11-23T10:00Z", 48, (24, 72)),
        ("2026-11-21T10:30Z", None, (0, 25)),
        ("2027-01-01", 48, (52, 100)),
    ],
)
def test_without_a_start_the_newest_known_slices_before_the_end(monkeypatch, end, newest, hours):
    monkeypatch.setattr("sluice.state.boundaries.log.BoundaryLog.read", lambda _: Known())
    found = known_range(pipeline(lake="file:///lake"), None, end, newest=newest)
    assert found == SliceRange(*(TEN.add(hours=n) for n in hours))


def test_an_end_before_the_first_known_slice_is_told(monkeypatch):
    monkeypatch.setattr("sluice.state.boundaries.log.BoundaryLog.read", lambda _: Known())
    with pytest.raises(WrongUse, match="the range is empty"):
        known_range(pipeline(lake="file:///lake"), None, "2026-11-20T10:00Z")


GROUP = typer.main.get_command(commands)


class Known:
    def span(self):
        return TEN, TEN.add(hours=100)


def test_help_says_what_is_shown_without_a_range(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    for name, default in {"status": "the 48 newest slices", "doctor": "`lookback` ago"}.items():
        with pytest.raises(SystemExit):
            commands([name, "--help"])
        lines = capsys.readouterr().out.splitlines()
        line = next(line for line in lines if "--from" in line and "Default" in line)
        assert f"Default: {default}" in line


def test_help_fits_a_terminal_of_80_columns_with_each_command_in_one_line(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for words in (["--help"], *([name, "--help"] for name in GROUP.commands)):
        with pytest.raises(SystemExit):
            commands(words)
        text = capsys.readouterr().out
        assert max(map(len, text.splitlines())) <= 80
        assert not set(text) & set("│╭╰"), "boxes"
        if words == ["--help"]:
            listed = [line.split()[0] for line in text.partition("Commands:")[2].splitlines() if line]
            assert listed == list(GROUP.commands), "each has a line of its own"
            assert "..." not in text.partition("Commands:")[2]


def test_what_an_hour_rejects_that_has_not_landed_is_unknown():
    spec = pipeline(tables={"click": "e.clicks"})
    landed, absent = status(0, UnitState.COMPLETE, tables=["e.clicks"]), status(1, UnitState.MISSING)
    said = "rejected: unknown of 1 of 2 slices, which has not landed"
    assert said in text_of(*command.shown(spec, [landed, absent], "p", NOTHING))
    assert "rejected:" not in text_of(*command.shown(spec, [landed], "p", NOTHING))
    told = command.as_json(spec, absent)
    assert [told[key] for key in ("records", "rejected_records", "rejected_forgotten", "late")] == [None] * 4
    told = command.as_json(spec, landed)
    assert [told[key] for key in ("rejected_records", "rejected_forgotten", "late")] == [{}, {}, 0]


def test_the_last_line_says_what_needs_attention_in_the_words_of_the_page():
    spec = pipeline(tables={"click": "e.clicks"})
    whole, absent = status(0, UnitState.COMPLETE, tables=["e.clicks"]), status(1, UnitState.MISSING)

    def last(*found: UnitStatus, gone: tuple[GoneTable, ...] = ()) -> str:
        behind = replace(NOTHING, gone=gone)
        return text_of(*command.shown(spec, list(found), "p", behind)).splitlines()[-1]

    assert last(whole) == "nothing needs attention"
    assert last(whole, absent) == "needs attention: Not landed: 1 hour"
    missing = GoneTable("e.clicks", "e.clicks", "there is no such table", "create it")
    assert last(whole, gone=(missing,)) == "needs attention: e.clicks is missing in ClickHouse: 1 hour"


def test_an_hour_that_is_known_to_be_broken_is_not_complete(config, monkeypatch, capsys):
    found = [status(n, UnitState.COMPLETE, tables=["e.clicks"]) for n in (0, 1)]
    wrong = replace(found[0], broken=("wrong rows, table e.clicks",))
    spec = pipeline(tables={"click": "e.clicks"})
    lines = text_of(*command.shown(spec, [wrong, found[1]], "p", NOTHING)).splitlines()
    assert [line.count("broken: wrong rows, table e.clicks") for line in lines if "2026-11-20T1" in line][
        :2
    ] == [1, 0]
    told = [command.as_json(spec, one) for one in (wrong, found[1])]
    assert [(one["state"], one["broken"]) for one in told] == [("broken", [*wrong.broken]), ("complete", [])]
