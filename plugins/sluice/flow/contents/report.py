"""What a comparison of contents has found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sluice.clients.lake.base import Lake
from sluice.flow.contents.compare_tables import TableContents
from sluice.flow.verify.anomaly import ROW_KINDS, Anomaly
from sluice.manifest import Manifest
from sluice.slices import Unit
from sluice.state.manifests import read_manifests


@dataclass
class ContentsReport:
    """`rows` of the lake and of the tables were compared; `busy` says what was being loaded meanwhile.

    `covered`: the units, as (slice id, cluster), that were checked for each kind of anomaly; `uncompared`
    are the tables, as (slice id, cluster, table), whose rows of such a unit were not compared all the same.
    """

    rows: int = 0
    anomalies: list[Anomaly] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)
    covered: dict[str, frozenset[tuple[str, str]]] = field(
        default_factory=lambda: dict.fromkeys(map(str, ROW_KINDS), frozenset())
    )
    uncompared: set[tuple[str, str, str]] = field(default_factory=set)

    def add(self, table_contents: TableContents) -> None:
        self.rows += table_contents.rows
        self.anomalies += table_contents.anomalies
        self.uncompared |= {(unit.slice.id, unit.cluster, name) for unit, name in table_contents.uncompared}
        self.notes += [note for note in table_contents.notes if note not in self.notes]


def relanded(lake: Lake, unit: Unit, manifest: Manifest) -> bool:
    """Returns whether the unit has other files by now, or the lake has forgotten some since."""
    now = read_manifests(lake, [unit]).get(unit)
    return now is None or (now.id, now.forgotten) != (manifest.id, manifest.forgotten)


def forgotten_lines(landed: Sequence[tuple[Unit, Manifest]]) -> list[str]:
    """Returns a line on the units of which the lake has forgotten files: nothing is left to compare them
    with."""
    units = [unit for unit, manifest in landed if manifest.forgotten_files]
    if not units:
        return []
    span = str(units[0]) if len(units) == 1 else f"{units[0]} to {units[-1]}"
    return [f"{len(units):,} units ({span}) are not compared with files that the lake has forgotten"]
