"""What Kafka holds in a case: messages at random, in partitions, with stamps, keys, headers and gaps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random

from tests.pairs.events import LENGTHS, SLICES, START, Events, text_of, time_path, type_path
from tests.pairs.options import Case
from tests.pairs.schemas import Schemas
from tests.pairs.texts import HOSTILE

TOPICS = {"alpha": 2, "beta": 1}  # partitions
KIND, SHIPPED = "kind", "sluice_batch"  # headers
MINUTE_MS = 60_000
AHEAD = 7_258_118_400_000  # the stamp of a producer whose clock says 2200
_PER_SLICE = 10  # records in each partition
_NO_TEXT = b"\xff\xfe"
Headers = tuple[tuple[str, bytes | None], ...]
Place = tuple[str, str, int]


@dataclass(frozen=True)
class Message:
    """`events`: the JSON texts of its events. `fault`: why the message as a whole cannot be landed."""

    value: bytes | None
    events: tuple[str, ...] = ()
    fault: str = ""


@dataclass(frozen=True)
class Sent:
    """A record of Kafka; its stamp in milliseconds. A gap has a stamp and no message."""

    stamp: int
    message: Message | None = None
    key: bytes | None = None
    headers: Headers = ()


@dataclass
class Log:
    """`sent` by (cluster, topic, partition); a record's offset is its place in the list."""

    case: Case
    random: Random
    schemas: Schemas
    sent: dict[Place, list[Sent]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for cluster in self.case.cluster_names:
            events = Events(self.case, self.random)
            for topic, partitions in TOPICS.items():
                for partition in range(partitions):
                    batch = "file" if partition == 0 or self.case.batch == "partitions" else "other"
                    records = list(self._records(events, batch))
                    self.sent[cluster, topic, partition] = self._again(records) if self._shipped else records

    @property
    def _shipped(self) -> bool:
        return self.case.batch != "off"

    def _records(self, events: Events, batch: str) -> Iterator[Sent]:
        """A record before the first slice, the slices', and one after the last. Lines are counted by
        partition, so that a batch in two partitions has the same lines there: the same file was shipped to
        both topics."""
        length, line = LENGTHS[self.case.slice] * MINUTE_MS, 0
        start, count = int(START.timestamp() * 1000), SLICES[self.case.slice]
        stamps = [(0, start - 1), *self._stamps(start, length, count), (count - 1, start + count * length)]
        for number, stamp in stamps:
            if self.random.random() < 0.06:
                yield Sent(stamp)
                continue
            line += 1
            yield self._record(events, batch, number, stamp, line)

    def _stamps(self, start: int, length: int, count: int) -> Iterator[tuple[int, int]]:
        """(slice, stamp) in the order of offsets: edges are among them, some come late, and some have a
        stamp of the future."""
        for number in range(count):
            first = start + number * length
            some = [self.random.randrange(first, first + length) for _ in range(_PER_SLICE)]
            for stamp in sorted([first, first + length - 1, *some]):
                yield number, self._odd(stamp, 2 * length if number else 0)

    def _odd(self, stamp: int, most: int) -> int:
        """The stamp, or now and then one up to `most` ms older, or of the future."""
        luck = self.random.random()
        if luck > 0.98:
            return AHEAD
        return stamp - self.random.randrange(1, most) if most and luck < 0.08 else stamp

    def _record(self, events: Events, batch: str, number: int, stamp: int, line: int) -> Sent:
        kind = events.kind()
        headers: list[tuple[str, bytes | None]] = [("trace", b"\0\xff"), ("empty", None)][: line % 3]
        named = self._kind_headers(kind) if self.case.type == "header" else [(KIND, b"unused")]
        headers += named
        typed = bool(named) and named[-1][1] not in (None, _NO_TEXT)
        if self._shipped and line % 7:
            headers.append((SHIPPED, b"no line" if line % 11 == 0 else f"{batch}:{line}".encode()))
        key = self.random.choice((None, b"", b"k\xff", HOSTILE[line % len(HOSTILE)].encode()))
        return Sent(stamp, self._message(events, number, kind, typed), key, tuple(headers))

    def _kind_headers(self, kind: str) -> list[tuple[str, bytes | None]]:
        """The last one counts; sometimes there is none, or none that is a type."""
        luck = self.random.random()
        if luck < 0.05:
            return []
        last = _NO_TEXT if luck < 0.08 else None if luck < 0.1 else kind.encode()
        return [(KIND, b"earlier"), (KIND, last)] if luck < 0.3 else [(KIND, last)]

    def _message(self, events: Events, number: int, kind: str, typed: bool) -> Message:
        """`typed`: its header says a type. Of two faults nobody promises which is told: it has one."""
        luck = self.random.random()
        if luck < 0.06:
            return self._unreadable(events, number, kind)
        wrong = luck < 0.14 and typed
        if self.case.arrays:
            return self._array(events, number, kind, wrong)
        tree = events.wrong(number) if wrong else events.make(number, kind)
        if self.case.decoded:
            return Message(self.schemas.encoded(tree), (self.schemas.said(tree),))
        text = text_of(tree)
        return Message(f" {text}\n".encode() if luck > 0.9 else text.encode(), (text,))

    def _array(self, events: Events, number: int, kind: str, wrong: bool) -> Message:
        count = self.random.choice((0, 1, 2, 3))
        texts = [
            text_of(events.make(number, kind if self.case.type == "header" else events.kind()))
            for _ in range(count)
        ]
        if wrong:
            texts.insert(
                self.random.randrange(count + 1),
                self.random.choice(("5", "[]", text_of(events.wrong(number)))),
            )
        return Message(f"[{', '.join(texts)}]".encode(), tuple(texts))

    def _unreadable(self, events: Events, number: int, kind: str) -> Message:
        faults: list[tuple[bytes | None, str]] = [(None, "no value")]
        if not self.case.decoded:
            wrong = ("{}", "not an array") if self.case.arrays else ("[1]", "not an object")
            faults += [(b'{"a": "\xff"}', "not UTF-8"), (b"", "not JSON"), (b'{"a": NaN}', "not JSON")]
            faults += [(b'[{"type": "click"', "not JSON"), (wrong[0].encode(), wrong[1])]
            path = type_path(self.case) or (time_path(self.case) if self.case.time != "record" else None)
            if path and not self.case.arrays:
                again = f'{{"{path[0]}": null, {text_of(events.make(number, kind))[1:]}'
                faults.append((again.encode(), "a field is there twice"))
            return self._faulty(faults)
        good = self.schemas.encoded(events.make(number, kind))
        reason = "not Avro of its schema" if self.case.format == "avro" else "not Protobuf of its message"
        if self.case.framed:
            faults += [(b"\7" + good[1:], "no schema id in front"), (b"", "no schema id in front")]
            faults += [(good[:1] + (99).to_bytes(4, "big") + good[5:], "unknown schema id")]
            head = good[:6] if self.case.format == "protobuf" else good[:5]
        else:
            head = b""
        faults += [(head + b"\xff\xff", reason)]
        if self.case.format == "avro":
            faults += [(good + b"!", reason), (good[:-1], reason)]
        return self._faulty(faults)

    def _faulty(self, faults: list[tuple[bytes | None, str]]) -> Message:
        value, fault = self.random.choice(faults)
        return Message(value, (), fault)

    def _again(self, records: list[Sent]) -> list[Sent]:
        """Some records are there twice, the second copy at once or some records later."""
        found = list(records)
        for record in self.random.sample([r for r in records if r.message], len(records) // 8):
            later = found.index(record) + self.random.choice((1, 1, 4))
            stamp = found[min(later, len(found) - 1)].stamp
            found.insert(later, replace(record, stamp=max(record.stamp, stamp)))
        return found


def expired_before(log: Mapping[Place, list[Sent]], case: Case) -> tuple[Place, int]:
    """The partition whose oldest records Kafka removes in a case, and its new first offset: some offsets into
    the first slice."""
    place = ("dc1", "alpha", 0)
    start = int(START.timestamp() * 1000)
    first = next(o for o, sent in enumerate(log[place]) if start <= sent.stamp < AHEAD)
    return place, first + 5


def end_of(case: Case) -> float:
    return (START + timedelta(minutes=SLICES[case.slice] * LENGTHS[case.slice])).timestamp()
