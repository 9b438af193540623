"""Each damage is done for real, to a real broker, server and lake; then who notices it is asked, in this
order: the watch, the verify that ends each run, and the command with more options.

The table of docs/guide/metrics.md#damage says the same; DAMAGE has its lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from local.versions import ROOT
from sluice.cli.commands import commands
from sluice.clients.lake.open import open_lake
from sluice.config.airflow import Channel
from sluice.errors import Conservation
from sluice.flow.verify.verdict import read_verdict
from sluice.page.overview import cause_rows
from sluice.watch.expected import RowHistory, SliceRows, keep
from sluice.watch.problems import AlarmStore
from sluice.watch.watch import watch
from tests.faults.topic_story import Story
from tests.faults.topics import START, Topic, hour, hours
from tests.support.channels import webhook
from tests.support.long_form import per_commit

pytestmark = pytest.mark.faults

LAST = 5
"""The newest hour that is over."""
ROWS = 60
WATCH, RUN, CHECKSUMS, CONTENTS = "watch", "run", "--checksums", "--contents"
PAGE = ROOT / "docs" / "guide" / "metrics.md"


@dataclass(frozen=True)
class Damage:
    """`noticed` by which of the four; `problem` is the notice's kind, `anomaly` verify's, empty where it does
    not ask what is damaged; `says` is in the notice."""

    name: str
    do: Callable[[Story], None]
    noticed: str
    problem: str
    anomaly: str = ""
    says: str = ""


def send(story: Story, at: int, rows: int = ROWS, **renamed: str) -> None:
    """Events of one hour, from its beginning on; `n` may have another name."""
    for number in range(rows):
        when = START.add(hours=at, seconds=number)
        event = {"type": "click", "at": when.isoformat(), renamed.get("n", "n"): number + 1}
        story.topic.producer.produce(
            story.topic.name, json.dumps(event), partition=0, timestamp=int(when.timestamp() * 1000)
        )
    assert story.topic.producer.flush(30) == 0


def file_of(story: Story, number: int) -> Path:
    (found,) = (story.folder / "lake").glob(f"*/type=*/**/{hour(number).id}-*.parquet")
    return found


def sql(story: Story, text: str) -> None:
    story.client.command(text.replace("{t}", f"{story.topic.name}.events") + " SETTINGS mutations_sync = 2")


def delete_file(story: Story) -> None:
    file_of(story, 2).unlink()


def change_byte(story: Story) -> None:
    data = bytearray(file_of(story, 2).read_bytes())
    data[len(data) // 2] ^= 1
    file_of(story, 2).write_bytes(data)


def delete_rows(story: Story) -> None:
    sql(story, f"ALTER TABLE {{t}} DELETE WHERE toUnixTimestamp(_slice) = {stamp(2)} AND n <= 7")


def update_values(story: Story) -> None:
    sql(story, f"ALTER TABLE {{t}} UPDATE n = n + 1000 WHERE toUnixTimestamp(_slice) = {stamp(2)} AND n <= 7")


def stamp(number: int) -> int:
    return int(hour(number).start.timestamp())


def drop_table(story: Story) -> None:
    story.client.command(f"DROP TABLE {story.topic.name}.events SYNC")


def recreate_topic(story: Story) -> None:
    story.topic.make_again()


def take_cluster_away(story: Story) -> None:
    story.write(bootstrap="127.0.0.1:1", **SETTINGS)


def rename_field(story: Story) -> None:
    send(story, LAST, n="number")
    story.run(LAST, LAST)


def halve_traffic(story: Story) -> None:
    """The six weeks before had 700 rows in each hour; the newest hour has 350."""
    pieces = [hour(-number) for number in range(1, 42 * 24)]
    usual = {piece: SliceRows(700, {"click": 700}) for piece in pieces}
    keep(open_lake(story.pipeline), RowHistory(usual, {piece.id: rows for piece, rows in usual.items()}))
    send(story, LAST, 350)
    story.run(LAST, LAST)


def run_no_hour(story: Story) -> None:
    send(story, LAST)


SETTINGS: dict[str, Any] = {
    "settle": "0s",
    "lookback": "5h",
    "alarms": {"overdue": "1s", "disk_free": 0, "notify": [webhook("ops")]},
}
DAMAGE = [
    Damage("file deleted", delete_file, RUN, "anomaly", "file missing"),
    Damage("byte changed", change_byte, CHECKSUMS, "anomaly", "file checksum"),
    Damage("rows deleted", delete_rows, RUN, "anomaly", "rows missing"),
    Damage("values updated", update_values, CONTENTS, "anomaly", "values differ"),
    Damage("table dropped", drop_table, WATCH, "table missing", "table missing"),
    Damage("topic recreated", recreate_topic, WATCH, "unavailable", says="sluice accept"),
    Damage("cluster away", take_cluster_away, WATCH, "unavailable", says="127.0.0.1:1"),
    Damage("field renamed", rename_field, WATCH, "schema changed", says="column n from 0 % to 100 %"),
    Damage("traffic halved", halve_traffic, WATCH, "too few events", says="brought 350 rows, 50% of the 700"),
    Damage("hour never run", run_no_hour, WATCH, "hour overdue", "incomplete"),
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

    def verify(self, *options: str) -> set[str]:
        """`sluice verify` over all hours: the kinds of its anomalies."""
        self._capture.readouterr()
        span = hours(0, LAST)
        edges = ["--from", span.start.isoformat(), "--to", span.end.isoformat()]
        words = ["verify", self.story.path.stem, "--config", str(self.story.path), "--json", *edges, *options]
        commands(words, standalone_mode=False)
        return {one["kind"] for one in json.loads(self._capture.readouterr().out)["anomalies"]}

    def page(self) -> set[str]:
        """The kinds that the page has: causes with their examples, and the watch's problems."""
        lake = open_lake(self.story.pipeline)
        causes = cause_rows(read_verdict(lake).anomalies)
        shown = {example.kind for cause in causes for example in cause.examples}
        return shown | {
            str(alarm.problem.kind) for alarm in AlarmStore(lake).read().alarms.values() if not alarm.over
        }


@pytest.fixture
def noticed(kafka_broker, clickhouse_server, name, tmp_path, monkeypatch, capsys) -> Noticed:
    story = Story(Topic(kafka_broker, name).make(), tmp_path, clickhouse_server, monkeypatch, **SETTINGS)
    for number in range(LAST):
        send(story, number)
    return Noticed(story, capsys)


@pytest.mark.parametrize("damage", per_commit(DAMAGE), ids=lambda damage: damage.name)
def test_a_damage_is_noticed(noticed: Noticed, damage: Damage):
    story = noticed.story
    ends_before = damage.do in (rename_field, halve_traffic, run_no_hour)
    if not ends_before:
        send(story, LAST)
    story.run(0, LAST - 1 if ends_before else LAST)
    before = noticed.notice(LAST if ends_before else LAST + 1) - {"server error"}  # of other tests' loads
    assert (before, noticed.verify() - {"incomplete"}) == (set(), set())
    damage.do(story)
    if damage.noticed == WATCH:
        assert damage.problem in noticed.notice(), noticed.sent
        assert damage.says in "".join(noticed.sent)
        assert damage.problem in noticed.page()
        assert damage.anomaly in {*noticed.verify(), ""}
        return
    assert damage.problem not in noticed.notice()
    if damage.noticed == RUN:
        with pytest.raises(Conservation):
            story.verify(0, LAST)
    else:
        assert damage.anomaly not in noticed.verify()
    words = [damage.noticed] if damage.noticed.startswith("--") else []
    assert damage.anomaly in noticed.verify(*words)
    assert damage.anomaly in noticed.page()
    assert damage.problem in noticed.notice(), noticed.sent


def test_the_document_has_a_line_for_each_damage():
    """Who notices it, and by which kinds of problem and anomaly."""
    text = PAGE.read_text(encoding="utf-8")
    lines = {
        line.split(" | ")[0].removeprefix("| "): line for line in text.splitlines() if line.startswith("| ")
    }
    for damage in DAMAGE:
        assert f"“{damage.problem}”" in lines[damage.name], damage.name
        assert not damage.anomaly or f"“{damage.anomaly}”" in lines[damage.name], damage.name
        assert damage.noticed not in (CHECKSUMS, CONTENTS) or damage.noticed in lines[damage.name]
