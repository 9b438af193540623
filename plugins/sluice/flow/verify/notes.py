"""What a verification could not compare. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from sluice.flow.verify.current import units_of
from sluice.flow.verify.facts import TableFacts, VerifyFacts
from sluice.flow.verify.landed_without import landed_without
from sluice.state.boundaries.outside import outside_at_most


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
