"""Which kinds of values earlier slices have in a field: the column that is added for it holds them, too."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline, Target
from sluice.manifest import Manifest
from sluice.slices import Unit
from sluice.state.manifests import read_manifests

MOST_UNITS = 10_000
"""Manifests that are read, of the newest slices."""
_OF_KIND = {
    "boolean": b"true",
    "integer": b"1",
    "number": b"0.5",
    "string": b'"text"',
    "array": b"[]",
    "object": b"{}",
}
_FIRST = {b'"': "string", b"t": "boolean", b"f": "boolean", b"[": "array", b"{": "object"}

Kinds = Mapping[str, Collection[str]]


def read_kinds(
    pipeline: Pipeline, target: Target, lake: Lake, units: Iterable[Unit], names: Sequence[str]
) -> Kinds:
    """Returns what the manifests of the newest of `units` say."""
    newest = sorted(units)[-MOST_UNITS:]
    return kinds_of(pipeline, target, read_manifests(lake, newest).values(), names)


def kinds_of(
    pipeline: Pipeline, target: Target, manifests: Iterable[Manifest], names: Sequence[str]
) -> Kinds:
    kinds_by_field: dict[str, set[str]] = {name: set() for name in names}
    for manifest in manifests:
        types = set(pipeline.routed(target, manifest.rows_by_type()))
        for type_fields in manifest.fields:
            for name in (
                kinds_by_field.keys() & type_fields.fields.keys() if type_fields.type in types else ()
            ):
                kinds_by_field[name] |= {
                    kind for kind, rows in type_fields.fields[name].kinds.items() if rows
                }
    return kinds_by_field


def examples(kinds: Collection[str], texts: Iterable[bytes]) -> list[bytes]:
    """Returns a value of each kind that none of `texts` is of."""
    return [_OF_KIND[kind] for kind in sorted(_OF_KIND.keys() & set(kinds) - set(map(_kind, texts)))]


def _kind(text: bytes) -> str:
    number = "integer" if text.lstrip(b"-").isdigit() else "number"
    return _FIRST.get(text[:1], number)
