"""What verify, publish and the page say of a range in which one of several clusters is missing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.errors import Conservation, Refused
from sluice.flow import publish, steps
from sluice.flow.contents.compare import ContentsReport
from sluice.flow.publish import publish_event_hours
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.audit import Findings
from sluice.flow.verify.verdict import Verdict, note_verified
from sluice.page.history import days_of
from sluice.page.overview import OverviewContext
from sluice.slices import SliceRange, Unit
from sluice.state import months
from sluice.state.status import UnitStatus
from tests.support.fakes import MemoryLake
from tests.support.landing_world import World, event, hours
from tests.support.landing_world import pipeline as landing_pipeline
from tests.support.page_world import START, complete, missing, pipeline, unit
from tests.support.verified import FACTS, LAKE, found

TWO = [{"cluster": c, "bootstrap": "x:1", "topics": ["t"]} for c in ("dc1", "dc2")]
BOTH = pipeline(kafka=TWO)
RANGE = SliceRange(START, START.add(hours=2))


def at(hour: int, cluster: str) -> Unit:
    return replace(unit(hour), cluster=cluster)


def incomplete(of: Unit) -> Anomaly:
    return Anomaly(AnomalyKind.INCOMPLETE, "complete", "missing", slice=of.slice.id, cluster=of.cluster)


WAITS = [complete(at(h, "dc1")) for h in range(2)] + [complete(at(0, "dc2")), missing(at(1, "dc2"))]


def patched(monkeypatch: pytest.MonkeyPatch, units: list[UnitStatus], *anomalies: Anomaly) -> None:
    lake = MemoryLake()
    known: dict[str, Any] = {
        "open_lake": lambda pipeline: lake,
        "survey_past": lambda pipeline, slices: units,
        "audit": lambda pipeline, slices: Findings(units, list(anomalies), []),
        "auditor": lambda pipeline: SimpleNamespace(sample=lambda found: ContentsReport()),
        "publish_event_hours": lambda *_: [],
    }
    for module in (steps, publish):
        for name in known.keys() & vars(module).keys():
            monkeypatch.setattr(module, name, known[name])


def test_a_cluster_that_has_not_landed_breaks_no_equation_of_the_run(monkeypatch):
    patched(monkeypatch, WAITS, incomplete(at(1, "dc2")))
    assert steps.verify_range(BOTH, RANGE) == WAITS


@pytest.mark.parametrize(
    ("units", "anomaly"),
    [
        (WAITS, Anomaly(AnomalyKind.GAP, "1", "2", slice=unit(1).slice.id, cluster="dc2")),
        (WAITS, incomplete(at(0, "dc1"))),
    ],
)
def test_any_other_anomaly_does(monkeypatch, units, anomaly):
    patched(monkeypatch, units, anomaly)
    with pytest.raises(Conservation, match=str(anomaly.kind)):
        steps.verify_range(BOTH, RANGE)


def test_one_cluster_that_has_not_landed_is_the_whole_hour(monkeypatch):
    patched(monkeypatch, [missing(unit(0))], incomplete(unit(0)))
    with pytest.raises(Conservation, match="incomplete"):
        steps.verify_range(pipeline(), RANGE)
    with pytest.raises(Refused, match="not complete"):
        steps.publish_range(pipeline(), RANGE)


def test_complete_hours_are_published_and_the_others_wait(monkeypatch):
    patched(monkeypatch, WAITS)
    (target,) = {target.table for target in BOTH.targets}
    [published] = steps.publish_range(BOTH, RANGE)
    assert (published["table"], published["slice"]) == (target, unit(0).slice.id)


def test_an_event_hour_does_not_wait_for_a_cluster_that_came_later():
    clusters = [{"cluster": c, "bootstrap": "nowhere:1", "topics": ["bids"]} for c in ("dc1", "dc2")]
    spec, alone = landing_pipeline(kafka=clusters), landing_pipeline(kafka=clusters[:1])
    logs = {(c, "bids"): [[event("click", m) for m in range(0, 240, 20)]] for c in ("dc1", "dc2")}
    world, lake = World(logs), MemoryLake()
    world.resolve(alone, lake, hours(4))
    world.land(alone, lake, hours(4))
    world.resolve(spec, lake, hours(2, first=2))
    # Event hour h waits for the slices h - 1, h and h + 1, and dc2 begins with slice 2, which has not landed.
    assert publish_event_hours(spec, lake, hours(4)) == ["2026-01-01T00"]
    world.land(spec, lake, hours(2, first=2))
    assert publish_event_hours(spec, lake, hours(4)) == [f"2026-01-01T0{h}" for h in range(3)]


def test_a_year_of_days_does_not_miss_a_cluster_that_came_later_or_went():
    lake, after = MemoryLake(), START.add(hours=9)
    note_verified(lake, RANGE, [*WAITS[:2], complete(at(1, "dc2"))], [], after)
    noted = months.read_summaries(lake, RANGE)

    def counts(*clusters: str, **begins: object) -> dict[str, int]:
        spec = pipeline(kafka=[{**TWO[0], "cluster": c} for c in clusters])
        (day,) = days_of(RANGE, noted, OverviewContext(spec, {}, Verdict(), START, after, begins))
        return dict(day.counts)

    assert counts("dc1", "dc2", dc2=START + timedelta(hours=1)) == {"verified": 2}
    assert counts("dc1", "dc2") == {"late": 1, "verified": 1}
    assert counts("dc1") == {"verified": 2}
    assert counts("dc3", dc3=START + timedelta(hours=1)) == {"late": 1, "verified": 1}


def test_what_only_kafka_could_repair_of_a_cluster_that_went_says_so():
    key = next(iter(LAKE.sizes))
    lost = replace(FACTS, lake=replace(LAKE, sizes={k: v for k, v in LAKE.sizes.items() if k != key}))
    (anomaly,) = found(lost)
    assert "--mode reland" in anomaly.command
    other = FACTS.pipeline.model_copy(
        update={"kafka": [c.model_copy(update={"cluster": "dc9"}) for c in FACTS.pipeline.kafka]}
    )
    left = tuple(replace(status, gone=True) for status in lost.statuses)
    (gone,) = found(replace(lost, pipeline=other, statuses=left))
    assert (gone.kind, gone.command) == (anomaly.kind, "")
    assert "does not ask its cluster for the hour" in gone.advice
