"""The column of one field: its type, its COMMENT, and how many of the sampled values would be misfits.

A COMMENT outlives the rows, and their erasure: it says shares, lengths and kinds, and no value of any event
(comments.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sluice.infer.fits import misfit
from sluice.infer.infer import infer, whole
from sluice.infer.scalars import Finding
from sluice.infer.spellings import names_identifier, names_time
from sluice.infer.types import Inferred, Rules, may_lack, nullable, nullable_inside
from sluice.safe_text import line

_EXAMPLES = 3
_COMMENT = 400


@dataclass(frozen=True)
class Misfit:
    """A sampled value that the type refuses; `place` is empty, or the path inside the field."""

    place: str
    value: Any

    def __str__(self) -> str:
        return f"{self.place} is {described(self.value)}" if self.place else described(self.value)


@dataclass(frozen=True)
class InferredColumn:
    """`present` of `total` events have the field and no null there; `refused` of them do not fit, the first
    of which are `misfits`. `longest`: characters of the longest text, 0 where the values are no texts."""

    kind: Inferred
    why: str
    present: int
    total: int
    longest: int = 0
    refused: int = 0
    misfits: tuple[Misfit, ...] = ()

    @property
    def type(self) -> str:
        return self.kind.text

    @property
    def comment(self) -> str:
        """Says in how many events it is, and why this type; bounded, and to be quoted."""
        share = "all" if self.present == self.total else f"{_percent(self.present, self.total)} of"
        parts = [f"in {share} {self.total:,} events", self.why]
        parts += [f"at most {self.longest:,} characters"] if self.longest else []
        parts += [self.warning] if self.refused else []
        return line("; ".join(parts), _COMMENT)

    @property
    def warning(self) -> str:
        """Says what would be misfits; empty where every sampled value fits."""
        if not self.refused:
            return ""
        named = ", ".join(map(str, self.misfits))
        would = "would be a misfit" if self.refused == 1 else "would be misfits"
        return f"{self.refused:,} of {self.present:,} {would}: {named}"


def column(
    name: str, values: Sequence[Any], total: int, rules: Rules, always: bool = False
) -> InferredColumn:
    """Returns the column for a field `name` with `values` in some of `total` events.

    Nullable, and each element of an object, unless the field can be relied on (see `relied_on`); an array, a
    Map and a JSON that are missing are empty.
    """
    present = [value for value in values if value is not None]
    finding, refused = _fitting(present, name, rules)
    if relied_on(name, len(present), total, rules, always):
        kind: Inferred | None = finding.kind
    else:
        kind = nullable_inside(finding.kind) if len(present) == total else may_lack(finding.kind)
    if kind is None:
        finding = whole(present, rules, "objects that some events lack, with containers inside")
        kind, refused = nullable(finding.kind), _refused(finding.kind, present)
    longest = max((len(value) for value in present if isinstance(value, str)), default=0)
    few = tuple(refused[:_EXAMPLES])
    return InferredColumn(kind, finding.why, len(present), total, longest, len(refused), few)


def relied_on(name: str, present: int, total: int, rules: Rules, always: bool) -> bool:
    """Returns whether a field is taken never to be missing. That no sampled event lacks it does not say so:
    the default of a plain column could not be told from a value. Somebody says so (`always`), or many events
    have it and its name is that of an identifier or a time."""
    certain = total >= rules.certain and (names_identifier(name) or names_time(name))
    return present == total and (always or certain)


def optional_column(name: str, values: Sequence[Any], rules: Rules) -> InferredColumn:
    """Returns the column for a field that other rows of its table lack."""
    return column(name, values, len(values) + 1, rules)


def _fitting(values: Sequence[Any], name: str, rules: Rules) -> tuple[Finding, list[Misfit]]:
    """Returns a type that refuses no more values than the rules allow; what lies inside adds up, and is
    widened."""
    finding = infer(values, name, rules)
    refused = _refused(finding.kind, values)
    if len(refused) > rules.may_refuse(len(values)):
        finding = infer(values, name, replace(rules, misfits=0.0))
        refused = _refused(finding.kind, values)
    return finding, refused


def _refused(kind: Inferred, values: Sequence[Any]) -> list[Misfit]:
    refusals = (misfit(kind, value) for value in values)
    return [Misfit(*refusal) for refusal in refusals if refusal is not None]


def described(value: Any) -> str:
    """Returns what a value is, and nothing of it."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return f"a text of {len(value):,} characters"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, Mapping | list):
        return "an object" if isinstance(value, Mapping) else "an array"
    return "a number"


def _percent(part: int, total: int) -> str:
    """Formats a share of less than all; it is never 100 %."""
    return f"{min(99.9, 100 * part / total):.1f} %"
