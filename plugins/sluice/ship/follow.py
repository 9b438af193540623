"""Follows a growing log as `tail -F` does, from the place that its state file holds."""

from __future__ import annotations

import fcntl
import json
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import msgspec

from sluice.clients.lake.durable import sync, write
from sluice.errors import Busy, SluiceError, WrongUse
from sluice.named_file import read_named
from sluice.safe_text import Say
from sluice.ship.log_file import (
    FilePosition,
    LogChunk,
    LogFile,
    Moved,
    Rotated,
    TailStep,
    decide,
    find,
    newer,
    newest,
    recognised,
    rest_of,
    rotated,
)
from sluice.ship.shipment import BatchReport, BatchState, Interruption, Sending, Shipment
from sluice.stored_json import UNREADABLE

# The position of a log, kept in a file of its own beside the log or elsewhere.
_FORMAT = 1


class StateFile:
    """One log's position for one topic (`cluster/topic`). Writes are whole or not at all."""

    def __init__(self, path: Path, topic: str) -> None:
        self._path = path
        self._topic = topic

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keeps others from shipping the same log. Raises Busy when one does, WrongUse when the file cannot
        be written."""
        try:
            lock = os.open(
                f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644
            )
        except OSError as error:
            raise WrongUse(f"{self._path}: {error.strerror}; --state FILE keeps it elsewhere") from error
        try:
            self._take(lock)
            yield
        finally:
            os.close(lock)

    def _take(self, lock: int) -> None:
        """Raises Busy."""
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Busy(f"another publish follows this log already (it holds {self._path}.lock)") from error

    def read(self) -> FilePosition | None:
        """None when nothing was shipped yet. Raises WrongUse for a file that is no state of this topic, and
        SluiceError for a newer Sluice's."""
        try:
            stored = _decoded(read_named(self._path), self._path)
        except FileNotFoundError:
            return None
        except (OSError, *UNREADABLE) as error:
            raise WrongUse(
                f"{self._path} is not the position of a log ({error}): name another file with "
                "--state, or remove it to ship the log from its start"
            ) from error
        if stored.topic != self._topic:
            raise WrongUse(
                f"{self._path} is the place for topic {stored.topic}, not {self._topic}: name another with "
                "--state"
            )
        return stored.place

    def write(self, place: FilePosition) -> None:
        """Raises WrongUse when it cannot be written."""
        content = {"format": _FORMAT, "topic": self._topic, "place": asdict(place)}
        partial = Path(f"{self._path}.partial")
        try:
            write(partial, json.dumps(content, indent=1).encode())
            os.replace(partial, self._path)
            sync(self._path.parent)
        except OSError as error:
            raise WrongUse(f"{self._path}: {error.strerror}; --state FILE keeps it elsewhere") from error


class _Format(msgspec.Struct):
    format: int


class _Stored(msgspec.Struct):
    topic: str
    place: FilePosition


_FORMAT_OF = msgspec.json.Decoder(_Format)
_STORED = msgspec.json.Decoder(_Stored)


def _decoded(content: bytes, path: Path) -> _Stored:
    version = _FORMAT_OF.decode(content).format
    if version > _FORMAT:
        raise SluiceError(f"{path} has format {version}, newer than this Sluice's {_FORMAT}: upgrade")
    return _STORED.decode(content)


SAVE_SECONDS = 1.0


@dataclass
class Bookmark:
    """The newest acknowledged place; written at most once a second, and when `save` is called."""

    state: StateFile
    place: FilePosition | None = None
    _written: FilePosition | None = None
    _when: float = field(default_factory=time.monotonic)

    def settle(self, place: FilePosition) -> None:
        self.place = place
        if time.monotonic() - self._when > SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        self._when = time.monotonic()
        if self.place is not None and self.place != self._written:
            self.state.write(self.place)
            self._written = self.place


POLL_SECONDS = 0.25
PATIENCE_SECONDS = 5.0
STOP_SECONDS = 30.0


@dataclass
class Follower:
    """`gaps` counts the times that what followed a saved place could not be found."""

    path: Path
    shipment: Shipment
    state: StateFile
    interruption: Interruption
    say: Say
    patience: float = PATIENCE_SECONDS
    gaps: int = 0
    reports: list[BatchReport] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._bookmark = Bookmark(self.state)
        self._sending: Sending | None = None
        self._at: int | None = None  # the record time of the line before the file's first
        self._log: LogFile | None = None

    def run(self) -> None:
        """Ships until the interruption. Raises EventsRefused, KafkaUnavailable, WrongUse, and Busy when
        another publish follows the log."""
        with self.state.held():
            try:
                self._begin(self.state.read())
                while self._log is not None and not self.interruption.asked:
                    self._turn(self._log)
            finally:
                self._end()

    def _begin(self, place: FilePosition | None) -> None:
        """Goes on at the saved place, wherever its file is now; without one, at the start of the log."""
        if place is None:
            return self._go_on(self._new((0, 0)), newest(rotated(self.path)))
        self._at = place.at
        log = None if place.done_ns is not None else self._open()
        if log is not None:
            here = replace(place, device=log.place.device, inode=log.place.inode)
            moved = here != place and self._find(place) is not None
            if not moved and log.fits(here):
                self._switch(here)
                self._log = log.at(here)
                return
            log.close()
        self._go_on(place, place.done_ns)

    def _find(self, place: FilePosition) -> Rotated | None:
        while True:
            with suppress(Moved):
                return find(place, rotated(self.path))

    def _turn(self, log: LogFile) -> None:
        """Inspects the log once, and acts on it."""
        step = decide(log.inspect(), self._named_file(), self.patience)
        if step is TailStep.LEAVE:
            self._leave(log)
        elif step is TailStep.BEGIN_AGAIN:
            self._begin_again(log)
        elif step is TailStep.WAIT or not self._ship(log.read()):
            self._pause()

    def _leave(self, log: LogFile) -> None:
        """Ships the last line of a file that was renamed and is no longer written to; goes on after it."""
        self._ship(log.rest())
        self._go_on(log.place, self._left(log))

    def _begin_again(self, log: LogFile) -> None:
        """Goes on after the file was truncated. What was not shipped by then may be in a copy
        (`copytruncate`), and what was written since in later files."""
        ours, place = log.inspect(), log.place
        self.say(f"{self.path} was truncated at byte {place.offset:,}: it goes on from its start")
        self._left(log)
        newest_ns = newest(rotated(self.path))
        if self._find(place) is not None:
            return self._go_on(place, None)
        if ours.seen > place.offset:
            self._gap(place)
        self._go_on(place, newest_ns)

    def _left(self, log: LogFile) -> int:
        """Closes the log, and returns when it was changed last."""
        changed_ns, self._log = log.changed_ns, None
        log.close()
        return changed_ns

    def _go_on(self, place: FilePosition, done_ns: int | None) -> None:
        """Ships the files that were rotated after the place's own one, oldest first; then follows the log.

        `done_ns` is when the place's file was changed last, once all of it is shipped.
        """
        while self._log is None and not self.interruption.asked:
            self._drain()
            with suppress(Moved):  # the listing is old: the next one finds the file under its new name
                place, done_ns = self._advance(place, done_ns)

    def _advance(self, place: FilePosition, done_ns: int | None) -> tuple[FilePosition, int | None]:
        """Does one step of `_go_on`. The log is opened before the others are listed: a file that is rotated
        away meanwhile is not missed. Raises Moved."""
        log, among = self._open(), rotated(self.path)
        try:
            if done_ns is None:
                return self._rest_of_place(place, among)
            after = newer(among, done_ns, place)
            after = [rotated_file for rotated_file in after if log is None or rotated_file.file != log.file]
            if after:
                first = recognised(after[0], self._new(after[0].file))
                return (first, None) if first.known else (place, after[0].changed_ns)
            if log is not None and log.place.known:
                self._switch(log.place)
                self._log = log
            else:
                self._settle(replace(place, done_ns=done_ns))
                self._pause()
            return place, done_ns
        finally:
            if log is not None and log is not self._log:
                log.close()

    def _rest_of_place(
        self, place: FilePosition, among: Sequence[Rotated]
    ) -> tuple[FilePosition, int | None]:
        rotated_file = find(place, among)
        if rotated_file is None:
            self._gap(place)
            return place, newest(among)
        done_ns = self._finish(rotated_file, place)
        return place if done_ns is None else self._bookmark.place or place, done_ns

    def _finish(self, rotated_file: Rotated, place: FilePosition) -> int | None:
        """Ships the rest of a file that is no longer written to, and returns when it was changed last."""
        still = time.time() - rotated_file.changed_ns / 1e9
        if 0 <= still < self.patience:
            self._pause()
            return None
        self._rest(rotated_file, place)
        return rotated_file.changed_ns

    def _gap(self, place: FilePosition) -> None:
        self.gaps += 1
        self.say(
            f"{self.path}: what followed byte {place.offset:,} of the file that was followed (inode "
            f"{place.inode}, batch {place.batch}) is not found: publish it as a file if you have it"
        )

    def _rest(self, rotated_file: Rotated, place: FilePosition) -> None:
        """Raises Moved."""
        self._switch(place)
        self.say(f"{rotated_file.path} from byte {place.offset:,} on")
        for piece in self.interruption.until(rest_of(rotated_file, place)):
            self._ship(piece)
        self._drain()

    def _open(self) -> LogFile | None:
        """Returns the file that has the name now, at its start, known by what it begins with."""
        log = LogFile.open(self.path, self._new)
        if log is not None:
            log.recognise()
        return log

    def _new(self, file: tuple[int, int]) -> FilePosition:
        return FilePosition(*file, batch=uuid.uuid4().hex)

    def _switch(self, place: FilePosition) -> None:
        """Saves a new place before anything of it is sent: an id is never forgotten after its first use."""
        self._settle(place)
        self._sending = self.shipment.of(str(self.path), place.batch, self._bookmark.settle, self._at)

    def _settle(self, place: FilePosition) -> None:
        """Saves a place, once what was sent before is acknowledged."""
        self._drain()
        if self._sending is not None:
            self._at = self._sending.times.last
        self._close()
        self._bookmark.settle(replace(place, at=self._at))
        self._bookmark.save()

    def _ship(self, piece: LogChunk | None) -> bool:
        if piece is not None and self._sending is not None:
            self._sending.ship(piece.chunk, lambda times: replace(piece.place, at=times.last))
        return piece is not None

    def _pause(self) -> None:
        self.interruption.pause(POLL_SECONDS)
        self.shipment.publisher.serve()
        if self._sending is not None:
            self._sending.poll()
            self._sending.check()
            self._bookmark.save()

    def _named_file(self) -> tuple[int, int] | None:
        """Returns the file (device and inode) that has the log's name now."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino

    def _drain(self) -> None:
        if self._sending is not None:
            self._sending.drain()
            self._bookmark.save()

    def _close(self) -> None:
        """Notes what the batch that was followed until now has come to."""
        place, sending = self._bookmark.place, self._sending
        if sending is not None and place is not None:
            state = BatchState.BEGUN
            self.reports.append(BatchReport(sending.source, sending.batch, state, place.line))
        self._sending = None

    def _end(self) -> None:
        try:
            if self._sending is not None:
                self._sending.wait(STOP_SECONDS)
            self._bookmark.save()
        finally:
            self._close()
            if self._log is not None:
                self._log.close()
