"""The stage that makes a change of a row into an event: the row's fields, and what was done to it.

Of Debezium's envelope it takes what Debezium's own ExtractNewRecordState takes if it rewrites deletes: the
fields of `after`, those of `before` if the row was deleted, and `__deleted`; and always `__op`, `__ts_ms`,
`__source` and `__transaction`. In a compacted topic the value is the row, and null deletes it: then the key's
fields are the event. What a message's schema block says of its values is applied
(formats/connect_types.py); without one they stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from sluice.config.event import COMPACTED, DEBEZIUM, ChangeForm
from sluice.flow.land import reject_reasons
from sluice.flow.land.expansion import BOUND, MOST_LEVELS, Room, Size, names_twice, too_deep
from sluice.flow.land.formats.connect_types import (
    NULL,
    Convert,
    converted,
    converter,
    field_converters,
    field_schema,
    object_text,
)
from sluice.flow.land.reject_reasons import Rejected, reason_of
from sluice.flow.land.task.records import CHANGE, split

MOST_SCHEMAS, MOST_SCHEMA_BYTES = 64, 8 << 20
"""Schema blocks of which a task keeps what they say: topics have one each, until a table is altered."""

Members = dict[str, bytes]
"""The names of an object, and the texts of their values."""
KeyReader = Callable[[bytes], bytes]
"""Makes a key that is no JSON into JSON. Raises Rejected."""

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)
_TRUE, _FALSE = b"true", b"false"
_WRAPPER = frozenset({"schema", "payload"})
_SETS = (b'"c"', b'"u"', b'"r"')  # created, updated, read by a snapshot
_DELETES, _TRUNCATES = b'"d"', b'"t"'
_CARRIED = {"ts_ms": "__ts_ms", "source": "__source", "transaction": "__transaction"}


class ChangeEvents:
    """One per task. `key_of` reads keys that are not JSON."""

    def __init__(self, form: ChangeForm, bound: Size = BOUND, key_of: KeyReader | None = None) -> None:
        self._form, self._key_of, self._room = form, key_of, Room(bound)
        self._schemas = _Schemas()
        self._event = {DEBEZIUM: self._debezium, COMPACTED: self._compacted}[form.kind]

    def split(self, records: pa.Table) -> tuple[pa.Table, pa.Table | None]:
        """Returns the events, and the messages that change no row. What was an event already in the lake
        stays, and what is no object goes on: the parser says why that is no event."""
        texts: list[Any] = records["_payload"].to_pylist()
        keys: list[Any] = records["_key"].to_pylist()
        kinds: list[Any] = [None] * len(texts)
        if CHANGE in records.column_names:
            kinds = records[CHANGE].to_pylist()
        events, reasons = list(texts), dict[int, str]()
        for position, (text, key) in enumerate(zip(texts, keys, strict=True)):
            if kinds[position] is not None:
                continue
            try:
                events[position] = event = self._event(text, key)
                self._room.refill()
                self._room.take(Size(0, len(event or b"")))
                kinds[position] = None if event is text else self._form.kind
            except (Rejected, MemoryError) as verdict:
                reasons[position] = reason_of(verdict)
        rows = _with(records, "_payload", pa.array(events, pa.binary()))
        if "_raw" not in records.column_names:  # a decoded message is decoded anew out of that
            rows = _with(rows, CHANGE, pa.array(kinds, pa.string()).dictionary_encode())
        return split(rows, reasons)

    def _debezium(self, text: bytes | None, key: bytes | None) -> bytes | None:
        outer = None if text is None else _members(text)
        if outer is None:
            return text
        schema, envelope = _unwrapped(outer) if "op" not in outer else (None, outer)
        op = (envelope or {}).get("op")
        if envelope is None or op not in (*_SETS, _DELETES, _TRUNCATES):
            raise Rejected(reject_reasons.NOT_A_CHANGE)
        if op == _TRUNCATES:
            raise Rejected(reject_reasons.TRUNCATED)
        side = "before" if op == _DELETES else "after"
        row = _row(envelope.get(side, NULL))
        if row is not None:
            event = converted(row, self._schemas.of(schema).fields(side))
        elif op == _DELETES:
            event = self._key(key)
        else:
            raise Rejected(reject_reasons.NO_ROW)
        event["__op"], event["__deleted"] = op, _TRUE if op == _DELETES else _FALSE
        for name, carried in _CARRIED.items():
            if (value := envelope.get(name, NULL)) != NULL:
                event[carried] = value
        return object_text(event)

    def _compacted(self, text: bytes | None, key: bytes | None) -> bytes | None:
        if text is None:
            return text if key is None else object_text({**self._key(key), "__deleted": _TRUE})
        members = _members(text)
        if members is None:
            return text
        schema, row = _unwrapped(members)
        if row is None:
            return text
        event = converted(row, self._schemas.of(schema).own)
        named = self._key(key) if key is not None else {}
        return object_text({**named, **event, "__deleted": _FALSE})

    def _key(self, key: bytes | None) -> Members:
        """Returns the fields of a key. Raises Rejected."""
        if key is None:
            raise Rejected(reject_reasons.NO_KEY)
        if key[:1] != b"{" and self._key_of is not None:
            key = self._key_of(key)
        members = _members(key)
        if members is None:
            return self._named(_scalar(key))
        schema, row = _unwrapped(members)
        if row is None:
            return self._named(_shown(members["payload"], self._schemas.of(schema).whole))
        return converted(row, self._schemas.of(schema).own)

    def _named(self, value: bytes) -> Members:
        if self._form.key is None:
            raise Rejected(reject_reasons.NO_KEY)
        return {self._form.key: value}


def _with(rows: pa.Table, name: str, values: pa.Array[Any]) -> pa.Table:
    if name not in rows.column_names:
        return rows.append_column(name, values)
    return rows.set_column(rows.column_names.index(name), name, values)


def _shown(value: bytes, convert: Convert | None) -> bytes:
    return value if convert is None or value == NULL else convert(value)


def _scalar(key: bytes) -> bytes:
    """Returns the text of a key that is no object: a text in JSON, or any other."""
    try:
        text = _TEXT.decode(key)
    except (msgspec.DecodeError, RecursionError):
        try:
            text = key.decode()
        except UnicodeDecodeError:
            raise Rejected(reject_reasons.NO_KEY) from None
    return msgspec.json.encode(text)


def _unwrapped(members: Members) -> tuple[bytes | None, Members | None]:
    """Returns the schema block and what lies beside it; the members themselves where there is no such block,
    None for what is no object."""
    if "payload" not in members or not members.keys() <= _WRAPPER:
        return None, members
    schema = members.get("schema", NULL)
    return None if schema == NULL else schema, _members(members["payload"])


def _row(text: bytes) -> Members | None:
    """Returns the fields of a row. MongoDB's are JSON in a text."""
    if text[:1] == b'"':
        try:
            text = _TEXT.decode(text).encode()
        except msgspec.DecodeError:
            return None
    return _members(text)


def _members(text: bytes) -> Members | None:
    """Returns None for what is no object, or none that can be read. Raises Rejected for a name that is there
    twice: nobody knows which of them counts."""
    if len(text) > MOST_LEVELS and too_deep(text):
        return None
    try:
        members = {name: bytes(value) for name, value in _OBJECT.decode(text).items()}
    except (msgspec.DecodeError, RecursionError):
        return None
    # As most writers write an object, it has as many bytes as its names and values need.
    size = 1 + sum(len(name) + len(value) + 4 for name, value in members.items())
    try:
        twice = size != len(text) and names_twice(text)
    except (ValueError, RecursionError):
        twice = False  # the parser says what is wrong with it
    if twice:
        raise Rejected(reject_reasons.FIELD_TWICE)
    return members


@dataclass(frozen=True)
class _Rules:
    """What a schema block says: of an envelope's rows by `side`, of a row or key that it is of itself."""

    schema: Any
    whole: Convert | None = None
    own: Mapping[str, Convert] = field(default_factory=dict)
    sides: Mapping[str, Mapping[str, Convert]] = field(default_factory=dict)

    @classmethod
    def of(cls, schema: Any) -> _Rules:
        sides = {side: field_converters(field_schema(schema, side)) for side in ("before", "after")}
        return cls(schema, converter(schema), field_converters(schema), sides)

    def fields(self, side: str) -> Mapping[str, Convert]:
        return self.sides.get(side, {})


_NO_RULES = _Rules(None)


class _Schemas:
    """What schema blocks say, by their bytes; the latest are kept."""

    def __init__(self) -> None:
        self._rules: dict[bytes, _Rules] = {}
        self._bytes = 0

    def of(self, schema: bytes | None) -> _Rules:
        if schema is None:
            return _NO_RULES
        rules = self._rules.get(schema)
        if rules is None:
            rules = self._rules[schema] = _Rules.of(msgspec.json.decode(schema))
            self._bytes += len(schema)
            for oldest in self._surplus():
                self._bytes -= len(oldest)
                del self._rules[oldest]
        return rules

    def _surplus(self) -> Iterator[bytes]:
        while len(self._rules) > MOST_SCHEMAS or (self._bytes > MOST_SCHEMA_BYTES and len(self._rules) > 1):
            yield next(iter(self._rules))
