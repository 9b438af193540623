"""Finds units that have lost a field that a column is filled from, compared with the units before them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.lake.base import Lake
from sluice.config.mask import hides
from sluice.config.pipeline import Pipeline, Target
from sluice.field_path import FieldPath, path_of
from sluice.flow.contents.payload_fields import FEWEST_ROWS, HISTORY, FieldSample, MissingField, gone
from sluice.flow.contents.sampling import fields_in
from sluice.flow.load.casts.columns import HOLDERS
from sluice.flow.verify.anomaly import Anomaly, AnomalyKind
from sluice.flow.verify.repairs import Repairs
from sluice.manifest import Manifest
from sluice.safe_text import Say
from sluice.slices import Slice, Unit
from sluice.state.manifests import read_manifests

MOST_TYPES = 20  # of a unit, those with the most events


def fields_of(client: Client, targets: Iterable[Target]) -> dict[str, dict[FieldPath, str]]:
    """Returns the fields that fill a table's columns, by table. Raises what the client raises."""
    return {
        target.table: _fields(client, target)
        for target in targets
        if not target.counted and target.rollup is None
    }


def _fields(client: Client, target: Target) -> dict[FieldPath, str]:
    target_table = read_table(client, target.database, target.name)
    return {
        path_of(column.name, target.columns): column.name
        for column in (target_table.columns if target_table else ())
        if column.taken and column.name not in HOLDERS
    }


@dataclass
class SampledFields:
    """`fields` by table. Samples are kept, because each is compared with several later ones."""

    pipeline: Pipeline
    lake: Lake
    fields: Mapping[str, Mapping[FieldPath, str]]
    repairs: Repairs
    say: Say
    checked: list[tuple[str, str]] = field(default_factory=list)
    _samples: dict[tuple[Unit, str], FieldSample] = field(default_factory=dict)

    def check(self, landed: Sequence[tuple[Unit, Manifest]], most: int | None) -> Iterator[Anomaly]:
        """Checks of each cluster the newest `most` units, or all."""
        for cluster in sorted({unit.cluster for unit, _ in landed}):
            landed_units = sorted(
                (pair for pair in landed if pair[0].cluster == cluster), key=lambda pair: pair[0]
            )
            history = [*self._before(landed_units[0][0]), *landed_units]
            first = len(history) - (len(landed_units) if most is None else min(most, len(landed_units)))
            for number in range(first, len(history)):
                self.checked.append((history[number][0].slice.id, cluster))
                self.say(f"searching for fields that are missing since {history[number][0]}")
                yield from self._unit(history[number], history[:number][::-1])

    def _before(self, unit: Unit) -> list[tuple[Unit, Manifest]]:
        """Returns the landed units right before this one, the oldest first."""
        slices = [
            Slice(unit.slice.start - n * unit.slice.length, unit.slice.length) for n in range(HISTORY, 0, -1)
        ]
        return list(read_manifests(self.lake, [Unit(slice_, unit.cluster) for slice_ in slices]).items())

    def _unit(
        self, landed_unit: tuple[Unit, Manifest], earlier: Sequence[tuple[Unit, Manifest]]
    ) -> Iterator[Anomaly]:
        unit, manifest = landed_unit
        rows = manifest.rows_by_type()
        types = sorted((name for name in rows if rows[name] >= FEWEST_ROWS), key=lambda name: -rows[name])
        for name in types[:MOST_TYPES]:
            for target in self.pipeline.targets:
                fields = self.fields.get(target.table, {})
                if fields and self.pipeline.routed(target, [name]):
                    shown = [path for path in fields if not hides(self.pipeline.mask, name, path)]
                    missing_fields = self._gone(landed_unit, earlier, name, shown)
                    if missing_fields:
                        yield self._anomaly(unit, target, name, fields, missing_fields)

    def _gone(
        self,
        landed_unit: tuple[Unit, Manifest],
        earlier: Sequence[tuple[Unit, Manifest]],
        name: str,
        fields: Iterable[FieldPath],
    ) -> list[MissingField]:
        now = self._sample(landed_unit, name, fields)
        if now is None or all(now.paths.get(path, 0) == now.rows for path in fields):
            return []
        before = (self._sample(pair, name, fields) for pair in earlier[:HISTORY])
        return gone(now, [sample for sample in before if sample is not None], fields)

    def _sample(
        self, pair: tuple[Unit, Manifest], name: str, fields: Iterable[FieldPath]
    ) -> FieldSample | None:
        """None where the files cannot be read: that is an anomaly of its own."""
        unit, manifest = pair
        if manifest.rows_by_type().get(name, 0) < FEWEST_ROWS:
            return None
        if (unit, name) not in self._samples:
            try:
                self._samples[unit, name] = fields_in(self.lake, manifest, name, list(fields))
            except (OSError, pa.ArrowException):
                return None
        sample = self._samples[unit, name]
        return sample if sample.rows else None

    def _anomaly(
        self,
        unit: Unit,
        target: Target,
        name: str,
        fields: Mapping[FieldPath, str],
        missing_fields: Sequence[MissingField],
    ) -> Anomaly:
        columns = ", ".join(
            sorted(f"{fields[missing.path]} (from {'.'.join(missing.path)})" for missing in missing_fields)
        )
        came = sorted({".".join(path) for missing in missing_fields for path in missing.came})
        new = f"; new fields: {', '.join(came[:10])}" if came else ""
        before = max(missing.before for missing in missing_fields)
        now = min(missing.now for missing in missing_fields)
        return Anomaly(
            AnomalyKind.FIELD_MISSING,
            expected=f"values for {columns}: {before:.0%} of the events before had none",
            seen=f"{now:.0%} have none{new}",
            advice="name the new field under `columns` in the pipeline file, then "
            f"`{self.repairs.reload(unit.slice)}`; or accept it: `{self.repairs.accept(unit.slice)}`",
            slice=unit.slice.id,
            cluster=unit.cluster,
            type=name,
            table=target.table,
        )
