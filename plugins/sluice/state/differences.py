"""In what a unit's rules differ from those of the pipeline file. Pure.

Plan, status, verify and page ask this one function. A difference is no fault: the unit is what its own rules
say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields

from sluice.config.pipeline import Pipeline
from sluice.manifest import Manifest
from sluice.slices import Unit
from sluice.state.ledger import LedgerRow
from sluice.state.rules import LandingRules, RulesReader

_KEYS = {
    "type": "event.type",
    "time": "event.time",
    "rows": "event.rows",
    "format": "event.format",
    "message": "event.format",
    "schema": "the schema file",
    "registry": "event.registry",
    "batch": "event.batch",
}
"""Where the pipeline file has a rule of a landing, if the rule isn't a key of its own."""


@dataclass(frozen=True, order=True)
class Difference:
    """One rule that differs. `rule` names it as the pipeline file does; `mode` is the run that applies the
    file's."""

    rule: str
    mode: str


def differs(
    pipeline: Pipeline,
    manifest: Manifest,
    rows: Mapping[str, LedgerRow],
    now: LandingRules,
    rules: RulesReader,
) -> tuple[Difference, ...]:
    """Returns the differences between a landed unit and the pipeline file, each once.

    `rows` are the unit's ledger rows by table, `now` the rules by which it would land today. What a fill
    changes by itself (routes, shards, a derived table's SELECT) makes the unit stale, and is not listed. Nor
    is a topic that the unit lacks: its offsets are counted (state/status.py). Raises what the lake raises.
    """
    return tuple(
        dict.fromkeys(
            (
                *_landing(manifest, now, rules),
                *_counts(pipeline, manifest),
                *_columns(pipeline, rows, rules),
            )
        )
    )


def _landing(manifest: Manifest, now: LandingRules, rules: RulesReader) -> Iterator[Difference]:
    landed = rules.landing(manifest.rules)
    for rule in fields(LandingRules) if landed is not None else ():
        if getattr(landed, rule.name) != getattr(now, rule.name):
            yield Difference(_KEYS.get(rule.name, rule.name), "remake")


def _counts(pipeline: Pipeline, manifest: Manifest) -> Iterator[Difference]:
    for spec in pipeline.counts:
        counted = manifest.traffic_for(spec.table)
        if counted is None or (dict(counted.by), tuple(counted.types)) != (dict(spec.by), spec.types):
            yield Difference(f"counts of {spec.table}", "remake")


def _columns(pipeline: Pipeline, rows: Mapping[str, LedgerRow], rules: RulesReader) -> Iterator[Difference]:
    for target in pipeline.targets:
        row = rows.get(target.table)
        loaded = rules.table(row.rules) if row is not None else None
        if loaded is not None and dict(loaded.columns) != dict(target.columns):
            yield Difference(f"columns of {target.table}", "reload")


def difference_lines(by_unit: Mapping[Unit, Iterable[Difference]]) -> list[str]:
    """Returns a line for each difference: how many units have it, which, and the mode that applies the
    file."""
    units: dict[Difference, list[Unit]] = defaultdict(list)
    for unit, differences in by_unit.items():
        for difference in differences:
            units[difference].append(unit)
    return [_line(difference, sorted(some)) for difference, some in sorted(units.items())]


def _line(difference: Difference, units: list[Unit]) -> str:
    first, last = units[0].slice.id, units[-1].slice.id
    span = first if first == last else f"{first} … {last}"
    count = "1 unit has" if len(units) == 1 else f"{len(units):,} units have"
    other = f"{count} another `{difference.rule}` than the pipeline file ({span})"
    return f"{other}: --mode {difference.mode} applies it"
