"""Notes in the lake, an object for each month with a line for each slice: enough to show a year of hours
without a listing. They are copies, or what can be seen only once; never evidence.

A write is a merge by compare-and-set, so steps that run side by side lose nothing of each other's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from hashlib import sha256
from typing import Any, Generic, TypeVar

import msgspec
import pendulum

from sluice import __version__
from sluice.clients.lake import layout
from sluice.clients.lake.base import Lake, update_object
from sluice.concurrency import each_if_slow
from sluice.errors import SluiceError
from sluice.safe_text import line, visible
from sluice.slices import HOUR, Slice, SliceRange, from_seconds, utc
from sluice.state.status import UnitStatus
from sluice.stored_json import Second, Seconds, Whole, decode_stored, readable_lines

T = TypeVar("T")
_MONTH = 7  # letters of a slice's id


def months_of(slices: SliceRange) -> list[str]:
    """Returns `2026-11` of every month that the range touches."""
    last = slices.end - slices.length
    months, month = [], slices.start.start_of("month")
    while month <= last:
        months.append(f"{month:%Y-%m}")
        month = month.add(months=1)
    return months


class MonthlyNotes(Generic[T]):
    """Notes of one kind, by slice id.

    Args:
        prefix: Of the objects' keys, which the month ends: `_summary/` gives `_summary/2026-11.json`.
        notes: What a month decodes to, a dict of slice ids to T.
        damage: What an object that cannot be read is: `holds no times`.
        remedy: What a person does then.
    """

    def __init__(self, prefix: str, notes: type[dict[str, T]], damage: str, remedy: str) -> None:
        self._prefix, self._damage, self._remedy = prefix, damage, remedy
        self._decoder: msgspec.json.Decoder[dict[str, T]] = msgspec.json.Decoder(notes)

    def key(self, month: str) -> str:
        return f"{self._prefix}{month}.json"

    def read(self, lake: Lake, slices: SliceRange) -> dict[str, T]:
        """Returns the notes of every month that the range touches. Raises LakeUnavailable, and SluiceError as
        `decode` does."""

        def month_of(month: str) -> dict[str, T]:
            stored = lake.read(self.key(month))
            return {} if stored is None else self.decode(stored.data, f"{lake.url}/{self.key(month)}")

        return {name: note for one in each_if_slow(month_of, months_of(slices)) for name, note in one.items()}

    def add(
        self, lake: Lake, new: Mapping[str, T], merge: Callable[[dict[str, T], dict[str, T]], dict[str, T]]
    ) -> dict[str, T]:
        """Stores what `merge` makes of a month's notes and the new ones; nothing is written where that is
        there already. Returns the notes that were there before. Raises as `read` does."""
        months: dict[str, dict[str, T]] = {}
        for name, note in new.items():
            months.setdefault(name[:_MONTH], {})[name] = note
        before: dict[str, dict[str, T]] = {}
        for month, notes in sorted(months.items()):
            key = self.key(month)

            def change(
                data: bytes | None, month: str = month, notes: dict[str, T] = notes, key: str = key
            ) -> bytes:
                before[month] = {} if data is None else self.decode(data, f"{lake.url}/{key}")
                return self.encode(merge(before[month], notes))

            update_object(lake, key, change)
        return {name: note for one in before.values() for name, note in one.items()}

    def encode(self, notes: Mapping[str, T]) -> bytes:
        """Returns a line for each slice, so that a person can read it."""
        lines = (f"{_text(name)}: {_text(note)}" for name, note in sorted(notes.items()))
        return ("{\n" + ",\n".join(lines) + "\n}\n").encode()

    def decode(self, data: bytes, place: str) -> dict[str, T]:
        """Raises SluiceError naming `place`, and what to do."""
        return decode_stored(
            self._decoder, data, lambda error: f"{place} {self._damage} ({error}): {self._remedy}"
        )


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# Keeps how far a pipeline was behind Kafka, by the hour: Kafka knows it only at the moment it is asked.
#
# `_history/lag-2026-11.json` has a line for each hour in which somebody asked: of each value the highest that
# was seen in the hour. The watch writes it.

_SECONDS = int(HOUR.total_seconds())


class LagSample(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`at` in seconds since the epoch; `records` of all partitions that are not landed, of which `held` wait
    behind open transactions. `seconds` since the end of the newest landed slice, of the partition that is
    furthest behind; None where nothing has landed, or nothing is behind."""

    at: Second
    records: Whole
    held: Whole
    seconds: Whole | None

    @property
    def hour(self) -> int:
        return self.at - self.at % _SECONDS


LagMonth = dict[str, LagSample]
LAG = MonthlyNotes[LagSample]("_history/lag-", LagMonth, "holds no lag", "delete it, the watch begins anew")


def read_lag(lake: Lake, slices: SliceRange) -> tuple[LagSample, ...]:
    """Returns the hours that are known of the range's months, the oldest first. Raises SluiceError for bytes
    that are none."""
    return tuple(sample for _, sample in sorted(LAG.read(lake, slices).items()))


def note_lag(lake: Lake, new: LagSample) -> None:
    """Keeps a sample; nothing is written where the hour has seen as much before."""
    hour = Slice(from_seconds(new.hour))
    LAG.add(lake, {hour.id: LagSample(new.hour, new.records, new.held, new.seconds)}, _highest)


def _highest(old: LagMonth, new: LagMonth) -> LagMonth:
    """Returns the notes with the new ones, of each value the highest."""
    month = dict(old)
    for hour, sample in new.items():
        known = old.get(hour, sample)
        ages = [one.seconds for one in (known, sample) if one.seconds is not None]
        month[hour] = LagSample(
            sample.at,
            max(known.records, sample.records),
            max(known.held, sample.held),
            max(ages, default=None),
        )
    return month


# How long steps took: written by every run into the lake, read for estimates and for the slice's page.
#
# `_timings/<day>.ndjson` holds one line per step of a batch, of the steps that began on that UTC day, in the
# order in which they ended; so the newest are found without a listing. `sluice run` and the DAGs write it
# through the same call, `record`. It is no evidence of anything: what is done is in manifests and ledger.

TIMINGS = "_timings/"


@dataclass(frozen=True)
class Timing:
    """One step over one batch `[start, until)` of slices, which did something.

    `units` are the (slice, cluster) pairs that it handled, `rows` and `bytes` what it moved (records read,
    rows that came to a load, records verified), `table` is a load's target, which has `rejected` some of its
    rows, `run` whose step it is (of_run), `started` an ISO 8601 instant in UTC. A
    landing was submitted `before` seconds before it began, and of `seconds` Spark took `starting` to start.

    The step COMMAND is a whole `sluice run`, noted at its begin and at its end: who started it, its `state`
    (running, success, failed, interrupted) and what stopped it.
    """

    step: str
    start: str
    until: str
    started: str
    seconds: Seconds
    units: Whole
    rows: Whole
    bytes: Whole = 0
    table: str = ""
    mode: str = ""
    run: str = ""
    before: Seconds = 0.0
    starting: Seconds = 0.0
    user: str = ""
    state: str = ""
    error: str = ""
    rejected: Whole = 0


COMMAND = "command"
_MOST_ERROR = 600

_DECODER = msgspec.json.Decoder(Timing)


def key_of(day: date) -> str:
    return f"{TIMINGS}{day:%Y-%m-%d}.ndjson"


def record(lake: Lake, timing: Timing) -> None:
    """Appends one line to its day, by compare-and-set. Raises what the lake raises."""
    key = key_of(date.fromisoformat(timing.started[:10]))
    line = msgspec.json.encode(timing) + b"\n"
    update_object(lake, key, lambda data: (data or b"") + line)


_RUN: ContextVar[str] = ContextVar("run", default="")


@contextmanager
def of_run(run: str) -> Iterator[None]:
    """Steps that are timed inside are those of this run: of Airflow, or of a command."""
    before = _RUN.set(run)
    try:
        yield
    finally:
        _RUN.reset(before)


@contextmanager
def timed(
    lake: Lake, step: str, slices: SliceRange, **fields: Any
) -> Iterator[Callable[[Mapping[str, float]], None]]:
    """Times what is inside; the call that it hands out gives the counts (units, rows, bytes) at the end, of
    a landing with `before` and `starting`.

    Without that call, or when a step fails or finds nothing to do (no units), nothing is recorded.
    """
    started = pendulum.now("UTC")
    counts: dict[str, Any] = {}
    yield counts.update
    if counts.get("units"):
        named = {"run": _RUN.get(), **fields}
        record(lake, _timing(step, slices, started, pendulum.now("UTC"), **counts, **named))


@contextmanager
def noted_command(lake: Lake, slices: SliceRange, user: str, **fields: Any) -> Iterator[None]:
    """Notes what is inside as one command of `user`, and how it ended, in a lake that has boundaries: another
    may be somebody else's. One that does not answer keeps no command from its work."""
    started = pendulum.now("UTC")

    def note(state: str, error: str = "") -> None:
        more = {"units": len(slices), "rows": 0, "user": user, "state": state, "error": error}
        with suppress(SluiceError):
            if next(lake.list(layout.BOUNDARIES), None) is None:
                return
            record(lake, _timing(COMMAND, slices, started, pendulum.now("UTC"), **more, **fields))

    note("running")
    try:
        with of_run(fields.get("run", "")):
            yield
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            note("interrupted")
        else:
            note("failed", line(_said(error), _MOST_ERROR))
        raise
    note("success")


def _said(error: BaseException) -> str:
    if isinstance(error, SluiceError):
        return error.public
    code = getattr(error, "exit_code", None)
    return type(error).__name__ if code is None else "a step has failed: the command's output says why"


def _timing(step: str, slices: SliceRange, started: datetime, ended: datetime, **fields: Any) -> Timing:
    return Timing(
        step=step,
        start=slices.start.isoformat(),
        until=slices.end.isoformat(),
        started=utc(started).isoformat(timespec="milliseconds"),
        seconds=round((ended - started).total_seconds(), 3),
        **fields,
    )


def of_day(lake: Lake, day: date) -> list[Timing]:
    """Returns the day's timings in the order in which they ended; a line of a newer Sluice keeps its known
    fields, and one that cannot be read is left out."""
    stored = lake.read(key_of(day))
    if stored is None:
        return []
    return list(readable_lines(_DECODER, stored.data, lambda one: (one.start, one.until, one.started)))


def newest(lake: Lake, now: datetime, count: int = 300, days: int = 30) -> list[Timing]:
    """Returns at least the newest `count` timings of the last `days` days, oldest first, where there are as
    many."""
    timings: list[Timing] = []
    for back in range(days):
        timings = of_day(lake, (utc(now) - timedelta(days=back)).date()) + timings
        if len(timings) >= count:
            break
    return timings


def last_load(timings: Sequence[Timing], slices: SliceRange) -> str:
    """Returns what loaded hours of the range last, when, and who had started it, as far as the timings say
    it; empty where they name none."""
    first, end = slices.start.isoformat(), slices.end.isoformat()
    loads = [
        one for one in timings if one.step == "load" and one.run and one.start < end and first < one.until
    ]
    if not loads:
        return ""
    last = max(loads, key=lambda one: one.started)
    user = next((one.user for one in timings if one.step == COMMAND and one.run == last.run), None)
    by = f"run {visible(last.run)}" if user is None else f"a command of {visible(user) or 'somebody'}"
    return f"the last load was by {by}, {last.started[:16]}Z"


# How old records were when their table's hour was first committed and verified.
#
# `_summary/fresh-2026-11.json` keeps for each unit when its records were stamped, in parts of the slice, and
# when it was first verified in each table. It is a copy for people, never evidence.


class FreshUnit(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`times` are the manifest's; `verified` by table, in seconds since the epoch."""

    times: tuple[Whole, ...]
    verified: dict[str, Second]


FreshMonth = dict[str, dict[str, FreshUnit]]
"""By slice id and cluster."""
FRESH = MonthlyNotes[dict[str, FreshUnit]](
    "_summary/fresh-", FreshMonth, "holds no times", "delete it, later hours write it again"
)


@dataclass(frozen=True, order=True)
class Delay:
    """So many records that were so old, in seconds, when they were verified in a table."""

    seconds: float
    records: int


@dataclass(frozen=True)
class FreshTable:
    """One unit in one table: when it was verified, and its records by age."""

    slice: Slice
    table: str
    verified: int
    delays: tuple[Delay, ...]


def delays_of(slice_: Slice, times: Sequence[int], verified: int) -> tuple[Delay, ...]:
    """Returns the records of each part of the slice, taken for stamped in its middle."""
    start, part = slice_.start.timestamp(), slice_.length.total_seconds() / max(len(times), 1)
    return tuple(Delay(verified - start - (n + 0.5) * part, count) for n, count in enumerate(times) if count)


def quantile(delays: Iterable[Delay], share: float) -> float | None:
    """Returns the age that `share` of the records had at most; None without records."""
    ordered = sorted(delays)
    threshold, counted = share * sum(delay.records for delay in ordered), 0
    for delay in ordered:
        counted += delay.records
        if counted >= threshold:
            return delay.seconds
    return None


def tables_of(slices: Iterable[Slice], months: FreshMonth) -> Iterator[FreshTable]:
    for slice_ in slices:
        for unit in months.get(slice_.id, {}).values():
            for table, at in unit.verified.items():
                yield FreshTable(slice_, table, at, delays_of(slice_, unit.times, at))


def fresh_of(
    statuses: Iterable[UnitStatus], broken: Collection[tuple[str, str, str]], since: datetime, now: datetime
) -> FreshMonth:
    """Returns the units that ended after `since`, with the tables in which they are committed and in order.

    `broken` names (slice, cluster, table) of what is not; an empty cluster or table stands for all.
    """
    at, units = int(now.timestamp()), FreshMonth()
    for status in statuses:
        manifest, unit = status.manifest, status.unit
        if manifest is None or not manifest.times or unit.slice.end <= since:
            continue
        tables = {
            table: at
            for table, row in status.tables.items()
            if row.manifest == manifest.id and not row.lacking and not _is_broken(broken, status, table)
        }
        if tables:
            units.setdefault(unit.slice.id, {})[unit.cluster] = FreshUnit(manifest.times, tables)
    return units


def _is_broken(broken: Collection[tuple[str, str, str]], status: UnitStatus, table: str) -> bool:
    name, cluster = status.unit.slice.id, status.unit.cluster
    return any((name, c, t) in broken for c in (cluster, "") for t in (table, ""))


def first_ones(old: FreshMonth, new: FreshMonth) -> FreshMonth:
    """Returns the units of `new` with those of their tables that `old` does not have yet."""
    left: FreshMonth = {}
    for name, units in new.items():
        for cluster, unit in units.items():
            earlier = old.get(name, {}).get(cluster)
            tables = {
                t: at for t, at in unit.verified.items() if earlier is None or t not in earlier.verified
            }
            if tables:
                left.setdefault(name, {})[cluster] = FreshUnit(unit.times, tables)
    return left


def merged(old: FreshMonth, new: FreshMonth) -> FreshMonth:
    """Returns `old` with `new` added; a table keeps the first time that it was verified."""
    month = {name: dict(units) for name, units in old.items()}
    for name, units in first_ones(old, new).items():
        by_cluster = month.setdefault(name, {})
        for cluster, unit in units.items():
            earlier = by_cluster.get(cluster)
            by_cluster[cluster] = FreshUnit(
                earlier.times if earlier else unit.times,
                {**(earlier.verified if earlier else {}), **unit.verified},
            )
    return month


def note_fresh(lake: Lake, new: FreshMonth) -> FreshMonth:
    """Stores what is verified for the first time, and returns it. Raises LakeUnavailable."""
    return first_ones(FRESH.add(lake, new, merged), new)


# Keeps in the lake what the pipeline file said, and which Sluice ran it: for who asks what has changed.
#
# `_history/file.json` has the last `MOST` versions, the oldest first. Every run notes the file that it has
# read; while nothing changes, nothing is written. It is no evidence of anything. `_history/topics.json` has
# the same of how long Kafka keeps each topic: a line for each.

FILE, TOPICS = "_history/file.json", "_history/topics.json"
MOST, MOST_BYTES = 50, 1 << 20
"""Versions that are kept, and bytes of their texts together; the newest is kept in any case."""
MOST_TEXT = 256 << 10
"""Characters of one text; of a longer one the beginning."""


@dataclass(frozen=True)
class FileVersion:
    """`at` is when a run saw it first (ISO 8601, UTC), `hash` that of the whole text, `text` what the file
    says without comments and secrets (sluice.config.files), or what Kafka says of topics."""

    at: str
    hash: str
    sluice: str
    text: str


_VERSIONS = msgspec.json.Decoder(tuple[FileVersion, ...])


def version_of(text: str, now: datetime) -> FileVersion:
    at = utc(now).isoformat(timespec="seconds")
    digest = sha256(text.encode(errors="surrogatepass")).hexdigest()
    return FileVersion(at, digest, __version__, text[:MOST_TEXT])


def read_versions(lake: Lake, key: str = FILE) -> tuple[FileVersion, ...]:
    """Returns what is known, the oldest first. Raises SluiceError for bytes that are none."""
    stored = lake.read(key)
    return _decoded(lake, key, None if stored is None else stored.data)


def note_version(lake: Lake, text: str, now: datetime, key: str = FILE) -> None:
    """Keeps what the text is now, by compare-and-set, where it or Sluice has changed."""
    new = version_of(text, now)
    update_object(lake, key, lambda data: _encoded(with_version(_decoded(lake, key, data), new)))


def with_version(versions: Sequence[FileVersion], new: FileVersion) -> tuple[FileVersion, ...]:
    """Returns the versions with the new one, where it differs from the newest. Pure."""
    if versions and (versions[-1].hash, versions[-1].sluice) == (new.hash, new.sluice):
        return tuple(versions)
    kept = [*versions, new][-MOST:]
    while len(kept) > 1 and sum(len(version.text) for version in kept) > MOST_BYTES:
        del kept[0]
    return tuple(kept)


def _encoded(versions: Sequence[FileVersion]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(versions), indent=1)


def _decoded(lake: Lake, key: str, data: bytes | None) -> tuple[FileVersion, ...]:
    if data is None:
        return ()
    place = f"{lake.url}/{key}"
    return decode_stored(
        _VERSIONS,
        data,
        lambda error: f"{place} holds no versions ({error}): delete it, runs begin anew",
        lambda versions: [version.at for version in versions],
    )
