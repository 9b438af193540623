"""`sluice rejected` out of a lake alone: a table with remedies, JSON, samples, and text that data brought."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pendulum
import pytest

from sluice.cli.commands import commands
from sluice.cli.rejected import RejectedReport, refuse_stranger, show_report
from sluice.clients.lake import layout
from sluice.clients.lake.open import open_lake
from sluice.config.files import read
from sluice.errors import Unavailable, WrongUse
from sluice.flow.rejected.rejections import RejectedGroup, RejectionCause
from sluice.manifest import Forgotten, decode, encode
from sluice.slices import Slice, SliceRange
from tests.support.landing_world import World, event, hours

CONFIG = """
kafka: [{cluster: dc1, bootstrap: "127.0.0.1:1", topics: [bids]}]
event: {type: {field: type}, time: {field: at}}
lake: file://LAKE
page: {payloads: shown}
"""
RANGE = ["--from", "2026-01-01T00:00Z", "--to", "2026-01-01T04:00Z"]


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """Four hours: a tombstone in the first, no JSON in the second and fourth, with an escape in it, and no
    time in the fourth."""
    config = tmp_path / "p.yaml"
    config.write_text(CONFIG.replace("LAKE", f"{tmp_path}/lake"))
    spec = read(config)
    log = [event("click", n) for n in range(240)]
    log[70] = (b"no \x1b[1m JSON \xe2\x80\xae", log[70][1])
    log[200] = (b"not this either", log[200][1])
    log[201] = (b'{"type": "click"}', log[201][1])
    log[5] = (None, log[5][1])
    world = World({("dc1", "bids"): [log]})
    world.resolve(spec, open_lake(spec), hours(4))
    world.land(spec, open_lake(spec), hours(4))
    return ["rejected", "p", "--config", str(config)]


def run(words: list[str], capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    with pytest.raises(SystemExit) as ended:
        commands(words)
    assert ended.value.code in ((0, None) if code == 0 else (code,))
    return capsys.readouterr().out


def test_reasons_with_their_remedy_and_command(words, capsys):
    shown = run([*words, *RANGE], capsys)
    assert "tombstones: 1 record has no value, and gives no row" in shown.splitlines()
    assert "no value:" not in shown
    rows = [line.replace("│", " ").split() for line in shown.splitlines()]
    assert ["parse", "not", "JSON", "2", "2", "2026-01-01T01Z", "2026-01-01T03Z"] in rows
    assert ["parse", "no", "time", "1", "1", "2026-01-01T03Z", "2026-01-01T03Z"] in rows
    assert "no time: let `event.time` name the field and its format, or correct the producer" in shown
    command = f"sluice rejected p --config {words[-1]} --from 2026-01-01T00:00Z --to 2026-01-01T04:00Z"
    assert f"then: {command} --reason 'no time' --retry" in shown.splitlines()


def test_of_records_whose_bytes_are_forgotten_it_says_so(words, capsys):
    lake = open_lake(read(Path(words[-1])))
    key = layout.manifest("2026-01-01T03Z", "dc1")
    old = decode(lake.read(key).data, key)
    lake.put(key, encode(replace(old, forgotten=Forgotten(rejected="2028-01-01T00:00:00Z", removed=True))))
    lake.delete(file.key for file in old.rejected)
    found = json.loads(run([*words, *RANGE, "--sample", "3", "--json"], capsys))
    assert [(one["reason"], one["records"], one["forgotten"]) for one in found] == [
        ("not JSON", 2, 1),
        ("no time", 1, 1),
    ]
    # They are of the last slice that has any.
    assert [[sample["offset"] for sample in one["samples"]] for one in found] == [[70], []]
    lines = run([*words, *RANGE], capsys).splitlines()
    assert [line for line in lines if "forgotten" in line] == [
        "the lake has forgotten the bytes of 1 of these records: `reland` brings their slices, as long as "
        "Kafka has them"
    ] * 2
    assert not any("_rejected/" in line for line in lines)
    assert [line.partition("--reason ")[2] for line in lines if line.startswith("then:")] == [
        "'not JSON' --retry"
    ]


def test_the_range_and_the_reason_are_respected(words, capsys):
    found = json.loads(run([*words, *RANGE[:2], "--to", "2026-01-01T03:00Z", "--json"], capsys))
    assert [(one["reason"], one["records"], one["since"]) for one in found] == [
        ("not JSON", 1, "2026-01-01T01Z")
    ]
    found = json.loads(run([*words, "--reason", "TIME", "--json"], capsys))
    assert [(one["reason"], one["records"]) for one in found] == [("no time", 1)]
    assert "nothing was rejected" in run([*words, *RANGE, "--reason", "no such"], capsys)


def test_samples_are_of_the_last_slice_and_safe_for_a_terminal(words, capsys):
    shown = run([*words, "--from", "2026-01-01T00:00Z", "--to", "2026-01-01T02:00Z", "--sample", "3"], capsys)
    assert "sample dc1/bids/0/70: no \\x1b[1m JSON \\u202e" in shown.splitlines()
    assert "\x1b[1m" not in shown and "\u202e" not in shown
    found = json.loads(run([*words, "--sample", "3", "--json"], capsys))
    offsets = {one["reason"]: [sample["offset"] for sample in one["samples"]] for one in found}
    assert offsets == {"not JSON": [200], "no time": [201]}


def test_samples_are_masked_where_the_pipeline_says_so(words, capsys):
    config = Path(words[-1])
    for payloads, shown in (("masked", '{"type": text}'), ("hidden", ""), ("shown", '{"type": "click"}')):
        config.write_text(config.read_text().rpartition("page:")[0] + f"page: {{payloads: {payloads}}}\n")
        [one] = json.loads(run([*words, "--reason", "no time", "--sample", "1", "--json"], capsys))
        assert [sample["payload"] for sample in one["samples"]] == [shown]


def test_a_table_or_column_is_of_rejected_rows_alone(words, capsys):
    assert json.loads(run([*words, "--column", "n", "--json"], capsys)) == []
    assert json.loads(run([*words, "--type", "click", "--json"], capsys)) == []


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--yes"], "--yes is for --retry"),
        (["--retry"], "there is no terminal to ask on: add --yes"),
        (["--table", "db.none"], "has no table 'db.none'"),
        (["--from", "soon"], "is not an instant"),
    ],
)
def test_wrong_use(words, more: list[str], why: str):
    with pytest.raises(WrongUse, match=why):
        commands([*words, *more], standalone_mode=False)


def test_rejected_rows_of_an_unavailable_server_are_not_nothing(words, capsys, monkeypatch):
    from sluice.errors import ClickHouseUnavailable

    config = Path(words[-1])
    config.write_text(
        config.read_text() + "tables: {click: db.clicks}\nclickhouse: {connection: none_here}\n"
    )
    monkeypatch.setenv("AIRFLOW_CONN_NONE_HERE", '{"conn_type": "http", "host": "127.0.0.1", "port": 1}')
    with pytest.raises(ClickHouseUnavailable):
        commands([*words, "--reason", "JSON"], standalone_mode=False)
    assert "not JSON" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("until", "more", "said"),
    [
        ("05", [], ["rejected: unknown of 1 of 5 slices, which has not landed"]),
        (
            "06",
            ["--reason", "no such"],
            [
                "rejected: unknown of 2 of 6 slices, which have not landed",
                "p [2026-01-01T00:00Z, 2026-01-01T06:00Z): nothing was rejected of what has landed",
            ],
        ),
    ],
)
def test_of_hours_that_have_not_landed_it_is_unknown(words, capsys, until, more, said):
    """Four have landed."""
    asked = [*words, "--from", "2026-01-01T00:00Z", "--to", f"2026-01-01T{until}:00Z"]
    lines = run([*asked, *more], capsys).splitlines()
    assert [line for line in said if line in lines] == said
    with pytest.raises(SystemExit):
        commands([*asked, *more, "--json"])
    assert said[0] in capsys.readouterr().err


def test_of_tables_that_cannot_be_asked_it_is_unknown(words, capsys, monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", "clickhouse://127.0.0.1:1")
    config = Path(words[-1])
    config.write_text(config.read_text() + "tables: {click: e.clicks}\n")
    with pytest.raises(Unavailable):
        commands([*words, *RANGE, "--table", "e.clicks"])
    assert "nothing was rejected" not in capsys.readouterr().out


def test_the_owner_of_the_file_may_see_values_that_the_page_hides(words, capsys, monkeypatch):
    path = Path(words[-1])
    path.write_text(path.read_text().replace("payloads: shown", "payloads: hidden"))
    assert "not this either" not in run([*words, *RANGE, "--sample", "3"], capsys)
    shown = run([*words, *RANGE, "--show-values"], capsys)
    assert "not this either" in shown
    assert shown.splitlines()[-1] == "3 rejected records and rows of 2 kinds"
    monkeypatch.setattr("os.geteuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(WrongUse, match="is for the owner of the pipeline file of p"):
        commands([*words, *RANGE, "--show-values"], standalone_mode=False)


def test_values_that_another_file_is_about_are_its_owners_too(tmp_path: Path):
    """The other file names the same topic, and nobody knows where it is."""
    (tmp_path / "p.yaml").write_text(CONFIG)
    mine = read(tmp_path / "p.yaml")
    other = mine.model_copy(update={"name": "other"})
    other._file = None
    refuse_stranger(mine, [mine])
    with pytest.raises(WrongUse, match="of other"):
        refuse_stranger(mine, [mine, other])


def test_the_ready_statement_is_beside_the_remedy(capsys):
    cause = RejectionCause("row", "e.t", "price", "does not fit Decimal(9, 2)")
    hour = Slice(pendulum.datetime(2026, 1, 1), timedelta(hours=1))
    groups = [RejectedGroup(cause, first=hour, last=hour, records=302, slices=1)]
    alters = {cause: "ALTER TABLE `e`.`t` MODIFY COLUMN `price` String"}
    slices = SliceRange(hour.start, hour.end, hour.length)
    report = RejectedReport("p", slices, groups, (), alters=alters)
    show_report(report, "sluice rejected p", wide=True, json=False)
    lines = capsys.readouterr().out.splitlines()
    at = lines.index(f"ready: {alters[cause]}")
    assert lines[at - 1].startswith("e.t.price")
    assert lines[at + 1].startswith("then: sluice rejected p --table")
    assert lines[-1] == "302 rejected records and rows of 1 kind; an ALTER TABLE above cures 1 of them"
    show_report(report, "sluice rejected p", wide=True, json=True)
    assert json.loads(capsys.readouterr().out)[0]["alter"] == alters[cause]
