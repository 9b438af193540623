"""Damage in the lake: each is found at its place, and the printed command repairs it."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from sluice.clients.lake import layout
from tests.faults.damage import REJECTED_RECORDS_HOUR, Damaged
from tests.integration.landed import client_of
from tests.support.long_form import per_commit

pytestmark = pytest.mark.faults

_WEEK = 7 * 24 * 3600


@pytest.fixture(scope="module")
def built(clickhouse_server, tmp_path_factory) -> dict:
    return {
        "folder": tmp_path_factory.mktemp("damage"),
        "client": client_of(clickhouse_server),
        "made": False,
    }


@pytest.fixture
def damaged(built, clickhouse_server, monkeypatch, capsys) -> Damaged:
    """Made once; every test leaves it whole, and says so by verifying."""
    monkeypatch.setenv("AIRFLOW_CONN_CLICKHOUSE_DEFAULT", clickhouse_server.at.variable)
    world = Damaged(built["folder"], built["client"], "damage_lake", monkeypatch, capsys)
    if not built["made"]:
        world.make()
        built["made"] = True
    return world


def found(anomalies: list[dict], *fields: str) -> list[tuple]:
    return [tuple(anomaly[name] for name in fields) for anomaly in anomalies]


def repaired(damaged: Damaged, anomalies: list[dict], *words: str) -> None:
    damaged.repair(anomalies)
    assert damaged.verify(*words) == []


def clicks(damaged: Damaged, hour: int) -> Path:
    [file] = [f for f in damaged.manifest(hour).files if f.type == "click"]
    return damaged.root / file.key


@pytest.mark.long
def test_files_removed_truncated_and_altered(damaged: Damaged):
    """Of three hours, each with its own damage; only reading the bytes finds the flipped one."""
    removed, cut, flipped = (clicks(damaged, hour) for hour in range(3))
    size = cut.stat().st_size
    removed.unlink()
    os.truncate(cut, size - 1)
    data = bytearray(flipped.read_bytes())
    data[len(data) // 2] ^= 1
    flipped.write_bytes(data)
    anomalies = damaged.verify()
    assert found(anomalies, "kind", "slice", "type", "seen") == [
        ("file missing", "2026-01-01T00Z", "click", "no file"),
        ("file size", "2026-01-01T01Z", "click", f"{size - 1:,} bytes"),
    ]
    assert [a["file"] for a in anomalies] == [str(p.relative_to(damaged.root)) for p in (removed, cut)]
    anomalies = damaged.verify("--checksums")
    assert found(anomalies[2:], "kind", "slice", "file") == [
        ("file checksum", "2026-01-01T02Z", str(flipped.relative_to(damaged.root)))
    ]
    repaired(damaged, anomalies, "--checksums")


@pytest.mark.long
def test_rejected_records_that_were_removed(damaged: Damaged):
    [file] = damaged.manifest(REJECTED_RECORDS_HOUR).rejected
    (damaged.root / file.key).unlink()
    anomalies = damaged.verify()
    assert found(anomalies, "kind", "slice", "file") == [("file missing", "2026-01-01T02Z", file.key)]
    repaired(damaged, anomalies)


@pytest.mark.long
def test_a_file_that_no_manifest_lists(damaged: Damaged):
    own = clicks(damaged, 1)
    other = own.with_name(f"2026-01-01T01Z-dc1-{damaged.manifest(1).generation}-99.parquet")
    shutil.copy(own, other)
    anomalies = damaged.verify()
    assert found(anomalies, "kind", "file") == [("unknown file", str(other.relative_to(damaged.root)))]
    assert anomalies[0]["command"].endswith("--clean")
    repaired(damaged, anomalies)
    assert own.exists()


def test_what_sluice_did_not_write_stays(damaged: Damaged):
    """A person's file, and the lake of another pipeline in one of the folders: its files are named alike."""
    own, generation = clicks(damaged, 1), damaged.manifest(1).generation
    strays = [
        own.with_name("events.parquet"),
        damaged.root / "type=click" / "b" / "type=x" / own.relative_to(damaged.root / "type=click").parent,
    ]
    strays[1] = strays[1] / f"2026-01-01T01Z-dc1-{generation - 1}-0.parquet"
    strays[1].parent.mkdir(parents=True)
    for stray in strays:
        shutil.copy(own, stray)
    for words in ((), ("--clean",)):
        anomalies = damaged.verify(*words)
        assert sorted(found(anomalies, "kind", "file", "command")) == sorted(
            ("unknown file", str(stray.relative_to(damaged.root)), "") for stray in strays
        )
    assert all(stray.read_bytes() == own.read_bytes() for stray in strays)
    strays[0].unlink()
    shutil.rmtree(damaged.root / "type=click" / "b")


@pytest.mark.parametrize("length", per_commit(["30m", "2h", "6h"]))
@pytest.mark.long
def test_with_another_slice_length_nothing_is_judged_and_nothing_removed(damaged: Damaged, length: str):
    """Its hours would be other ones, and every file a file of none of them."""
    before = {path: path.read_bytes() for path in damaged.root.rglob("*.parquet")}
    damaged.configure(slice=length)
    try:
        for words in ("verify ads", "verify ads --clean", "verify ads --contents", "status ads"):
            code, said = damaged.command(f"sluice {words} --config {damaged.config}")
            assert (code, "put `slice: 1h` back" in said) == (2, True), (words, said)
    finally:
        damaged.configure()
    assert before and {path: path.read_bytes() for path in damaged.root.rglob("*.parquet")} == before
    assert damaged.verify() == []


@pytest.mark.long
def test_a_listed_file_copied_into_another_hour(damaged: Damaged):
    own = clicks(damaged, 3)
    other = damaged.root / layout.event_folder("foreign", "2025-07-01T05") / own.name
    other.parent.mkdir(parents=True)
    shutil.copy(own, other)
    anomalies = damaged.verify("--from", "2026-01-01T03:00Z", "--to", "2026-01-01T04:00Z")
    assert found(anomalies, "kind", "slice", "file") == [
        ("unknown file", "2026-01-01T03Z", str(other.relative_to(damaged.root)))
    ]
    repaired(damaged, anomalies)
    assert own.exists() and not other.exists()


@pytest.mark.long
def test_a_file_of_an_older_generation_is_removed_without_being_asked(damaged: Damaged):
    old = clicks(damaged, 0)
    kept = old.read_bytes()
    line = f"sluice run ads --config {damaged.config} --from 2026-01-01T00Z --to 2026-01-01T01Z --mode reland"
    assert damaged.command(line)[0] == 0
    assert not old.exists()
    old.write_bytes(kept)
    assert damaged.verify() == []
    assert not old.exists()


@pytest.mark.long
def test_attempts_count_when_they_are_a_week_old(damaged: Damaged):
    young = damaged.root / "_attempts" / "2026-01-01T01Z" / "young" / "a.parquet"
    old = damaged.root / "_attempts" / "2026-01-01T01Z" / "old" / "a.parquet"
    for path in (young, old):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x")
    os.utime(old, times=(time.time() - _WEEK - 60,) * 2)
    anomalies = damaged.verify()
    assert found(anomalies, "kind", "file") == [("old attempt", str(old.relative_to(damaged.root)))]
    repaired(damaged, anomalies)
    assert young.exists() and not old.exists()
    shutil.rmtree(young.parent)


def _read(content: dict) -> None:
    content["read"] -= 1


def _counts(content: dict) -> None:
    content["counts"][0]["read"] += 7


def _rejected(content: dict) -> None:
    content["rejected_records"]["not JSON"] += 1


def _rows(content: dict) -> None:
    content["files"][0]["rows"] += 1


@pytest.mark.parametrize(
    ("change", "kinds"),
    per_commit(
        [
            (_read, {"records read", "rows landed"}),
            (_counts, {"records read"}),
            (_rejected, {"records rejected", "rows landed"}),
            (_rows, {"rows landed", "ledger"}),
        ]
    ),
)
@pytest.mark.long
def test_counts_of_a_manifest_that_were_edited(damaged: Damaged, change, kinds: set[str]):
    damaged.edit(damaged.manifest_path(REJECTED_RECORDS_HOUR), change)
    anomalies = damaged.verify()
    assert kinds <= {a["kind"] for a in anomalies}
    assert {a["slice"] for a in anomalies} == {"2026-01-01T02Z"}
    repaired(
        damaged, [a for a in anomalies if a["kind"] in ("records read", "rows landed", "records rejected")]
    )


@pytest.mark.parametrize(
    ("change", "kind", "offsets"), per_commit([(-1, "gap", [9, 10]), (1, "overlap", [10, 11])])
)
@pytest.mark.long
def test_the_end_of_a_slice_that_was_edited(damaged: Damaged, change: int, kind: str, offsets: list[int]):
    def edit(content: dict) -> None:
        [r] = [r for r in content["ranges"] if r["partition"] == 1]
        r["until"] += change

    damaged.edit(damaged.manifest_path(1), edit)
    anomalies = damaged.verify()
    [one] = [a for a in anomalies if a["kind"] == kind]
    assert [one[k] for k in ("slice", "cluster", "topic", "partition", "offsets")] == [
        "2026-01-01T02Z",
        "dc1",
        "bids",
        1,
        offsets,
    ]
    assert "1 offsets in " in one["seen"]
    [own] = [a for a in anomalies if a["kind"] == "offsets"]
    assert (own["slice"], own["partition"], own["expected"]) == ("2026-01-01T01Z", 1, "[5, 10)")
    repaired(damaged, anomalies)


@pytest.mark.long
def test_a_slice_that_begins_before_its_predecessor(damaged: Damaged):
    def edit(content: dict) -> None:
        content["ranges"][0]["start"] = 0

    damaged.edit(damaged.manifest_path(2), edit)
    [one] = [a for a in damaged.verify() if a["kind"] == "backward move"]
    assert (one["slice"], one["partition"], one["offsets"]) == ("2026-01-01T02Z", 0, [0, 10])
    repaired(damaged, [one])


@pytest.mark.long
def test_a_partition_that_a_manifest_does_not_have(damaged: Damaged):
    damaged.edit(damaged.manifest_path(3), lambda content: content["ranges"].pop())
    anomalies = damaged.verify()
    assert ("offsets", "2026-01-01T03Z", 2, "no such partition in its manifest") in found(
        anomalies, "kind", "slice", "partition", "seen"
    )
    repaired(damaged, anomalies)


@pytest.mark.long
def test_a_manifest_that_cannot_be_read(damaged: Damaged):
    path = damaged.manifest_path(1)
    kept = path.read_bytes()
    path.write_bytes(kept[:100])
    anomalies = damaged.verify()
    assert found(anomalies, "kind", "slice", "command") == [("unreadable manifest", "2026-01-01T01Z", "")]
    assert "put it back from a copy" in anomalies[0]["advice"]
    assert damaged.verify("--clean") == anomalies, "its files are not to be lost"
    path.write_bytes(kept)
    assert damaged.verify() == []


@pytest.mark.long
def test_a_manifest_that_is_gone(damaged: Damaged):
    """Its files may be the only copy: they stay until the hour has landed again, and go with that."""
    line = f"sluice run ads --config {damaged.config} --from 2026-01-01T03Z --to 2026-01-01T04Z --mode reland"
    assert damaged.command(line)[0] == 0
    damaged.manifest_path(3).unlink()
    anomalies = damaged.verify("--clean")
    assert {(a["kind"], a["slice"]) for a in anomalies} == {
        ("incomplete", "2026-01-01T03Z"),
        ("unknown file", "2026-01-01T03Z"),
    }
    assert {a["command"].rpartition(" ")[2] for a in anomalies} == {"fill"}
    repaired(damaged, anomalies[:1])


def edit_boundary(damaged: Damaged, by: int) -> bytes:
    """Moves the boundary between the hours 1 and 2 of partition 0; returns the log as it was."""
    path = damaged.root / layout.boundary_entry(0)
    kept = path.read_bytes()

    def edit(content: dict) -> None:
        offsets = content["topics"][0]["partitions"][0]["offsets"]
        offsets[2] += by
        offsets[3] -= by

    damaged.edit(path, edit)
    return kept


@pytest.mark.long
def test_a_boundary_that_was_edited(damaged: Damaged):
    """It would cut the two hours elsewhere: both are landed again between what is stored now."""
    kept = edit_boundary(damaged, 2)
    anomalies = damaged.verify(tried=False)  # rows of two offsets are right in the other hour now
    assert found(anomalies, "kind", "slice", "partition", "expected", "seen") == [
        ("offsets", "2026-01-01T01Z", 0, "[5, 12)", "[5, 10) in its manifest"),
        ("offsets", "2026-01-01T02Z", 0, "[12, 15)", "[10, 15) in its manifest"),
    ]
    assert anomalies[0]["command"] == anomalies[1]["command"]
    repaired(damaged, anomalies[:1])
    path = damaged.root / layout.boundary_entry(0)
    path.write_bytes(kept)
    repaired(damaged, damaged.verify())


@pytest.mark.long
def test_a_boundary_that_falls(damaged: Damaged):
    kept = edit_boundary(damaged, -20)
    anomalies = damaged.verify()
    [one] = [a for a in anomalies if a["kind"] == "backward move"]
    assert (one["slice"], one["partition"], one["command"]) == ("2026-01-01T01Z", 0, "")
    assert "from a copy" in one["advice"]
    (damaged.root / layout.boundary_entry(0)).write_bytes(kept)
    assert damaged.verify() == []


@pytest.mark.long
def test_boundaries_that_are_gone(damaged: Damaged, tmp_path: Path):
    """Nobody knows where the hours were cut: what comes late, or lands again, would be cut otherwise."""
    log = damaged.root / "_boundaries"
    log.rename(tmp_path / "kept")
    try:
        # Without a range: what has landed says which hours are known.
        for words in (("--from", "2026-01-01T00Z", "--to", "2026-01-01T04Z"), ()):
            anomalies = damaged.verify(*words)
            assert {(a["kind"], a["slice"], a["expected"], a["seen"], a["command"]) for a in anomalies} == {
                ("offsets", damaged.slice_id(hour), "the boundaries that it landed by", "none", "")
                for hour in range(4)
            }
            assert all("put `_boundaries/` back from a copy" in a["advice"] for a in anomalies)
    finally:
        shutil.rmtree(log, ignore_errors=True)
        (tmp_path / "kept").rename(log)
    assert damaged.verify() == []
