"""verify: looks at everything, judges, and removes only what nobody can need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pendulum

from sluice.boundaries.log import BoundaryLog
from sluice.clickhouse.shards import connect_shards
from sluice.clusters import units_of
from sluice.errors import Busy
from sluice.lake.base import Lake
from sluice.lake.open import open_lake
from sluice.load.shares import ledgers_by_shard, merge
from sluice.pipeline import Pipeline
from sluice.slices import SliceRange
from sluice.status import UnitStatus, statuses
from sluice.verification.anomaly import Anomaly, Kind
from sluice.verification.check import check
from sluice.verification.facts import Facts
from sluice.verification.files import dead
from sluice.verification.held import Span
from sluice.verification.lake import list_files, look_at_lake, own, read_all
from sluice.verification.left_shards import look_at_left
from sluice.verification.locate import locate
from sluice.verification.repairs import Repairs
from sluice.verification.shard_tables import look_at_shards

Say = Callable[[str], None]
_LOOKS = 5


@dataclass(frozen=True)
class Look:
    """How far verify looks. `everywhere`: for the slices' files in every folder, not only in those that
    their manifests name and in the range's own days. `whole`: at all that the lake and the tables hold, of
    whatever slice. `checksums`: reads every file's bytes. `config`: the pipeline's file, for commands."""

    everywhere: bool = False
    whole: bool = False
    checksums: bool = False
    config: Path | None = None


def audit(
    pipeline: Pipeline, slices: SliceRange, look: Look = Look(), say: Say = lambda _: None
) -> tuple[list[UnitStatus], list[Anomaly]]:
    """Every anomaly of the range, and the state of its units. Files of generations that a `reland` has
    replaced are removed.

    Somebody may land or load between two looks: what is broken counts only if the ledger and the manifests
    are the same before and after. Raises Busy when they never stand still, and what the lake and ClickHouse
    raise.
    """
    lake, repairs = open_lake(pipeline), Repairs(pipeline.name, look.config)
    facts = look_at(pipeline, lake, slices, look, say)
    for _ in range(_LOOKS):
        anomalies = check(facts, repairs)
        if not anomalies:
            break
        again = look_at(pipeline, lake, slices, look, say)
        if (facts.found, facts.unreadable) == (again.found, again.unreadable):
            anomalies = _sure(anomalies, check(again, repairs))
            facts = again
            break
        facts = again
    else:
        raise Busy(f"{pipeline.name} {slices} is being landed or loaded: verify it when that is done")
    remove(lake, dead(facts), say)
    with connect_shards(pipeline) as servers:
        clients = [server.reached for server in servers]
        return list(facts.found), locate(facts, clients, lake, anomalies, say)


def _sure(before: Sequence[Anomaly], after: Sequence[Anomaly]) -> list[Anomaly]:
    """What both looks have seen: the rest was on its way."""
    known = {anomaly.key for anomaly in before}
    return [anomaly for anomaly in after if anomaly.key in known]


def clean(pipeline: Pipeline, anomalies: Sequence[Anomaly], look: Look, say: Say) -> int:
    """Removes files that no manifest lists, and says how many: of a range only those its slices brought."""
    kinds = (Kind.FILE_UNKNOWN, Kind.ATTEMPT)
    files = [a for a in anomalies if a.kind in kinds and a.command.endswith("--clean")]
    keys = [a.file for a in files if look.whole or a.slice]
    remove(open_lake(pipeline), keys, say)
    return len(keys)


def remove(lake: Lake, keys: Sequence[str], say: Say) -> None:
    for key in keys:
        say(f"removing {key}, which no manifest lists")
    if keys:
        lake.delete(keys)


def look_at(pipeline: Pipeline, lake: Lake, slices: SliceRange, look: Look, say: Say) -> Facts:
    """Everything that verify judges by. Raises what the lake and ClickHouse raise."""
    boundaries = BoundaryLog(lake).read()
    units = units_of(pipeline, slices, boundaries)
    listing = None
    if look.whole or look.everywhere:
        say("listing the lake")
        listing = list_files(lake) if look.whole else own(list_files(lake), slices)
    say(f"reading {len(units):,} manifests")
    manifests, unreadable = read_all(lake, units)
    with connect_shards(pipeline) as servers:
        for server in servers:
            _ = server.reached
        held = ledgers_by_shard(servers, pipeline, lake.url)
        ledgers = {table: merge(pipeline.clickhouse, table, parts) for table, parts in held.items()}
        now = pendulum.now("UTC")
        found = statuses(pipeline, units, boundaries, manifests, ledgers, now)
        files = sum(len(m.files) + len(m.rejected) for m in manifests.values())
        say(f"comparing {files:,} files with the lake" + (", byte by byte" if look.checksums else ""))
        seen = look_at_lake(pipeline, lake, slices, manifests, listing, look.whole, look.checksums)
        span = Span() if look.whole else Span.of(slices)
        tables, shards = [], []
        for target in pipeline.targets:
            say(f"counting {target.table}")
            table, parts = look_at_shards(servers, pipeline, target, held[target.table], span)
            tables.append(table)
            shards += parts
    return Facts(
        pipeline,
        slices,
        now,
        boundaries,
        tuple(found),
        unreadable,
        look.whole,
        seen,
        tuple(tables),
        tuple(shards),
        tuple(look_at_left(pipeline, lake, say)),
    )
