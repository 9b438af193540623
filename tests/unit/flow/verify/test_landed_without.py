"""A topic that is added to the file: what `plan`, `status --lag` and `verify` say of the hours before it."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console, Group

from sluice.cli import lag
from sluice.cli.lag import Behind
from sluice.clients.lake.overlay import Overlay
from sluice.config.pipeline import Pipeline
from sluice.flow.resolve.resolve import resolve
from sluice.flow.verify.check_offsets import check_lacking
from sluice.flow.verify.landed_without import landed_without
from sluice.flow.verify.notes import notes
from sluice.flow.verify.repairs import Repairs
from sluice.plan.backlog import Backlog
from sluice.plan.dry_run import unit_line
from sluice.plan.lag import ask_topics, lag_of
from sluice.slices import to_ms
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.boundaries.model import Boundaries
from sluice.state.manifests import read_manifests
from sluice.state.status import UnitStatus, statuses
from sluice.state.units import units_of
from tests.support.fakes import FakeTopic, MemoryLake
from tests.support.landing_world import NOW, START, World, event, hours, pipeline
from tests.support.verified import FACTS


def spec(*topics: str) -> Pipeline:
    return pipeline(kafka=[{"cluster": "dc1", "bootstrap": "nowhere:1", "topics": list(topics)}])


def surveyed(spec: Pipeline, lake: MemoryLake, boundaries: Boundaries) -> list[UnitStatus]:
    units = units_of(spec, hours(2), boundaries)
    return statuses(spec, units, boundaries, read_manifests(lake, units), {}, NOW)


def test_before_a_run_all_of_them_call_its_offsets_unknown_and_then_all_count_them():
    """Two hours have landed of `bids`; `wins`, which has three records in the first, is added."""
    world, lake = World({("dc1", "bids"): [[event("click", 1)]]}), MemoryLake()
    world.resolve(spec("bids"), lake, hours(2))
    world.land(spec("bids"), lake, hours(2))
    world.kafka.topics["dc1", "wins"] = FakeTopic("w", {0: [to_ms(START) + n for n in range(3)]})
    both, repairs = spec("bids", "wins"), Repairs("demo")

    def verified(boundaries: Boundaries) -> tuple[list[str], list[str]]:
        found = surveyed(both, lake, boundaries)
        facts = replace(FACTS, pipeline=both, boundaries=boundaries, statuses=tuple(found))
        open_ones = [anomaly.expected for anomaly in check_lacking(facts, repairs)]
        return open_ones, [note for note in notes(facts) if "lack topic" in note or "lacks topic" in note]

    def waiting(boundaries: Boundaries) -> str:
        found = surveyed(both, lake, boundaries)
        topics, errors = ask_topics(both, world.topics_of)
        there, out = lag_of(found, topics, errors, NOW, boundaries), io.StringIO()
        Console(file=out, width=200).print(Group(*lag.lines(Behind(found, Backlog(), there))))
        return out.getvalue()

    stored = BoundaryLog(lake).read()
    said = (
        "2 slices lack topic dc1/wins (unknown offsets), from 2026-01-01T00Z to 2026-01-01T01Z: "
        "`sluice plan demo --from 2026-01-01T00:00Z --to 2026-01-01T02:00Z` counts them, and "
        "`sluice run demo --from 2026-01-01T00:00Z --to 2026-01-01T02:00Z --mode reland` brings it"
    )
    assert verified(stored) == ([], [said])
    assert [topic.line(both) for topic in landed_without(surveyed(both, lake, stored))] == [said]
    assert "dc1/wins: unknown how many of them are in hours that landed without it" in waiting(stored)
    planned = resolve(both, Overlay(lake), hours(2), NOW, world.topics_of).boundaries
    assert [
        "lacks topic wins (3 offsets): reland brings it" in unit_line(status, "nothing")
        for status in surveyed(both, lake, planned)
    ] == [True, False]

    world.resolve(both, lake, hours(2))
    stored = BoundaryLog(lake).read()
    assert verified(stored) == (["its 3 offsets of the topic"], [])
    assert "3 records wait in Kafka, 3 of them in hours that landed without the topic" in waiting(stored)
    assert "unknown" not in waiting(stored)
