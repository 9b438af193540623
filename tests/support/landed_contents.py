"""All that a landing has made of a range, as values: to be compared with what another one made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq

from sluice.clients.lake.base import Lake
from sluice.manifest import LandedFile, Manifest
from sluice.slices import Unit
from sluice.state.manifests import read_manifests

Row = tuple[Any, ...]


def contents(lake: Lake, units: Iterable[Unit]) -> dict[str, tuple[list[Row], Manifest]]:
    """By unit every row of its files, field by field and with the folder that it lies in, and the manifest
    without what names attempts, files and generations."""
    found = read_manifests(lake, units)
    return {str(unit): (rows_of(lake, manifest), counts_of(manifest)) for unit, manifest in found.items()}


def rows_of(lake: Lake, manifest: Manifest) -> list[Row]:
    rows: list[Row] = []
    for file in manifest.all_files:
        with lake.local(file.key) as path:
            for row in pq.read_table(path).to_pylist():
                rows.append((file.key.rpartition("/")[0], *(repr(item) for item in sorted(row.items()))))
    return sorted(rows)


def counts_of(manifest: Manifest) -> Manifest:
    """The rest has to be alike: counts by partition, reason, type and hour, gaps, losses, fields."""
    return replace(
        manifest,
        generation=0,
        attempt="",
        token="",
        landed_at="",
        remade=None,
        amends=(),
        files=_unnamed(manifest.files),
        rejected=_unnamed(manifest.rejected),
        traffic=tuple(replace(one, files=_unnamed(one.files)) for one in manifest.traffic),
    )


def _unnamed(files: Iterable[LandedFile]) -> tuple[LandedFile, ...]:
    """One for each type and hour, however many files it has."""
    sums: dict[tuple[str, str], LandedFile] = {}
    for file in files:
        place = (file.type or "", file.hour)
        bare = replace(file, key="", attempt_key="", bytes=0, sha256="")
        before = sums.get(place)
        if before is not None:
            kinds = {
                kind: before.rows_by_type.get(kind, 0) + file.rows_by_type.get(kind, 0)
                for kind in {*before.rows_by_type, *file.rows_by_type}
            }
            bare = replace(bare, rows=before.rows + file.rows, rows_by_type=kinds)
        sums[place] = bare
    return tuple(sums[place] for place in sorted(sums))
