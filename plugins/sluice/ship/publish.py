"""Publishes newline-delimited events into Kafka, with the event's own time as record time."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from functools import partial
from io import BufferedIOBase
from pathlib import Path

import msgspec
import pendulum

from sluice.clients.kafka.producer import Publisher, open_publisher
from sluice.clients.kafka.settings import settings_of
from sluice.clients.lake import beneath
from sluice.clients.lake.base import Lake, StoredObject
from sluice.clients.lake.open import open_lake
from sluice.clients.lake.settings import S3Settings, settings_for
from sluice.config.pipeline import Cluster, Pipeline
from sluice.errors import Fenced, SluiceError, WrongUse
from sluice.named_file import opened as opened_file
from sluice.safe_text import Say
from sluice.ship.follow import Follower, StateFile
from sluice.ship.lines import READ_BYTES, chunks, compressed, opened, standard_input
from sluice.ship.log_file import is_other_than_file, no_log
from sluice.ship.record_times import Ahead, RecordKeys, RecordTimes, nothing
from sluice.ship.shipment import (
    BatchReport,
    BatchState,
    InFlight,
    Interruption,
    Sending,
    Shipment,
    ShipmentEnd,
    ShipProgress,
    ShipReport,
    together,
    untimed,
)
from sluice.stored_json import decode_stored

PARTITIONS = 4
STDIN = "-"


@dataclass(frozen=True)
class ShipOrder:
    """What is asked for. `source`: a file (plain, .gz, .zst), a folder, `s3://…`, or `-`, which is stdin.

    `key`: the dotted path of the field that becomes the record's key. `batch`: the source's id, where its
    content's is not wanted. `again`: also what is known to be shipped. `state`: where a log that is followed
    keeps its place; beside the log by default.
    """

    source: str
    topic: str | None = None
    lag: timedelta = timedelta()
    key: str | None = None
    batch: str | None = None
    again: bool = False
    follow: bool = False
    state: Path | None = None


def publish(
    pipeline: Pipeline,
    order: ShipOrder,
    on_progress: Say = lambda line: None,
    on_report: Callable[[ShipReport], None] = lambda report: None,
) -> ShipReport:
    """Publishes every line of the source as one event, as it is; empty lines are none.

    Record time is the event's time plus `lag`; that of the line before where an event has none; now where the
    pipeline takes the time from the record. A missing topic is made. Each record of a file has its batch and
    its line in the header `sluice_batch`. An interruption ends it after what was sent is acknowledged.
    `on_report` hears what was acknowledged, also when an error is raised then. Raises WrongUse for a file or
    topic that does not do, KafkaUnavailable, LakeUnavailable, EventsRefused, Busy, Fenced.
    """
    _check(order)
    cluster, topic = choose(pipeline, order.topic)
    batches = _batches(pipeline, order)
    interruption = Interruption()
    with (
        interruption.heard(),
        open_publisher(settings_of(cluster), topic, PARTITIONS, order.follow) as publisher,
    ):
        progress = ShipProgress(f"{cluster.cluster}/{topic}", on_progress)
        keys = RecordKeys(order.key, pipeline.event.rows == "array")
        shipment = Shipment(publisher, RecordTimes(pipeline.event, order.lag), keys, progress)
        worker: Follower | Shipper
        if order.follow:
            state = _state(order, publisher)
            worker = Follower(Path(order.source), shipment, state, interruption, on_progress)
            run = worker.run
        else:
            register = Register(open_lake(pipeline), cluster.cluster, topic, publisher.facts.uuid)
            worker = Shipper(shipment, register, interruption, on_progress, order.batch, order.again)
            run = partial(_ship, worker, order, batches)
        report = _reported(run, worker, shipment, interruption, on_report)
        for remark in filter(None, (untimed(report, pipeline.event), shipment.times.far())):
            on_progress(remark)
        if report.unacknowledged:
            raise publisher.gone(f"{report.unacknowledged:,} events are not acknowledged")
    return report


def _check(order: ShipOrder) -> None:
    """Raises WrongUse for what does not go together."""
    name = order.source
    if order.follow and (
        name == STDIN or name.startswith("s3://") or compressed(name) or is_other_than_file(name)
    ):
        raise no_log(name)
    if order.follow and (order.batch is not None or order.again):
        raise WrongUse("--batch and --again are for whole files: a log that is followed has ids of its own")
    if order.state is not None and not order.follow:
        raise WrongUse("--state is where --follow keeps its place: add --follow")
    if order.batch is not None:
        given_id(order.batch)


def _batches(pipeline: Pipeline, order: ShipOrder) -> Sequence[Batch]:
    """Empty for what has no end, or is read only once. Raises WrongUse for several under one id."""
    if order.follow or _is_stream(order.source):
        return []
    batches = batches_of(order.source, settings_for(pipeline))
    if order.batch is not None and len(batches) > 1:
        raise WrongUse(f"--batch names one batch, and {order.source} has {len(batches)}")
    return batches


def _is_stream(source: str) -> bool:
    """Returns whether it can be read only once: stdin, or a pipe that has a name."""
    is_local = source != STDIN and not source.startswith("s3://")
    return source == STDIN or (is_local and is_other_than_file(source) and Path(source).is_fifo())


def _state(order: ShipOrder, publisher: Publisher) -> StateFile:
    path = order.state or Path(f"{order.source}.sluice.json")
    return StateFile(path, f"{publisher.settings.cluster}/{publisher.topic}")


def _ship(shipper: Shipper, order: ShipOrder, batches: Sequence[Batch]) -> None:
    if batches:
        shipper.ship_all(batches)
    elif order.source == STDIN:
        shipper.ship_stream(STDIN, nullcontext(standard_input()))
    else:
        shipper.ship_stream(order.source, opened(Path(order.source), order.source))


def _reported(
    run: Callable[[], None],
    worker: Follower | Shipper,
    shipment: Shipment,
    interruption: Interruption,
    on_report: Callable[[ShipReport], None],
) -> ShipReport:
    """Runs it, and reports what was acknowledged however it ends. Following a log ends by an interruption."""
    started, end = time.monotonic(), ShipmentEnd.FAILED
    try:
        run()
        stopped = interruption.asked and isinstance(worker, Shipper)
        end = ShipmentEnd.INTERRUPTED if stopped else ShipmentEnd.DONE
    finally:
        report = _report(shipment, worker, end, time.monotonic() - started)
        on_report(report)
    return report


def _report(shipment: Shipment, worker: Follower | Shipper, end: ShipmentEnd, seconds: float) -> ShipReport:
    partitions = together(shipment.windows)
    acknowledged = sum(partition.records for partition in partitions.values())
    return ShipReport(
        cluster=shipment.publisher.settings.cluster,
        topic=shipment.publisher.topic,
        end=end,
        events=shipment.events,
        bytes=shipment.bytes,
        acknowledged=acknowledged,
        unacknowledged=shipment.events - acknowledged,
        no_time=shipment.times.no_time,
        time_refused=shipment.times.refused,
        stamped_now=shipment.times.now,
        no_key=shipment.keys.missing,
        gaps=worker.gaps if isinstance(worker, Follower) else 0,
        seconds=round(seconds, 3),
        partitions=partitions,
        batches=tuple(worker.reports),
    )


def choose(pipeline: Pipeline, topic: str | None) -> tuple[Cluster, str]:
    """Returns the pipeline's only topic, or the one that `topic` names: `bids`, or `dc1/bids`. Raises
    WrongUse."""
    every = [(cluster, name) for cluster in pipeline.kafka for name in cluster.topics]
    named = [(cluster, name) for cluster in pipeline.kafka for name in cluster.named]
    if topic is None:
        matches = named if len(named) == len(every) else every
    else:
        asked = [(cluster, topic.removeprefix(f"{cluster.cluster}/")) for cluster in pipeline.kafka]
        matches = [(cluster, name) for cluster, name in asked if cluster.reads(name)]
    if len(matches) == 1 and matches[0][0].reads(matches[0][1]):
        return matches[0]
    choices = ", ".join(f"{cluster.cluster}/{name}" for cluster, name in matches or every)
    reason = "has more than one such topic" if matches else "has no such topic"
    raise WrongUse(f"pipeline {pipeline.name} {reason}: --topic chooses one of {choices}")


# Ships batches one after another, each from where an earlier attempt has left it.
SAVE_SECONDS = 5.0
STOP_SECONDS = 30.0


@dataclass
class BatchAcknowledged:
    """The line up to which a batch is acknowledged; saved in the register now and then, and at the end."""

    claim: Claim | None = None
    line: int = 0
    _saved: float = field(default_factory=time.monotonic)

    def settle(self, line: int) -> None:
        self.line = line
        if time.monotonic() - self._saved > SAVE_SECONDS:
            self.save()

    def save(self, window: InFlight | None = None, done: bool = False) -> None:
        self._saved = time.monotonic()
        if self.claim is not None:
            partitions = {} if window is None else {str(n): asdict(p) for n, p in window.partitions.items()}
            self.claim.save(self.line, partitions, done)


@dataclass
class Shipper:
    """`given` is the only batch's id where its user chose one; `again` ships what is there already."""

    shipment: Shipment
    register: Register
    interruption: Interruption
    say: Say
    given: str | None = None
    again: bool = False
    reports: list[BatchReport] = field(default_factory=list)

    def ship_all(self, batches: Sequence[Batch]) -> None:
        """A file that cannot be shipped does not hold up the others. Raises WrongUse for all such at the
        end, EventsRefused, KafkaUnavailable, LakeUnavailable, and Fenced when another publish takes a
        batch over."""
        wrong: list[str] = []
        for batch in batches:
            if self.interruption.asked:
                break
            try:
                self._ship(batch)
            except WrongUse as error:
                wrong.append(str(error))
        if wrong:
            raise WrongUse("; ".join(wrong))

    def ship_stream(self, name: str, stream: AbstractContextManager[BufferedIOBase]) -> None:
        """Ships a stream. It cannot be read twice, so its content gives it no id: only its user can."""
        if self.given is None:
            self._send(name, None, stream, BatchAcknowledged())
        else:
            self._claimed(name, self.given, stream)

    def _ship(self, batch: Batch) -> None:
        with batch.local() as path:
            before = _size_and_time(path, batch.name)
            number = self.given or content_id(path)
            ahead = partial(_events, path, batch.name)
            self._claimed(batch.name, number, _unchanged(path, batch.name, before), ahead)

    def _claimed(
        self, name: str, batch: str, stream: AbstractContextManager[BufferedIOBase], ahead: Ahead = nothing
    ) -> None:
        claim = self.register.begin(batch, name, self.again)
        if claim is None:
            self.say(f"{name} was shipped before (batch {batch}); --again ships it once more")
            self.reports.append(BatchReport(name, batch, BatchState.BEFORE, 0))
            return
        line = claim.entry.line
        if line:
            self.say(f"{name}: lines up to {line:,} were shipped before; the rest follows")
        self._send(name, batch, stream, BatchAcknowledged(claim, line), ahead)

    def _send(
        self,
        name: str,
        batch: str | None,
        stream: AbstractContextManager[BufferedIOBase],
        note: BatchAcknowledged,
        ahead: Ahead = nothing,
    ) -> None:
        """Ships the lines, and waits for all answers however that ends: note and report are exact."""
        before = note.line
        sending = self.shipment.of(name, batch, note.settle, ahead=ahead)
        ended = done = False
        try:
            with ExitStack() as stack:
                # An interruption ends the wait for a pipe's writer, too.
                for lines in self.interruption.until(map(stack.enter_context, (stream,))):
                    ended = self._lines(sending, lines, before)
            done = ended
        finally:
            if not done:
                sending.wait(STOP_SECONDS)
            state = BatchState.SHIPPED if done else BatchState.BEGUN
            self.reports.append(BatchReport(name, batch, state, note.line, before))
            note.save(sending.window, done)

    def _lines(self, sending: Sending, stream: BufferedIOBase, before: int) -> bool:
        """Returns whether it came to the end, with every event acknowledged."""
        for chunk in self.interruption.until(chunks(stream, sending.source)):
            sending.pass_over(chunk.until(before))
            last = max(chunk.last, before)
            sending.ship(chunk.after(before), _always(last))
        if self.interruption.asked:
            return False
        sending.drain()
        return True


def _always(line: int) -> Callable[[object], int]:
    return lambda _: line


def _events(path: Path, name: str) -> Iterator[Sequence[bytes]]:
    with opened(path, name) as stream:
        for chunk in chunks(stream, name):
            yield chunk.events


@contextmanager
def _unchanged(path: Path, name: str, before: tuple[int, int]) -> Iterator[BufferedIOBase]:
    """Yields the file's bytes. Raises WrongUse at the end where they may be others than those of its id."""
    with opened(path, name) as stream:
        yield stream
    if _size_and_time(path, name) != before:
        raise WrongUse(f"{name} was changed while it was published: --follow is for a file that grows")


def _size_and_time(path: Path, name: str) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError as error:
        raise WrongUse(f"{name}: {error.strerror}") from error
    return status.st_size, status.st_mtime_ns


# The lake's entry of each batch: `_shipped/<cluster>/<topic>/<batch>.json`. Written by compare-and-set: of
# two who ship the same batch at once, the one that began last goes on.
FOLDER = "_shipped"
VERSION = 1
"""Of an entry, which says so from the second one on."""
_TRIES = 10


@dataclass(frozen=True)
class RegisterEntry:
    """`line`: Kafka has acknowledged every line up to it. `partitions`: what the newest attempt shipped.

    `topic_id` is the topic's own: one that was recreated has not got the batch.
    """

    batch: str
    source: str
    topic_id: str
    attempt: str
    done: bool = False
    line: int = 0
    began: str = ""
    changed: str = ""
    partitions: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def encode(self) -> bytes:
        return json.dumps(asdict(self), indent=1).encode()

    @classmethod
    def decode(cls, encoded: bytes, place: str) -> RegisterEntry:
        """Raises SluiceError naming `place` when the bytes are no entry, or a newer Sluice's."""

        def damage(error: Exception) -> str:
            return (
                f"{place} is no entry of a shipped batch ({error}): restore it from a backup; without it the "
                "batch is shipped again from its first line"
            )

        version = decode_stored(_FORMAT, encoded, damage).version
        if version > VERSION:
            raise SluiceError(f"{place} has format {version}, newer than this Sluice's {VERSION}: upgrade")
        return decode_stored(_ENTRY, encoded, damage)


class _Format(msgspec.Struct):
    version: int = VERSION


_FORMAT = msgspec.json.Decoder(_Format)
_ENTRY = msgspec.json.Decoder(RegisterEntry)


def first_line(earlier: RegisterEntry | None, topic_id: str, again: bool) -> int | None:
    """Returns the line after which a batch is shipped, None if all of it is in Kafka already; `earlier` is
    its entry in the register, None where it has none."""
    if earlier is None or again or earlier.topic_id != topic_id:
        return 0
    return None if earlier.done else earlier.line


class Register:
    """The entries of one topic. Methods raise LakeUnavailable, and SluiceError for an entry that is none."""

    def __init__(self, lake: Lake, cluster: str, topic: str, topic_id: str) -> None:
        self._lake = lake
        self._folder = f"{FOLDER}/{cluster}/{topic}"
        self._topic_id = topic_id

    def begin(self, batch: str, source: str, again: bool) -> Claim | None:
        """Claims the batch for this attempt; None if there is nothing left of it to ship."""
        key = f"{self._folder}/{batch}.json"
        for _ in range(_TRIES):
            stored = self._lake.read(key)
            earlier = None if stored is None else _decoded(self._lake, key, stored)
            line = first_line(earlier, self._topic_id, again)
            if line is None:
                return None
            now = pendulum.now("UTC").isoformat()
            entry = RegisterEntry(batch, source, self._topic_id, uuid.uuid4().hex, False, line, now, now)
            if self._put(key, entry, stored):
                return Claim(self._lake, key, entry)
        raise Fenced(f"others take batch {batch} as often as this one does: publish it from one place only")

    def _put(self, key: str, entry: RegisterEntry, stored: StoredObject | None) -> bool:
        if stored is None:
            return self._lake.create(key, entry.encode())
        return self._lake.replace(key, entry.encode(), stored.version)


def _decoded(lake: Lake, key: str, stored: StoredObject) -> RegisterEntry:
    return RegisterEntry.decode(stored.data, f"{lake.url}/{key}")


class Claim:
    """One attempt's hold of one batch."""

    def __init__(self, lake: Lake, key: str, entry: RegisterEntry) -> None:
        self._lake = lake
        self._key = key
        self.entry = entry

    def save(self, line: int, partitions: Mapping[str, Mapping[str, int]], done: bool = False) -> None:
        """Notes how far it is. Raises Fenced when another publish has taken the batch over."""
        now = pendulum.now("UTC").isoformat()
        entry = replace(self.entry, line=line, partitions=partitions, done=done, changed=now)
        stored = self._lake.read(self._key)
        held = stored is not None and _decoded(self._lake, self._key, stored).attempt == entry.attempt
        if stored is None or not held or not self._lake.replace(self._key, entry.encode(), stored.version):
            raise Fenced(
                f"another publish has taken over batch {entry.batch} ({entry.source}): this one stops; "
                "what both have sent has the same batch and line in its header"
            )
        self.entry = entry


# The batches behind a source: one file, the files of a folder, or the objects below an S3 prefix.
ID_DIGITS = 32
_UNFINISHED = (".tmp", ".part", ".partial", ".crdownload", ".swp")


@dataclass(frozen=True)
class Batch:
    """`name` is what its user calls it; `local` gives a path to its bytes while the context lasts."""

    name: str
    local: Callable[[], AbstractContextManager[Path]]


def batches_of(source: str, settings: S3Settings | None = None) -> Sequence[Batch]:
    """In the order of their names. Raises WrongUse when there is nothing of that name."""
    batches = _objects(source, settings) if source.startswith("s3://") else _files(Path(source))
    if not batches:
        raise WrongUse(f"{source}: no file is there (hidden and unfinished ones and links do not count)")
    return batches


def content_id(path: Path) -> str:
    """Returns the same for the same bytes, whatever the file is called. Raises WrongUse when it cannot be
    read."""
    digest = hashlib.sha256()
    try:
        with opened_file(path) as descriptor, open(descriptor, "rb", closefd=False) as file:
            while block := file.read(READ_BYTES):
                digest.update(block)
    except OSError as error:
        raise WrongUse(f"{path}: {error.strerror}") from error
    return digest.hexdigest()[:ID_DIGITS]


def given_id(text: str) -> str:
    """Returns an id of the user's own, which becomes an object's name. Raises WrongUse."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,126}", text):
        raise WrongUse(f"--batch: expected letters, digits, _, . and -, at most 127, not {text!r}")
    return text


def _files(path: Path) -> list[Batch]:
    if not os.path.exists(path):  # Path.exists raises OSError for a name that is too long
        raise WrongUse(f"{path}: no such file")
    if not path.is_dir():
        return [_file(path)]
    # The folder itself may be hidden; what is hidden below it is not meant.
    names = [file.key for file in beneath.files(str(path), "") if _finished(file.key)]
    return [Batch(f"{path}/{name}", partial(_beneath, str(path), name)) for name in names]


def _file(path: Path) -> Batch:
    return Batch(str(path), lambda: nullcontext(path))


@contextmanager
def _beneath(folder: str, name: str) -> Iterator[Path]:
    """Yields the path of an open file of a folder. No link leads there: whoever may write into the folder
    would have files published that he may not read."""
    with ExitStack() as stack:
        try:
            found = stack.enter_context(beneath.place(folder, name))
            descriptor = stack.enter_context(opened_file(found.name, links=False, folder=found.folder))
        except OSError as error:
            raise WrongUse(f"{folder}/{name}: {error.strerror}") from error
        yield Path(f"/proc/self/fd/{descriptor}")


def _finished(name: str) -> bool:
    """As Hadoop and rsync do: what begins with `.` or `_`, or ends like a download, is not for readers."""
    return not name.endswith(_UNFINISHED) and not any(
        segment[0] in "._" for segment in name.split("/") if segment
    )


def _objects(source: str, settings: S3Settings | None) -> list[Batch]:
    """Returns the object of that name, or all below it as a folder."""
    from sluice.clients.lake.s3 import S3Lake  # boto3 takes a third of a second, which a file need not pay

    bucket, _, key = source.removeprefix("s3://").partition("/")
    if not bucket:
        raise WrongUse(f"{source}: expected s3://bucket/prefix")
    store = S3Lake(bucket, "", settings or S3Settings.from_environment())
    folder = key.rstrip("/") + "/" if key.rstrip("/") else ""
    keys = [
        item.key for item in store.list(key.rstrip("/")) if item.key == key or item.key.startswith(folder)
    ]
    names = sorted(name for name in keys if _finished(name.removeprefix(folder)))
    return [Batch(f"s3://{bucket}/{name}", partial(store.local, name)) for name in names]
