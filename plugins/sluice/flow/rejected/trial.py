"""Tries on some of the rejected records whether a fix brings them in; changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from sluice.clients.clickhouse.settings import STEADY
from sluice.clients.clickhouse.shards import Server, Servers, placement_of
from sluice.clients.clickhouse.sql import Sql, identifier, listed, render
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.flow.land.amend.retry_unit import Tried, UnitRetry
from sluice.flow.land.task import lake_read
from sluice.flow.load.casts.columns import LAKE
from sluice.flow.load.load_place import LoadPlace
from sluice.flow.load.source.select import filled
from sluice.flow.load.work import rules_for
from sluice.flow.rejected.read_rejections import span
from sluice.flow.rejected.rejections import Rejection, RejectionCause
from sluice.flow.rejected.remedies import fix_of
from sluice.flow.rejected.retry_plan import Cure, RetryCandidates, Statuses
from sluice.safe_text import Say, visible
from sluice.slices import SliceRange, Unit
from sluice.state.ledger import LedgerQuestion, ask_ledger

MOST, SPREAD = 3, 5
"""Units of a reason that are tried: those with most of its records, and others evenly over the range."""
_EACH, _MISFITS = 20, 1000  # misfits of a slice, and of a cause
_MAX_QUERY = 256 << 20


@dataclass
class RetryTrial:
    """Tries each cause until one unit or row of it would come in."""

    pipeline: Pipeline
    lake: Lake
    statuses: Statuses
    say: Say
    _forecasts: dict[Unit, Tried] = field(default_factory=dict)

    def cures(
        self, candidates: RetryCandidates, servers: Servers, slices: SliceRange
    ) -> dict[RejectionCause, Cure]:
        """Raises what lake and ClickHouse raise."""
        cures = {
            cause: self._brought_in(cause, rejections)
            for cause, rejections in _by_cause(candidates.unparsed).items()
        }
        for cause, rejections in _by_cause(candidates.misfits).items():
            cures[cause] = self._reloaded(cause, rejections, servers, slices)
        return cures

    def _brought_in(self, cause: RejectionCause, rejections: Sequence[Rejection]) -> Cure:
        tried = tried_units([r for r in rejections if self._is_small(r.unit)])
        if not tried:
            return Cure(True, "not tried: its units have too many rejected records to try some of them first")
        report = ""
        for unit in tried:
            forecast = self._forecast(unit)
            report = f"tried {forecast}"
            if forecast.came_in and cause.reason in forecast.tried:
                return Cure(True, report)
        units = len({rejection.unit for rejection in rejections})
        return Cure(
            False, f"nothing would come in, by a trial of {len(tried):,} of {units:,} units; {report}"
        )

    def _is_small(self, unit: Unit) -> bool:
        manifest = self.statuses[unit].manifest
        return manifest is not None and manifest.kept <= lake_read.TOGETHER

    def _forecast(self, unit: Unit) -> Tried:
        manifest = self.statuses[unit].manifest
        if unit not in self._forecasts and manifest is not None:
            self.say(f"trying the rejected records of {unit}")
            self._forecasts[unit] = UnitRetry(self.pipeline, self.lake).forecast(unit, manifest)
        return self._forecasts[unit]

    def _reloaded(
        self, cause: RejectionCause, rejections: Sequence[Rejection], servers: Servers, slices: SliceRange
    ) -> Cure:
        units = [rejection.unit for rejection in rejections]
        counts = [
            self._fitting(place, cause, by, slices)
            for server in servers
            for place, by in self._by_rules(server, cause, units, slices)
        ]
        rows, fit = (sum(column) for column in zip(*counts, strict=True))
        if fit:
            return Cure(True, f"{fit:,} of {rows:,} rows that were tried would fit")
        return Cure(False, f"none of {rows:,} rows that were tried would fit: {fix_of(cause.reason, True)}")

    def _by_rules(
        self, server: Server, cause: RejectionCause, units: Sequence[Unit], slices: SliceRange
    ) -> Iterator[tuple[LoadPlace, list[Unit]]]:
        """Yields the units by the rules that a retry loads them by on this server."""
        target = next(t for t in self.pipeline.targets if t.table == cause.table)
        placement = placement_of(self.pipeline.clickhouse, server.shard, cause.table)
        place = LoadPlace(server.reached, self.pipeline, target, self.lake, placement)
        question = LedgerQuestion(self.pipeline, self.lake.url, [target], slices)
        commits = ask_ledger(server.reached, [question])[0][cause.table]
        digests: dict[str, list[Unit]] = {}
        for unit in units:
            manifest, newest = self.statuses[unit].manifest, commits.get(unit) or commits.revoked.get(unit)
            if manifest is not None:
                digests.setdefault(rules_for(manifest, newest, "retry"), []).append(unit)
        for digest, own in digests.items():
            yield place.by_rules(digest, types=False), own[:: -(-len(own) // _MISFITS)]

    def _fitting(
        self, place: LoadPlace, cause: RejectionCause, units: Sequence[Unit], slices: SliceRange
    ) -> tuple[int, int]:
        """Returns how many misfits of the cause were cast again, and how many of them fit."""
        _, filling = place.inspect()
        source = render("rejected/some_misfits", columns=listed(map(identifier, LAKE)))
        rows = filled(filling, tuple(LAKE), source, Sql("1"))
        sql = render("rejected/fitting", misfit=filling.misfit, rows=rows)
        parameters = {
            "target": cause.table,
            "pipeline": self.pipeline.name,
            "reason": cause.reason,
            "place": cause.column,
            "starts": [int(unit.slice.start.timestamp()) for unit in units],
            "clusters": [unit.cluster for unit in units],
            **span(slices),
        }
        settings = {**STEADY, "max_query_size": _MAX_QUERY}
        sizes = {"each": _EACH, "most": _MISFITS}
        [(count, fit)] = place.client.rows(sql, {**parameters, **sizes}, settings=settings)
        return int(count), int(fit)


def tried_units(rejections: Sequence[Rejection], most: int = MOST, spread: int = SPREAD) -> list[Unit]:
    """Returns the units with most records that the lake holds, then some evenly over the others. Pure."""
    ranked = sorted(rejections, key=lambda rejection: (-rejection.held, rejection.unit))
    first = [rejection.unit for rejection in ranked[:most]]
    rest = sorted({rejection.unit for rejection in rejections} - set(first))
    step = max(len(rest) // spread, 1)
    return [*first, *rest[step // 2 :: step][:spread]]


def _by_cause(rejections: Iterable[Rejection]) -> dict[RejectionCause, list[Rejection]]:
    rejections_by_cause: dict[RejectionCause, list[Rejection]] = {}
    for rejection in rejections:
        rejections_by_cause.setdefault(rejection.cause, []).append(rejection)
    return rejections_by_cause


def cause_text(cause: RejectionCause) -> str:
    """Returns a cause as a line of a plan says it."""
    if cause.kind == "unparsed":
        return visible(cause.reason)
    return f"{cause.table}.{visible(cause.column)} {visible(cause.reason)}"
