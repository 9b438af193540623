"""What a verification could not compare. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sluice.config.pipeline import Pipeline
from sluice.flow.verify.facts import TableFacts, VerifyFacts, units_of
from sluice.flow.verify.repairs import Repairs, Retried, consented, retried_rules
from sluice.slices import Slice, SliceRange
from sluice.state.boundaries.outside import outside_at_most
from sluice.state.status import UnitStatus


def notes(facts: VerifyFacts) -> Iterator[str]:
    """Yields a line on what no slice has, for each topic of which it is unknown what slices lack, and for
    each table whose rows a TTL may have deleted, or that the pipeline file no longer names."""
    forgotten = [status for status in facts.statuses if status.forgotten_on]
    if forgotten:
        yield (
            f"the lake has forgotten the files of {len(forgotten):,} units, from {forgotten[0].unit} to "
            f"{forgotten[-1].unit}: tables are compared with the counts of their manifests"
        )
    gone = {s.unit: sum(m.forgotten_by_reason().values()) for s, m in facts.landed if not m.forgotten_on}
    if counts := [count for count in gone.values() if count]:
        yield (
            f"the lake has forgotten the bytes of {sum(counts):,} rejected records of {len(counts):,} units: "
            "they are counted, and no file has them"
        )
    if words := outside_at_most(facts.pipeline, facts.boundaries):
        yield words
    yield from (
        topic.line(facts.pipeline) for topic in landed_without(facts.statuses) if topic.offsets is None
    )
    yield from (f"{departed}: {departed.remedy}" for departed in facts.departed)
    yield from _frozen(facts)
    for table in facts.tables:
        if not table.expiring and table.aged is None:
            continue
        expired = [unit for unit in units_of(facts, table.table) if table.may_lack(unit)]
        if expired:
            missing = f"missing rows of {len(expired):,} slices are not reported"
            yield f"table {table.table}: {missing}, {_why(facts, table)}"


def _frozen(facts: VerifyFacts) -> Iterator[str]:
    for table, rollup in facts.pipeline.rollups.items():
        units = [status.unit for status in facts.statuses if table in status.frozen]
        if units:
            yield (
                f"table {table}: {len(units):,} slices are frozen, from {units[0]} to {units[-1]}: rows of "
                f"{rollup.source} that they are made from have expired, and the lake has forgotten the "
                "files; their rows stay as they were made last"
            )


def _why(facts: VerifyFacts, table: TableFacts) -> str:
    if table.aged is not None:
        return "because they are older than `keep.tables` says"
    contents = facts.pipeline.command("verify", "--contents")
    return f"because its TTL deletes rows; `{contents}` compares those that cannot have expired"


# Topics that slices landed without, in words: `status` and `verify` say the same of them.

BARRED = "topic {topic} was recreated, and what it had then is in the lake alone: no `reland` brings them"


@dataclass(frozen=True)
class LandedWithout:
    """A topic that `slices` of a cluster landed without; `offsets` is None where no boundary has it there:
    nobody has asked yet how many it has. `retried`: what a `reland` would reject again."""

    cluster: str
    topic: str
    slices: tuple[Slice, ...]
    offsets: int | None
    barred: str = ""
    retried: Retried = ()

    @property
    def name(self) -> str:
        return f"{self.cluster}/{self.topic}"

    def line(self, pipeline: Pipeline) -> str:
        first, last = min(self.slices), max(self.slices)
        lack = "slice lacks" if len(self.slices) == 1 else "slices lack"
        if self.barred:
            brings = BARRED.format(topic=self.barred)
        else:
            reland = Repairs.of(pipeline).run([first, last], "reland")
            command, advice = consented(pipeline, self.retried, reland)
            brings = "; ".join(filter(None, (f"`{command}` brings it", advice)))
        span = SliceRange(first.start, last.end, first.length)
        if self.offsets is None:
            offsets, counts = (
                "unknown offsets",
                f"`{pipeline.command('plan', *span.words)}` counts them, and ",
            )
        else:
            offsets, counts = f"{self.offsets:,} offsets", ""
        return (
            f"{len(self.slices):,} {lack} topic {self.name} ({offsets}), from {first.id} to {last.id}: "
            f"{counts}{brings}"
        )


def landed_without(statuses: Iterable[UnitStatus]) -> list[LandedWithout]:
    """Returns for each topic the slices in which its offsets are known, and those in which they are not; and
    apart from them those that cannot be landed again."""
    statuses = list(statuses)
    retried = retried_rules(statuses)
    places: dict[tuple[str, str, bool, str], list[tuple[Slice, int]]] = {}
    for status in statuses:
        for lacks in status.lacking:
            place = (status.unit.cluster, lacks.topic, lacks.offsets is not None, lacks.barred)
            places.setdefault(place, []).append((status.unit.slice, lacks.offsets or 0))
    return [
        LandedWithout(
            cluster,
            topic,
            tuple(slice_ for slice_, _ in found),
            sum(offsets for _, offsets in found) if known else None,
            barred,
            retried,
        )
        for (cluster, topic, known, barred), found in places.items()
    ]
