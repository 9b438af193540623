"""Each repair that a command prints is pasted as it stands, and does what it says: rows that were right stay,
and what it is for is right afterwards. What is right comes from the events themselves."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pendulum
import pytest

from sluice import crash_points
from sluice.cli.commands import commands
from sluice.clients.kafka.topic_facts import PartitionFacts, TopicFacts
from sluice.clients.lake import layout
from sluice.crash_points import Erase, Forget
from sluice.errors import SluiceError
from sluice.flow import steps
from sluice.flow.choose_backlog import seen_backlog
from sluice.flow.land import submit
from sluice.flow.verify.verdict import read_verdict
from sluice.page.findings import Known, findings_of
from sluice.plan.dry_run import mask_lines
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.survey import survey_past
from sluice.watch.observe import retention
from sluice.watch.rules import older
from tests.faults.damage import Damaged
from tests.integration.landed import client_of
from tests.support.landing_world import START, World, event, hours
from tests.support.long_form import per_commit

pytestmark = pytest.mark.faults
Rows = Counter[tuple]


@pytest.fixture
def state(clickhouse_server, tmp_path, name, monkeypatch, capsys) -> Damaged:
    """Tables, and boundaries of four hours; nothing has landed."""
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    return Damaged(tmp_path, client_of(clickhouse_server), name, monkeypatch, capsys)


def events(state: Damaged) -> dict[str, Rows]:
    """What each table should hold, from the events: those that fit."""
    clicks, other = Rows(), Rows()
    for partition, offset, hour, text in records(state):
        record = json.loads(text)
        if record["type"] != "click":
            other[record["type"], text, hour] += 1
        elif record["n"].isdigit():
            clicks[int(record["n"]), partition, offset, hour] += 1
    return {"clicks": clicks, "other": other}


def records(state: Damaged) -> Iterator[tuple[int, int, int, str]]:
    """Partition, offset, hour and text of every record of Kafka that is JSON."""
    for partitions in state.world.logs.values():
        for partition, log in enumerate(partitions):
            for offset, (value, at) in enumerate(log):
                if value != b"{":
                    yield partition, offset, at // 3_600_000 * 3600, value.decode()


def held(state: Damaged) -> dict[str, Rows]:
    clicks = state.sql("SELECT n, _partition, _offset, toUnixTimestamp(_slice) FROM {db}.clicks")
    other = state.sql("SELECT _type, _payload, toUnixTimestamp(_slice) FROM {db}.other")
    return {"clicks": Rows(map(tuple, clicks)), "other": Rows(map(tuple, other))}


def inner(state: Damaged, view: str = "%") -> list[str]:
    """The tables that the views write to."""
    views = f"database = '{{db}}' AND engine = 'MaterializedView' AND name LIKE '{view}'"
    found = state.sql(f"SELECT concat('.inner_id.', toString(uuid)) FROM system.tables WHERE {views}")
    return [name for (name,) in found]


def parts(state: Damaged, tables: list[str]) -> list[tuple]:
    """The parts of tables: a row that is written, or deleted and written again, changes them."""
    where = f"active AND database = '{{db}}' AND has({tables}, table)"
    found = state.sql(f"SELECT table, name, modification_time FROM system.parts WHERE {where} ORDER BY ALL")
    return [*map(tuple, found)]


def commits(state: Damaged, table: str) -> list[tuple]:
    """The ledger's rows of one table, also earlier ones."""
    where = f"target = '{{db}}.{table}'"
    return [*map(tuple, state.sql(f"SELECT * FROM sluice.ledger WHERE {where} ORDER BY ALL"))]


@pytest.mark.long
@pytest.mark.parametrize(
    ("damage", "words", "whole", "named"),
    per_commit(
        [
            (["DELETE FROM {db}.clicks"], "", "other", " --table {db}.clicks"),
            (["DELETE FROM {db}.other"], "", "clicks", " --table {db}.other"),
            (["DELETE FROM {db}.clicks", "DELETE FROM {db}.other"], "", "", ""),
            (["DELETE FROM {db}.{sums}"], "", "other", " --table {db}.clicks"),
            (["ALTER TABLE {db}.other UPDATE _payload = ''"], " --contents", "clicks", " --table {db}.other"),
        ]
    ),
)
def test_a_repair_touches_the_tables_that_are_wrong(
    state: Damaged, monkeypatch, damage: list[str], words: str, whole: str, named: str
):
    state.make()
    right = events(state)
    assert held(state) == right
    second = int(START.add(hours=1).timestamp())
    (sums,) = inner(state, "sums")
    for statement in damage:
        statement = statement.replace("{sums}", f"`{sums}`")
        state.sql(f"{statement} WHERE toUnixTimestamp(_slice) = {second} SETTINGS mutations_sync = 2")
    code, said = state.command(f"sluice verify ads --config {state.config}{words}")
    (repair,) = [line.removeprefix("repair: ") for line in said.splitlines() if line.startswith("repair: ")]
    edges = f"--from {START.add(hours=1):%FT%RZ} --to {START.add(hours=2):%FT%RZ}"
    run = f"sluice run ads --config {state.config} {edges} --mode repair"
    assert (code, repair) == (1, run + named.replace("{db}", state.database))

    told: list[dict] = []
    publish = steps.publish
    monkeypatch.setattr(steps, "publish", lambda *given: told.extend(publish(*given)) or told)
    tables = {"clicks": ["clicks", *inner(state)], "other": ["other"], "": []}[whole]
    before, ledger = parts(state, tables), commits(state, whole)
    assert state.command(repair)[0] == 0
    assert (parts(state, tables), commits(state, whole)) == (before, ledger)
    assert bool(before) == bool(ledger) == bool(whole)
    assert held(state) == right
    slice_id = state.slice_id(1)
    published = sorted((one["table"].split(".")[1], one["slice"]) for one in told)
    assert published == [("clicks", slice_id), ("other", slice_id)]
    verdict = json.loads((state.root / "_verify" / "latest.json").read_text())
    assert verdict["anomalies"] == []
    newest = verdict["verifications"][-1]
    assert (newest["start"][:16], newest["found"]) == (f"{START.add(hours=1):%FT%R}", 0)
    assert state.verify() == state.verify("--contents") == []


# ---- Every other place that prints a repair. What `verify` prints for damage is pasted by all damage tests
# (repairs_tried.py); the CREATE TABLE of `doctor --ddl` is executed by integration/init/test_doctor.py. Left
# out: what waits for a server or a cluster, which no command brings back, and `reload` where it is printed to
# take rows out.


def edges(first: int, last: int) -> str:
    return f"--from {START.add(hours=first):%FT%RZ} --to {START.add(hours=last + 1):%FT%RZ}"


def of_hour(hour: int, column: str = "_slice") -> str:
    return f"toUnixTimestamp({column}) = {int(START.add(hours=hour).timestamp())}"


def whole(state: Damaged) -> None:
    state.make()


def unloaded(state: Damaged) -> None:
    """A load of one table was stopped behind its revocation: the rows are there, and no commit of them."""
    state.make()
    where = f"target = '{{db}}.clicks' AND {of_hour(1, 'slice')}"
    state.sql(f"DELETE FROM sluice.ledger WHERE {where}")


def unlanded(state: Damaged) -> None:
    """The last hour has boundaries, and has not landed."""
    state.make_tables()
    state.configure()
    state.world.resolve(state.pipeline, state.lake, hours(4))
    assert state.command(f"sluice run ads --config {state.config} {edges(0, 2)}")[0] == 0


def without_a_row(state: Damaged) -> None:
    state.make()
    state.sql(f"DELETE FROM {{db}}.clicks WHERE {of_hour(2)} AND _partition = 1 AND _offset = 11")


def with_a_row_twice(state: Damaged) -> None:
    state.make()
    state.sql(
        f"INSERT INTO {{db}}.clicks SELECT * FROM {{db}}.clicks WHERE {of_hour(2)} AND _partition = 1 "
        "AND _offset = 11"
    )


def file_of(state: Damaged, hour: int):
    (found,) = state.root.glob(f"type=click/**/{state.slice_id(hour)}-*.parquet")
    return found


def with_a_broken_file(state: Damaged) -> None:
    state.make()
    file_of(state, 2).write_bytes(b"PAR1 and no more")


def unloaded_without_a_file(state: Damaged) -> None:
    unloaded(state)
    file_of(state, 1).unlink()


def unmoved_without_a_file(state: Damaged) -> None:
    """The landing was killed before it had moved its files, and one is gone."""
    state.make()
    (state.root / layout.slice_success(state.slice_id(1), "dc1")).unlink()
    file_of(state, 1).unlink()


def with_a_new_topic(state: Damaged, *at: int) -> None:
    """The pipeline file names a second topic, which has records of old hours in Kafka."""
    log = [event("click", 60 * hour + 5, n=str(100 + hour)) for hour in at]
    logs = {**state.world.logs, ("dc1", "extra"): [log]}
    state.make()
    state.world = World(logs, plain=True)
    topics = [{"cluster": "dc1", "bootstrap": "nowhere:1", "topics": ["bids", "extra"]}]
    state.configure(kafka=topics)
    state.world.resolve(state.pipeline, state.lake, hours(4))


def forgotten(state: Damaged) -> None:
    """The lake has forgotten its files, and rows of a table are gone."""
    state.make()
    state.configure(keep={"lake": "30d"})
    assert state.command(f"sluice forget ads --config {state.config} --yes")[0] == 0
    assert not list(state.root.glob("type=*/**/*.parquet"))
    state.sql(f"DELETE FROM {{db}}.clicks WHERE {of_hour(2)}")


def rejected_rows_fit(state: Damaged) -> None:
    """A column has a wider type since: what did not fit does."""
    state.make_tables()
    for view in ("sums", "large", "thirds", "means"):
        state.sql(f"DROP VIEW {{db}}.{view} SYNC")
    state.configure()
    state.world.resolve(state.pipeline, state.lake, hours(4))
    assert state.command(f"sluice run ads --config {state.config} {edges(0, 3)}")[0] == 0
    state.sql("ALTER TABLE {db}.clicks MODIFY COLUMN n String")


CHANGED: dict = {"event": {"type": {"field": "kind"}, "time": {"field": "when"}}}


def changed(state: Damaged) -> None:
    """The pipeline file reads other fields than the hours have, and rejects rows without them."""
    clicks = {"table": f"{state.database}.clicks", "columns": {"n": "number"}, "missing": {"n": "reject"}}
    state.configure(**CHANGED, tables={"click": clicks, "*": f"{state.database}.other"})


def without_a_file_and_changed(state: Damaged) -> None:
    state.make()
    file_of(state, 2).unlink()
    changed(state)


def forgotten_and_changed(state: Damaged) -> None:
    forgotten(state)
    changed(state)


def masked_since(state: Damaged) -> None:
    """The pipeline file has a mask since, of a field that no event has."""
    state.make()
    state.configure(mask={"email": "drop"})


def with_a_later_column(state: Damaged) -> None:
    """A table has a column since whose field all events have."""
    state.make()
    state.sql("ALTER TABLE {db}.clicks ADD COLUMN at String")


def with_a_wrong_later_column(state: Damaged) -> None:
    """A table has a column since; a row has another value there than its DEFAULT, and one is lost."""
    without_a_row(state)
    state.sql("ALTER TABLE {db}.clicks ADD COLUMN note UInt8 DEFAULT 7")
    other = f"ALTER TABLE {{db}}.clicks UPDATE note = 9 WHERE {of_hour(2)} AND n = 12"
    state.sql(f"{other} SETTINGS mutations_sync = 2")


def with_a_renamed_column(state: Damaged) -> None:
    """The pipeline file names its field by now. A row is lost."""
    state.make_tables()
    state.sql("ALTER TABLE {db}.clicks ADD COLUMN at String")
    state.configure()
    state.world.resolve(state.pipeline, state.lake, hours(4))
    assert state.command(f"sluice run ads --config {state.config} {edges(0, 3)}")[0] == 0
    state.sql("ALTER TABLE {db}.clicks RENAME COLUMN at TO moment")
    state.sql(f"DELETE FROM {{db}}.clicks WHERE {of_hour(2)} AND _partition = 1 AND _offset = 11")
    clicks = {"table": f"{state.database}.clicks", "columns": {"moment": "at"}}
    state.configure(tables={"click": clicks, "*": f"{state.database}.other"})


def with_a_column_that_a_load_added(state: Damaged) -> None:
    """Only the last hour was loaded since: all events have its field."""
    state.make()
    clicks = {"table": f"{state.database}.clicks", "evolve": "add", "evolve_rows": 1}
    state.configure(tables={"click": clicks, "*": f"{state.database}.other"})
    assert state.command(f"sluice run ads --config {state.config} {edges(3, 3)} --mode reload")[0] == 0


def retried_without_a_file(state: Damaged) -> None:
    """All records came in by another pipeline file than they landed by, and a file of them is gone."""
    state.make_tables()
    state.configure(event={"type": {"field": "kind"}, "time": {"field": "at"}})
    state.world.resolve(state.pipeline, state.lake, hours(4))
    assert state.command(f"sluice run ads --config {state.config} {edges(0, 3)}")[0] == 0
    state.configure()
    assert state.command(f"sluice rejected ads --config {state.config} --retry --yes")[0] == 0
    file_of(state, 2).unlink()


def resolved(state: Damaged) -> None:
    state.make_tables()
    state.configure()
    state.world.resolve(state.pipeline, state.lake, hours(4))


def of_page(state: Damaged) -> str:
    """What the page shows of the newest verdict: its command, and what its button starts."""
    state.command(f"sluice verify ads --config {state.config}")
    known = Known(state.pipeline, pendulum.now("UTC"), anomalies=read_verdict(state.lake).anomalies)
    (found,) = findings_of(known)
    (repair,) = found.repairs
    words = " ".join(f"--table {table}" for table in repair.tables)
    run = f"sluice run ads --config {state.config} --from {repair.start} --to {repair.end}"
    assert repair.command == f"{run} --mode {repair.mode} {words}".rstrip()
    return f"`{repair.command}`"


def of_watch(state: Damaged) -> str:
    backlog = seen_backlog(state.pipeline, state.lake, START.add(hours=4))
    (problem,) = older(state.pipeline, backlog)
    return problem.message


def of_retention(state: Damaged) -> str:
    """What the watch says of an hour that Kafka deletes soon, and that has not landed."""
    now = START.add(hours=5)
    partition = PartitionFacts(0, 100)
    kept = {"retention.ms": str(3 * 3_600_000)}
    facts = TopicFacts("dc1", "bids", 1, 0, None, kept, dict.fromkeys(range(3), partition))
    statuses = survey_past(state.pipeline, hours(4))
    (problem,) = retention(state.pipeline, statuses, {("dc1", "bids"): facts}, {}, now)
    return problem.message


def of_plan(state: Damaged) -> str:
    """What `plan` says of the mask; it asks Kafka for the rest."""
    (_, said) = mask_lines(state.pipeline, survey_past(state.pipeline, hours(4)))
    return said


class Stopped(BaseException):
    """A process that is killed."""


def stopped(state: Damaged, point: object, line: str) -> None:
    """Types a command, and kills it at a point."""

    def stop(reached: object) -> None:
        if reached is point:
            raise Stopped

    with state.patch.context() as patch:
        patch.setattr(crash_points, "reached", stop)
        with pytest.raises(Stopped):
            typed(state, line)


def unerased(state: Damaged) -> None:
    """An erasure was stopped behind its entry: what it names is on the list, and in the lake."""
    state.make()
    words = "--where n=12 --reason 'ticket 7' --yes"
    stopped(state, Erase.ASKED, f"sluice erase ads --config {state.config} {words}")


def half_forgotten(state: Damaged) -> None:
    """A `forget` was stopped before it had deleted the files that it had noted."""
    state.make()
    state.configure(keep={"lake": "30d"})
    stopped(state, Forget.NOTED, f"sluice forget ads --config {state.config} --yes")
    state.configure()


@dataclass(frozen=True)
class Printed:
    """`prepare` makes the state; `by` are the words of the command that prints, or what prints instead of
    one; `repair` are the words of what is printed. `rejected_rows`: what did not fit comes in. `erased`: the
    clicks of this number go. `filled`: the column has every value. `next`: what `verify` still prints after
    the repair."""

    prepare: Callable[[Damaged], None]
    by: str | Callable[[Damaged], str]
    repair: str
    rejected_rows: bool = False
    erased: int | None = None
    filled: str = ""
    next: str = ""


RECORD = "bids:1:11"
"""The second click of the third hour, in partition 1."""
EACH_COMMIT = 1
PRINTED = {
    "page": Printed(without_a_row, of_page, f"run {{ads}} {edges(2, 2)} --mode repair --table {{db}}.clicks"),
    "run, a file is gone before its move": Printed(
        unmoved_without_a_file,
        f"run {{ads}} {edges(0, 3)} --mode reload",
        f"run {{ads}} {edges(1, 1)} --mode reland",
    ),
    "run, forgotten": Printed(
        forgotten,
        f"run {{ads}} {edges(0, 3)} --mode reload",
        f"run {{ads}} {edges(0, 3)} --mode reland",
    ),
    "verify, the file reads other fields": Printed(
        without_a_file_and_changed,
        f"verify {{ads}} {edges(0, 3)}",
        f"run {{ads}} {edges(2, 2)} --mode reland",
    ),
    "verify, forgotten, and the file reads other fields": Printed(
        forgotten_and_changed,
        f"verify {{ads}} {edges(0, 3)}",
        f"run {{ads}} {edges(2, 2)} --mode reland",
    ),
    "rejected": Printed(
        rejected_rows_fit,
        f"rejected {{ads}} {edges(0, 3)}",
        f"rejected {{ads}} {edges(0, 3)} --table {{db}}.clicks --column n "
        "--reason 'does not fit UInt16' --retry",
        rejected_rows=True,
    ),
    "verify, not erased": Printed(
        unerased, f"verify {{ads}} {edges(0, 3)}", "erase {ads} --pending", erased=12
    ),
    "plan, a mask": Printed(masked_since, of_plan, f"run {{ads}} {edges(0, 3)} --mode remake"),
    "find, absent": Printed(without_a_row, f"find {{ads}} {RECORD}", f"verify {{ads}} {edges(2, 2)}"),
    "status, lacking": Printed(
        lambda state: with_a_new_topic(state, 0, 1, 2, 3),
        f"status {{ads}} {edges(0, 3)}",
        f"run {{ads}} {edges(0, 3)} --mode reland",
    ),
    "find, not loaded": Printed(unloaded, "find {ads} bids:0:5", f"run {{ads}} {edges(1, 1)}"),
    "find, not landed": Printed(unlanded, "find {ads} bids:0:15", f"run {{ads}} {edges(3, 3)}"),
    "find, twice": Printed(with_a_row_twice, f"find {{ads}} {RECORD}", f"verify {{ads}} {edges(2, 2)}"),
    "find, unreadable": Printed(
        with_a_broken_file, f"find {{ads}} {RECORD}", f"verify {{ads}} {edges(2, 2)}"
    ),
    "find, lacking": Printed(
        lambda state: with_a_new_topic(state, 1),
        "find {ads} extra:0:0",
        f"run {{ads}} {edges(1, 1)} --mode reland",
    ),
    "run, a file is gone": Printed(
        unloaded_without_a_file,
        f"run {{ads}} {edges(0, 3)}",
        f"run {{ads}} {edges(1, 1)} --mode reland",
    ),
    "run, one table": Printed(
        resolved,
        f"run {{ads}} {edges(0, 3)} --table click",
        f"run {{ads}} {edges(0, 3)} --mode fill",
    ),
    "verify, a later column": Printed(
        with_a_later_column,
        f"verify {{ads}} {edges(0, 3)} --contents",
        f"run {{ads}} {edges(0, 3)} --mode reload",
    ),
    "verify, a later column has another value": Printed(
        with_a_wrong_later_column,
        f"verify {{ads}} {edges(0, 3)} --contents",
        f"run {{ads}} {edges(2, 2)} --mode repair --table {{db}}.clicks",
        filled="nullIf(note, 9)",
    ),
    "verify, a renamed column": Printed(
        with_a_renamed_column,
        f"verify {{ads}} {edges(0, 3)} --contents",
        f"run {{ads}} {edges(0, 3)} --mode reload --table {{db}}.clicks",
        filled="nullIf(moment, '')",
    ),
    "erase, half forgotten": Printed(
        half_forgotten,
        "erase {ads} --where n=4711 --reason x --yes",
        "forget {ads} --yes",
        next=f"run {{ads}} {edges(0, 3)} --mode reland",
    ),
    "verify, a column that a load added": Printed(
        with_a_column_that_a_load_added,
        f"verify {{ads}} {edges(0, 3)} --contents",
        f"run {{ads}} {edges(0, 2)} --backfill",
        filled="at",
    ),
    "verify, after a retry": Printed(
        retried_without_a_file,
        f"verify {{ads}} {edges(0, 3)}",
        f"run {{ads}} {edges(2, 2)} --mode reland --yes",
    ),
    "watch, retention": Printed(unlanded, of_retention, f"run {{ads}} {edges(3, 3)}"),
    "watch": Printed(unlanded, of_watch, f"run {{ads}} {edges(3, 3)}"),
}


def typed(state: Damaged, line: str) -> tuple[int, str]:
    """The exit code, and all that a command prints."""
    state.patch.setattr(submit, "run_locally", state._land)
    program, *words = shlex.split(line)
    assert program == "sluice"
    state.capture.readouterr()
    try:
        code, error = commands(words, standalone_mode=False) or 0, ""
    except SluiceError as raised:
        code, error = raised.exit_code, str(raised)
    out, err = state.capture.readouterr()
    return code, f"{out}\n{err}\n{error}"


def printed(text: str) -> list[str]:
    """The commands in what was printed, each once."""
    lines = re.findall(r"(?:^|: )(?:repair|then): (sluice .+)$", text, re.MULTILINE)
    return [*dict.fromkeys([*re.findall(r"`(sluice [^`]+)`", text), *lines])]


def paste(state: Damaged, command: str) -> None:
    """Types a printed command; of a `verify` also the repairs that it prints. Where it asks a person, it is
    told yes."""
    asks = command.startswith("sluice rejected ")
    code, text = typed(state, command + (" --yes" if asks else ""))
    if not command.startswith("sluice verify "):
        assert code == 0, text
        return
    repairs = re.findall(r"^repair: (sluice .+)$", text, re.MULTILINE)
    assert (code, bool(repairs)) == (1, True), text
    for repair in repairs:
        paste(state, repair)


@pytest.mark.parametrize("case", per_commit(PRINTED.values(), EACH_COMMIT), ids=PRINTED)
def test_a_printed_repair_works_as_it_stands(state: Damaged, case: Printed):
    case.prepare(state)
    right = events(state)
    if case.rejected_rows:
        every = ((json.loads(text), *place) for *place, text in records(state))
        right["clicks"] = Rows((one["n"], *place) for one, *place in every if one["type"] == "click")
    right["clicks"] = Rows({row: n for row, n in right["clicks"].items() if row[0] != case.erased})
    before = held(state)
    config = f"--config {state.config}"
    filled = {"{ads}": f"ads {config}", "{db}": state.database}

    def said(text: str) -> str:
        return re.sub(r"{\w+}", lambda found: filled[found[0]], text)

    text = case.by(state) if callable(case.by) else typed(state, f"sluice {said(case.by)}")[1]
    repair = f"sluice {said(case.repair)}"
    assert repair in printed(text), text
    paste(state, repair)
    for then in dict.fromkeys(re.findall(r"; then `(sluice rejected [^`]+)`", text)):
        paste(state, then)
    if "then the same words again" in text:
        typed(state, f"sluice {said(case.by)}")
    after = held(state)
    for table, rows in right.items():
        assert not (before[table] & rows) - after[table], "a right row is gone"
        assert after[table] == rows
    if case.filled:
        assert state.sql(f"SELECT countIf(isNull({case.filled})) FROM {{db}}.clicks") == [(0,)]
    code, text = typed(state, f"sluice verify ads {config} --contents")
    if case.next:
        assert (code, f"sluice {said(case.next)}" in printed(text)) == (1, True), text
        paste(state, f"sluice {said(case.next)}")
        code, text = typed(state, f"sluice verify ads {config} --contents")
    assert code == 0, text


@pytest.mark.long
def test_no_repair_is_printed_that_a_renamed_column_would_refuse(state: Damaged):
    """Also where only rows are counted. As long as the file does not name the field, a person has to."""
    with_a_renamed_column(state)
    config, named = f"--config {state.config}", f"--table {state.database}.clicks"
    reload = f"sluice run ads {config} {edges(2, 2)} --mode reload {named}"
    code, text = typed(state, f"sluice verify ads {config} {edges(0, 3)}")
    assert (code, "--mode repair" in text) == (1, False)
    assert f"repair: {reload}\n" in text
    state.configure()
    code, text = typed(state, f"sluice verify ads {config} {edges(0, 3)}")
    assert (code, "repair: " in text) == (1, False)
    assert f"was it renamed? Rename it back, or name its field under `columns`; then `{reload}`" in text


def copy_to(state: Damaged, hour: int) -> None:
    """Copies a row of each table to an hour that has none."""
    at = int(START.add(hours=hour).timestamp())
    for table in ("clicks", "other"):
        copy = f"SELECT * REPLACE (toDateTime({at}, 'UTC') AS _slice) FROM {{db}}.{table} LIMIT 1"
        state.sql(f"INSERT INTO {{db}}.{table} {copy}")


@pytest.mark.long
def test_rows_of_an_hour_that_has_not_landed_go_when_it_lands(state: Damaged):
    """A DELETE that is printed now, and pasted then, would take rows that were loaded."""
    state.make()
    right, config = events(state), f"--config {state.config}"
    copy_to(state, 5)
    code, text = typed(state, f"sluice verify ads {config}")
    assert (code, printed(text), "DELETE" in text) == (1, [], False), text
    assert "the slice has not landed: its load takes them away" in text
    state.world.resolve(state.pipeline, state.lake, hours(3, 4))  # Kafka is in this process
    code, text = typed(state, f"sluice run ads {config} {edges(4, 6)} --mode fill")
    assert code == 0, text
    assert held(state) == right
    code, text = typed(state, f"sluice verify ads {config}")
    assert code == 0, text


@pytest.mark.long
def test_rows_before_the_first_hour_go_by_the_statement_that_is_printed(state: Damaged):
    """A run over their hour would make it the pipeline's first: all between would be missing."""
    state.make()
    right = events(state)
    copy_to(state, -72)
    verify = f"sluice verify ads --config {state.config}"
    for _ in range(2):  # what the views made of the click is told of once the click is gone
        code, text = typed(state, verify)
        statements = re.findall(r"if they are not needed: (DELETE FROM .+)", text)
        assert (code, printed(text), bool(statements)) == (1, [], True), text
        for statement in statements:
            state.sql(statement)
    assert held(state) == right
    assert BoundaryLog(state.lake).read().span() == (START, START.add(hours=4))
    code, text = typed(state, verify)
    assert code == 0, text
