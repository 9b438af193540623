"""The land step: reads what is missing of a range from Kafka, and commits it to the lake unit by unit. A
`remake` reads what has landed from the lake itself.

Clusters are read one after another, each in jobs of its own: what one of them cannot bring is no reason to
throw away, or not to commit, what another has brought.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pendulum

from sluice import crash_points
from sluice.clients.kafka.topic_facts import TopicsOf
from sluice.clients.kafka.topics import open_topics
from sluice.clients.lake.base import Lake
from sluice.config.counts import Counts
from sluice.config.pipeline import Pipeline
from sluice.crash_points import Land
from sluice.errors import (
    LakeRefused,
    LakeUnavailable,
    NotAllLanded,
    RuleGone,
    SluiceError,
    SparkFailed,
    TopicRecreated,
    WrongUse,
)
from sluice.flow.land.amend.erase_unit import erase_owed, owed, unit_of_each
from sluice.flow.land.commit import discard, sweep
from sluice.flow.land.kafka_source import KafkaSource, Reads, unit_reads
from sluice.flow.land.lost_manifests import lost_manifests
from sluice.flow.land.newly_rejected import NotReplaced, refusal
from sluice.flow.land.read import Engine, LandingAttempt
from sluice.flow.land.read_plan import UnitRead, described
from sluice.flow.land.remake import LakeSource, landed_meanwhile, remade_reads
from sluice.manifest import Isolation, Manifest
from sluice.mask.mask_rules import mask_rules
from sluice.plan.modes import needs_landing
from sluice.plan.plan import waits
from sluice.safe_text import Say
from sluice.slices import SliceRange, Unit
from sluice.state.boundaries.log import BoundaryLog
from sluice.state.erasures import read_erasures
from sluice.state.field_changes import changes_of
from sluice.state.file_moves import finish_moves, move
from sluice.state.manifests import read_manifests
from sluice.state.rules import RulesReader
from sluice.state.units import awaits, units_of

# By which rules a `reland` lands each unit: those that it landed by, whatever the pipeline file says now.
#
# Records that a retry brought in by other rules would be rejected again: such a unit needs a yes.


@dataclass(frozen=True)
class RulesGroup:
    """Reads, by cluster, of units that land by the same rules. `schema`: the content of their schema file;
    None: the pipeline names it, or there is none."""

    pipeline: Pipeline
    schema: bytes | None = None
    by_cluster: dict[str, list[UnitRead]] = field(default_factory=dict)


def by_own_rules(
    pipeline: Pipeline,
    lake: Lake,
    by_cluster: Mapping[str, Iterable[UnitRead]],
    old: Mapping[Unit, Manifest],
) -> tuple[list[RulesGroup], list[RuleGone]]:
    """Groups the reads by the rules of each unit's manifest, and returns an error for each that lacks some.

    A unit that has not landed lands by the pipeline file. Raises what the lake raises.
    """
    groups: dict[object, RulesGroup] = {}
    gone: list[RuleGone] = []
    reader = RulesReader(lake)
    for cluster, reads in by_cluster.items():
        for read in reads:
            manifest = old.get(read.unit)
            digest = manifest.rules if manifest is not None else ""
            counts = _counts(manifest) if manifest is not None else pipeline.counts
            isolation = manifest.isolation if manifest is not None else pipeline.cluster(cluster).isolation
            key = digest, isolation, tuple((spec.table, *spec.by.items(), spec.types) for spec in counts)
            if key not in groups:
                try:
                    group = _group(_isolated(pipeline, isolation), reader, read.unit, digest, counts)
                    groups[key] = group
                except RuleGone as error:
                    gone.append(error)
                    continue
            groups[key].by_cluster.setdefault(cluster, []).append(read)
    return list(groups.values()), gone


def _group(
    pipeline: Pipeline, reader: RulesReader, unit: Unit, digest: str, counts: tuple[Counts, ...]
) -> RulesGroup:
    """Raises RuleGone: nothing is guessed."""
    if not digest:
        return RulesGroup(pipeline)
    rules = reader.landing(digest)
    if rules is None:
        remedy = "restore `_rules/` from a copy; or `remake` it, by the pipeline file"
        raise RuleGone(str(unit), f"the rules {digest}", "lake", remedy)
    try:
        own = rules.apply(pipeline).model_copy(update={"counts": counts})
    except WrongUse as error:
        remedy = "put that back into the file until this is done"
        raise RuleGone(str(unit), str(error), "pipeline file", remedy) from error
    return RulesGroup(own, rules.schema_content)


def _isolated(pipeline: Pipeline, isolation: Isolation) -> Pipeline:
    clusters = [cluster.model_copy(update={"isolation": isolation}) for cluster in pipeline.kafka]
    return pipeline.model_copy(update={"kafka": clusters})


def _counts(manifest: Manifest) -> tuple[Counts, ...]:
    return tuple(
        Counts.model_construct(table=counted.table, by=dict(counted.by), types=tuple(counted.types))
        for counted in manifest.traffic
    )


@dataclass(frozen=True)
class Landing:
    """`units` is how many the range has, `landed` are the manifests of those that landed now. `failed`: by
    cluster, why units of it did not land although units of another cluster did."""

    units: int
    landed: tuple[Manifest, ...]
    failed: Mapping[str, SluiceError] = field(default_factory=dict)

    def summary(self) -> dict[str, Any]:
        return {
            "units": self.units,
            "landed": len(self.landed),
            "records": sum(m.read for m in self.landed),
            "rejected_records": sum(m.refused_records for m in self.landed),
            "files": sum(len(m.files) + len(m.rejected) for m in self.landed),
            "bytes": sum(f.bytes for m in self.landed for f in (*m.files, *m.rejected)),
            "lost": sum(loss.until - loss.start for m in self.landed for loss in m.lost),
            "late": sum(m.late for m in self.landed),
        }


def land(
    pipeline: Pipeline,
    lake: Lake,
    slices: SliceRange,
    mode: str,
    token: str,
    engine: Engine,
    say: Say,
    topics_of: TopicsOf = open_topics,
    accept_loss: bool = False,
) -> Landing:
    """Lands what `mode` asks for; repeatable, also beside others who do the same. A `reland` lands each unit
    by the rules that it landed by; all else lands by the pipeline file.

    Raises WrongUse (a key of the mask), Refused, RecordsExpired, CannotRemake, RuleGone, CompactedAway,
    WouldReject (it would reject rows that are there, and the caller does not accept the loss),
    Conservation, SparkFailed, and what Kafka and the lake raise; of several clusters only when none landed.
    A unit that cannot land, or has expired, holds up no other: its error comes last. `reland` (not where a
    unit has expired) and `remake` replace what is there. Before a first manifest a failure leaves nothing.
    What the erasure list names is left out, also where an entry came while the units were read.
    """
    landing, error = _land(pipeline, lake, slices, mode, token, engine, say, topics_of, accept_loss)
    if owing := owed(lake, landing.landed, pipeline.slice):
        say(f"{len(owing):,} units were landed while an erasure was asked for: it is applied to them")
        erase_owed(lake, owing)
        stand = read_manifests(lake, unit_of_each(landing.landed, pipeline.slice))
        landing = replace(landing, landed=tuple(stand.values()))
    if error is not None:
        raise error
    return landing


def _land(
    pipeline: Pipeline,
    lake: Lake,
    slices: SliceRange,
    mode: str,
    token: str,
    engine: Engine,
    say: Say,
    topics_of: TopicsOf,
    accept_loss: bool,
) -> tuple[Landing, SluiceError | None]:
    """Returns also the error of what could not land; `land` reads the erasure list before it raises it."""
    mask, erasures, boundaries = mask_rules(pipeline), read_erasures(lake), BoundaryLog(lake).read()
    units = units_of(pipeline, slices, boundaries)
    old = finish_moves(lake, units, replaced=mode == "reland")
    crash_points.reached(Land.CAUGHT_UP)
    in_scope = [unit for unit in units if awaits(pipeline, unit)]
    todo = [unit for unit in in_scope if needs_landing(old.get(unit), mode, token)]
    again = {unit: old[unit] for unit in todo if mode == "remake" and unit in old}
    lost = lost_manifests(lake, [unit for unit in todo if unit not in old], accept_loss)
    from_topics = [unit for unit in todo if unit not in again]
    reads = unit_reads(pipeline, boundaries, from_topics, old, topics_of, lost)
    remade, refused = remade_reads(pipeline, lake, again)
    groups, gone = by_own_rules(pipeline, lake, reads.by_cluster, old if mode == "reland" else {})
    _refuse(pipeline, reads, mode, bool(again))
    crash_points.reached(Land.PLANNED)
    _tell_planned(in_scope, todo, reads.all, [read for some in remade.values() for read in some], say)
    ask = None if accept_loss else partial(refusal, lake)
    from_lake = LakeSource(pipeline, lake, again, token, ask)
    from_kafka = KafkaSource(pipeline, lake, old, mode, token, say, topics_of, ask, lost)
    attempt = LandingAttempt(
        pipeline=pipeline,
        lake=lake,
        ids={},
        engine=engine,
        say=say,
        source=from_kafka,
        exact_fields=pipeline.evolving_types,
        erasures=erasures,
        mask=mask,
    )
    remade_clusters = _clusters(replace(attempt, source=from_lake), remade)
    read_clusters = [
        _clusters(
            replace(
                attempt,
                pipeline=group.pipeline,
                source=replace(from_kafka, pipeline=group.pipeline),
                schema=group.schema,
                mask=mask_rules(group.pipeline),
            ),
            group.by_cluster,
        )
        for group in groups
    ]
    done = (remade_clusters, *read_clusters)
    ids = [attempt_id for clusters in done for attempt_id in clusters.ids]
    sweep(pipeline, lake, ids, pendulum.now("UTC"))
    landed = tuple(manifest for clusters in done for manifest in clusters.landed)
    failed = dict(reads.failed)
    for clusters in read_clusters:
        failed |= clusters.failed
    tell_changes(lake, units, landed, old, say)
    not_replaced = (error for clusters in read_clusters for error in clusters.refused)
    kept = (*refused, *gone, *remade_clusters.unmade(token), *not_replaced, *reads.expired)
    error = _error_of(pipeline, failed, kept, say)
    return Landing(len(in_scope), landed, failed), error


def _tell_planned(
    in_scope: Sequence[Unit],
    todo: Sequence[Unit],
    reads: Sequence[UnitRead],
    remade: Sequence[UnitRead],
    say: Say,
) -> None:
    sums = [sum(read.offsets for read in some) for some in (reads, remade)]
    again = f", {len(remade):,} of them out of the lake ({sums[1]:,} offsets)" if remade else ""
    say(f"{len(in_scope)} units, {len(todo)} to land{again}, {sums[0]:,} offsets to read")
    for line in described([*remade, *reads]):
        say(line)


def _refuse(pipeline: Pipeline, reads: Reads, mode: str, remakes: bool) -> None:
    """Raises what forbids the landing before anything is read. Units to be remade do not wait for Kafka."""
    if not remakes and reads.failed and len(pipeline.clusters) == 1:
        raise next(iter(reads.failed.values()))
    if reads.expired and mode == "reland":
        raise reads.expired[0]


def _error_of(
    pipeline: Pipeline, failed: Mapping[str, SluiceError], refused: Sequence[SluiceError], say: Say
) -> SluiceError | None:
    """Says why clusters and units have not landed. Returns the error of a unit that has expired or cannot be
    remade, or of clusters of which none could be landed."""
    for cluster, error in failed.items() if len(pipeline.clusters) > 1 or refused else ():
        say(waits(cluster, error))
    for error in refused[1:]:
        say(str(error))
    if refused:
        return refused[0]
    return next(iter(failed.values())) if failed.keys() == set(pipeline.clusters) else None


@dataclass(frozen=True)
class _Clusters:
    """The ids of the attempts, the manifests that stand afterwards, and by cluster why units did not land.
    `refused`: why units were read, and then not replaced."""

    ids: tuple[str, ...]
    manifests: tuple[Manifest, ...]
    failed: Mapping[str, SluiceError]
    refused: tuple[SluiceError, ...]

    @property
    def landed(self) -> tuple[Manifest, ...]:
        return tuple(m for m in self.manifests if m.attempt in self.ids)

    def unmade(self, token: str) -> tuple[SluiceError, ...]:
        """Returns why units were not remade, also those that another run has landed meanwhile."""
        others = landed_meanwhile([f"{m.slice}/{m.cluster}" for m in self.manifests if m.token != token])
        return (*self.refused, *self.failed.values(), *([others] if others else []))


def _clusters(attempt: LandingAttempt, by_cluster: Mapping[str, Sequence[UnitRead]]) -> _Clusters:
    """Lands cluster after cluster. What the lake raises is raised: it is the same for all of them."""
    ids = {cluster: uuid.uuid4().hex[:16] for cluster in by_cluster}
    manifests: list[Manifest] = []
    failed: dict[str, SluiceError] = {}
    refused: list[SluiceError] = []
    for cluster, reads in by_cluster.items():
        cluster_attempt = replace(attempt, ids={cluster: ids[cluster]})
        parts = in_parts(reads, partial(_part, cluster_attempt), partial(attempt.source.answers, cluster))
        manifests += parts.manifests
        if parts.error is not None and parts.refused:
            refused.append(parts.error)
        elif parts.error is not None:
            failed[cluster] = parts.error
    return _Clusters(tuple(ids.values()), tuple(manifests), failed, tuple(refused))


def _part(attempt: LandingAttempt, reads: Sequence[UnitRead]) -> Parts:
    """Lands some units of one cluster. What fails leaves nothing of the attempt behind."""
    try:
        landed = attempt.read(reads)
        attempt.source.check(landed)
    except SluiceError as error:
        discard(attempt.lake, attempt.ids.values())
        replaced = attempt.source.replaced(reads)
        if replaced is None:
            raise
        raise replaced from error
    committed = attempt.source.commit(landed)
    manifests = tuple(one for one in committed if not isinstance(one, NotReplaced))
    move(attempt.lake, manifests)
    kept = [(u.read, e) for u, e in zip(landed, committed, strict=True) if isinstance(e, NotReplaced)]
    return Parts(manifests, tuple(((read,), error) for read, error in kept))


# Says at the end of a landing what has changed in the fields of the events that it landed.
MOST_LINES = 20


def tell_changes(
    lake: Lake, units: Iterable[Unit], landed: Sequence[Manifest], old: Mapping[Unit, Manifest], say: Say
) -> None:
    """Says a line for each change from earlier manifests to those `landed`; `old` are those that `units` had
    before. Raises LakeUnavailable."""
    by_name = {(unit.slice.id, unit.cluster): unit for unit in units}
    new = {by_name[manifest.slice, manifest.cluster]: manifest for manifest in landed}
    changes = changes_of(lake, sorted(new), {**old, **new}, say)
    for change in changes[:MOST_LINES]:
        say(f"schema changed: {change}")
    if len(changes) > MOST_LINES:
        shows = lake.command("status", "--changes")
        say(f"schema changed: {len(changes) - MOST_LINES:,} more: `{shows}` shows all")


# Lands a batch although some of its units cannot: the part that fails is halved until these are alone.
@dataclass(frozen=True)
class Parts:
    """The manifests of what could land; `failed` are the others, each part with its error."""

    manifests: tuple[Manifest, ...]
    failed: tuple[tuple[Sequence[UnitRead], SluiceError], ...] = ()

    @property
    def refused(self) -> bool:
        """Returns whether a unit was read, and then not replaced."""
        return any(isinstance(error, NotReplaced) for _, error in self.failed)

    @property
    def error(self) -> SluiceError | None:
        """Names the units, unless all failed in one part: its own error says it then."""
        if not self.failed:
            return None
        units = [str(read.unit) for part, _ in self.failed for read in part]
        first = self.failed[0][1]
        if not self.manifests and len(self.failed) == 1:
            return first
        return NotAllLanded.of(units, len(self.manifests), first)


LandUnits = Callable[[Sequence[UnitRead]], Parts]


def in_parts(reads: Sequence[UnitRead], land: LandUnits, answers: Callable[[], bool]) -> Parts:
    """Lands all of `reads`, and where that fails for what may be a unit's own cause, its halves.

    One unit of n costs some log2(n) reads more, each half as large; after twice as many failures what is left
    fails undivided. `answers` says whether Kafka can be asked now: where not, no unit is to blame. Raises
    what the lake raises.
    """
    left, most = [tuple(reads)], 2 * len(reads).bit_length() + 2
    manifests: list[Manifest] = []
    failed: list[tuple[Sequence[UnitRead], SluiceError]] = []
    tries = 0
    while left:
        part = left.pop()
        try:
            done = land(part)
            manifests += done.manifests
            failed += done.failed
        except (LakeUnavailable, LakeRefused):
            raise
        except SluiceError as error:
            tries += 1
            unit_at_fault = _of_a_unit(error) and answers()
            if unit_at_fault and len(part) > 1 and tries <= most:
                half = len(part) // 2
                left += [part[half:], part[:half]]
                continue
            failed.append((part, error))
            if not unit_at_fault:
                failed += ((other, error) for other in reversed(left))
                break
    return Parts(tuple(manifests), tuple(failed))


def _of_a_unit(error: SluiceError) -> bool:
    """Returns whether one unit may have caused the error: not a retryable one, nor one of a topic or a
    file."""
    if isinstance(error, TopicRecreated):
        return False
    return isinstance(error, SparkFailed) or (not error.retryable and error.exit_code == 1)
