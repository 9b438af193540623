"""The search for missing fields in files that landed."""

from __future__ import annotations

from sluice.flow.contents.missing_fields import SampledFields
from sluice.flow.verify.anomaly import Anomaly
from sluice.flow.verify.repairs import Repairs
from sluice.slices import Unit
from sluice.state.manifests import read_manifests
from tests.support.fakes import MemoryLake
from tests.support.landing_world import World, event, hours, pipeline

UNITS = [Unit(slice_, "dc1") for slice_ in hours(2)]


def landed(*members: str) -> MemoryLake:
    """A lake of an hour for each text, with 60 events that have these members, too."""
    log = []
    for hour, text in enumerate(members):
        value, stamp = event("click", hour * 60 + 1)
        log += [(value[:-1] + f",{text}}}".encode(), stamp)] * 60
    lake, world = MemoryLake(), World({("dc1", "bids"): [log]})
    world.resolve(pipeline(), lake, hours(len(members)))
    world.land(pipeline(), lake, hours(len(members)))
    return lake


def missing(lake: MemoryLake) -> list[Anomaly]:
    fields = {"db.click": {("geo", "country"): "country"}}
    sampled = SampledFields(pipeline(), lake, fields, Repairs("demo"), lambda _: None)
    return list(sampled.check(list(read_manifests(lake, UNITS).items()), None))


def test_a_field_inside_an_object_that_is_there_twice_stops_no_verify():
    once, twice = '"geo":{"country":"a"}', '"geo":{"country":"a","country":"b"}'
    assert missing(landed(once, twice)) == []
    none_first = '"geo":{"country":null,"country":"b"}'
    [anomaly] = missing(landed(twice, none_first))
    assert (anomaly.slice, anomaly.table, anomaly.seen) == ("2026-01-01T01Z", "db.click", "100% have none")
