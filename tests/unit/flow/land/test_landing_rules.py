"""The rules by which records become rows: the lake keeps them, and manifests name them."""

from __future__ import annotations

from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from sluice.errors import RuleGone, SluiceError
from sluice.flow.steps import rules_now
from sluice.manifest import decode, encode
from sluice.slices import Slice, SliceRange, Unit
from sluice.state.manifests import read_manifests
from sluice.state.rules import LandingRules, RulesReader, TableRules, digest_of, write_rules
from tests.support.fakes import MemoryLake
from tests.support.landed_contents import contents
from tests.support.landing_world import SPEC, START, World, event, hours, pipeline, rows_in
from tests.support.long_form import per_commit
from tests.unit.flow.land.test_remake import CHANGES, SLICES, landed, spec, units, worlds


def digest(spec, schema):
    return digest_of(LandingRules.of(spec, schema))


BIDS = ("dc1", "bids")
LEVELS = ("read_committed", "read_uncommitted")
SAME = [
    {},
    {"tables": {"bid": "db.bids"}},
    {"max_record": "128MiB"},
    {"rows_per_read": 7},
    {"settle": "5m"},
]
OTHERS = [
    {"event": {"type": {"field": "type"}, "time": {"field": "at", "format": "iso8601"}}},
    {"event": {"type": {"field": "type"}, "time": {"field": "at", "zone": "Europe/Berlin"}}},
    {"event": {"type": {"field": "kind"}, "time": {"field": "at"}}},
    {"event": {"type": {"header": "type"}, "time": {"field": "at"}}},
    {"event": {"type": {"topic": True}, "time": {"field": "at"}}},
    {"event": {"type": {"field": "type"}, "time": {"field": "at", "format": "epoch_ms"}}},
    {"event": {"type": {"field": "type"}, "time": {"record": True}}},
    {"event": {"type": {"field": "type"}, "time": {"field": "at"}, "rows": "array"}},
    {"event": {"type": {"field": "type"}, "time": {"field": "at"}, "batch": {"header": "b"}}},
    {"max_types": 3},
    {"max_early": "2h"},
    {"max_early": "none"},
    {"max_late": "7d"},
]


@pytest.mark.parametrize("changes", SAME)
def test_what_changes_no_row_is_none_of_it(changes: dict):
    assert digest(pipeline(**changes), None) == digest(pipeline(), None)


def test_each_rule_is_another():
    found = [digest(pipeline(**changes), None) for changes in ({}, *OTHERS)]
    assert len(set(found)) == len(found)


def test_the_content_of_the_schema_file_counts(tmp_path: Path):
    record = '{"type": "record", "name": "e", "fields": [{"name": "%s", "type": "string"}]}'
    spec = {"type": {"topic": True}, "time": {"record": True}, "format": {"avro": str(tmp_path / "e.avsc")}}
    found = []
    for name in ("a", "b", "a"):
        (tmp_path / "e.avsc").write_text(record % name)
        found.append(rules_now(pipeline(event=spec)))
    assert found[0] == found[2] != found[1]


def test_a_landing_keeps_them_and_a_remake_those_of_now():
    world, lake = World({BIDS: [[event("click", n) for n in range(50)]]}), MemoryLake()
    world.resolve(pipeline(), lake, hours(1))
    world.land(pipeline(), lake, hours(1))
    unit = Unit(Slice(START), "dc1")
    first = read_manifests(lake, [unit])[unit]
    assert first.rules == rules_now(pipeline()) == digest(pipeline(), None)
    assert RulesReader(lake).landing(first.rules) == LandingRules.of(pipeline(), None)
    assert decode(encode(first), "here") == first
    other = pipeline(event={"type": {"field": "type"}, "time": {"record": True}})
    world.land(other, lake, hours(1), "remake", "again")
    second = read_manifests(lake, [unit])[unit]
    assert (second.generation, second.rules) == (2, rules_now(other))
    assert second.rules != first.rules


KEY = "0123456789abcdef"
MASKED = {"mask": {"country": {"hash": KEY}, "user": "drop"}}
FILES: dict[str, dict] = {
    "plain": {},
    "masked": MASKED,
    "masked otherwise": {
        "mask": {"country": {"keep_first": 1, "types": ["click", "bid"]}, "_headers": "keep"}
    },
    **{name: after for name, (_, after) in CHANGES.items()},
}


@pytest.mark.parametrize("before", per_commit(FILES, 8))
def test_a_reland_lands_by_the_rules_of_each_hour_whatever_the_file_says(before: str):
    # What hashes needs the key: the file still has it. Types with a table have folders of their own whatever
    # `max_types` says, and the tables are those of the file.
    key = MASKED if before == "masked" else {}
    skipped = {before, "more types"} if before == "fewer types" else {before}
    now = [spec(**{**changes, **key}) for name, changes in FILES.items() if name not in skipped]
    world, lake = landed(spec(**FILES[before]), worlds())
    first = contents(lake, units(spec()))
    for number, other in enumerate(now):
        world.land(other, lake, SLICES, "reland", f"{number}", accept_loss=False)
        assert contents(lake, units(spec())) == first, f"landed again under {number}"
    assert {m.generation for m in read_manifests(lake, units(spec())).values()} == {len(now) + 1}


@pytest.mark.parametrize("now", [{}, {"mask": {"country": "drop"}}])
def test_a_key_that_left_the_file_is_asked_for(now: dict):
    world, lake = landed(spec(**MASKED), worlds())
    before = dict(lake.objects)
    with pytest.raises(RuleGone, match=r"01T00Z/dc1 landed by `mask\.\w+: hash`, which the pipeline file no"):
        world.land(spec(**now), lake, SLICES, "reland", "again")
    assert lake.objects == before
    world.land(spec(**MASKED), lake, SLICES, "reland", "again")


def test_a_new_key_hashes_what_is_landed_again():
    world, lake = landed(spec(**MASKED), worlds())
    country = {"hash": ["fedcba9876543210", KEY]}
    world.land(spec(mask={**MASKED["mask"], "country": country}), lake, SLICES, "reland", "again")
    [old, new] = [read_manifests(at, units(spec())) for at in (landed(spec(**MASKED), worlds())[1], lake)]
    for unit, manifest in new.items():
        assert manifest.masked is not None and manifest.masked.keys != old[unit].masked.keys


def isolated(isolation: str, **changes: object):
    return pipeline(kafka=[{**SPEC["kafka"][0], "isolation": isolation}], **changes)


@pytest.mark.parametrize(("before", "after"), [LEVELS, LEVELS[::-1]])
def test_a_reland_and_a_remake_keep_the_isolation_that_each_hour_landed_by(before: str, after: str):
    """Two hours of 20 records each, the first one before the file was edited; half of them were aborted."""
    world, lake = World({BIDS: [[event("click", 3 * n) for n in range(40)]]}), MemoryLake()
    world.aborted = frozenset(range(1, 40, 2))
    world.resolve(isolated(before), lake, hours(2))
    world.land(isolated(before), lake, hours(1))
    world.land(isolated(after), lake, hours(1, 1))
    rows = {"read_committed": 10, "read_uncommitted": 20}
    landed = {hours(1): before, hours(1, 1): after}
    for changes, mode in (({}, "reland"), ({"max_late": "7d"}, "remake"), ({"max_late": "7d"}, "reland")):
        world.land(isolated(after, **changes), lake, hours(2), mode, f"{mode}{changes}", accept_loss=False)
        for slices, isolation in landed.items():
            unit = Unit(next(iter(slices)), "dc1")
            manifest = read_manifests(lake, [unit])[unit]
            assert (manifest.isolation, manifest.landed) == (isolation, rows[isolation]), mode
            offsets = {row[4] for row in rows_in(lake, [manifest])}
            assert offsets.isdisjoint(world.aborted) is (isolation == "read_committed")


def test_hours_of_several_rules_are_landed_again_in_one_run():
    hour = [SliceRange(piece.start, piece.end) for piece in SLICES]
    world, lake = World(worlds()), MemoryLake()
    world.resolve(spec(), lake, SLICES)
    for slices, name in zip(hour, ("plain", "type by a header", "counts by another field"), strict=True):
        world.land(spec(**FILES[name]), lake, slices)
    first = contents(lake, units(spec()))
    world.land(spec(**FILES["time of the record"]), lake, SLICES, "reland", "again")
    assert contents(lake, units(spec())) == first
    manifests = read_manifests(lake, units(spec())).values()
    assert {(manifest.generation, len(manifest.amends)) for manifest in manifests} == {(2, 1)}


def test_rules_that_were_changed_are_not_followed():
    lake = MemoryLake()
    wrong = write_rules(lake, TableRules("db.clicks", columns={"n": "m"}))
    right = write_rules(lake, TableRules("db.clicks", columns={"n": "o"}))
    assert RulesReader(lake).table(wrong) == TableRules("db.clicks", columns={"n": "m"})
    lake.put(f"_rules/{right}.json", lake.read(f"_rules/{wrong}.json").data)
    with pytest.raises(SluiceError, match=f"_rules/{right}.json holds other rules than its name says"):
        RulesReader(lake).table(right)


def test_the_manifest_of_another_hour_is_not_taken_for_this_ones():
    _, lake = landed(spec(), worlds())
    first, second, *_ = [unit for unit in units(spec()) if unit.cluster == "dc1"]
    key = "_slices/{}/dc1/manifest.json"
    lake.put(key.format(first.slice.id), lake.read(key.format(second.slice.id)).data)
    with pytest.raises(SluiceError, match=f"is the manifest of demo: {second.slice.id}/dc1: verify names"):
        read_manifests(lake, [first])


def test_rules_that_the_lake_lost_are_not_guessed():
    world, lake = landed(spec(), worlds())
    lake.delete([item.key for item in lake.list("_rules/")])
    before = dict(lake.objects)
    with pytest.raises(RuleGone, match=r"01T00Z/dc1 landed by the rules \w+, which the lake no longer has"):
        world.land(spec(max_types=2), lake, SLICES, "reland", "again")
    assert lake.objects == before
    world.land(spec(max_types=2), lake, SLICES, "remake", "by the file")
    assert {m.generation for m in read_manifests(lake, units(spec())).values()} == {2}


def test_rules_of_a_later_version_are_followed_as_far_as_they_are_known():
    lake, rules = MemoryLake(), TableRules("db.clicks", columns={"n": "m"})
    data = msgspec.json.encode({**asdict(rules), "later": 1}, order="deterministic")
    digest = sha256(data).hexdigest()[:16]
    lake.put(f"_rules/{digest}.json", msgspec.json.format(data, indent=1))
    assert RulesReader(lake).table(digest) == rules
