"""What a load of one shard has to know of the others: a unit is made by one set of rules on all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sluice.clients.clickhouse.shards import Servers
from sluice.clients.clickhouse.tables import Column, TargetTable
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Target
from sluice.errors import Changed
from sluice.flow.load.own_placement import OwnPlacements, Stamps
from sluice.manifest import Manifest
from sluice.slices import Unit
from sluice.state.ledger import Commits, LedgerRow
from sluice.state.shard_definitions import Definitions, coming, had_elsewhere

UnitRows = Mapping[Unit, Sequence[LedgerRow]]
"""The newest ledger rows of each unit, committed or revoked, each of another manifest or of other rules."""


@dataclass(frozen=True)
class OtherShards:
    """`columns`: those that loads have added on another shard. `agreed`: the shard's own columns, when they
    were like the others'. `rows` are of all shards. `stamps` are of the units that stay where they are."""

    columns: frozenset[str] = frozenset()
    agreed: tuple[Column, ...] = ()
    rows: UnitRows = field(default_factory=dict)
    stamps: Mapping[Unit, Stamps] = field(default_factory=dict)

    def own_or_other(self, own: LedgerRow | None, manifest: Manifest, unit: Unit) -> LedgerRow | None:
        """Returns the row by whose rules the unit goes on: the shard's own, else another's of the manifest.

        A shard that was away, or that is new, makes its part of the unit as the others have made theirs,
        whatever the pipeline file or the table has got since."""
        if own is not None and own.continues(manifest):
            return own
        return next((row for row in self.rows.get(unit, ()) if row.continues(manifest)), own)

    def expect_unchanged(self, target_table: TargetTable) -> None:
        """Raises Changed: nobody has compared the columns as they are now with the others'."""
        now = {column.name: column for column in target_table.columns}
        changed = [column.name for column in self.agreed if now.get(column.name) != column]
        if changed:
            raise Changed(
                f"table {target_table.table}: column {changed[0]} was changed while it was "
                "loaded: load it again"
            )


NO_OTHERS = OtherShards()


def others_of(
    servers: Servers,
    target: Target,
    lake: Lake,
    alike: Definitions,
    placements: OwnPlacements,
) -> dict[str, OtherShards]:
    """Returns by shard what it has to know of the others. Raises what the lake raises."""
    names, additions = [server.shard.name for server in servers], coming(target, lake)
    rows = _rows(placements.commits.values())
    return {
        name: OtherShards(
            columns=had_elsewhere(name, names, alike, additions),
            agreed=alike.get(name, ()),
            rows=rows,
            stamps=placements.stamps,
        )
        for name in names
    }


def _rows(ledgers: Iterable[Commits]) -> UnitRows:
    found: dict[Unit, dict[tuple[str, str], LedgerRow]] = {}
    for commits in ledgers:
        for unit, row in (*commits.items(), *commits.revoked.items()):
            found.setdefault(unit, {}).setdefault((row.manifest, row.rules), row)
    return {unit: tuple(rows.values()) for unit, rows in found.items()}
