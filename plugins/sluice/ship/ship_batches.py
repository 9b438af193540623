"""Ships batches one after another, each from where an earlier attempt has left it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from io import BufferedIOBase
from pathlib import Path

from sluice.errors import WrongUse
from sluice.safe_text import Say
from sluice.ship.batch_register import Claim, Register
from sluice.ship.batches import Batch, content_id
from sluice.ship.in_flight import InFlight
from sluice.ship.interruption import Interruption
from sluice.ship.lines import chunks
from sluice.ship.record_times import Ahead, nothing
from sluice.ship.report import BatchReport, BatchState
from sluice.ship.shipment import Sending, Shipment
from sluice.ship.sources import opened

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
        _, claim = self.register.begin(batch, name, self.again)
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
        done = False
        try:
            with stream as lines:
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
