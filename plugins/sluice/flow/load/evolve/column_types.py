"""Which type holds all values of a field, however many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from sluice.flow.load.casts.columns import RULES
from sluice.flow.load.evolve.earlier import Kinds, examples
from sluice.flow.load.evolve.lake_values import ValueSample, value
from sluice.infer.infer import InferredColumn, optional_column
from sluice.infer.spellings import fraction_digits
from sluice.infer.types import STRING, ArrayOf, Inferred, Leaf, nullable, unfit

# No row becomes a rejected row by a column that its own load adds.
_RULES = replace(RULES, unfit_values=0.0)
_ROUNDS = 4
_MOST_REFUSED = 1_000  # values that a round adds to a sample


@dataclass(frozen=True)
class ColumnType:
    """A type, and in a few words why."""

    type: str
    why: str


AllValues = Callable[[Sequence[str]], Iterable[tuple[str, bytes]]]
"""Every value of some fields, with the field's name."""

_TEXT = ColumnType(nullable(STRING).text, "values that no narrower type holds")


def column_types(
    samples: Mapping[str, ValueSample], all_values: AllValues, earlier: Kinds = MappingProxyType({})
) -> dict[str, ColumnType]:
    """Returns for each field the type of its sample, widened by other values that do not fit.
    `earlier`: the kinds of values that other slices have in it, which the type holds as well."""
    first = {
        name: [*sample.texts, *examples(earlier.get(name, ()), sample.texts)]
        for name, sample in samples.items()
    }
    kinds = {name: _inferred(name, texts) for name, texts in first.items()}
    unsure = [name for name, sample in samples.items() if not sample.complete and kinds[name] is not None]
    texts = {name: first[name] for name in unsure}
    for _ in range(_ROUNDS):
        refused = _refused({name: kinds[name] for name in unsure}, all_values) if unsure else {}
        unsure = list(refused)
        for name, more in refused.items():
            texts[name] = [*texts[name], *more]
            kinds[name] = _inferred(name, texts[name])
    undecided = dict.fromkeys(unsure)
    return {
        name: _TEXT
        if column is None or name in undecided
        else ColumnType(column.type, _why(column, samples[name]))
        for name, column in kinds.items()
    }


def _why(column: InferredColumn, sample: ValueSample) -> str:
    return column.why if sample.complete else f"in a sample {column.why}"


def _inferred(name: str, texts: Sequence[bytes]) -> InferredColumn | None:
    """Returns None where only a text holds them."""
    values = [value(text) for text in texts]
    column = optional_column(name, values, _RULES)
    # ClickHouse takes arrays with a dot in their names for parts of a Nested, of one length.
    return None if "." in name and isinstance(column.kind, ArrayOf) else column


def _refused(kinds: Mapping[str, InferredColumn | None], all_values: AllValues) -> dict[str, list[bytes]]:
    """Returns the values that do not fit, by field."""
    refused: dict[str, list[bytes]] = {}
    for name, text in all_values(list(kinds)):
        column = kinds[name]
        if column is not None and len(refused.get(name, ())) < _MOST_REFUSED and not _fits(column.kind, text):
            refused.setdefault(name, []).append(text)
    return refused


def _fits(kind: Inferred, text: bytes) -> bool:
    parsed_value = value(text)
    return unfit(kind, parsed_value) is None and not _cut(kind, parsed_value)


def _cut(kind: Inferred, parsed_value: object) -> bool:
    """Returns whether a load would cut off what is finer than the column."""
    if isinstance(kind, Leaf) and kind.name == "DateTime64" and isinstance(parsed_value, str):
        return fraction_digits(parsed_value) > kind.digits[0]
    return False
