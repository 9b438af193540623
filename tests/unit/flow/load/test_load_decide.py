"""What is loaded, skipped, revoked and cut: tables of cases without a server."""

from __future__ import annotations

from dataclasses import replace

import pendulum
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.clients.clickhouse.errors import Outcome, ServerError, shorten
from sluice.clients.clickhouse.tables import OtherReader, TargetTable, schedule_of, view_target, written_by
from sluice.config.pipeline import Pipeline
from sluice.errors import TargetRefused
from sluice.flow.load.fencing import LoadAttempt, fences, stagings, statements
from sluice.flow.load.source.pull import FolderSource
from sluice.flow.load.source.pull_or_push import FILES_PER_STATEMENT, FileRows, overflowing, pulls, routed
from sluice.flow.load.target_checks import check_views
from sluice.flow.load.work import LoadWork, choose, cut, differences
from sluice.manifest import FieldSeen, LandedFile, Manifest, TypeFields
from sluice.slices import Slice, Unit
from sluice.state.additions import Addition
from sluice.state.ledger import LedgerRow
from tests.support.manifests import made_manifest


def unit(hour: int = 0) -> Unit:
    return Unit(Slice(pendulum.datetime(2026, 11, 20).add(hours=hour)), "dc1")


def file(kind: str | None, rows: int, by_type: dict[str, int] | None = None) -> LandedFile:
    return LandedFile(f"type={kind}/x.parquet", "", kind, "2026-11-20T00", rows, 1, "", by_type or {})


def manifest(*files: LandedFile, attempt: str = "a") -> Manifest:
    return made_manifest(
        "p", unit().slice.id, "dc1", 1, attempt, (), files, (), sum(f.rows for f in files), {}, 0
    )


def pipeline(**tables: str) -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": "p",
            "kafka": [{"cluster": "dc1", "bootstrap": "x:1", "topics": ["t"]}],
            "event": {"type": {"field": "type"}, "time": {"record": True}},
            "lake": "file:///lake",
            "tables": {key.replace("rest", "*"): f"db.{table}" for key, table in tables.items()},
        }
    )


def row(manifest_id: str = "1-a", types: tuple[str, ...] = ("click",), token: str = "") -> LedgerRow:
    return LedgerRow(unit(), manifest_id, types, 3, 3, 0, token, 1)


LANDED = manifest(file("click", 3), file("view", 2), file(None, 5, {"click": 1, "odd": 4}))


@pytest.mark.parametrize(
    ("known", "mode", "token", "loads", "replaces"),
    [
        (None, "fill", "", True, False),
        (row(), "fill", "", False, None),
        (row("1-old"), "fill", "", True, True),
        (row(types=("click", "view")), "fill", "", True, True),
        (row(), "reload", "", True, True),
        (row(token="run"), "reload", "run", False, None),
        (row(token="other"), "reload", "run", True, True),
        (row("1-old", token="run"), "reload", "run", True, True),
        (row(), "reland", "run", False, None),
        (row("1-old"), "reland", "run", True, True),
    ],
)
def test_what_the_ledger_holds_decides(known, mode, token, loads, replaces):
    chosen = pipeline(click="clicks", view="views")
    ledger = {unit(): known} if known else {}
    todo, skipped = choose(chosen, chosen.targets[0], {unit(): LANDED}, ledger, mode, token)
    assert [work.replaces for work in todo] == ([replaces] if loads else [])
    assert skipped == ([] if loads else [known])


def test_a_units_work_is_the_routed_files_and_their_rows():
    chosen = pipeline(click="clicks", rest="other")
    works = {
        target.table: choose(chosen, target, {unit(): LANDED}, {}, "fill", "")[0][0]
        for target in chosen.targets
    }
    clicks, other = works["db.clicks"], works["db.other"]
    assert (clicks.types, clicks.landed, [f.type for f in clicks.files]) == (("click",), 4, ["click", None])
    assert (other.types, other.landed, [f.type for f in other.files]) == (("odd", "view"), 6, ["view", None])
    assert overflowing([clicks])
    assert routed(chosen, chosen.targets[0], [clicks]) == "_type IN ('click')"
    assert routed(chosen, chosen.targets[1], [other]) == "_type NOT IN ('click')"


@pytest.mark.parametrize(
    ("mode", "elsewhere", "types"),
    [
        ("fill", ["view"], ("odd", "view")),
        ("repair", ["view"], ("click", "odd")),
        ("amend", ["view"], ("click", "odd")),
        ("retry", [], ("click", "odd", "view")),
        ("reload", ["view"], ("odd", "view")),
    ],
)
def test_what_changes_no_rules_leaves_types_in_the_tables_that_have_them(mode, elsewhere, types):
    """`other` has clicks by the routes of its load; the pipeline file sends them to `clicks` by now."""
    chosen = pipeline(click="clicks", rest="other")
    held, found = row(types=("click", "gone")), {unit(): [row(types=tuple(elsewhere))]}
    [work], _ = choose(chosen, chosen.targets[1], {unit(): LANDED}, {unit(): held}, mode, "", elsewhere=found)
    assert (work.types, work.landed) == (types, sum(LANDED.rows_by_type()[name] for name in types))
    condition = {"fill": "_type NOT IN ('click')", "reload": "_type NOT IN ('click')"}
    own = f"_type IN ({', '.join(map(repr, types))})"
    assert routed(chosen, chosen.targets[1], [work]) == condition.get(mode, own)


@pytest.mark.parametrize(
    ("mode", "change", "identity"),
    [
        ("amend", {}, ("_topic", "_partition", "_offset")),
        ("retry", {}, ("_topic", "_partition", "_offset")),
        ("amend", {"manifest": "1-before"}, ("_topic", "_partition", "_offset")),
        ("amend", {"manifest": "1-other"}, None),
        ("amend", {"sharding": "s2 of s1,s2"}, None),
        ("fill", {"manifest": "1-before"}, None),
        ("repair", {}, None),
        ("reload", {}, None),
    ],
)
def test_rows_of_the_same_landing_and_placement_stay(mode, change, identity):
    chosen = pipeline(click="clicks")
    landed = replace(LANDED, amends=("1-before",))
    held = replace(row(types=("click", "gone")), **change)
    [work], _ = choose(chosen, chosen.targets[0], {unit(): landed}, {unit(): held}, mode, "")
    assert (work.kept and (work.kept.identity, work.kept.rows)) == (identity and (identity, held.rows))
    elements = replace(landed, rows=4)
    [work], _ = choose(chosen, chosen.targets[0], {unit(): elements}, {unit(): held}, mode, "")
    assert (work.kept and work.kept.identity) == (identity and (*identity, "_row"))


def test_units_without_rows_are_work_too():
    chosen = pipeline(click="clicks")
    todo, _ = choose(chosen, chosen.targets[0], {unit(): manifest(), unit(1): LANDED}, {}, "fill", "")
    assert [work.landed for work in todo] == [0, 4]


def work(hour: int, landed: int) -> LoadWork:
    return LoadWork(unit(hour), "m", (), (), landed, False)


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(1, 60), st.integers(1, 7))
def test_runs_keep_every_unit_in_order_and_within_both_limits(sizes, max_rows, max_units):
    works = [work(hour, landed) for hour, landed in enumerate(sizes)]
    runs = cut(works, max_rows, max_units)
    assert [w for run in runs for w in run] == works
    for run in runs:
        assert 1 <= len(run) <= max_units
        assert len(run) == 1 or sum(w.landed for w in run) <= max_rows


def test_differences_add_rows_and_rejected_rows():
    works = [work(0, 5), work(1, 2), work(2, 0)]
    staged = {unit(0): 3, unit(1): 2, unit(2): 1}
    assert differences(works, staged, {unit(0): 2}) == {unit(2): (0, 1)}


def test_an_attempts_names_share_the_targets_prefixes():
    attempt = LoadAttempt("db.clicks", 7, 2)
    assert attempt.fence_name.startswith(fences("db.clicks"))
    assert attempt.staging_name.startswith(stagings("db.clicks"))
    assert attempt.query_id("move", 3).startswith(statements("db.clicks"))
    assert attempt.query_id("move", 3).endswith("-7-2-move-3")
    assert fences("db.clicks") != fences("db.click")


@pytest.mark.parametrize(
    ("root", "key", "fits"),
    [
        ("/lake", "type=a/x", True),
        ("/lake", "type=a,b/x", False),
        ("/la*ke", "x", False),
        ("/lake", "é ü'/x", True),
    ],
)
def test_what_file_reads_as_a_pattern_is_pushed(root: str, key: str, fits: bool):
    assert FolderSource(root).reads(key) is fits


def test_many_files_are_many_statements():
    files = [FileRows(unit(n // 5), f"k{n}", 100_000) for n in range(2 * FILES_PER_STATEMENT + 1)]
    selects = list(pulls(FolderSource("/lake"), files, ["_payload"]))
    assert [select.count("k") > 0 for select in selects] == [True] * 3
    assert "parseDateTime" in selects[0]
    [single] = pulls(FolderSource("/lake"), files[:2], ["_payload"])
    assert "toDateTime(1795132800, 'UTC')" in single  # 2026-11-20T00:00Z
    assert "'/lake/{k0,k1}'" in single


@pytest.mark.parametrize(("rows", "gathered"), [([143, 143], True), ([143], False), ([10**6, 143], False)])
def test_small_files_are_gathered_into_large_blocks(rows: list[int], gathered: bool):
    files = [FileRows(unit(0), f"k{number}", count) for number, count in enumerate(rows)]
    [source] = pulls(FolderSource("/lake"), files, ["_payload"])
    assert ("CROSS JOIN" in source) is gathered


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("CREATE MATERIALIZED VIEW db.v TO db.t (`n` UInt8) AS SELECT n FROM db.x", ("db", "t")),
        ("CREATE MATERIALIZED VIEW db.v TO `d b`.`t\\`x` (`n` UInt8) AS SELECT 1", ("d b", "t`x")),
        ("CREATE MATERIALIZED VIEW db.v (`n` UInt8) ENGINE = Log AS SELECT 1", ("db", ".inner_id.u")),
        ("CREATE MATERIALIZED VIEW db.v REFRESH EVERY 1 HOUR TO db.t (`n` UInt8) AS SELECT 1", None),
    ],
)  # fmt: skip
def test_where_a_view_writes_to(text: str, place: tuple[str, str] | None):
    assert view_target("db", "u", text) == place


@pytest.mark.parametrize(
    ("text", "place", "schedule"),
    [
        ("CREATE MATERIALIZED VIEW db.v TO db.t (`n` UInt8) AS SELECT n FROM db.x", ("db", "t"), ""),
        (
            "CREATE MATERIALIZED VIEW db.v REFRESH EVERY 1 HOUR TO db.t (`n` UInt8) AS SELECT ' APPEND '",
            ("db", "t"),
            " REFRESH EVERY 1 HOUR TO db.t ",
        ),
        (
            "CREATE MATERIALIZED VIEW db.v REFRESH EVERY 1 YEAR OFFSET 2 DAY RANDOMIZE FOR 1 HOUR SETTINGS "
            "refresh_retries = 3 APPEND TO `d b`.t (`n` UInt8) DEFINER = u SQL SECURITY DEFINER AS SELECT 1",
            ("d b", "t"),
            " REFRESH EVERY 1 YEAR OFFSET 2 DAY RANDOMIZE FOR 1 HOUR SETTINGS refresh_retries = 3 APPEND TO "
            "`d b`.t ",
        ),
        (
            "CREATE MATERIALIZED VIEW db.v REFRESH EVERY 1 HOUR (`n` UInt8) ENGINE = Log AS SELECT 1 TO db.x",
            ("db", ".inner_id.u"),
            " REFRESH EVERY 1 HOUR ",
        ),
    ],
)  # fmt: skip
def test_what_a_view_writes_to_whenever_it_does(text: str, place: tuple[str, str], schedule: str):
    assert (written_by("db", "u", text), schedule_of(text)) == (place, schedule)


def test_what_gets_rows_and_is_no_materialized_view_is_refused():
    target = TargetTable(
        "e.t", "u", "MergeTree", "", (), False, (), (OtherReader("e.t", "e.w", "WindowView"),)
    )
    with pytest.raises(TargetRefused, match=r"table e\.t: e\.w, a WindowView, gets its rows"):
        check_views(None, target)


@pytest.mark.parametrize(
    ("code", "outcome", "retryable"),
    [(241, "retry", True), (252, "retry", True), (159, "unknown", True), (319, "unknown", True),
     (394, "unknown", True), (60, "final", False), (516, "final", False), (0, "final", False)],
)  # fmt: skip
def test_error_codes_say_what_to_do(code: int, outcome: str, retryable: bool):
    error = ServerError("ch:8123", code, "NAME", "INSERT", "why")
    assert (error.outcome, error.retryable) == (Outcome(outcome), retryable)
    assert str(error).startswith("ClickHouse ch:8123, INSERT: NAME: why; ")


def test_a_servers_message_becomes_one_line():
    text = (
        "Received ClickHouse exception, code: 60, server response: Code: 60. DB::Exception: Unknown\n table "
        "x. (UNKNOWN_TABLE) (version 26.7.2.1) (for url http://h:1)"
    )
    assert shorten(text) == "Unknown table x. (UNKNOWN_TABLE)"


ADDED = Addition("db.clicks", "coupon", "String", "s", 1, 1, "now", "me", shards={"": 2})


@pytest.mark.parametrize(
    ("mode", "generation", "filled", "loads"),
    [
        ("reload --missing-columns", 1, 3, True),
        ("reload --missing-columns", 2, 3, False),
        ("reload --missing-columns", 1, 0, False),
        ("fill", 1, 3, False),
        ("reland", 1, 3, False),
    ],
)
def test_a_refill_loads_again_what_may_have_lost_a_field(mode, generation, filled, loads):
    chosen = pipeline(click="clicks")
    fields = (TypeFields("click", 4, True, {"coupon": FieldSeen(4, {"null": 4 - filled})}),)
    ledger = {unit(): replace(row(), generation=generation)}
    landed = {unit(): replace(LANDED, fields=fields)}
    todo, skipped = choose(chosen, chosen.targets[0], landed, ledger, mode, "", additions=(ADDED,))
    assert [work.replaces for work in todo] == ([True] if loads else [])
    assert len(skipped) == (not loads)
