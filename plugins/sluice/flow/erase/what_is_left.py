"""What an erasure leaves behind, as lines of its receipt. Pure."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sluice.clients.clickhouse.client import Client
from sluice.clients.clickhouse.inspect_tables import read_table
from sluice.clients.clickhouse.sql import SYSTEM, render, table
from sluice.clients.kafka.topic_facts import TopicFacts, open_inquiry
from sluice.clients.lake import layout
from sluice.clients.lake.base import Item, Lake
from sluice.clients.lake.layout import parse_name
from sluice.clients.lake.open import delete_own
from sluice.config.pipeline import Pipeline
from sluice.errors import SluiceError
from sluice.flow.verify.read_lake import list_files
from sluice.manifest import STAMP, Manifest
from sluice.safe_text import Remark, Say
from sluice.slices import Unit, ms_text
from sluice.state.erasures import ErasureProgress, FoundPlace, FoundUnit
from sluice.state.manifests import attempts_of


def left_lines(
    removed: Removed, unsearched: Iterable[str], servers: Iterable[LeftOnDisk], force: bool
) -> list[str]:
    """Returns what a later call, or a person, still has to do."""
    lines = [f"not searched: {line}" for line in unsearched]
    for left_attempt in removed.left:
        lines.append(
            f"attempt {left_attempt.slice}/{left_attempt.attempt} may be at work, and has "
            f"{left_attempt.files:,} files that nobody reads: the same words remove it after "
            f"{left_attempt.removable}"
        )
    for server in servers if force else ():
        if not server.nothing:
            replaced = sum(parts.replaced for parts in server.tables)
            lines.append(
                f"{server.server} still has {replaced:,} replaced parts and {server.dropped:,} dropped "
                "tables on its disk: the same words with --now wait again"
            )
    return lines


def forgotten_lines(manifests: Iterable[Manifest]) -> list[str]:
    """Returns a line about rejected records that the lake forgot, in units whose rows it still holds."""
    held = [m for m in manifests if not m.forgotten_on and not m.half_forgotten]
    counts = [sum(m.forgotten_by_reason().values()) for m in held]
    positive = [count for count in counts if count]
    if not positive:
        return []
    return [
        f"the lake forgot the bytes of {sum(positive):,} rejected records of {len(positive):,} units before, "
        "as `keep` says: none of them was searched, and nothing of them but their number is in the lake"
    ]


def note_lines(kafka: Iterable[LeftInKafka], servers: Iterable[LeftOnDisk], force: bool) -> list[str]:
    """Returns what vanishes by itself, and when."""
    return [*_of_kafka(kafka), *([] if force else _of_disks(servers))]


def _of_kafka(left_offsets: Iterable[LeftInKafka]) -> Iterator[str]:
    for offsets in left_offsets:
        place = f"Kafka {offsets.cluster}/{offsets.topic}/{offsets.partition}"
        span = f"offsets [{offsets.first}, {offsets.last}]"
        if offsets.holds is None:
            yield f"{place}: whether it still has {span} is not known: {offsets.why}"
        elif not offsets.holds:
            yield f"{place}: {span} are deleted"
        elif offsets.why:
            yield f"{place}: has some of {span}: {offsets.why}"
        else:
            until = f", and by {offsets.latest} if records keep coming" if offsets.latest else ""
            yield f"{place}: has some of {span}; the newest stays until {offsets.earliest} at least{until}"


def _of_disks(servers: Iterable[LeftOnDisk]) -> Iterator[str]:
    for server in servers:
        for parts in server.tables:
            if parts.hidden or parts.replaced:
                yield (
                    f"{server.server}, {parts.table}: no query shows the rows; their bytes are in "
                    f"{parts.hidden:,} parts until these are merged, and in {parts.replaced:,} replaced "
                    f"ones for {parts.lifetime:,} s and until the server cleans up: --now forces it"
                )
        if server.dropped:
            yield (
                f"{server.server}: {server.dropped:,} temporary tables of loads are dropped, and on disk "
                f"for at most {server.drop_delay:,} s"
            )


# Removes what the lake still has of the units as they were: superseded files, and attempts that died.
IDLE = timedelta(hours=6)
"""An attempt that has written nothing for as long is not alive: a landing writes all the time."""


@dataclass(frozen=True)
class LeftAttempt:
    """Files of an attempt that may be alive; `removable` is when a later call removes it."""

    slice: str
    attempt: str
    files: int
    removable: str


@dataclass(frozen=True)
class Removed:
    files: int
    attempts: int
    left: tuple[LeftAttempt, ...]


def remove_left(
    lake: Lake,
    covers: Callable[[str], bool],
    manifests: Mapping[Unit, Manifest],
    progress: ErasureProgress,
    now: datetime,
) -> Removed:
    """`covers`: whether the entry covers the slice of an id; attempts may be of slices that have never
    landed. `manifests` are those of all units that it covers, as they stand."""
    dead = _dead(lake, manifests, progress)
    delete_own(lake, dead)
    removed, left_attempts = 0, list[LeftAttempt]()
    named = {(unit.slice.id, manifest.attempt) for unit, manifest in manifests.items()}
    attempts = attempts_of(item for item in lake.list(layout.ATTEMPTS) if layout.is_own(item.key))
    newest = _newest(attempts)
    for (slice_id, attempt), files in attempts.items():
        if not covers(slice_id) or (slice_id, attempt) in named:
            continue
        idle_from = newest[attempt] + IDLE
        if idle_from <= now:
            delete_own(lake, [item.key for item in files])
            removed += 1
        else:
            left_attempts.append(LeftAttempt(slice_id, attempt, len(files), idle_from.strftime(STAMP)))
    return Removed(len(dead), removed, tuple(left_attempts))


def _newest(attempts: Mapping[tuple[str, str], Sequence[Item]]) -> Mapping[str, datetime]:
    """Returns when each attempt has last written, into whatever slice: it commits all of them at its end."""
    last_written: dict[str, datetime] = {}
    for (_, attempt), files in attempts.items():
        last_written[attempt] = max(
            *(item.modified for item in files), last_written.get(attempt, files[0].modified)
        )
    return last_written


def _dead(lake: Lake, manifests: Mapping[Unit, Manifest], progress: ErasureProgress) -> list[str]:
    """Returns files of generations before the one that stands, of units that held the person."""
    stand = {(u.slice.id, u.cluster): m for u, m in manifests.items() if str(u) in progress.found}
    named = {file.key for manifest in stand.values() for file in manifest.all_files}
    keys: list[str] = []
    for key in list_files(lake):
        name = parse_name(key)
        manifest = stand.get((name.slice, name.cluster)) if name else None
        if name and manifest and key not in named and name.generation < manifest.generation:
            keys.append(key)
    return keys


# Says what ClickHouse's disks still hold of deleted rows, and until when; forces the server to remove it.
#
# A load deletes a slice's rows by a lightweight DELETE: they are hidden at once, and stay in their part until
# it is merged. A part that was replaced stays on disk for `old_parts_lifetime`, and the temporary table of a
# load for `database_atomic_delay_before_drop_table_sec`.
_LIFETIME = re.compile(r"\bold_parts_lifetime\s*=\s*(\d+)")
_POLL_SECONDS = 1.0
_SAY_SECONDS = 60  # how often a wait says for how long it has gone on
_PATIENCE_SECONDS = 900  # beyond the lifetime: the server removes in rounds, and not what a query reads


@dataclass(frozen=True)
class LeftParts:
    """Of a table: parts in which deleted rows are only hidden, and replaced ones that are not removed yet.
    `lifetime`: seconds for which it keeps these."""

    table: str
    hidden: int
    replaced: int
    lifetime: int


@dataclass(frozen=True)
class LeftOnDisk:
    """Of one server. `dropped`: temporary tables whose files are there for at most `drop_delay` seconds."""

    server: str
    tables: tuple[LeftParts, ...]
    dropped: int
    drop_delay: int

    def wait(self, dropped: bool) -> Wait:
        """`dropped`: there are, or will be, dropped tables."""
        lifetimes = [parts.lifetime for parts in self.tables]
        kept = max([*lifetimes, self.drop_delay if dropped else 0])
        return Wait(self.server, kept, kept + _PATIENCE_SECONDS)

    @property
    def nothing(self) -> bool:
        return not self.dropped and not any(parts.hidden or parts.replaced for parts in self.tables)


@dataclass(frozen=True)
class Wait:
    """For how many seconds a server keeps what is replaced or dropped, and after how many nobody waits on."""

    server: str
    kept: int
    longest: int


@dataclass
class WaitLines:
    """Prints what a wait is for: at its begin, when that changes, and once a minute with its length."""

    say: Say
    _said: str = field(default="", init=False)
    _next: float = field(default=0, init=False)

    def note(self, text: str, waited: float) -> None:
        """`waited`: seconds since the wait began."""
        if text == self._said and waited < self._next:
            return
        self.say(Remark(f"{text}; waited {waited:,.0f} s" if self._said else text))
        self._said, self._next = text, waited + _SAY_SECONDS


@dataclass(frozen=True)
class ServerParts:
    """One server's part of a pipeline. `clock`: seconds."""

    client: Client
    pipeline: Pipeline
    say: Say = lambda _: None
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def left(self) -> LeftOnDisk:
        lifetimes, (default, delay) = self._tables(), self._defaults()
        hidden, replaced = Counter[str](), Counter[str]()
        for name, _, active in self._parts(list(lifetimes)):
            (hidden if active else replaced)[name] += 1
        tables = (
            LeftParts(name, hidden[name], replaced[name], default if lifetime is None else lifetime)
            for name, lifetime in lifetimes.items()
        )
        return LeftOnDisk(self.client.address, tuple(tables), len(self._dropped()), delay)

    def force(self) -> LeftOnDisk:
        """Rewrites parts that hide deleted rows, and waits until old parts and dropped tables are removed.
        Returns what is left then, or after the longest wait."""
        names = list(self._tables())
        for name in dict.fromkeys(name for name, _, active in self._parts(names) if active):
            self.say(f"{name}: writing the parts without their deleted rows")
            self.client.run(render("erase/apply_mask", table=table(name)))
        replaced = {(name, part) for name, part, active in self._parts(names) if not active}
        dropped, still_left = set(self._dropped()), self.left()
        wait = still_left.wait(bool(dropped))
        lines, begun = WaitLines(self.say), self.clock()
        while (replaced or dropped) and (waited := self.clock() - begun) < wait.longest:
            text = (
                f"{self.client.address}: {len(replaced):,} replaced parts and {len(dropped):,} dropped "
                f"tables are still on disk; the server keeps such for about {wait.kept:,} s"
            )
            lines.note(text, waited)
            self.sleep(min(_POLL_SECONDS * 5, max(_POLL_SECONDS, wait.kept / 20)))
            replaced &= {(name, part) for name, part, active in self._parts(names) if not active}
            dropped &= set(self._dropped())
        return self._of(replaced, dropped, still_left)

    def _of(self, replaced: set[tuple[str, str]], dropped: set[str], still_left: LeftOnDisk) -> LeftOnDisk:
        counts = Counter(name for name, _ in replaced)
        names = (LeftParts(p.table, 0, counts[p.table], p.lifetime) for p in still_left.tables)
        return LeftOnDisk(still_left.server, tuple(names), len(dropped), still_left.drop_delay)

    def _tables(self) -> dict[str, int | None]:
        """Returns every table that a load writes rows to, and its own lifetime of replaced parts."""
        engines: dict[str, str] = {}
        for target in self.pipeline.targets:
            target_table = read_table(self.client, target.database, target.name)
            if target_table is not None:
                engines[target_table.table] = target_table.engine_full
                engines |= {view_table.table: view_table.engine_full for view_table in target_table.stored}
        engines.setdefault(f"{SYSTEM}.rejected", "")
        matches = {name: _LIFETIME.search(text) for name, text in engines.items()}
        return {name: None if match is None else int(match[1]) for name, match in matches.items()}

    def _parts(self, names: Sequence[str]) -> list[tuple[str, str, bool]]:
        rows = self.client.rows(render("erase/left_parts"), {"tables": list(names)})
        return [(name, part, bool(active)) for name, part, active in rows]

    def _dropped(self) -> list[str]:
        databases = sorted({SYSTEM, *(target.database for target in self.pipeline.targets)})
        return [
            uuid for (uuid,) in self.client.rows(render("erase/dropped_tables"), {"databases": databases})
        ]

    def _defaults(self) -> tuple[int, int]:
        [(lifetime, drop_delay)] = self.client.rows(render("erase/lifetimes"))
        return int(lifetime), int(drop_delay)


# What Kafka still has of the offsets in which a person was found, and until when.
_FOR_EVER_MS = 100 * 366 * 86_400_000


@dataclass(frozen=True)
class LeftInKafka:
    """Of one partition: whether some of the offsets `[first, last]` are there. `earliest`: before that the
    newest of them is not deleted by its age; `latest`: by then it is. Empty: not by age."""

    cluster: str
    topic: str
    partition: int
    first: int
    last: int
    holds: bool | None
    earliest: str = ""
    latest: str = ""
    why: str = ""


def places_of(found_units: Mapping[str, FoundUnit]) -> dict[str, list[FoundPlace]]:
    """Returns one place for each partition, by cluster."""
    joined: dict[tuple[str, str, int], FoundPlace] = {}
    for unit, found_unit in found_units.items():
        cluster = unit.split("/", 1)[1]
        for place in found_unit.places:
            key = (cluster, place.topic, place.partition)
            joined_place = joined.get(key, place)
            joined[key] = FoundPlace(
                place.topic,
                place.partition,
                min(joined_place.first, place.first),
                max(joined_place.last, place.last),
                max(joined_place.newest, place.newest),
            )
    places: dict[str, list[FoundPlace]] = {}
    for (cluster, *_), place in sorted(joined.items()):
        places.setdefault(cluster, []).append(place)
    return places


def left_in_kafka(pipeline: Pipeline, found_units: Mapping[str, FoundUnit]) -> list[LeftInKafka]:
    """Returns what each cluster still has; of one that does not answer, or that the pipeline file no longer
    has, the error."""
    answers: list[LeftInKafka] = []
    for cluster, places in places_of(found_units).items():
        try:
            facts = _facts(pipeline, cluster, {place.topic for place in places})
            answers += judged(cluster, places, facts)
        except SluiceError as error:
            answers += [
                LeftInKafka(cluster, p.topic, p.partition, p.first, p.last, None, why=str(error))
                for p in places
            ]
    return answers


def _facts(pipeline: Pipeline, cluster: str, topics: Iterable[str]) -> dict[str, TopicFacts]:
    with open_inquiry(pipeline.cluster(cluster)) as inquiry:
        return {topic: inquiry.facts(topic) for topic in sorted(topics)}


def judged(
    cluster: str, places: Iterable[FoundPlace], facts: Mapping[str, TopicFacts]
) -> Iterator[LeftInKafka]:
    """Yields whether each place is still in Kafka, and until when."""
    for place in places:
        topic = facts[place.topic]
        partition = topic.partitions.get(place.partition)
        bare = (cluster, place.topic, place.partition, place.first, place.last)
        if partition is None or partition.start > place.last:
            yield LeftInKafka(*bare, holds=False)
            continue
        kept, rolled = topic.number("retention.ms"), topic.number("segment.ms")
        if "delete" not in topic.settings.get("cleanup.policy", "delete"):
            yield LeftInKafka(
                *bare, True, why="the topic is compacted: a record stays until its key has another"
            )
        elif kept is None or not 0 <= kept < _FOR_EVER_MS:
            yield LeftInKafka(*bare, True, why="the topic keeps records for ever, or does not say how long")
        else:
            # A segment goes as a whole, by its newest record, and is closed after segment.ms at the latest.
            earliest, latest = place.newest + kept, place.newest + kept + (rolled or 0)
            yield LeftInKafka(*bare, True, ms_text(earliest), ms_text(latest) if rolled else "")
