"""A look at what has landed and loaded, in each run of the watch: which hours are to be verified?

It reads the cheap part of verify's facts, and judges by verify's own rules: of all hours of the `lookback`,
of a share of the older ones, which goes round, of hours that were found wrong before, and of those in which
a table's rows came or went without a load (flow/verify/totals.py). What is not as it was known is verified
at once, as a run does it. So the words are verify's, whoever has found it, and what was repaired is over.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from hashlib import sha256

import pendulum
from pendulum import DateTime

from sluice.clients.clickhouse.client import READ_QUORUM
from sluice.clients.clickhouse.errors import ServerError
from sluice.clients.clickhouse.shards import Servers, connect_shards
from sluice.clients.lake.base import Lake
from sluice.config.pipeline import Pipeline
from sluice.errors import Busy, LakeUnavailable, SluiceError, WrongUse
from sluice.flow.verify.anomaly import CHEAP_KINDS, ROW_KINDS, Anomaly, AnomalyKind
from sluice.flow.verify.audit import AuditScope, audit, read_facts
from sluice.flow.verify.check import check
from sluice.flow.verify.read_lake import LoadWatch, leases_of
from sluice.flow.verify.repairs import Repairs, as_printed
from sluice.flow.verify.totals import Beyond, beyond_ledger, changed_slices
from sluice.flow.verify.verdict import OpenAnomaly, lake_damage, note_verified, opened_all, read_verdict
from sluice.plan.batches import spells
from sluice.safe_text import line
from sluice.slices import Slice, SliceRange, floor, parse_instant
from sluice.state.boundaries.log import BoundaryLog
from sluice.watch.problems import Looked

MOST_UNITS = 200
"""Units in a share of the older hours, in those that were found wrong, and in those that a look verifies."""
MOST_SPELLS = 8
_INTERVALS = 0.5  # of `alarms.every`: then a look begins with nothing more
_STATEMENT = {"max_execution_time": 60}
_OF_NO_SLICE = ""

# What verify may call what counts show, and what is over when they hold again.
_FOUND_KINDS = CHEAP_KINDS | {AnomalyKind.ROWS_DUPLICATE, AnomalyKind.ROWS_FOREIGN}
# In what state an hour is, everybody reads anew: while its own run has not ended that is nothing wrong.
_NOT_JUDGED = (
    AnomalyKind.INCOMPLETE,
    AnomalyKind.FILE_NOT_MOVED,
    AnomalyKind.LOSS,
    AnomalyKind.STALLED,
    AnomalyKind.LACKING,
)

log = logging.getLogger(__name__)


def look(pipeline: Pipeline, lake: Lake, recent: SliceRange, before: Looked, now: datetime) -> Looked:
    """Verifies what is not as it was known, of the `recent` hours and of some others, and keeps the verdict.

    What takes too long, or is being loaded, is left to the next look. Raises what lake and ClickHouse raise.
    """
    older = _before(recent, BoundaryLog(lake).read().span())
    with connect_shards(pipeline, READ_QUORUM) as connected:
        servers = tuple(replace(server, client=server.reached.reading(_STATEMENT)) for server in connected)
        looking = _Looking(pipeline, lake, servers, now)
        changed, beyond = looking.totals(before.beyond)
        known = {slice_.id: slice_ for name in before.known if (slice_ := _slice(name, pipeline))}
        choice = chosen(recent, older, before.next, changed, known.values(), len(pipeline.clusters))
        seen = looking.read(choice.spans)
    done = [span for span in choice.spans if span in looking.spans]
    ids = [_OF_NO_SLICE, *(slice_.id for span in done for slice_ in span)]
    todo = to_verify(ids, seen, _opened(pipeline, lake), before.known)
    left = looking.verify(todo, seen, recent)
    opened = _opened(pipeline, lake)
    after = {name: checksum(seen.get(name, ()), opened.get(name, ())) for name in ids if name not in left}
    whole = not left and not choice.left and len(done) == len(choice.spans)
    return Looked(
        next=choice.next if older is None or done[1:2] == list(choice.spans[1:2]) else before.next,
        beyond=beyond if whole else before.beyond,
        known={
            name: text
            for name, text in {**before.known, **after}.items()
            if text and (name in after or name in known)
        },
    )


# Which hours a look reads, and which of them are to be verified. Pure.


@dataclass(frozen=True)
class Choice:
    """`spans` are read; `next` is where the next share begins; `left` have changed and found no room."""

    spans: tuple[SliceRange, ...]
    next: str = ""
    left: frozenset[Slice] = frozenset()


def chosen(
    recent: SliceRange,
    older: SliceRange | None,
    begin: str,
    changed: Iterable[Slice],
    known: Iterable[Slice],
    clusters: int,
) -> Choice:
    """Returns the `recent` hours, a share of the `older` ones that begins at the slice with the id `begin`,
    those that have `changed`, and those that are `known` to be wrong, the newest first."""
    most, spans, end = max(MOST_UNITS // max(clusters, 1), 1), [recent], ""
    if older is not None:
        first = _start(begin, older)
        share = SliceRange(first, min(first + most * older.length, older.end), older.length)
        spans.append(share)
        end = Slice(share.end, share.length).id if share.end < older.end else ""
    others = _outside(spans, changed).difference(known := set(known))
    taken = newest(others, most)
    left = others.difference(*taken)
    return Choice((*spans, *taken, *newest(_outside(spans, known), most)), end, frozenset(left))


def _outside(spans: Iterable[SliceRange], slices: Iterable[Slice]) -> set[Slice]:
    return {one for one in slices if not any(span.start <= one.start < span.end for span in spans)}


def _before(recent: SliceRange, known: tuple[datetime, datetime] | None) -> SliceRange | None:
    """Returns the slices before the `recent` ones, from the first boundary on; None where there is none."""
    first = floor(known[0], recent.length) if known else recent.start
    return SliceRange(first, recent.start, recent.length) if first < recent.start else None


def _start(begin: str, older: SliceRange) -> DateTime:
    with suppress(WrongUse):  # of another length, or of no slice at all
        start = Slice.from_id(begin, older.length).start
        if older.start <= start < older.end:
            return start
    return older.start


def newest(slices: Iterable[Slice], most: int) -> list[SliceRange]:
    """Returns the newest `most` of the slices as ranges without gaps, the newest MOST_SPELLS of these."""
    return list(reversed(spells(sorted(slices)[-most:])[-MOST_SPELLS:]))


Found = Mapping[str, Sequence[OpenAnomaly]]
"""By slice id; what belongs to no slice is under an empty one."""


def to_verify(ids: Iterable[str], seen: Found, opened: Found, known: Mapping[str, str]) -> set[str]:
    """Returns the slices in which other things are `seen`, or were `opened` by verify, than were known when
    they were verified. One with neither is whole: it was repaired, and verified then."""
    return {
        name
        for name in ids
        if (now := checksum(seen.get(name, ()), opened.get(name, ()))) and now != known.get(name)
    }


def checksum(seen: Iterable[OpenAnomaly], opened: Iterable[OpenAnomaly]) -> str:
    """Stands for what a look has seen of a slice and what verify has opened; empty where that is nothing."""
    lines = sorted([f"seen {_words(one)}" for one in seen] + [f"open {_words(one)}" for one in opened])
    return sha256("\n".join(lines).encode(errors="surrogatepass")).hexdigest()[:12] if lines else ""


def _words(anomaly: OpenAnomaly) -> str:
    return f"{anomaly.kind}: {anomaly.place}: {anomaly.message}"


def by_slice(pipeline: Pipeline, anomalies: Iterable[OpenAnomaly]) -> dict[str, list[OpenAnomaly]]:
    """Groups those that counts show, or may end. One between two slices is of both; one that a missing table
    explains is of none."""
    found: dict[str, list[OpenAnomaly]] = {}
    for anomaly in anomalies:
        if anomaly.kind in _FOUND_KINDS and not anomaly.cause:
            slices = [_slice(name, pipeline) for name in anomaly.slices]
            for name in {slice_.id for slice_ in slices if slice_} or {_OF_NO_SLICE}:
                found.setdefault(name, []).append(anomaly)
    return found


def _slice(name: str, pipeline: Pipeline) -> Slice | None:
    """Returns the slice of an id, or that in which rows of no slice begin (`2026-11-20T10:20:05Z`)."""
    with suppress(WrongUse):
        return Slice(
            floor(parse_instant(name, pendulum.now("UTC"), pipeline.slice), pipeline.slice), pipeline.slice
        )
    return None


def _opened(pipeline: Pipeline, lake: Lake) -> Found:
    return by_slice(pipeline, read_verdict(lake).anomalies)


# Reads and verifies.


@dataclass
class _Looking:
    """One look: `spans` are those that were read before the time was over."""

    pipeline: Pipeline
    lake: Lake
    servers: Servers
    now: datetime
    spans: list[SliceRange] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)

    @property
    def late(self) -> bool:
        return time.monotonic() - self._began > _INTERVALS * self.pipeline.alarms.every.total_seconds()

    @cached_property
    def quiet(self) -> Collection[str]:
        """The tables that nobody loads."""
        watch = LoadWatch(self.lake, leases_of(self.servers, self.pipeline), 0)
        return watch.read().keys()

    def totals(self, before: Mapping[str, Beyond]) -> tuple[set[Slice], dict[str, Beyond]]:
        """Returns the slices that have changed, and the totals to compare with next time: of a table that is
        being loaded the earlier ones."""
        changed, after = set[Slice](), dict[str, Beyond]()
        for server in self.servers:
            beyond = beyond_ledger(server.reached, self.pipeline)
            for target in (target for target in self.pipeline.targets if target.table in beyond):
                name = "@".join(filter(None, (target.table, server.shard.name)))
                now, then = beyond[target.table], before.get(name, (0, 0))
                if now != then and target.table not in self.quiet:
                    now = then
                elif now != then:
                    try:
                        changed |= changed_slices(server.reached, self.pipeline, target, self.lake.url)
                    except ServerError as error:  # it takes too long, above all
                        log.warning(
                            "%s: what has changed in %s: %s", self.pipeline.name, name, line(str(error))
                        )
                        now = then
                after[name] = now
        return changed, after

    def read(self, spans: Iterable[SliceRange]) -> Found:
        """Returns what is wrong with the slices, as far as that is cheap to see. What belongs to no slice is
        looked for with the first span, the newest."""
        seen: dict[str, list[OpenAnomaly]] = {}
        for span in spans:
            if self.spans and self.late:
                log.warning("%s: %s is left to the next look", self.pipeline.name, span)
                break
            facts = read_facts(self.pipeline, self.lake, span, AuditScope(cheap=True), _unsaid, self.servers)
            anomalies = [one for one in check(facts, Repairs.of(self.pipeline)) if self._stands(one)]
            found = by_slice(self.pipeline, opened_all(span, facts.statuses, anomalies, self.now))
            seen |= {name: of for name, of in found.items() if name or not self.spans}
            self.spans.append(span)
        return seen

    def _stands(self, anomaly: Anomaly) -> bool:
        """Returns whether it is for a look to judge. Until a load is done no ledger row covers its rows."""
        if anomaly.kind is not AnomalyKind.ROWS_UNCOVERED:
            return anomaly.kind in CHEAP_KINDS
        tables = {target.table for target in self.pipeline.targets}
        return ({anomaly.table} if anomaly.table in tables else tables) <= set(self.quiet)

    def verify(self, names: Collection[str], seen: Found, recent: SliceRange) -> set[str]:
        """Verifies these slices as a run does. Returns those that could not be judged, or found no room.

        Of a slice whose manifest is gone nothing says in which folders its files are."""
        everywhere = any(one.kind == AnomalyKind.FILE_UNKNOWN for name in names for one in seen.get(name, ()))
        scope = AuditScope(everywhere=everywhere, patient=False)
        slices = [slice_ for name in names if (slice_ := _slice(name, self.pipeline))]
        spans = newest(slices, MOST_UNITS)
        if _OF_NO_SLICE in names:
            spans = [recent, *(span for span in spans if span.start < recent.start)]
        left = set(names)
        for span in spans:
            if self.late:
                break
            judged = self._verified(span, scope)
            left -= judged if span == recent else judged - {_OF_NO_SLICE}
        return left

    def _verified(self, span: SliceRange, scope: AuditScope) -> set[str]:
        """Returns the slices that were judged, and with an empty id whether all was that belongs to none."""
        try:
            statuses, findings, _, pending = audit(self.pipeline, span, scope)
        except LakeUnavailable:
            raise
        except Busy:
            return set()
        except SluiceError as error:
            log.warning("%s: %s is not verified: %s", self.pipeline.name, span, line(str(error)))
            return set()
        damage = lake_damage(read_verdict(self.lake))
        printed = as_printed(self.pipeline, statuses, findings, damage)
        findings = [one for one in printed if one.kind not in _NOT_JUDGED]
        covered = dict.fromkeys(map(str, (*ROW_KINDS, *_NOT_JUDGED)), frozenset[tuple[str, str]]())
        note_verified(self.lake, span, statuses, findings, self.now, covered, pending)
        return {_OF_NO_SLICE, *(slice_.id for slice_ in span)} - {name for name, _ in pending}


def _unsaid(_: str) -> None:
    """Says nothing: what a look reads is not news."""
