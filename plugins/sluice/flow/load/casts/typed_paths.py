"""Typed paths of a JSON column, with names for the parts of their casts."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.clients.clickhouse.types import Type
from sluice.flow.load.casts.casts import cast_at
from sluice.flow.load.casts.documents import path_misfit, paths_of, text_at
from sluice.flow.load.casts.exact_numbers import FieldText
from sluice.flow.load.casts.judged import Cast, Field, misfit_of


@dataclass(frozen=True)
class TypedPath:
    """A path of a JSON that has a type of its own; `text` is what is there. `named` are (expression, name)
    that the others use."""

    name: str
    type: str
    text: str
    misfit: str
    named: tuple[tuple[str, str], ...]
    where: str = ""


def typed_paths(kind: Type, x: str, suffix: str, key: FieldText) -> list[TypedPath]:
    """Returns those of the JSON type `kind`, by names that end with the suffix. Raises UnsupportedType."""
    return [
        _typed_path(kind, x, path, f"{suffix}_{number}", key) for number, path in enumerate(paths_of(kind))
    ]


def _typed_path(kind: Type, x: str, path: tuple[str, Type], suffix: str, key: FieldText) -> TypedPath:
    (name, inner), text, value, misfit = path, f"t{suffix}", f"s{suffix}", f"b{suffix}"
    path_cast = cast_at(Field(x, 0, key), path, text)
    by_name = Cast(value, path_cast.misfit if path_cast.container else misfit_of(text, value))
    parts = (
        (text_at(x, name), text),
        (path_cast.value, value),
        (path_misfit(kind, x, name, text, by_name), misfit),
    )
    return TypedPath(name, inner.text, text, misfit, parts, path_cast.where if path_cast.container else "")
