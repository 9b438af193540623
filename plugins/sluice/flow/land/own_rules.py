"""By which rules a `reland` lands each unit: those that it landed by, whatever the pipeline file says now.

Records that a retry brought in by other rules would be rejected again: such a unit needs a yes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sluice.clients.lake.base import Lake
from sluice.config.counts import Counts
from sluice.config.pipeline import Pipeline
from sluice.errors import RuleGone, WrongUse
from sluice.flow.land.read_plan import UnitRead
from sluice.manifest import Isolation, Manifest
from sluice.slices import Unit
from sluice.state.rules import RulesReader


@dataclass(frozen=True)
class RulesGroup:
    """Reads, by cluster, of units that land by the same rules. `schema`: the content of their schema file;
    None: the pipeline names it, or there is none."""

    pipeline: Pipeline
    schema: bytes | None = None
    by_cluster: dict[str, list[UnitRead]] = field(default_factory=dict)


def by_own_rules(
    pipeline: Pipeline,
    lake: Lake,
    by_cluster: Mapping[str, Iterable[UnitRead]],
    old: Mapping[Unit, Manifest],
) -> tuple[list[RulesGroup], list[RuleGone]]:
    """Groups the reads by the rules of each unit's manifest, and returns an error for each that lacks some.

    A unit that has not landed lands by the pipeline file. Raises what the lake raises.
    """
    groups: dict[object, RulesGroup] = {}
    gone: list[RuleGone] = []
    reader = RulesReader(lake)
    for cluster, reads in by_cluster.items():
        for read in reads:
            manifest = old.get(read.unit)
            digest = manifest.rules if manifest is not None else ""
            counts = _counts(manifest) if manifest is not None else pipeline.counts
            isolation = manifest.isolation if manifest is not None else pipeline.cluster(cluster).isolation
            key = digest, isolation, tuple((spec.table, *spec.by.items(), spec.types) for spec in counts)
            if key not in groups:
                try:
                    group = _group(_isolated(pipeline, isolation), reader, read.unit, digest, counts)
                    groups[key] = group
                except RuleGone as error:
                    gone.append(error)
                    continue
            groups[key].by_cluster.setdefault(cluster, []).append(read)
    return list(groups.values()), gone


def _group(
    pipeline: Pipeline, reader: RulesReader, unit: Unit, digest: str, counts: tuple[Counts, ...]
) -> RulesGroup:
    """Raises RuleGone: nothing is guessed."""
    if not digest:
        return RulesGroup(pipeline)
    rules = reader.landing(digest)
    if rules is None:
        remedy = "restore `_rules/` from a copy; or `remake` it, by the pipeline file"
        raise RuleGone(str(unit), f"the rules {digest}", "lake", remedy)
    try:
        own = rules.apply(pipeline).model_copy(update={"counts": counts})
    except WrongUse as error:
        remedy = "put that back into the file until this is done"
        raise RuleGone(str(unit), str(error), "pipeline file", remedy) from error
    return RulesGroup(own, rules.schema_content)


def _isolated(pipeline: Pipeline, isolation: Isolation) -> Pipeline:
    clusters = [cluster.model_copy(update={"isolation": isolation}) for cluster in pipeline.kafka]
    return pipeline.model_copy(update={"kafka": clusters})


def _counts(manifest: Manifest) -> tuple[Counts, ...]:
    return tuple(
        Counts.model_construct(table=counted.table, by=dict(counted.by), types=tuple(counted.types))
        for counted in manifest.traffic
    )
