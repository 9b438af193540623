"""A person is erased from lake and tables: what stays, what the receipt says, what the disks still hold."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from local.versions import ROOT
from sluice.crash_points import Erase, Land, TableLoad
from sluice.errors import SluiceError
from sluice.flow.contents.compare import auditor
from sluice.flow.erase.erase import apply_list
from sluice.flow.erase.finish import finish
from sluice.flow.forget import forget_window
from sluice.flow.land.amend.erase_unit import erase_owed
from sluice.flow.verify.anomaly import AnomalyKind
from sluice.flow.verify.audit import AuditScope, audit
from sluice.state.erasures import ErasureProgress, read_erasures, receipt_key
from sluice.state.manifests import read_manifests, units_in
from tests.integration.landed import client_of
from tests.support.erase_world import PERSON, SLICES, EraseWorld, in_folder
from tests.support.landing_world import START, hours, kafka_away
from tests.support.long_form import per_commit

pytestmark = pytest.mark.integration

QUICK = """<clickhouse>
  <database_atomic_delay_before_drop_table_sec>1</database_atomic_delay_before_drop_table_sec>
  <merge_tree>
    <old_parts_lifetime>1</old_parts_lifetime><cleanup_delay_period>1</cleanup_delay_period>
    <max_cleanup_delay_period>1</max_cleanup_delay_period>
    <cleanup_delay_period_random_add>0</cleanup_delay_period_random_add>
    <merge_tree_clear_old_parts_interval_seconds>1</merge_tree_clear_old_parts_interval_seconds>
    <default_compression_codec>NONE</default_compression_codec>
  </merge_tree>
</clickhouse>"""


@pytest.fixture
def server(start_clickhouse_server, monkeypatch):
    """One that removes replaced parts at once, and whose files can be searched."""
    found = start_clickhouse_server(config=QUICK)
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", found.at.variable)
    return found


@pytest.fixture
def world(server, name: str, tmp_path) -> EraseWorld:
    found = EraseWorld.made(tmp_path, client_of(server), name)
    found.variable = server.at.variable
    found.begin()
    return found


def of_person(rows: list[tuple]) -> list[tuple]:
    return [row for row in rows if any(PERSON in str(value) for value in row)]


def test_the_person_is_gone_and_all_else_stays(
    world: EraseWorld, server, caplog: pytest.LogCaptureFixture
) -> None:
    before = {table: world.rows(table) for table in ("clicks", "other", "traffic")}
    rejected_rows, texts = (
        world.rejected_rows(),
        [value for logs in world.kafka.logs.values() for log in logs for value, *_ in log],
    )
    assert all(of_person(rows) for rows in (*before.values(), rejected_rows))
    lake, disk = world.folder / "lake", server.data
    assert in_folder(lake, PERSON) and in_folder(disk, PERSON)
    left_by_the_dead(world)

    said: list[str] = []
    with caplog.at_level(logging.DEBUG):
        receipt = world.erase(f"uid={PERSON}", force=True, say=said.append)
    assert said and caplog.text and PERSON not in f"{said} {caplog.text} {receipt}"

    for table, rows in before.items():
        assert world.rows(table) == [row for row in rows if row not in of_person(rows)]
    assert world.rejected_rows() == [row for row in rejected_rows if row not in of_person(rejected_rows)]
    assert (in_folder(lake, PERSON), in_folder(disk, PERSON)) == ([], [])
    whole = sum(PERSON.encode() in text and text.endswith(b"}") for text in texts)
    cut = sum(PERSON.encode() in text and not text.endswith(b"}") for text in texts)
    assert (receipt["erased"]["rows"], receipt["erased"]["rejected"], receipt["left"]) == (whole, cut, [])
    assert cut > 2 and receipt["erased"]["records"] == whole + cut
    clicks = receipt["tables"][f"{world.database}.clicks"]
    assert clicks["before"] - clicks["after"] == len(of_person(before["clicks"]))
    rejected = receipt["tables"]["sluice.rejected"]
    assert rejected["before"] - rejected["after"] == len(of_person(rejected_rows)) > 0
    assert receipt["lake"]["attempts_removed"] == 2
    assert audit(world.pipeline(), SLICES, AuditScope(whole=True, checksums=True)).anomalies == []
    checked(world, PERSON)


@pytest.mark.long
def test_rejected_records_that_are_forgotten_hinder_no_erasure(server, name: str, tmp_path) -> None:
    world = EraseWorld.made(tmp_path, client_of(server), name, keep={"lake": "900d", "rejected": "30d"})
    world.variable = server.at.variable
    world.begin()
    before = {table: world.rows(table) for table in ("clicks", "other", "traffic")}
    texts = [value for logs in world.kafka.logs.values() for log in logs for value, *_ in log]
    assert len(forget_window(world.pipeline(), world.lake, SLICES, START.add(days=99)).units) == 3
    assert in_folder(world.folder / "lake", PERSON)

    receipt = world.erase(f"uid={PERSON}", force=True)

    for table, rows in before.items():
        assert world.rows(table) == [row for row in rows if row not in of_person(rows)]
    assert (in_folder(world.folder / "lake", PERSON), in_folder(server.data, PERSON)) == ([], [])
    whole = sum(PERSON.encode() in text and text.endswith(b"}") for text in texts)
    cut = sum(not text.endswith(b"}") for text in texts)
    erased = receipt["erased"]
    assert (erased["records"], erased["rows"], erased["rejected"], receipt["left"]) == (whole, whole, 0, [])
    assert sum(unit["rejected_forgotten"] for unit in receipt["units"]) == cut > 2
    assert receipt["notes"][0].startswith(f"the lake forgot the bytes of {cut} rejected records of 3 units")
    manifests = read_manifests(world.lake, units_in(world.lake, SLICES)).values()
    assert sum(m.read for m in manifests) == len(texts)
    assert sum(m.parsed for m in manifests) == len(texts) - cut - whole
    found, anomalies, *_ = audit(world.pipeline(), SLICES, AuditScope(whole=True, checksums=True))
    compared = auditor(world.pipeline()).whole(found)
    assert (anomalies, compared.anomalies, compared.busy) == ([], [], [])
    assert compared.rows > whole
    checked(world, PERSON)
    # In the end all of it is forgotten.
    assert len(forget_window(world.pipeline(), world.lake, SLICES, START.add(days=999)).units) == 3
    assert not list((world.folder / "lake/demo").rglob("*.parquet"))
    assert audit(world.pipeline(), SLICES, AuditScope(whole=True)).anomalies == []


def left_by_the_dead(world: EraseWorld) -> None:
    """Attempts that died long ago, one of them at an hour that has never landed."""
    file = next(path for path in (world.folder / "lake").rglob("type=click/**/*.parquet"))
    day_ago = time.time() - 86_400  # a landing sweeps what is a week old
    for hour in ("2026-01-01T00Z", "2025-12-31T20Z"):
        attempt = world.folder / f"lake/demo/_attempts/{hour}/dead/part.parquet"
        attempt.parent.mkdir(parents=True)
        shutil.copy(file, attempt)
        os.utime(attempt, (day_ago, day_ago))


def checked(world: EraseWorld, value: str) -> None:
    """By a program that uses nothing of Sluice."""
    receipt = world.folder / "lake/demo/_erasures/000000/receipt.json"
    program = [
        sys.executable,
        str(ROOT / "benchmarks/check_receipt.py"),
        str(world.folder / "lake/demo"),
        str(receipt),
    ]
    done = subprocess.run([*program, value], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    wrong = json.loads(receipt.read_text())
    wrong["units"][0]["files_after"][0]["sha256"] = "0" * 64
    receipt.write_text(json.dumps(wrong))
    assert subprocess.run([*program, value], capture_output=True, check=False).returncode == 1


@pytest.mark.long
def test_what_lands_again_leaves_the_person_out(world: EraseWorld) -> None:
    first = world.erase(f"uid={PERSON}")
    stands = {table: world.rows(table) for table in ("clicks", "other", "traffic")}
    world.land(SLICES, "reland", "from Kafka, which has the person")
    world.load(SLICES)
    assert {table: world.rows(table) for table in stands} == stands
    assert in_folder(world.folder / "lake", PERSON) == []
    assert audit(world.pipeline(), SLICES, AuditScope(whole=True)).anomalies == []
    again = world.erase(f"uid={PERSON}")
    assert len(read_erasures(world.lake).entries) == 1
    assert again["erased"]["records"] == first["erased"]["records"]
    assert {m.generation for m in read_manifests(world.lake, units_in(world.lake, SLICES)).values()} == {3}


POINTS: list[Any] = [
    Erase.SEARCHED,
    TableLoad.DELETED,
    Erase.ASKED,
    Erase.REWRITTEN,
    Erase.LOADED,
    Erase.CLEANED,
    Erase.RECEIPTED,
    Land.FILE_HANDED_OVER,
    Land.OLD_COPIED,
    Land.COMMITTED,
    Land.FILE_MOVED,
    Land.OLD_REMOVED,
    Land.MARKED,
    TableLoad.REVOKED,
    TableLoad.MOVED,
    TableLoad.COMMITTED,
]


class Killed(BaseException):
    """Nothing catches it, as nothing catches a kill."""


@pytest.mark.parametrize("point", per_commit(POINTS), ids=str)
def test_killed_there_and_asked_again(point: Any, world: EraseWorld, monkeypatch) -> None:
    before = {table: world.rows(table) for table in ("clicks", "other", "traffic")}

    def reached(one: Any) -> None:
        if one is point:
            raise Killed

    monkeypatch.setattr("sluice.crash_points.reached", reached)
    with pytest.raises(Killed):
        world.erase(f"uid={PERSON}")
    monkeypatch.undo()
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", world.variable)
    day_ago = time.time() - 86_400  # what the dead remake has written: in its first hours it may be alive
    for path in (world.folder / "lake/demo/_attempts").rglob("*.parquet"):
        os.utime(path, (day_ago, day_ago))
    world.erase(f"uid={PERSON}")
    for table, rows in before.items():
        assert world.rows(table) == [row for row in rows if row not in of_person(rows)]
    assert of_person(world.rejected_rows()) == []
    assert in_folder(world.folder / "lake", PERSON) == []
    assert len(read_erasures(world.lake).entries) == 1
    assert audit(world.pipeline(), SLICES, AuditScope(whole=True)).anomalies == []
    checked(world, PERSON)


@pytest.mark.long
@pytest.mark.parametrize("turn", range(3))
def test_beside_a_reland_of_the_same_hours(turn: int, world: EraseWorld) -> None:
    before = {table: world.rows(table) for table in ("clicks", "other", "traffic")}
    with ThreadPoolExecutor(2) as pool:
        other = pool.submit(world.land, SLICES, "reland", f"other {turn}")
        erased = pool.submit(world.erase, f"uid={PERSON}")
    errors = [one.exception() for one in (other, erased) if one.exception()]
    assert all(isinstance(error, SluiceError) and error.retryable for error in errors), errors
    world.erase(f"uid={PERSON}")
    world.load(SLICES)
    for table, rows in before.items():
        assert world.rows(table) == [row for row in rows if row not in of_person(rows)]
    assert in_folder(world.folder / "lake", PERSON) == []
    assert audit(world.pipeline(), SLICES, AuditScope(whole=True)).anomalies == []


@pytest.mark.long
def test_a_landing_that_did_not_know_is_named_and_mended(world: EraseWorld) -> None:
    """As one that is killed between its commit and its second read of the list."""
    eraser = world.eraser(f"uid={PERSON}")
    eraser.ask()
    found = audit(world.pipeline(), SLICES, AuditScope()).anomalies
    assert {(a.kind, a.slice) for a in found} == {(AnomalyKind.NOT_ERASED, piece.id) for piece in SLICES}
    assert {a.command for a in found} == {"sluice erase demo --pending"}
    applied = apply_list(world.pipeline(), world.lake, lambda _: None)
    assert (applied.units, applied.wrong) == (3, ())
    assert applied.records > 20 and not of_person(world.rows("clicks"))
    assert audit(world.pipeline(), SLICES, AuditScope()).anomalies == []
    assert in_folder(world.folder / "lake", PERSON) == []


@pytest.mark.long
def test_hours_that_the_lake_forgot_stay_named_until_they_land_again(server, name: str, tmp_path) -> None:
    """Their tables still hold the person, and no file is left to search."""
    world = EraseWorld.made(tmp_path, client_of(server), name, keep={"lake": "30d"})
    world.variable = server.at.variable
    world.begin()
    before = {table: world.rows(table) for table in ("clicks", "other", "traffic")}
    assert len(forget_window(world.pipeline(), world.lake, hours(2), START.add(days=99)).units) == 2
    receipt = world.erase(f"uid={PERSON}")
    assert [line.partition(" ")[0] for line in receipt["left"]] == ["not", "not"]
    assert receipt["erased"]["units"] == 1 and of_person(world.rows("clicks"))
    for _ in range(2):  # it changes nothing, and says so each time
        [line] = apply_list(world.pipeline(), world.lake, lambda _: None).unsearched
        assert line.startswith(
            "entry 0 of the erasure list is not applied to 2 units, 2026-01-01T00Z/dc1 … 2026-01-01T01Z/dc1: "
        )
        found = audit(world.pipeline(), SLICES, AuditScope()).anomalies
        assert {(a.kind, a.slice) for a in found} == {(AnomalyKind.NOT_ERASED, one.id) for one in hours(2)}
    world.land(hours(2), "reland", "as the anomaly says")
    world.load(SLICES)
    assert apply_list(world.pipeline(), world.lake, lambda _: None).unsearched == ()
    for table, rows in before.items():
        assert world.rows(table) == [row for row in rows if row not in of_person(rows)]
    assert audit(world.pipeline(), SLICES, AuditScope()).anomalies == []


@pytest.mark.long
def test_tables_are_loaded_that_have_rows_of_the_files_before(world: EraseWorld) -> None:
    """As after an erasure in other words that was killed between its remake and its load; also hours before
    the cluster's `start`, which was moved."""
    before = {table: world.rows(table) for table in ("clicks", "other", "traffic")}
    kafka = {"cluster": "dc1", "bootstrap": "127.0.0.1:1", "topics": ["bids", "wins"]}
    world.more["kafka"] = [{**kafka, "start": START.add(hours=1).isoformat()}]
    world.eraser(f"uid={PERSON}").ask()
    erase_owed(world.lake, units_in(world.lake, SLICES))  # and killed before its load
    assert world.rows("clicks") == before["clicks"]
    plan, _ = world.eraser(f"uid={PERSON}", "uid=nobody").plan()
    assert (plan.units, plan.behind) == (0, 3)
    receipt = world.erase(f"uid={PERSON}", "uid=nobody")
    for table, rows in before.items():
        assert world.rows(table) == [row for row in rows if row not in of_person(rows)]
    assert (of_person(world.rejected_rows()), receipt["left"]) == ([], [])
    assert {m.generation for m in read_manifests(world.lake, units_in(world.lake, SLICES)).values()} == {2}
    assert audit(world.pipeline(), SLICES, AuditScope(whole=True)).anomalies == []


@pytest.mark.long
def test_an_erasure_that_was_stopped_goes_on_and_covers_what_came_after_it(world: EraseWorld) -> None:
    first, later = world.eraser(f"uid={PERSON}"), world.eraser(f"uid={PERSON}")
    first = replace(first, request=replace(first.request, slices=hours(1)))
    assert first.ask()[0] == 0  # and no more
    [number, known] = later.ask()
    assert (number, later.goes_on(known.entries[0])) == (0, True)
    later.erase(number, known, ErasureProgress())
    with kafka_away():
        finish(later, number, known, force=False)
    [number, known] = later.ask()
    assert (number, later.goes_on(known.entries[1])) == (1, False)
    later.erase(number, known, ErasureProgress())
    assert in_folder(world.folder / "lake", PERSON) == []


@pytest.mark.long
def test_the_same_words_end_an_erasure_that_was_stopped_although_a_mask_came_since(world: EraseWorld) -> None:
    """The mask adds a hash to what is looked for: that is another entry, and each gets its receipt."""
    before, other, rejected_rows = world.rows("clicks"), world.rows("other"), world.rejected_rows()
    world.eraser(f"uid={PERSON}").ask()  # and killed
    world.more["mask"] = {"uid": {"hash": "a key of more than sixteen"}}
    last = world.erase(f"uid={PERSON}")
    first = json.loads(world.lake.read(receipt_key(0)).data)
    assert first["erased"]["rows"] == sum(len(of_person(rows)) for rows in (before, other, rejected_rows)) > 0
    assert (last["erasure"], last["erased"]["rows"], first["left"]) == (1, 0, [])
    assert world.rows("clicks") == [row for row in before if row not in of_person(before)]
