"""What a load has to do for which units: pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sluice.clients.clickhouse.shards import placement_in
from sluice.config.pipeline import Pipeline, Target
from sluice.errors import FilesForgotten, TargetRefused
from sluice.field_path import first_keys, path_of
from sluice.flow.load.own_placement import NO_OTHERS, OtherShards
from sluice.manifest import LandedFile, Manifest, TypeFields
from sluice.plan.modes import CHANGES_RULES, KEEPS_RULES, LOADS_AGAIN, MISSING_COLUMNS, Mode
from sluice.slices import Unit
from sluice.state.additions import Addition, added_after, maybe_lost, since
from sluice.state.ledger import LedgerRow

MAX_ROWS = 50_000_000
MAX_UNITS = 10_000


@dataclass(frozen=True)
class Kept:
    """The rows of a commit that stay as they are, by the columns that tell their records apart."""

    identity: tuple[str, ...]
    rows: int


@dataclass(frozen=True)
class LoadWork:
    """One unit to load: the files of its manifest that have rows for the target, and how many such rows.

    `replaces`: the unit is revoked in the ledger first: it may have an older commit there. `sharding` is the
    stamp of clients/clickhouse/shards.py, `long_numbers` the manifest's. `fields` are those of the types of
    a table that may get columns, as far as the manifest knows them; `counted`: of all of them, in every row.
    `held`: the commit that is loaded again so that all of its rows have to stay: a load of missing columns
    only fills those, and a retry only brings rows in.
    `rules`: the digest of the rules to load by (state/rules.py); empty: those of the pipeline file. `routes`:
    the types that go to the table by those, where the pipeline file says otherwise by now. `kept`: the rows
    of the commit stay as far as the lake has their records, and only the rest is made. `source`: of a rollup
    whose source's rows are staged out of the lake first, how. `frozen`: nothing is loaded, and the rollup's
    rows, `landed` of them, stay as they are. `lacking`: as many rows of another landing, which the lake no
    longer knows, would leave the table: nothing is loaded.
    """

    unit: Unit
    manifest: str
    types: tuple[str, ...]
    files: tuple[LandedFile, ...]
    landed: int
    replaces: bool
    sharding: str = ""
    long_numbers: bool = True
    fields: tuple[TypeFields, ...] = ()
    counted: bool = False
    held: LedgerRow | None = None
    rules: str = ""
    routes: tuple[str, ...] | None = None
    kept: Kept | None = None
    source: LoadWork | None = None
    frozen: bool = False
    lacking: int = 0

    @property
    def brought(self) -> int:
        """Returns how many rows landed beside those that `held` has loaded or rejected."""
        if self.held is None or self.held.manifest == self.manifest:
            return 0
        return max(0, self.landed - self.held.rows - self.held.rejected_rows)

    def may_have(self, names: Sequence[str]) -> bool:
        """Returns whether rows may have one of the fields."""
        keys = {key for name in names for key in first_keys(path_of(name))}
        return not self.counted or any(of.others or of.fields.keys() & keys for of in self.fields)


@dataclass(eq=False)
class UnitsRefused(TargetRefused):
    """Some `units` that are not loaded, and stay as they are."""

    units: frozenset[Unit]

    def others(self, works: Iterable[LoadWork]) -> list[LoadWork]:
        return [work for work in works if work.unit not in self.units]


def work_for(
    pipeline: Pipeline,
    target: Target,
    unit: Unit,
    manifest: Manifest,
    replaces: bool,
    sharding: str = "",
    routes: Collection[str] | None = None,
) -> LoadWork:
    """Returns what loading a unit takes; `routes` are the types that go to the table, None: those that the
    pipeline file says."""
    if target.counted:
        traffic = manifest.traffic_for(target.table)
        counts = traffic.files if traffic else ()
        return LoadWork(unit, manifest.id, (), counts, sum(f.rows for f in counts), replaces, sharding)
    rows = manifest.rows_by_type()
    now = pipeline.routed(target, rows)
    types = now if routes is None else tuple(sorted(rows.keys() & set(routes)))
    routed = set(types)
    files = tuple(file for file in manifest.files if routed & set(file.types()))
    landed, long = sum(rows[name] for name in types), manifest.long_numbers
    fields_by_type = {one.type: one for one in manifest.fields} if target.evolves else {}
    fields = tuple(fields_by_type[name] for name in types if name in fields_by_type)
    counted = len(fields) == len(types) and all(one.exact for one in fields)
    work = LoadWork(unit, manifest.id, types, files, landed, replaces, sharding, long, fields, counted)
    return work if types == now else replace(work, routes=types)


def done(work: LoadWork, row: LedgerRow | None, mode: Mode, token: str) -> bool:
    """Returns whether the ledger's row makes loading the unit again unnecessary.

    `reload` and `repair` load again what is committed, except what this very run (`token`) has loaded before.
    `reland` made a new manifest, which no row holds yet.
    """
    if row is None or (row.manifest, row.types, row.sharding) != (work.manifest, work.types, work.sharding):
        return False
    return mode not in LOADS_AGAIN or (token != "" and row.token == token)


def rules_for(manifest: Manifest, newest: LedgerRow | None, mode: Mode, types: Collection[str] = ()) -> str:
    """Returns the digest of the rules by which a unit is loaded; empty: those of the pipeline file.

    `newest` is the unit's newest ledger row, committed or revoked; where its shard has none of this manifest,
    another shard's. What isn't a change of rules keeps the
    unit's own: a repair, a reland, a fill after one, an erasure or a retry, a load that continues after a
    kill. `types` go
    to the table: one that no row of the unit there has has no rules there yet.

    | mode | the newest row names | rules |
    | --- | --- | --- |
    | reload, remake | anything | the pipeline file's |
    | fill, reload --missing-columns | this manifest, without all of the types | the pipeline file's |
    | any other | this manifest, or one that it amends | the row's |
    | any other | another manifest, or there is none | the pipeline file's |
    """
    if newest is None or mode in CHANGES_RULES:
        return ""
    if mode not in KEEPS_RULES and newest.manifest == manifest.id and not set(types) <= set(newest.types):
        return ""
    return newest.rules if newest.continues(manifest) else ""


def by_rules(works: Iterable[LoadWork]) -> list[list[LoadWork]]:
    """Groups works by the rules to load by, their placement among them."""
    groups: dict[tuple[object, ...], list[LoadWork]] = {}
    for work in works:
        identity = work.kept.identity if work.kept is not None else ()
        groups.setdefault((work.rules, work.routes, work.sharding, identity), []).append(work)
    return list(groups.values())


def choose(
    pipeline: Pipeline,
    target: Target,
    manifests: Mapping[Unit, Manifest],
    ledger: Mapping[Unit, LedgerRow],
    mode: Mode,
    token: str,
    sharding: str = "",
    additions: Sequence[Addition] = (),
    shard: str = "",
    revoked: Mapping[Unit, LedgerRow] | None = None,
    elsewhere: Mapping[Unit, Collection[LedgerRow]] | None = None,
    shards: OtherShards = NO_OTHERS,
    others: Mapping[Unit, LedgerRow] | None = None,
) -> tuple[list[LoadWork], list[LedgerRow]]:
    """Returns what is to be loaded, and the ledger's rows of what is skipped; both in the units' order.

    MISSING_COLUMNS also loads again what may have lost fields of `additions`, the columns that loads have
    added.
    `revoked` are units that a load has revoked and not committed again. `elsewhere` are
    a unit's newest rows of other tables: what changes no rules leaves their types there. `shards`: what is
    known of the other shards. `others`: commits of other pipelines and lakes.
    Units whose files the lake has forgotten stay as they are. Raises FilesForgotten where a `reload` or a
    `repair` asks for one.
    """
    todo, skipped = [], []
    columns_since = since(additions)
    for unit, manifest in sorted(manifests.items(), key=lambda item: item[0]):
        row, own = ledger.get(unit), shards.stamps.get(unit)
        if own is not None and shard not in own:
            skipped += [row] if row is not None else []
            continue
        placed = sharding if own is None else own[shard]
        newest = shards.own_or_other(row or (revoked or {}).get(unit), manifest, unit)
        routes = None
        if mode in KEEPS_RULES and not target.counted:
            routes = _routes(pipeline, target, manifest, newest, (elsewhere or {}).get(unit, ()))
        work = work_for(pipeline, target, unit, manifest, row is not None, placed, routes)
        columns: Collection[str] = ()
        if row is not None and mode == MISSING_COLUMNS:
            columns = added_after(columns_since, target.table, row, shard)
        again = bool(columns) and bool(maybe_lost(target, manifest, work.types, columns))
        current = done(work, row, mode, token)
        if manifest.forgotten_on:
            if mode in LOADS_AGAIN and not current:
                reland = pipeline.command("run", *unit.slice.words, "--mode", "reland")
                raise FilesForgotten.of([(unit, manifest.forgotten_on)], mode, reland)
            skipped += [row] if row is not None else []
            continue
        if row is not None and current and not again:
            skipped.append(row)
        else:
            rules = rules_for(manifest, newest, mode, work.types)
            held, kept = row if current or mode == "retry" else None, None
            if row is not None and mode in ("amend", "retry") and not target.counted:
                kept = _kept(manifest, row, placed)
            lacking = _lacking(manifest, newest or (others or {}).get(unit), work)
            todo.append(replace(work, rules=rules, held=held, kept=kept, lacking=lacking))
    return todo, skipped


def _lacking(manifest: Manifest, newest: LedgerRow | None, work: LoadWork) -> int:
    """Returns how many rows fewer landed than the table was loaded with, where the lake has landed the unit
    as if it never had: its manifest, or the whole lake, was lost. A later generation has asked itself what it
    takes away."""
    if newest is None or newest.continues(manifest) or manifest.generation > 1:
        return 0
    return max(0, newest.landed - work.landed)


def _routes(
    pipeline: Pipeline,
    target: Target,
    manifest: Manifest,
    newest: LedgerRow | None,
    elsewhere: Collection[LedgerRow],
) -> set[str]:
    """Returns the types that go to the table by the unit's own routes: what has gone there stays, and what no
    table has goes where the pipeline file says."""
    own = set(newest.types) if newest is not None and newest.continues(manifest) else set()
    others = {name for row in elsewhere if row.continues(manifest) for name in row.types}
    return own | (set(pipeline.routed(target, manifest.rows_by_type())) - others)


def _kept(manifest: Manifest, row: LedgerRow, sharding: str) -> Kept | None:
    """Returns None if the rows are another landing's, or are placed otherwise by now, or by their values."""
    placement = placement_in(sharding)
    by_value = not (placement.alone or placement.by_partition)
    if row.sharding != sharding or by_value or not row.continues(manifest):
        return None
    elements = ("_row",) if manifest.rows is not None else ()
    return Kept(("_topic", "_partition", "_offset", *elements), row.rows)


def cut(
    works: Sequence[LoadWork], max_rows: int = MAX_ROWS, max_units: int = MAX_UNITS
) -> list[list[LoadWork]]:
    """Cuts into protocol runs: as many units as fit `max_rows` and `max_units`, at least one."""
    runs: list[list[LoadWork]] = []
    rows = 0
    for work in works:
        if runs and rows + work.landed <= max_rows and len(runs[-1]) < max_units:
            runs[-1].append(work)
            rows += work.landed
        else:
            runs.append([work])
            rows = work.landed
    return runs


def differences(works: Iterable[LoadWork], *counted: Mapping[Unit, int]) -> dict[Unit, tuple[int, int]]:
    """Returns (landed, counted) of the units whose sum over `counted` is not what landed."""
    counts_by_unit = {
        work.unit: (work.landed, sum(counts.get(work.unit, 0) for counts in counted)) for work in works
    }
    return {unit: pair for unit, pair in counts_by_unit.items() if pair[0] != pair[1]}


@dataclass(frozen=True)
class UnitLoad:
    """One unit: `loaded` now, or found committed; its rows in the table and in sluice.rejected. Of those in
    the table, how many got a default, by column, and how many fail a check, by check."""

    unit: Unit
    manifest: str
    rows: int
    rejected_rows: int
    loaded: bool
    defaulted: Mapping[str, int] = field(default_factory=dict, hash=False)
    failed: Mapping[str, int] = field(default_factory=dict, hash=False)

    @classmethod
    def skipped(cls, row: LedgerRow) -> UnitLoad:
        return cls(row.unit, row.manifest, row.rows, row.rejected_rows, False, row.defaulted, row.failed)


@dataclass(frozen=True)
class LoadResult:
    """`statements` that wrote, and `blocks` that they put into the target, sluice.rejected and the ledger (at
    least one for each partition of an INSERT): replicated, each block costs Keeper round trips."""

    table: str
    units: tuple[UnitLoad, ...]
    statements: int = 0
    blocks: int = 0

    @property
    def loaded(self) -> tuple[UnitLoad, ...]:
        return tuple(unit for unit in self.units if unit.loaded)

    @property
    def defaulted(self) -> int:
        """Values of the loaded rows that are defaults."""
        return sum(sum(unit.defaulted.values()) for unit in self.loaded)

    @property
    def failed(self) -> dict[str, int]:
        """Loaded rows that fail a check, by check."""
        total: Counter[str] = Counter()
        for unit in self.loaded:
            total.update(unit.failed)
        return dict(total)

    def summary(self) -> dict[str, Any]:
        """Counts for a log or an answer in JSON: units loaded and skipped, rows and rejected rows of the
        loaded."""
        return {
            "loaded": len(self.loaded),
            "skipped": len(self.units) - len(self.loaded),
            "rows": sum(unit.rows for unit in self.loaded),
            "rejected_rows": sum(unit.rejected_rows for unit in self.loaded),
        }

    def as_dict(self) -> dict[str, Any]:
        units = [{**asdict(unit), "unit": str(unit.unit)} for unit in self.units]
        counts = {"statements": self.statements, "blocks": self.blocks}
        return {"table": self.table, "units": units, **counts}
