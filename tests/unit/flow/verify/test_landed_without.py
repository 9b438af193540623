"""A topic that is added to the file: what `plan`, `status --lag` and `verify` say of the hours before it."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console, Group

from sluice.cli import status
from sluice.cli.status import Behind
from sluice.clients.lake.temporary import Overlay
from sluice.config.pipeline import Pipeline
from sluice.errors import RecordsExpired
from sluice.flow.resolve.resolve import accept_topic, resolve
from sluice.flow.verify.check_files import check_lacking
from sluice.flow.verify.notes import landed_without, notes
from sluice.flow.verify.repairs import Repairs
from sluice.plan.backlog import Backlog
from sluice.plan.dry_run import unit_line
from sluice.plan.lag import ask_topics, lag_of, recreated
from sluice.slices import SliceRange, to_ms
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
        topics, errors = ask_topics(both, BoundaryLog(lake).read(), world.topics_of)
        there, out = lag_of(found, topics, errors, NOW, boundaries), io.StringIO()
        Console(file=out, width=200).print(Group(*status.lag_lines(Behind(found, Backlog(), there))))
        return out.getvalue()

    stored = BoundaryLog(lake).read()
    said = (
        "2 slices lack topic dc1/wins (unknown offsets), from 2026-01-01T00Z to 2026-01-01T01Z: "
        "`sluice plan demo --from 2026-01-01T00:00Z --to 2026-01-01T02:00Z` counts them, and "
        "`sluice run demo --from 2026-01-01T00:00Z --to 2026-01-01T02:00Z --mode reland` brings it"
    )
    assert verified(stored) == ([], [said])
    assert [topic.line(both) for topic in landed_without(surveyed(both, lake, stored))] == [said]
    of_retry = [
        replace(one, manifest=replace(one.manifest, retried=("other",))) if one.manifest else one
        for one in surveyed(both, lake, stored)
    ]
    [line] = [topic.line(both) for topic in landed_without(of_retry)]
    assert line.startswith(
        said.removesuffix("` brings it") + " --yes` brings it; what retries have brought in"
    )
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


def test_an_hour_of_a_topic_that_was_recreated_is_not_landed_again():
    """Its first hour is of the old `bids`. Then `wins` is added, with records in both hours; the second one
    can be landed again, as the command says."""
    log = [event("click", 1), event("click", 61)]
    world, lake = World({("dc1", "bids"): [log]}), MemoryLake()
    world.resolve(spec("bids"), lake, hours(1))
    world.land(spec("bids"), lake, hours(1))
    world.kafka.topics["dc1", "bids"] = FakeTopic("again", {0: [at for _, at in log[1:]]})
    world.logs["dc1", "bids"] = [log[1:]]
    (told,) = recreated(
        spec("bids"),
        BoundaryLog(lake).read(),
        ask_topics(spec("bids"), BoundaryLog(lake).read(), world.topics_of)[0],
        NOW,
    )
    command = "sluice accept demo bids --from 2026-01-01T01:00Z"
    assert str(told).startswith("topic dc1/bids was recreated (id id-bids is now again)")
    assert f"`{command}` reads the new one" in str(told)
    out = io.StringIO()
    Console(file=out, width=200).print(
        Group(*status.lag_lines(Behind([], Backlog(), recreated=(str(told),))))
    )
    assert command in out.getvalue()

    since = START.add(hours=1)
    accept_topic(spec("bids"), lake, "dc1", "bids", since, NOW, world.topics_of)
    second = SliceRange(since, since.add(hours=1))
    world.resolve(spec("bids"), lake, second)
    world.land(spec("bids"), lake, second)
    world.logs["dc1", "wins"] = [[event("click", n) for n in (2, 62)]]
    world.kafka.topics["dc1", "wins"] = FakeTopic("w", {0: [at for _, at in world.logs["dc1", "wins"][0]]})
    both = spec("bids", "wins")
    world.resolve(both, lake, hours(2))
    boundaries = BoundaryLog(lake).read()
    found = surveyed(both, lake, boundaries)
    facts = replace(FACTS, pipeline=both, boundaries=boundaries, statuses=tuple(found))
    gone, brought = check_lacking(facts, Repairs("demo"))
    assert (gone.command, gone.advice) == (
        "",
        "topic bids was recreated, and what it had then is in the lake alone: no `reland` brings them",
    )
    assert brought.command == "sluice run demo --from 2026-01-01T01:00Z --to 2026-01-01T02:00Z --mode reland"
    lines = [topic.line(both) for topic in landed_without(found)]
    assert [line.partition(": ")[2] for line in lines] == [gone.advice, f"`{brought.command}` brings it"]
    assert ["no reland brings it" in unit_line(status, "nothing") for status in found] == [True, False]
    with pytest.raises(RecordsExpired):
        world.land(both, lake, hours(1), "reland", "t1")
    world.land(both, lake, second, "reland", "t2")
    assert [status.lacks for status in surveyed(both, lake, boundaries)] == [
        "lacks topic wins (1 offset)",
        "",
    ]
