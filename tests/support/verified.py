"""A sound range of two hours as verify sees it; each test breaks one thing of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pendulum

from sluice.config.pipeline import Pipeline
from sluice.flow.verify.anomaly import Anomaly
from sluice.flow.verify.check import check
from sluice.flow.verify.facts import LakeFacts, RowIdentities, TableFacts, VerifyFacts
from sluice.flow.verify.repairs import Repairs
from sluice.manifest import LandedFile, Manifest, OffsetRange, PartitionCount
from sluice.slices import Slice, SliceRange, Unit
from sluice.state.boundaries.model import Boundaries
from sluice.state.ledger import LedgerRow
from sluice.state.status import UnitStatus
from sluice.state.unit_state import UnitState
from tests.support.manifests import made_manifest

START = pendulum.datetime(2026, 11, 20, 10)
TEN, ELEVEN = (Unit(Slice(START.add(hours=n)), "dc1") for n in range(2))


def pipeline(**changes: Any) -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": "ads",
            "kafka": [{"cluster": "dc1", "bootstrap": "h:1", "topics": ["bids"]}],
            "event": {"type": {"field": "type"}, "time": {"field": "ts"}},
            "lake": "file://lake",
            "tables": {"click": "e.clicks", "*": "e.other"},
            **changes,
        }
    )


def manifest(unit: Unit, start: int) -> Manifest:
    """10 offsets: 6 clicks (1 rejected row), 3 views, 1 rejected."""
    name, day = f"{unit.slice.id}-dc1-1", "date=2026-11-20"
    files = (
        LandedFile(f"type=click/{day}/hour=10/{name}-0.parquet", "a", "click", "2026-11-20T10", 6, 600, "x"),
        LandedFile(f"type=view/{day}/hour=10/{name}-1.parquet", "a", "view", "2026-11-20T10", 3, 300, "x"),
    )
    bad = (LandedFile(f"_rejected/{name}-0.parquet", "a", None, "", 1, 100, "x"),)
    ranges = (OffsetRange("bids", "u1", 0, start, start + 10),)
    counts = (PartitionCount("bids", 0, 10, 1),)
    return made_manifest(
        "ads", unit.slice.id, "dc1", 1, "a", ranges, files, bad, 10, {"not JSON": 1}, 0, counts=counts
    )


def status(unit: Unit, start: int) -> UnitStatus:
    found = manifest(unit, start)
    rows = {
        "e.clicks": LedgerRow(unit, found.id, ("click",), 6, 5, 1, "t", 1),
        "e.other": LedgerRow(unit, found.id, ("view",), 3, 3, 0, "t", 1),
    }
    return UnitStatus(unit, UnitState.COMPLETE, found.ranges, (), found, rows, (), 1)


FOUND = (status(TEN, 0), status(ELEVEN, 10))
LEDGERS = {t: {s.unit: s.tables[t] for s in FOUND} for t in ("e.clicks", "e.other")}
CLICKS = TableFacts(
    "e.clicks",
    rows={TEN: {"": 5}, ELEVEN: {"": 5}},
    rejected_rows={TEN: {"click": 1}, ELEVEN: {"click": 1}},
    identities=tuple(RowIdentities(s.unit, "bids", 0, 5, 5, 10 * n, 10 * n + 9) for n, s in enumerate(FOUND)),
    ledger=LEDGERS["e.clicks"],
)
OTHER = TableFacts("e.other", rows={TEN: {"view": 3}, ELEVEN: {"view": 3}}, ledger=LEDGERS["e.other"])
MANIFESTS = [s.manifest for s in FOUND if s.manifest]
LAKE = LakeFacts(
    sizes={f.key: f.bytes for m in MANIFESTS for f in (*m.files, *m.rejected)},
    named={(m.slice, "dc1"): m for m in MANIFESTS},
)
FACTS = VerifyFacts(
    pipeline=pipeline(),
    slices=SliceRange(START, START.add(hours=2)),
    now=START.add(days=1),
    boundaries=Boundaries(),
    statuses=FOUND,
    lake=LAKE,
    tables=(CLICKS, OTHER),
)


def found(facts: VerifyFacts) -> list[Anomaly]:
    return check(facts, Repairs("ads"))


def with_manifest(**changes: Any) -> VerifyFacts:
    """The first hour's manifest changed, and nothing else."""
    first = FOUND[0]
    assert first.manifest is not None
    return replace(FACTS, statuses=(replace(first, manifest=replace(first.manifest, **changes)), FOUND[1]))
