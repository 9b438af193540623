"""Each damage is done for real, to a real broker, server and lake; then who notices it is asked, in this
order: the watch, the command with more options, and all of them whether they say it in the same words.

The table of docs/guide/metrics.md#damage says the same; DAMAGE has its lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pendulum
import pytest

from local.versions import ROOT
from sluice.cli.commands import commands
from sluice.clients.lake import layout
from sluice.clients.lake.open import open_lake
from sluice.config.airflow import Channel
from sluice.errors import Conservation, SluiceError
from sluice.flow.verify.causes import causes_of
from sluice.flow.verify.verdict import read_verdict
from sluice.page.findings import Known, findings_of
from sluice.watch.expected import RowHistory, SliceRows, keep
from sluice.watch.problems import AlarmStore
from sluice.watch.watch import watch
from tests.faults.topic_story import Story
from tests.faults.topics import CLUSTER, START, Topic, hour, hours
from tests.support.channels import webhook
from tests.support.long_form import per_commit

pytestmark = pytest.mark.faults

LAST = 5
"""The newest hour that is over."""
ROWS, PARTITIONS = 60, 2
UNFIT = 1
"""Rows of each hour that do not fit the table."""
WATCH, VERIFY, CHECKSUMS, CONTENTS, NOBODY = "watch", "", "--checksums", "--contents", "nobody"
PAGE = ROOT / "docs" / "guide" / "metrics.md"


@dataclass(frozen=True)
class Damage:
    """`noticed` first by the watch, or by `sluice verify` with this option. `problem` is the notice's kind,
    `anomaly` verify's, empty where it does not ask what is damaged; `says` is in the notice. `prepare` is
    done before the first run; where damage is done to the newest hour, that hour is `open` until then."""

    name: str
    do: Callable[[Story], None]
    noticed: str
    problem: str = "anomaly"
    anomaly: str = ""
    says: str = ""
    prepare: Callable[[Story], None] = lambda _: None
    open: bool = False


def send(story: Story, at: int, rows: int = ROWS, partitions: int = PARTITIONS, **renamed: str) -> None:
    """Events of one hour, from its beginning on; `n` may have another name."""
    for number in range(rows + UNFIT):
        when = START.add(hours=at, seconds=number)
        value = number + 1 if number < rows else "unfit"
        event = {"type": "click", "at": when.isoformat(), renamed.get("n", "n"): value}
        story.topic.producer.produce(
            story.topic.name,
            json.dumps(event),
            partition=number % partitions,
            timestamp=int(when.timestamp() * 1000),
        )
    assert story.topic.producer.flush(30) == 0


# Damage of the lake.


def file_of(story: Story, number: int) -> Path:
    return min((story.folder / "lake").glob(f"*/type=*/**/{hour(number).id}-*.parquet"))


def manifest_of(story: Story) -> Path:
    return story.folder / "lake" / story.pipeline.name / layout.manifest(hour(2).id, CLUSTER)


def delete_file(story: Story) -> None:
    file_of(story, 2).unlink()


def truncate_file(story: Story) -> None:
    data = file_of(story, 2).read_bytes()
    file_of(story, 2).write_bytes(data[: len(data) // 2])


def replace_file(story: Story) -> None:
    file_of(story, 2).write_bytes(file_of(story, 3).read_bytes() + b"x")


def change_byte(story: Story) -> None:
    data = bytearray(file_of(story, 2).read_bytes())
    data[len(data) // 2] ^= 1
    file_of(story, 2).write_bytes(data)


def add_file(story: Story) -> None:
    file = file_of(story, 2)
    file.with_name(file.name.replace(".parquet", "9.parquet")).write_bytes(file.read_bytes())


def delete_manifest(story: Story) -> None:
    manifest_of(story).unlink()


def break_manifest(story: Story) -> None:
    manifest_of(story).write_text("{")


def edit_manifest(story: Story) -> None:
    manifest = json.loads(manifest_of(story).read_text())
    manifest_of(story).write_text(json.dumps({**manifest, "read": manifest["read"] + 1}))


# Damage of ClickHouse.


def sql(story: Story, text: str) -> None:
    text = text.replace("{t}", f"{story.topic.name}.events").replace("{db}", story.topic.name)
    story.client.command(text.replace("{at}", str(int(hour(2).start.timestamp()))))


def delete_rows(story: Story) -> None:
    sql(story, "DELETE FROM {t} WHERE toUnixTimestamp(_slice) = {at} AND n <= 7")


def insert_again(story: Story) -> None:
    sql(story, "INSERT INTO {t} SELECT * FROM {t} WHERE toUnixTimestamp(_slice) = {at} AND n <= 50")


def swap_rows(story: Story) -> None:
    delete_rows(story)
    sql(
        story,
        "INSERT INTO {t} SELECT * FROM {t} WHERE toUnixTimestamp(_slice) = {at} AND n BETWEEN 11 AND 17",
    )


def update_values(story: Story) -> None:
    sql(
        story,
        "ALTER TABLE {t} UPDATE n = n + 1000 WHERE toUnixTimestamp(_slice) = {at} AND n <= 7 "
        "SETTINGS mutations_sync = 2",
    )


def drop_column(story: Story) -> None:
    sql(story, "ALTER TABLE {t} DROP COLUMN n")


def drop_partition(story: Story) -> None:
    sql(story, "ALTER TABLE {t} DROP PARTITION tuple()")


def drop_table(story: Story) -> None:
    sql(story, "DROP TABLE {t} SYNC")


def drop_readers_view(story: Story) -> None:
    sql(story, "DROP VIEW sluice.`{t}` SYNC")


def add_topic(story: Story) -> None:
    """With it a table tells one record from another."""
    sql(story, "ALTER TABLE {t} ADD COLUMN _topic LowCardinality(String)")


def make_view(story: Story) -> None:
    sql(story, "CREATE TABLE {db}.larger AS {t}")
    sql(story, "CREATE MATERIALIZED VIEW {db}.large TO {db}.larger AS SELECT * FROM {t} WHERE n >= 10")


def drop_view(story: Story) -> None:
    sql(story, "DROP VIEW {db}.large SYNC")


def delete_rows_of_view(story: Story) -> None:
    sql(story, "DELETE FROM {db}.larger WHERE toUnixTimestamp(_slice) = {at} AND n <= 17")


def delete_ledger_row(story: Story) -> None:
    sql(story, "DELETE FROM sluice.ledger WHERE target = '{t}' AND toUnixTimestamp(slice) = {at}")


def delete_rejected(story: Story) -> None:
    sql(story, "DELETE FROM sluice.rejected WHERE target = '{t}' AND toUnixTimestamp(slice) = {at}")


# What happens around them.


def recreate_topic(story: Story) -> None:
    story.topic.make_again(PARTITIONS)


def take_cluster_away(story: Story) -> None:
    story.write(bootstrap="127.0.0.1:1", **SETTINGS)


def take_clickhouse_away(story: Story) -> None:
    story.patch.setenv("AIRFLOW_CONN_STORY", "clickhouse://127.0.0.1:1")


def take_registry_away(story: Story) -> None:
    """A schema registry that does not answer stops the hour's landing."""
    story.patch.setenv("AIRFLOW_CONN_REGISTRY", "http://127.0.0.1:1")
    event = {"format": "avro", "registry": {"connection": "registry"}}
    story.write(**{**SETTINGS, "event": {**event, "type": {"field": "type"}, "time": {"field": "at"}}})
    stamp = int(hour(LAST).start.timestamp() * 1000)
    story.topic.producer.produce(story.topic.name, b"\0\0\0\0\1x", partition=0, timestamp=stamp)
    assert story.topic.producer.flush(30) == 0
    with suppress(SluiceError):
        story.run(LAST, LAST)


def fill_disk(story: Story) -> None:
    """A disk that is full to the bound: the bound is moved to what is free."""
    story.write(**{**SETTINGS, "alarms": {**SETTINGS["alarms"], "disk_free": 0.9999}})


def edit_file(story: Story) -> None:
    """A route is moved to another table in the pipeline file."""
    sql(story, "CREATE TABLE {db}.moved AS {t}")
    story.write(**SETTINGS, tables={"click": f"{story.topic.name}.moved", "*": f"{story.topic.name}.events"})


def stop_partition(story: Story) -> None:
    send(story, LAST, partitions=1)
    with suppress(Conservation):
        story.run(LAST, LAST)


def rename_field(story: Story) -> None:
    send(story, LAST, n="number")
    story.run(LAST, LAST)


def halve_traffic(story: Story) -> None:
    """The six weeks before had 700 rows in each hour; the newest hour has 350."""
    pieces = [hour(-number) for number in range(1, 42 * 24)]
    usual = {piece: SliceRows(700, {"click": 700}) for piece in pieces}
    keep(open_lake(story.pipeline), RowHistory(usual, {piece.id: rows for piece, rows in usual.items()}))
    send(story, LAST, 350 - UNFIT)
    story.run(LAST, LAST)


def run_no_hour(story: Story) -> None:
    send(story, LAST)


def turn_clock_back(story: Story) -> None:
    """A producer whose clock is an hour slow: what it sends now has the time of an hour that has landed."""
    send(story, LAST - 1, 5)
    send(story, LAST)
    story.run(LAST, LAST)


SETTINGS: dict[str, Any] = {
    "settle": "0s",
    "lookback": "6h",
    "start": START.isoformat(),
    "stalled_after": 1,
    "alarms": {"overdue": "1s", "disk_free": 0, "rejected": "none", "notify": [webhook("ops")]},
}
DAMAGE = [
    Damage(
        "rows twice, by a second writer", insert_again, WATCH, anomaly="duplicate rows", prepare=add_topic
    ),
    Damage("file deleted", delete_file, WATCH, anomaly="file missing"),
    Damage("rows deleted", delete_rows, WATCH, anomaly="rows missing"),
    Damage("file truncated", truncate_file, WATCH, anomaly="file size"),
    Damage("file replaced", replace_file, WATCH, anomaly="file size"),
    Damage("byte changed", change_byte, CHECKSUMS, anomaly="file checksum"),
    Damage("file that nobody lists", add_file, WATCH, anomaly="unknown file"),
    Damage("manifest gone", delete_manifest, WATCH, anomaly="unknown file"),
    Damage("manifest unreadable", break_manifest, WATCH, anomaly="unreadable manifest"),
    Damage("manifest edited", edit_manifest, WATCH, anomaly="records read"),
    Damage("as many rows twice as are gone", swap_rows, VERIFY, anomaly="duplicate rows", prepare=add_topic),
    Damage("value updated", update_values, CONTENTS, anomaly="values differ"),
    Damage("column dropped", drop_column, CONTENTS, anomaly="values differ"),
    Damage("partition dropped", drop_partition, WATCH, anomaly="rows missing"),
    Damage("table dropped", drop_table, WATCH, "table missing", "table missing"),
    Damage("readers' view dropped", drop_readers_view, WATCH, anomaly="readers' view"),
    Damage("materialized view dropped", drop_view, WATCH, anomaly="view missing", prepare=make_view),
    Damage("rows of a view deleted", delete_rows_of_view, VERIFY, anomaly="view", prepare=make_view),
    Damage("ledger row gone", delete_ledger_row, WATCH, anomaly="uncovered rows"),
    Damage("rejected rows deleted", delete_rejected, WATCH, anomaly="rejected_rows"),
    Damage("topic recreated", recreate_topic, WATCH, "unavailable", says="sluice accept"),
    Damage(
        "partition stalled", stop_partition, WATCH, "partition stands still", "stalled partition", open=True
    ),
    Damage("cluster away", take_cluster_away, WATCH, "unavailable", says="127.0.0.1:1"),
    Damage("ClickHouse away", take_clickhouse_away, WATCH, "unavailable", says="127.0.0.1:1"),
    Damage("schema registry away", take_registry_away, WATCH, "hour overdue", "incomplete", open=True),
    Damage("disk full", fill_disk, WATCH, "disk"),
    Damage("pipeline file edited", edit_file, WATCH, "hour not committed", "incomplete"),
    Damage(
        "field renamed", rename_field, WATCH, "schema changed", says="column n from 0 % to 100 %", open=True
    ),
    Damage("traffic halved", halve_traffic, WATCH, "too few events", says="brought 350 rows, 50%", open=True),
    Damage("hour never run", run_no_hour, WATCH, "hour overdue", "incomplete", open=True),
    Damage("producer's clock slow", turn_clock_back, NOBODY, open=True),
]


class Noticed:
    """A story, and who says what of it."""

    def __init__(self, story: Story, capture: pytest.CaptureFixture[str]) -> None:
        self.story, self._capture = story, capture
        self.sent: list[str] = []

    def notice(self, over: int = LAST + 1) -> set[str]:
        """One run of the watch after `over` hours: the kinds of the problems that it notified of just now."""
        self.sent.clear()
        now = START.add(hours=over, seconds=30)
        watch(self.story.pipeline, open_lake(self.story.pipeline), now, self._send)
        return {kind for text in self.sent for kind in re.findall(r"^PROBLEM ([a-z ]+):", text, re.MULTILINE)}

    def _send(self, channel: Channel, subject: str, text: str) -> None:
        self.sent.append(text)

    def command(self, *words: str) -> str:
        """What the command prints about all hours."""
        self._capture.readouterr()
        span, name = hours(0, LAST), self.story.path.stem
        edges = ["--from", span.start.isoformat(), "--to", span.end.isoformat()]
        commands(
            [words[0], name, "--config", str(self.story.path), *edges, *words[1:]], standalone_mode=False
        )
        return self._capture.readouterr().out

    def verify(self, *options: str) -> set[str]:
        """The kinds of the anomalies of `sluice verify` over all hours."""
        return {one["kind"] for one in json.loads(self.command("verify", "--json", *options))["anomalies"]}

    def page(self) -> set[str]:
        """The names that the page's findings have."""
        lake = open_lake(self.story.pipeline)
        known = Known(
            pipeline=self.story.pipeline,
            now=pendulum.now("UTC"),
            anomalies=read_verdict(lake).anomalies,
            alarms=tuple(AlarmStore(lake).read().alarms.values()),
        )
        return {name for one in findings_of(known) for name in one.names}

    def agree(self, anomaly: str, *options: str) -> None:
        """The alarm, `status` and `verify` call it the same, as far as each says anything of it."""
        verdict = read_verdict(open_lake(self.story.pipeline))
        causes = [one for one in causes_of(verdict.anomalies) if anomaly in {a.kind for a in one.anomalies}]
        assert causes
        verified, said = self.command("verify", *options), self.command("status", "--wide")
        units = json.loads(self.command("status", "--json"))["units"]
        hours, _, last = said.rstrip().rpartition("\n")
        assert last.startswith("needs attention: ")
        for cause in causes:
            assert f"PROBLEM anomaly: {cause.title}: {cause.message}" in "".join(self.sent)
            broken = [unit["slice"] for unit in units if cause.title in unit["broken"]]
            assert broken == list(cause.slices)
            assert hours.count(cause.title) == len(broken)
            assert f"{cause.title}: {cause.message}" in verified
        assert not any(unit["broken"] and unit["state"].startswith("complete") for unit in units)


@pytest.fixture
def noticed(kafka_broker, clickhouse_server, name, tmp_path, monkeypatch, capsys) -> Iterator[Noticed]:
    topic = Topic(kafka_broker, name).make(PARTITIONS)
    story = Story(topic, tmp_path, clickhouse_server, monkeypatch, **SETTINGS)
    for number in range(LAST):
        send(story, number)
    return Noticed(story, capsys)


@pytest.mark.parametrize("damage", per_commit(DAMAGE, keep=2), ids=lambda damage: damage.name)
def test_a_damage_is_noticed(noticed: Noticed, damage: Damage):
    story = noticed.story
    damage.prepare(story)
    if not damage.open:
        send(story, LAST)
    story.run(0, LAST - 1 if damage.open else LAST)
    before = noticed.notice(LAST if damage.open else LAST + 1) - {"server error"}  # of other tests' loads
    assert (before, noticed.verify() - {"incomplete"}) == (set(), set())
    damage.do(story)
    if damage.noticed == WATCH:
        assert damage.problem in noticed.notice(), noticed.sent
        assert damage.says in "".join(noticed.sent)
        # Of two names for one cause the page has one: no finding is said twice.
        assert {damage.anomaly or damage.problem, damage.problem} & noticed.page()
        if damage.problem == "anomaly" and damage.do is not break_manifest:  # `status` can't say a state then
            noticed.agree(damage.anomaly)
        if "away" not in damage.name and damage.anomaly:
            assert damage.anomaly in noticed.verify()
            assert noticed.notice() - {"server error"} == set(), "the same words, so no second notice"
        return
    assert noticed.notice() - {"server error"} == set(), noticed.sent
    if damage.noticed == NOBODY:
        assert noticed.verify(CONTENTS, CHECKSUMS) == set()
        return
    if damage.noticed != VERIFY:
        assert damage.anomaly not in noticed.verify()
    assert damage.anomaly in noticed.verify(*filter(None, [damage.noticed]))
    assert damage.anomaly in noticed.page()
    assert damage.problem in noticed.notice(), noticed.sent
    noticed.agree(damage.anomaly, *filter(None, [damage.noticed]))


def test_the_document_has_a_line_for_each_damage():
    """Who notices it, and by which kinds of problem and anomaly."""
    text = PAGE.read_text(encoding="utf-8").partition("## Damage\n")[2]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")][2:]
    cells = {name: (by, called) for names, by, *called in rows for name in names.split("; ")}
    assert cells.keys() == {damage.name for damage in DAMAGE}
    for damage in DAMAGE:
        by, called = cells[damage.name]
        assert by.partition(",")[0].strip("`") == (damage.noticed or "sluice verify"), damage.name
        kinds = {damage.problem, damage.anomaly} - {"anomaly", ""} if damage.noticed != NOBODY else set()
        assert {f"“{kind}”" for kind in kinds} == set(re.findall("“[^”]*”", "".join(called))), damage.name
