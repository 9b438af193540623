"""The tables of every command on terminals of every width: no word is cut, and what is hidden is named."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pendulum
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from sluice.cli import output
from sluice.cli import run as run_command
from sluice.cli import status as status_command
from sluice.cli.commands import commands
from sluice.cli.output import ColumnNeeds, FittedTable, TableColumn, fit, flowing
from sluice.cli.status import Behind
from sluice.cli.status_lines import style_of
from sluice.cli.traffic import TrafficHour
from sluice.manifest import LandedFile, Loss
from sluice.plan.backlog import Backlog
from sluice.plan.dry_run import DryRun
from sluice.plan.estimate import TimeEstimate
from sluice.plan.lag import Lag, PartitionLag
from sluice.plan.plan import work_of
from sluice.ship.shipment import BatchReport, BatchState, ShipmentEnd, ShipReport
from sluice.state.departed_tables import DepartedTable, GoneTable
from sluice.state.status import LackingTopic
from sluice.state.unit_state import UnitState
from tests.unit.watch.test_alarms_rules import TEN, status

PIPELINE, TABLE = "orders_of_all_the_regions_of_the_world", "warehouse_of_the_north.orders_by_region"
TOPIC, CLUSTER = "orders-of-all-the-regions.v2", "frankfurt_am_main_2"
TYPES = [f"order_was_{word}" for word in ("placed", "paid", "shipped_abroad", "returned", "cancelled")]
SPEC = {
    "kafka": [{"cluster": CLUSTER, "bootstrap": "x:1", "topics": [TOPIC]}],
    "event": {"type": {"field": "type"}, "time": {"record": True}},
    "lake": "file:///lake",
    "tables": dict.fromkeys(TYPES, TABLE),
    "counts": [{"table": f"{TABLE}_traffic", "by": ["country"]}],
}
EDGES = ["--from", "2026-11-20", "--to", "2026-11-21"]
WIDTHS = (80, 100, 200)
_STYLES = re.compile(r"\x1b\[[0-9;]*m")


def hours():
    """One of them has lost offsets, and lacks a topic and a shard."""
    loss = (Loss(TOPIC, 11, 1_000_000, 1_234_567, exact=False),)
    found = [status(0, UnitState.COMPLETE, until=1_234_567, tables=[TABLE])]
    found.append(status(1, UnitState.EXPIRED, until=1_234_567, losses=loss))
    found.append(
        replace(
            found[0],
            lacking=(LackingTopic(f"{TOPIC}-of-old", None), LackingTopic("returns", 3)),
            state=UnitState.STALE,
        )
    )
    return [
        replace(one, unit=replace(one.unit, cluster=CLUSTER), manifest=_landed(one.manifest)) for one in found
    ]


def _landed(manifest):
    """1,234,567 rows of each type."""
    if manifest is None:
        return None
    files = tuple(
        LandedFile(f"{name}.parquet", "", name, "2026-11-20T10", 1_234_567, 1, "") for name in TYPES
    )
    return replace(manifest, files=files, read=6_172_835)


OBSTACLES = ["table e.gone is being loaded: this run waits"]


def dry_run(*_: object) -> DryRun:
    found = hours()
    return DryRun(found, {}, "reland", "fail", work_of(found, "reland"), TimeEstimate({}, ()))


def shipped(report: Callable[[ShipReport], None]) -> ShipReport:
    batches = [
        BatchReport(f"/data/{PIPELINE}/{n}.ndjson.gz", "a" * 64, BatchState.BEGUN, 10**7, 10**6)
        for n in (1, 2)
    ]
    numbers = dict.fromkeys(ShipReport.__dataclass_fields__, 7)
    found = ShipReport(**{**numbers, "cluster": CLUSTER, "topic": TOPIC, "end": ShipmentEnd.DONE,
                          "partitions": {}, "batches": batches})  # fmt: skip
    report(found)
    return found


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A pipeline of long names, about which the clients know what is above."""
    path = tmp_path / f"{PIPELINE}.yaml"
    path.write_text(yaml.safe_dump(SPEC))
    partition = PartitionLag(CLUSTER, TOPIC, 11, None, 0, 12_345_678, 12_345_678, 1_234.5, 86_400, 1_000_000)
    gone = GoneTable("e.gone", "e.gone", "there is no such table", "CREATE TABLE … creates it")
    lag = Behind(hours()[:1], Backlog(), Lag("", [partition], []), (gone,))
    monkeypatch.setattr("sluice.flow.steps.dry_run", dry_run)
    monkeypatch.setattr("sluice.watch.obstacles.read_obstacles", lambda *_: OBSTACLES)
    monkeypatch.setattr(status_command, "_survey", lambda *_: (hours(), f"{PIPELINE} [a, b)"))
    monkeypatch.setattr(status_command, "read_behind", lambda *_: lag)
    monkeypatch.setattr(status_command, "_departed", lambda _: (DepartedTable("e.old", 2, 1_200, 3),))
    monkeypatch.setattr(run_command, "_steps", lambda *_: (hours()[:1], {}))
    traffic = [TrafficHour(TEN.int_timestamp + 3600 * n, f"{TOPIC}/{n}", 1e7, 12_345_678) for n in range(30)]
    monkeypatch.setattr("sluice.cli.traffic.traffic_of", lambda *_: traffic)
    monkeypatch.setattr(
        "sluice.ship.publish.publish", lambda _spec, _order, on_report, **_: shipped(on_report)
    )
    monkeypatch.setattr(pendulum, "now", lambda tz=None: TEN.add(hours=20))
    return [PIPELINE, "--config", str(path)]


def test_a_plan_names_its_tables_what_is_in_its_way_and_ends_with_what_it_comes_to(
    world: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """Of the three units the landed one and the missing one are read again."""
    lines = printed(["plan", *world, *EDGES, "--mode", "reland"], capsys, monkeypatch, None)
    assert f"loads: {TABLE}, {TABLE}_traffic" in lines
    assert lines[-2:] == [f"in its way: {OBSTACLES[0]}", "3 units to do, about 0 s; 1 thing is in its way"]
    monkeypatch.setattr("sluice.watch.obstacles.read_obstacles", lambda *_: [])
    lines = printed(["plan", *world, *EDGES, "--mode", "reland"], capsys, monkeypatch, None)
    assert lines[-1] == "3 units to do, about 0 s; nothing is in its way"


COMMANDS = {
    "plan": [*EDGES, "--mode", "reland"],
    "run": EDGES,
    "status": [*EDGES, "--lag"],
    "traffic": [],
    "publish": [],
    "config show": [],
}


def printed(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int | None
) -> list[str]:
    """The lines of a command on a terminal of that width, or into a pipe."""
    with monkeypatch.context() as terminal:
        terminal.setenv("COLUMNS", str(width))
        terminal.setenv("TERM", "xterm")
        terminal.setattr(output.sys.stdout, "isatty", lambda: width is not None)
        commands(words, standalone_mode=False)
    return _STYLES.sub("", capsys.readouterr().out).splitlines()


def tables(lines: list[str]) -> list[list[str]]:
    """The names of each table's columns, in order."""
    found: list[list[str]] = []
    for before, line in pairwise(["", *lines]):
        if line.startswith("┃"):
            cells = [cell.strip() for cell in line.split("┃")[1:-1]]
            if before.startswith("┏"):
                found.append([""] * len(cells))
            found[-1] = [f"{name} {more}".strip() for name, more in zip(found[-1], cells, strict=True)]
    return found


def hidden(lines: list[str]) -> list[list[str]]:
    """Of each table the columns that are said to be hidden."""
    found: list[list[str]] = []
    text = " ".join(lines)
    for part in re.split("┏", text)[1:]:
        named = re.search(r"┘ hidden: (.*?); --wide or a wider terminal shows them", part)
        found.append(named[1].split(", ") if named else [])
    return found


def words_of(lines: list[str]) -> set[str]:
    """Those in the cells of tables."""
    return {word for line in lines if line[:1] in BORDERS for word in re.split(r"[\s│┃]+", line)}


BORDERS = tuple("│┃┏┡├└")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_table_fits_the_terminal(name: str, width: int, world, capsys, monkeypatch):
    words = [*name.split(), *world, *COMMANDS[name]]
    every = printed(words, capsys, monkeypatch, None)
    lines = printed(words, capsys, monkeypatch, width)
    assert max((cell_len(line) for line in lines if line[:1] in BORDERS), default=0) <= width
    if name == "config show" and width == 80:
        assert "- key: tables.order_was_paid" in lines and f"  value: {TABLE}" in lines
        return
    bars = re.compile("[━─┏┳┓┡╇┩└┴┘█░]+")
    cut = {word for word in words_of(lines) - words_of(every) if not bars.fullmatch(word)}
    assert cut == set()
    shown, left_out = tables(lines), hidden(lines)
    assert len(shown) == len(left_out)
    assert [sorted([*names, *more]) for names, more in zip(shown, left_out, strict=True)] == [
        sorted(names) for names in tables(every)
    ]
    assert hidden(every) == [[]] * len(shown)


def test_wide_shows_all_columns_on_any_terminal(world, capsys, monkeypatch):
    words = ["plan", *world, *COMMANDS["plan"], "--wide"]
    assert printed(words, capsys, monkeypatch, 80) == printed(words[:-1], capsys, monkeypatch, None)


def test_a_row_that_no_terminal_holds_is_a_list(capsys, monkeypatch):
    """The names of 79 and 80 characters: with its borders a column has room for 76."""
    for name in ("a" * 79, "b" * 80):
        table = output.table_of("t", ["name", TableColumn("rows", 0)], [[name, 1234], ["c d", 5]])
        assert shown(table, 80) == ["t", f"- name: {name}", "  rows: 1,234", "- name: c d", "  rows: 5"]


def test_what_no_row_has_is_hidden_first():
    columns = [TableColumn("slice", 0), TableColumn("lost", 1), TableColumn("rows", 2)]
    rows, lossy = [["2026-11-20T10Z", "", 1]], [["2026-11-20T10Z", "7", 1]]
    assert tables(shown(output.table_of("", columns, rows), 27)) == [["slice", "rows"]]
    assert tables(shown(output.table_of("", columns, lossy), 27)) == [["slice", "lost"]]


def test_texts_are_wrapped_at_spaces_before_a_column_is_hidden():
    table = output.table_of("", ["slice", "state"], [["10Z", "complete, not on shard east"]])
    lines = shown(table, 26)
    assert [line for line in lines if line[:1] == "│"] == [
        "│ 10Z   │ complete, not  │",
        "│       │ on shard east  │",
    ]


def shown(table: FittedTable, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(table, crop=False)
    return [line.rstrip() for line in out.getvalue().splitlines()]


NEEDS = st.lists(
    st.builds(lambda least, more, rank: ColumnNeeds(least + more, least, rank), st.integers(1, 40),
              st.integers(0, 60), st.integers(0, 5)),
    min_size=1, max_size=9,
)  # fmt: skip


@given(needs=NEEDS, width=st.integers(1, 250))
def test_what_fits(needs: list[ColumnNeeds], width: int):
    """Each column that is shown has room for its longest word; the one that was hidden last has none."""
    widths = fit(needs, width)
    if widths is None:
        assert taken(need.least for need in needs if need.rank == 0) > width
        return
    assert not widths or taken(widths.values()) <= width
    assert all(needs[place].least <= given <= needs[place].full for place, given in widths.items())
    hidden = sorted((need.rank, place) for place, need in enumerate(needs) if place not in widths)
    if hidden:
        assert max(((needs[place].rank, place) for place in widths), default=(0, -1)) < hidden[0]
        least = [needs[place].least for place in (*widths, hidden[0][1])]
        assert taken(least) > width
    if taken(need.full for need in needs) <= width:
        assert widths == {place: need.full for place, need in enumerate(needs)}


def taken(texts: Iterable[int]) -> int:
    """By a table of columns so wide: lines between and around them, and a space on both sides of a text."""
    return sum(1 + 1 + text + 1 for text in texts) + 1


@given(st.text("ab 日", max_size=60), st.integers(1, 30))
def test_a_line_flows(text: str, width: int):
    lines = flowing(text, width)
    assert " ".join(lines) == text
    assert all(cell_len(line) <= width or " " not in line for line in lines)


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("complete", 32),
        ("forgotten", 32),
        ("24 complete", 32),
        ("missing", 33),
        ("3 missing, 21 complete", 33),
        ("complete with loss", 33),
        ("complete, mostly rejected", 33),
        ("landed, not on shard s2", 33),
        ("stale", 33),
        ("not over", 2),
        ("expired", 31),
        ("broken: wrong rows, table adx.bids", 31),
        ("2 expired, 1 landed", 31),
    ],
)
def test_a_terminal_shows_a_state_in_the_color_of_the_worst(state: str, code: int):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, color_system="standard", width=120, highlight=False)
    console.print(output.table_of("", [TableColumn("state", 0, style=style_of)], [(state,)]))
    (codes,) = re.findall(rf"\x1b\[([0-9;]*)m{re.escape(state)}", screen.getvalue())
    assert str(code) in codes.split(";")
