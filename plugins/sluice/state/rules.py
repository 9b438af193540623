"""Keeps in the lake the rules by which a unit became what it is: `_rules/<digest>.json`, each written once.

A manifest names the rules of its landing, and a ledger row those of its load. So whatever isn't a change of
rules (an erasure, a repair, a load that continues after a kill) works by the unit's own rules, whatever the
pipeline file says by then.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import timedelta
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import msgspec

from sluice.clients.clickhouse.tables import Column, TargetTable
from sluice.clients.lake.base import Lake
from sluice.config.event import (
    BatchSource,
    ChangeForm,
    Event,
    MessageFormat,
    RowsSource,
    TimeSource,
    TypeSource,
)
from sluice.config.mask import MaskRule, with_defaults
from sluice.config.pipeline import Pipeline, Target
from sluice.config.target import OTHERS, Derived, Missing, RowCheck
from sluice.config.times import TimeSpelling
from sluice.errors import SluiceError, WrongUse
from sluice.field_path import Field
from sluice.manifest import Manifest
from sluice.slices import Unit
from sluice.state.ledger import LedgerRow
from sluice.stored_json import Seconds, decode_stored
from sluice.time_grammar import Spelled

FOLDER = "_rules/"
_DIGITS = 16


@dataclass(frozen=True)
class LandingRules:
    """How records became rows of the lake.

    `type` and `time` are the pipeline file's; `schema` is the prepared content of the schema file in base64,
    empty without one; `mask` has each rule's action and types, and no key; `max_early` and `max_late` are
    seconds. `max_record` isn't a rule: the lake has no bytes of a record that was too large.
    """

    type: Mapping[str, Any]
    time: Mapping[str, Any]
    rows: str | Mapping[str, str]
    format: str
    message: str | None
    schema: str
    registry: bool
    change: Mapping[str, Any] | None
    batch: str | None
    mask: Mapping[str, tuple[str, tuple[str, ...]]]
    max_types: int
    max_early: Seconds | None
    max_late: Seconds | None
    unpack: str | None = None
    surrogates: Literal["reject", "replace"] = "reject"

    @classmethod
    def of(cls, pipeline: Pipeline, schema: bytes | None) -> LandingRules:
        """Returns the rules of the pipeline file. `schema` is the prepared content of its schema file."""
        event = pipeline.event
        return cls(
            type=event.type.model_dump(),
            time=event.time.model_dump(),
            rows=event.rows.model_dump() if isinstance(event.rows, RowsSource) else event.rows,
            format=event.format.kind,
            message=event.format.message,
            schema=base64.b64encode(schema).decode() if schema is not None else "",
            registry=event.registry is not None,
            change=event.change.model_dump() if event.change else None,
            batch=event.batch.header if event.batch else None,
            mask={
                name: (rule.action, rule.types) for name, rule in sorted(with_defaults(pipeline.mask).items())
            },
            max_types=pipeline.max_types,
            max_early=_seconds(pipeline.max_early),
            max_late=_seconds(pipeline.max_late),
            unpack=event.unpack,
            surrogates=event.surrogates,
        )

    def only_outcome(self, now: LandingRules) -> str:
        """Returns the rule by which the lake has what messages became, and not the messages, if it is another
        one `now`; empty if there is none."""
        several = self.rows != "one" and (self.rows, now.rows) != ("array", "one")
        in_json = not MessageFormat.model_construct(kind=self.format).decoded
        kept = {
            "rows": several and self.rows != now.rows,
            "unpack": self.unpack not in (None, now.unpack),
            "change": in_json and self.change not in (None, now.change),
        }
        return next((name for name, is_another in kept.items() if is_another), "")

    def apply(self, pipeline: Pipeline) -> Pipeline:
        """Returns the pipeline as its file was when these were its rules. Keys of a mask, the registry's
        address and the content of the schema file aren't rules: they stay those of the pipeline.

        Raises WrongUse for a rule whose key or registry the file no longer has.
        """
        now = pipeline.event
        if self.registry and now.registry is None:
            raise WrongUse("`event.registry`")
        form = MessageFormat.model_construct(kind=self.format, message=self.message, schema_file=None)
        registry = now.registry if self.registry else None
        event = now.model_copy(update={**self._sources, "format": form, "registry": registry})
        return pipeline.model_copy(
            update={
                "event": event,
                "mask": {name: self._mask_rule(name, pipeline) for name in self.mask},
                "max_types": self.max_types,
                "max_early": _duration(self.max_early),
                "max_late": _duration(self.max_late),
            }
        )

    def _mask_rule(self, name: str, pipeline: Pipeline) -> MaskRule:
        action, types = self.mask[name]
        word, _, characters = action.partition(" ")
        if word != "hash":
            return MaskRule.model_validate({word: int(characters) if characters else True, "types": types})
        now = with_defaults(pipeline.mask).get(name)
        if now is None or not now.hash:
            raise WrongUse(f"`mask.{name}: hash`")
        return MaskRule(hash=now.hash, types=types)

    @property
    def schema_content(self) -> bytes | None:
        """Returns the prepared content of the schema file; None without one."""
        return base64.b64decode(self.schema) if self.schema else None

    @property
    def event(self) -> Event:
        """Where type and time are in a row's payload. Messages that were decoded have JSON there."""
        return Event.model_construct(**self._sources)

    @property
    def _sources(self) -> dict[str, Any]:
        return {
            "type": TypeSource.model_construct(**self.type),
            "time": TimeSource.model_construct(**self.time),
            "rows": self.rows if isinstance(self.rows, str) else RowsSource.model_validate(dict(self.rows)),
            "unpack": self.unpack,
            "surrogates": self.surrogates,
            "change": ChangeForm.model_construct(**self.change) if self.change else None,
            "batch": BatchSource.model_construct(header=self.batch) if self.batch else None,
        }


@dataclass(frozen=True)
class TableRules:
    """How rows of the lake came into one table.

    `filled`: the columns that the load filled. `columns`: the field, or fields, of each that isn't
    named like its field. `times`: how times were written, as the file said. `required`: the columns without
    whose value a row was rejected, and whether it was only where null stood in place of an object (`missing`
    in config/target.py). `checks`: the SQL of those that rejected rows, by name.
    `types` and `catch_all`: what was routed to the table. `select` and `source`: of a derived table. `ddl`:
    the CREATE statements of the table, of its views and of their tables, as they were when a load began.
    `definitions`: of each column type, kind and expression, and the type whose default a missing value got.
    `views`: the SELECT of each view.
    """

    table: str
    filled: tuple[str, ...] = ()
    columns: Mapping[str, Field] = field(default_factory=dict)
    times: Mapping[str, Spelled] = field(default_factory=dict)
    required: Mapping[str, Missing] = field(default_factory=dict)
    checks: Mapping[str, str] = field(default_factory=dict)
    types: tuple[str, ...] = ()
    catch_all: bool = False
    select: str = ""
    source: str = ""
    ddl: tuple[str, ...] = ()
    definitions: Mapping[str, tuple[str, str, str, str]] = field(default_factory=dict)
    views: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        target: Target,
        target_table: TargetTable,
        later: Collection[str] = frozenset(),
        required: Mapping[str, Missing] = MappingProxyType({}),
    ) -> TableRules:
        """Returns the rules of a load that begins now, and fills all columns but `later` ones."""
        filled = [column.name for column in target_table.columns if column.taken]
        return cls(
            table=target.table,
            filled=tuple(sorted(name for name in filled if name not in later)),
            columns=dict(target.columns),
            times=target.spelled,
            required=dict(required),
            checks=target.rejecting,
            types=tuple(sorted(target.types)),
            catch_all=target.catch_all,
            select=target.rollup.definition if target.rollup else "",
            source=target.rollup.source if target.rollup else "",
            ddl=target_table.ddl,
            definitions={
                column.name: (column.type, column.kind, column.default, column.type)
                for column in target_table.columns
                if column.kind != "ALIAS" and column.name not in later
            },
            views={view_table.view: view_table.select for view_table in target_table.view_tables},
        )

    def again(self, own: TableRules, types: bool) -> TableRules:
        """Returns these rules for a load by `own` ones: the columns that they define are as they are there.
        Without `types` the columns have today's types."""
        definitions = dict(self.definitions)
        for name in own.definitions.keys() & definitions.keys():
            then, kind, default, absent = own.definitions[name]
            definitions[name] = (then if types else definitions[name][0], kind, default, absent)
        return replace(self, definitions=definitions)

    def apply(self, target: Target, present: Container[str], types: bool = True) -> Target:
        """Returns the target with the columns of these rules, as far as they are `present` in the table, and
        with their SELECT. What is routed to it stays what the pipeline file says now.

        Without `types`, rows that were rejected are tried again: what the file no longer requires isn't, and
        a row passes a check by its SQL of then or of now. Checks that reject no row are left out."""
        columns = {name: path for name, path in self.columns.items() if name in present}
        missing: dict[str, Missing] = {OTHERS: "default"}
        for name, demand in self.required.items():
            if name in present:
                missing[name] = demand if types else min(demand, target.demand(name), key=_STRICTER.index)
        times = {
            name: TimeSpelling.model_construct(format=of.format, zone=of.zone)
            for name, of in self.times.items()
            if name in present
        }
        rollup, checks = self.rollup(target.rollup), self._checks(target, types)
        return target.model_copy(
            update={
                "columns": columns,
                "times": times,
                "missing": missing,
                "checks": checks,
                "rollup": rollup,
            }
        )

    def _checks(self, target: Target, types: bool) -> dict[str, RowCheck]:
        now, checks = target.rejecting, dict(self.checks)
        if not types:
            checks = {name: _either(sql, now[name]) for name, sql in checks.items() if name in now}
        return {
            name: RowCheck.model_construct(sql=sql, on_fail="reject") for name, sql in sorted(checks.items())
        }

    def rollup(self, now: Derived | None) -> Derived | None:
        """Returns the rollup as it was."""
        if now is None or not self.select:
            return now
        return now.as_it_was(self.select, self.source)


def _either(then: str, now: str) -> str:
    """Returns the check that a row passes by either: no row that is there fails it."""
    return then if now in (then, *_alternatives(then)) else f"({then}\n){_OR}({now}\n)"


_OR = " OR "


def _alternatives(sql: str) -> list[str]:
    """Returns the checks that `_either` has put together."""
    parts = sql.split(f"\n){_OR}(")
    return [part.removeprefix("(").removesuffix("\n)") for part in parts] if len(parts) > 1 else []


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()


def _duration(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


Rules = TypeVar("Rules", LandingRules, TableRules)
_STRICTER: tuple[Missing, ...] = ("default", "object", "reject")
Required = Callable[[Sequence[Column], Target], Mapping[str, Missing]]
_LANDING = msgspec.json.Decoder(LandingRules)
_TABLE = msgspec.json.Decoder(TableRules)


def encoded(rules: LandingRules | TableRules) -> tuple[str, bytes]:
    """Returns the digest of the rules, and their bytes in the lake."""
    data = msgspec.json.encode(asdict(rules), order="deterministic")
    return _digest(data), msgspec.json.format(data, indent=1)


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()[:_DIGITS]


def digest_of(rules: LandingRules | TableRules) -> str:
    """Returns the name of the rules."""
    return encoded(rules)[0]


def write_rules(lake: Lake, rules: LandingRules | TableRules) -> str:
    """Keeps the rules in the lake, once, and returns their digest. Raises what the lake raises."""
    digest, data = encoded(rules)
    lake.create(_key(digest), data)
    return digest


class RulesReader:
    """Reads rules out of the lake, each object once."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._objects: dict[str, bytes | None] = {}

    def landing(self, digest: str) -> LandingRules | None:
        """Returns None where no such rules are kept. Raises SluiceError for bytes that are none."""
        return self._read(_LANDING, digest)

    def table(self, digest: str) -> TableRules | None:
        """Returns None where no such rules are kept. Raises SluiceError for bytes that are none."""
        return self._read(_TABLE, digest)

    def _read(self, decoder: msgspec.json.Decoder[Rules], digest: str) -> Rules | None:
        if not digest:
            return None
        if digest not in self._objects:
            stored = self._lake.read(_key(digest))
            self._objects[digest] = None if stored is None else stored.data
        data = self._objects[digest]
        place = f"{self._lake.url}/{_key(digest)}"
        if data is None:
            return None
        rules = decode_stored(
            decoder, data, lambda error: f"{place} holds no rules ({error}): restore it from a copy"
        )
        # Of the bytes, not of what is read in them: a later version may know more of a rule.
        if _digest(msgspec.json.format(data, indent=-1)) != digest:
            raise SluiceError(f"{place} holds other rules than its name says: restore it from a copy")
        return rules


def _key(digest: str) -> str:
    return f"{FOLDER}{digest}.json"


# In what a unit's rules differ from those of the pipeline file. Pure.
#
# Plan, status, verify and page ask this one function. A difference is no fault: the unit is what its own
# rules say.
_KEYS = {
    "type": "event.type",
    "time": "event.time",
    "rows": "event.rows",
    "unpack": "event.unpack",
    "surrogates": "event.surrogates",
    "format": "event.format",
    "message": "event.format",
    "schema": "the schema file",
    "registry": "event.registry",
    "change": "event.change",
    "batch": "event.batch",
}
"""Where the pipeline file has a rule of a landing, if the rule isn't a key of its own."""


@dataclass(frozen=True, order=True)
class Difference:
    """One rule that differs. `rule` names it as the pipeline file does; `mode` is the run that applies the
    file's, empty where none does."""

    rule: str
    mode: str

    @property
    def advice(self) -> str:
        return f"--mode {self.mode} applies it" if self.mode else "what has landed keeps its own"


def differs(
    pipeline: Pipeline,
    manifest: Manifest,
    rows: Mapping[str, LedgerRow],
    now: LandingRules,
    rules: RulesReader,
    required: Required,
) -> tuple[Difference, ...]:
    """Returns the differences between a landed unit and the pipeline file, each once.

    `rows` are the unit's ledger rows by table, `now` the rules by which it would land today, `required` says
    without which columns the file rejects a row. What a fill changes by itself (routes, shards, a derived
    table's SELECT) makes the unit stale, and is not listed; what it changes with a route is. Nor is a topic
    that the unit lacks: its offsets are counted (state/status.py). Raises what the lake raises.
    """
    found = (
        *_landing(manifest, now, rules),
        *_isolation(pipeline, manifest),
        *_counts(pipeline, manifest),
        *_columns(pipeline, manifest, rows, rules, required),
    )
    if rule_of_outcome(manifest, now, rules):
        found = tuple(replace(one, mode="") if one.mode == "remake" else one for one in found)
    return tuple(dict.fromkeys(found))


def rule_of_outcome(manifest: Manifest, now: LandingRules, rules: RulesReader) -> str:
    """Returns the rule by which a unit's rows are all that the lake has of its messages, if it is another one
    now: no remake can apply that. Empty if there is none. Rules that are lost say nothing."""
    landed = (rules.landing(digest) for digest in (manifest.rules, *manifest.retried))
    return next((rule for one in landed if one is not None and (rule := one.only_outcome(now))), "")


def _landing(manifest: Manifest, now: LandingRules, rules: RulesReader) -> Iterator[Difference]:
    landed = rules.landing(manifest.rules)
    for rule in fields(LandingRules) if landed is not None else ():
        before, after = getattr(landed, rule.name), getattr(now, rule.name)
        # What a rule of the mask has hidden stays hidden, also when the file no longer has the rule.
        if rule.name == "mask" and after.items() <= before.items():
            continue
        if before != after:
            yield Difference(_KEYS.get(rule.name, rule.name), "remake")


def _isolation(pipeline: Pipeline, manifest: Manifest) -> Iterator[Difference]:
    """A cluster that has left the file has no isolation to differ from: its units are never read again."""
    now = [cluster.isolation for cluster in pipeline.kafka if cluster.cluster == manifest.cluster]
    if now and manifest.isolation not in now:
        yield Difference("kafka.isolation", "")


def _counts(pipeline: Pipeline, manifest: Manifest) -> Iterator[Difference]:
    for spec in pipeline.counts:
        counted = manifest.traffic_for(spec.table)
        if counted is None or (dict(counted.by), tuple(counted.types)) != (dict(spec.by), spec.types):
            yield Difference(f"counts of {spec.table}", "remake")


def _columns(
    pipeline: Pipeline,
    manifest: Manifest,
    rows: Mapping[str, LedgerRow],
    rules: RulesReader,
    required: Required,
) -> Iterator[Difference]:
    types = manifest.rows_by_type()
    for target in pipeline.targets:
        row = rows.get(target.table)
        loaded = rules.table(row.rules) if row is not None else None
        if row is None or loaded is None:
            continue
        # A fill that brings a type loads the whole unit by the file (`rules_for`).
        brings = row.manifest == manifest.id and not set(pipeline.routed(target, types)) <= set(row.types)
        mode = "fill" if brings else "reload"
        if dict(loaded.columns) != dict(target.columns):
            yield Difference(f"columns of {target.table}", mode)
        if dict(loaded.times) != target.spelled:
            yield Difference(f"times of {target.table}", mode)
        then = [
            Column(name, kind, how, default) for name, (kind, how, default, _) in loaded.definitions.items()
        ]
        needed = required(then, target)
        if {name: needed[name] for name in needed if name in loaded.definitions} != dict(loaded.required):
            yield Difference(f"missing of {target.table}", mode)
        if dict(loaded.checks) != target.rejecting:
            yield Difference(f"checks of {target.table}", mode)


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
    return f"{other}: {difference.advice}"
