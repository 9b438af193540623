"""Protobuf's binary encoding, by Google's own library."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any, TypeAlias

from google.protobuf import (
    any_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import (
    EDITION_2023,
    DescriptorProto,
    EnumDescriptorProto,
    EnumValueDescriptorProto,
    FeatureSet,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from sluice.flow.land import reject_reasons
from sluice.flow.land.expansion import (
    BOUND,
    ESCAPED,
    Room,
    Size,
    bytes_within,
    fraction_text,
    instant_text,
    json_text,
    largest,
)
from sluice.flow.land.formats import connect_types
from sluice.flow.land.reject_reasons import BadSchema, Rejected

if TYPE_CHECKING:
    from google._upb._message import Descriptor as FastDescriptor
    from google._upb._message import FieldDescriptor as FastFieldDescriptor


# How much a Protobuf message becomes, and a walk over its wire format that counts it.
#
# Each message that is there, be it of two bytes, becomes all its fields that have no presence, in JSON and
# before that in the library's memory. The walk follows the wire as the library does, extensions included, and
# decodes nothing. Source: https://protobuf.dev/programming-guides/encoding/

MessageDescriptor: TypeAlias = "Descriptor | FastDescriptor"
Field: TypeAlias = "FieldDescriptor | FastFieldDescriptor"

_NUMBER = 26  # bytes of the longest, with its comma
_ABSENT = 5  # bytes of `false`: others are shorter
_FIELDS_AT_A_VALUE = 8
"""A field that is absent takes the library up to 16 bytes, and becomes nothing."""
_LEAST = 2  # bytes of a field that is there: its tag, and its value or length
_VARINT, _FIXED64, _LENGTH, _GROUP, _GROUP_END, _FIXED32 = range(6)
_WIDTHS = {
    FieldDescriptor.TYPE_DOUBLE: 8,
    FieldDescriptor.TYPE_FIXED64: 8,
    FieldDescriptor.TYPE_SFIXED64: 8,
    FieldDescriptor.TYPE_FLOAT: 4,
    FieldDescriptor.TYPE_FIXED32: 4,
    FieldDescriptor.TYPE_SFIXED32: 4,
}
_CONTENTS = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)
_CONTINUED = bytes(range(0x80, 0x100))
_LARGEST_TAG = (1 << 32) - 1
_MOST_BITS = 70  # of ten bytes, the most that a number takes


@dataclass
class MessageSizes:
    """Of a message's type: `own` is what an empty one becomes. `countable`: not of the old form of sets,
    which the walk does not follow."""

    own: Size
    countable: bool
    fields: dict[int, _FieldSizes] = field(default_factory=dict)


@dataclass(frozen=True)
class _FieldSizes:
    """`each`: what one more value becomes. `inner`: the sizes of a message or a group; `width`: the bytes of
    an element where many are packed, 0 of a varint."""

    type: int
    each: Size
    inner: MessageSizes | None
    width: int

    @property
    def byte(self) -> Size:
        """Returns what each byte of it adds at most."""
        if self.inner is not None:
            return (self.each + self.inner.own).shared(_LEAST)
        if self.type in _CONTENTS:
            return self.each.shared(_LEAST) + Size(0, ESCAPED)
        return self.each


@dataclass
class SchemaSizes:
    """The sizes of messages' types, and of all within them; `byte` is what any byte of a message adds."""

    byte: Size = field(default_factory=Size)
    _types: dict[str, MessageSizes] = field(default_factory=dict)
    _empty: dict[str, Size] = field(default_factory=dict)

    def of(self, descriptor: MessageDescriptor) -> MessageSizes:
        """Returns the sizes of a type, each of which is looked at once: all are of one pool.

        Raises BadSchema.
        """
        pending = [] if descriptor.full_name in self._types else [descriptor]
        self._add(descriptor)
        while pending:
            one = pending.pop()
            pool: Any = one.file.pool
            for part in [*one.fields, *pool.FindAllExtensions(one)]:
                inner = part.message_type
                if inner is not None and self._add(inner):
                    pending.append(inner)
                sizes = _field(part, None if inner is None else self._types[inner.full_name])
                self._types[one.full_name].fields[part.number] = sizes
                self.byte = largest([self.byte, sizes.byte])
        return self._types[descriptor.full_name]

    def _add(self, descriptor: MessageDescriptor) -> bool:
        if descriptor.full_name in self._types:
            return False
        options, own = descriptor.GetOptions(), self._empty_size(descriptor)
        if options.map_entry:
            value = descriptor.fields_by_name.get("value")
            if value is None:
                raise BadSchema(f"{descriptor.full_name} is a map's entry without a value")
            if value.message_type is not None:
                own += self._empty_size(value.message_type)
        self._types[descriptor.full_name] = MessageSizes(own, not options.message_set_wire_format)
        return True

    def _empty_size(self, descriptor: MessageDescriptor) -> Size:
        """Returns what an empty message becomes; the value of a map's entry may be one."""
        if descriptor.full_name not in self._empty:
            self._empty[descriptor.full_name] = _empty_size(descriptor)
        return self._empty[descriptor.full_name]


def count(content: bytes, sizes: MessageSizes, room: Room) -> None:
    """Raises Rejected where a message becomes more than there is `room`, ValueError or IndexError for one
    that the library refuses."""
    room.take(sizes.own)
    _walk(content, 0, len(content), sizes, room)


def _empty_size(descriptor: MessageDescriptor) -> Size:
    size, absent = Size(1, 2), 0
    for part in descriptor.fields:
        if part.has_presence:
            absent += 1
        else:
            listed = part.is_repeated or part.enum_type is None
            size += _name(part) + (Size(1, _ABSENT) if listed else _value_size(part))
    return size + Size(absent // _FIELDS_AT_A_VALUE)


def _field(part: Field, inner: MessageSizes | None) -> _FieldSizes:
    each = _value_size(part)
    if part.is_repeated:
        each += Size(0, 1)
    elif part.has_presence:
        each += _name(part)
    else:  # its place is counted with its message
        each = Size(0, 0 if part.type in _CONTENTS else _NUMBER)
    return _FieldSizes(part.type, each, inner, _WIDTHS.get(part.type, 0))


def _value_size(part: Field) -> Size:
    """Returns what a value becomes, without the contents of a message or a text."""
    if part.message_type is not None:
        return Size(0, connect_types.MOST_DIGITS if part.message_type.full_name == _DECIMAL else 0)
    if part.enum_type is not None:
        return Size(1, max(_NUMBER, *(len(value.name) + 3 for value in part.enum_type.values)))
    return Size(1, _NUMBER)


def _name(part: Field) -> Size:
    return Size(0, len(_shown_name(part)) + 4)


def _shown_name(part: Field) -> str:
    """Returns the name of a field in the event: of an extension as in Protobuf's JSON."""
    return f"[{part.full_name}]" if part.is_extension else part.name


def _walk(
    content: bytes, at: int, end: int, sizes: MessageSizes | None, room: Room, group: int | None = None
) -> int:
    """Counts the fields from `at` to `end`, or to the end of the `group` of that number, and returns where
    that is. `sizes`: None within a field that the schema does not know."""
    if sizes is not None and not sizes.countable:
        raise Rejected(reject_reasons.TOO_MANY_VALUES)
    fields: Mapping[int, _FieldSizes] = {} if sizes is None else sizes.fields
    while at < end:
        tag, at = _number(content, at)
        if tag > _LARGEST_TAG:
            raise ValueError("a number of a field that there is none of")
        wire, part = tag & 7, fields.get(tag >> 3)
        if wire == _GROUP_END:
            if tag >> 3 != group:
                raise ValueError("the end of another group")
            return at
        if wire == _LENGTH:
            length, at = _number(content, at)
            until = at + length
            if until > end:
                raise ValueError("a field ends behind its message")
            if part is not None:
                _take(content, at, until, part, room)
            at = until
        elif wire == _GROUP:
            inner = None
            if part is not None and part.type == FieldDescriptor.TYPE_GROUP and part.inner is not None:
                inner = part.inner
                room.take(part.each + inner.own)
            at = _walk(content, at, end, inner, room, tag >> 3)
        else:
            at = _scalar_end(content, at, wire)
            if part is not None and part.inner is None:
                room.take(part.each)
    if group is not None or at > end:
        raise ValueError("a field ends behind its message")
    return at


def _take(content: bytes, at: int, until: int, part: _FieldSizes, room: Room) -> None:
    """Counts a field of a length: a message, a text, or numbers."""
    if part.inner is not None:
        room.take(part.each + part.inner.own)
        _walk(content, at, until, part.inner, room)
    elif part.type == FieldDescriptor.TYPE_STRING:
        room.take(part.each)
        room.take_string(content[at:until])
    elif part.type == FieldDescriptor.TYPE_BYTES:
        room.take(part.each)
        room.take_bytes(until - at)
    elif part.width:
        room.take(part.each, (until - at) // part.width)
    else:
        room.take(part.each, len(content[at:until].translate(None, _CONTINUED)))


def _scalar_end(content: bytes, at: int, wire: int) -> int:
    if wire == _VARINT:
        return _number(content, at)[1]
    if wire == _FIXED64:
        return at + 8
    if wire == _FIXED32:
        return at + 4
    raise ValueError("a wire type that there is none of")


def _number(content: bytes, at: int) -> tuple[int, int]:
    """Returns a number without sign, and where it ends."""
    number = shift = 0
    while True:
        byte = content[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
        if shift >= _MOST_BITS:
            raise ValueError("a number of more than ten bytes")


_DECIMAL = "confluent.type.Decimal"
NOT_PROTOBUF = "not Protobuf of its message"

_MODULES = (any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
_WELL_KNOWN = {
    module.DESCRIPTOR.name: FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    for module in _MODULES
}
_PACKAGE = "google.protobuf."


def message_type(descriptors: bytes, name: str) -> type[Message]:
    """Returns the class of the message `name` (with its package) in compiled descriptors. Raises
    BadSchema."""
    return _class_of(_pool(FileDescriptorSet.FromString(descriptors).file), name)


class MessageFile:
    """The messages of the last of `files`, each of which comes after those it imports. Raises BadSchema."""

    def __init__(self, files: Sequence[FileDescriptorProto]) -> None:
        self._file, self._pool = files[-1], _pool(files)

    def message_at(self, path: Sequence[int]) -> type[Message]:
        """Returns the class at `path`, indexes of messages within messages. Raises BadSchema."""
        try:
            message, name = self._file.message_type[path[0]], self._file.package
            name = f"{name}.{message.name}".lstrip(".")
            for index in path[1:]:
                message = message.nested_type[index]
                name = f"{name}.{message.name}"
        except IndexError as error:
            raise BadSchema(f"it has no message at {list(path)}") from error
        return _class_of(self._pool, name)


class MessageDecoder:
    """Makes messages of one type into JSON, each of which becomes at most `bound`."""

    def __init__(self, kind: type[Message], bound: Size = BOUND, sizes: SchemaSizes | None = None) -> None:
        """`sizes` are those of other types of its pool. Raises BadSchema."""
        sizes = sizes or SchemaSizes()
        self.kind, self._bound = kind, bound
        self.name = str(kind.DESCRIPTOR.full_name)
        self._sizes = sizes.of(kind.DESCRIPTOR)
        self._short = bytes_within(bound, self._sizes.own, sizes.byte)

    def __call__(self, content: bytes) -> bytes:
        """Raises Rejected."""
        try:
            if len(content) > self._short:
                count(content, self._sizes, Room(self._bound))
            return json_text(self._read(content))
        except (ValueError, IndexError):
            raise Rejected(NOT_PROTOBUF) from None
        except RecursionError:
            raise Rejected(reject_reasons.NESTED_TOO_DEEP) from None

    def _read(self, content: bytes) -> Any:
        """Raises Rejected, RecursionError."""
        try:
            message = self.kind.FromString(content)
            if not self.kind.IsInitialized(message):
                raise Rejected(NOT_PROTOBUF)
            return _event(message)
        except (Rejected, RecursionError, MemoryError):
            raise
        except Exception:  # any: what a library makes of any bytes is one record's verdict, not the hour's
            raise Rejected(NOT_PROTOBUF) from None


def _pool(files: Sequence[FileDescriptorProto]) -> DescriptorPool:
    """Returns a pool of its own: two schemas may say different things of one name. The well-known types are
    the library's, which knows how to show those only."""
    pool = DescriptorPool()
    there = {*_WELL_KNOWN, *(file.name for file in files)}
    try:
        for known in _WELL_KNOWN.values():
            pool.Add(known)
        for file in files:
            if file.name not in _WELL_KNOWN:
                pool.Add(_strict(file, there))
            elif not _signatures(file) <= _signatures(_WELL_KNOWN[file.name]):
                raise BadSchema(f"its {file.name} is another than Protobuf's")
    except TypeError as error:
        nowhere = sorted({name for file in files for name in file.dependency} - there)
        lacks = f"; nobody gives its imports {', '.join(nowhere)}" if nowhere else ""
        raise BadSchema(" ".join(str(error).split()) + lacks) from error
    return pool


_LEGACY = FeatureSet(
    field_presence=FeatureSet.EXPLICIT,
    enum_type=FeatureSet.OPEN,
    repeated_field_encoding=FeatureSet.EXPANDED,
    utf8_validation=FeatureSet.VERIFY,
    message_encoding=FeatureSet.LENGTH_PREFIXED,
    json_format=FeatureSet.LEGACY_BEST_EFFORT,
)
"""What proto2 is as an edition, but for open enums and texts that are UTF-8."""
_ZERO = "_zero_of_"


def _strict(file: FileDescriptorProto, there: Collection[str]) -> FileDescriptorProto:
    """Returns the file as one whose messages lose nothing when they are read.

    A closed enum, as proto2 has them, would put numbers that it lacks out of their place in a list or a map,
    or out of the message; its texts may be any bytes. Imports that are not `there` are left out: options come
    from them, which decode nothing. A type of theirs that is used is missed by the pool.
    Source: https://protobuf.dev/editions/features/
    """
    strict = FileDescriptorProto()
    strict.CopyFrom(file)
    missing = {number for number, name in enumerate(file.dependency) if name not in there}
    if missing:
        kept = [name for name in file.dependency if name in there]
        public = [file.dependency[number] for number in file.public_dependency if number not in missing]
        del strict.dependency[:], strict.public_dependency[:], strict.weak_dependency[:]
        strict.dependency.extend(kept)
        strict.public_dependency.extend(map(kept.index, public))
    if file.syntax == "proto3":
        return strict
    if file.syntax != "editions":
        strict.syntax, strict.edition = "editions", EDITION_2023
        strict.options.features.CopyFrom(_LEGACY)
    for enum in _enums(strict):
        enum.options.features.enum_type = FeatureSet.OPEN
        _begin_with_zero(enum)
    for part in _fields(strict):
        if part.type == FieldDescriptorProto.TYPE_STRING:
            part.options.features.utf8_validation = FeatureSet.VERIFY
        if part.label == FieldDescriptorProto.LABEL_REQUIRED:
            part.label = FieldDescriptorProto.LABEL_OPTIONAL
            part.options.features.field_presence = FeatureSet.LEGACY_REQUIRED
    return strict


def _begin_with_zero(enum: EnumDescriptorProto) -> None:
    """An open enum has to."""
    if enum.value and enum.value[0].number:
        others = [value for value in enum.value if value.number]
        zero = [value for value in enum.value if not value.number]
        del enum.value[:]
        enum.value.extend(zero or [EnumValueDescriptorProto(name=f"{_ZERO}{enum.name}", number=0)])
        enum.value.extend(others)


def _messages(parts: Iterable[DescriptorProto]) -> Iterator[DescriptorProto]:
    for part in parts:
        yield part
        yield from _messages(part.nested_type)


def _enums(file: FileDescriptorProto) -> Iterator[EnumDescriptorProto]:
    yield from file.enum_type
    for message in _messages(file.message_type):
        yield from message.enum_type


def _fields(file: FileDescriptorProto) -> Iterator[FieldDescriptorProto]:
    yield from file.extension
    for message in _messages(file.message_type):
        yield from (*message.field, *message.extension)


def _signatures(file: FileDescriptorProto) -> set[tuple[str, str, int, int]]:
    messages = file.message_type
    return {(kind.name, part.name, part.number, part.type) for kind in messages for part in kind.field}


def _class_of(pool: DescriptorPool, name: str) -> type[Message]:
    try:
        return GetMessageClass(pool.FindMessageTypeByName(name))
    except KeyError as error:
        raise BadSchema(f"it has no message {name}, named with its package") from error
    except RecursionError:
        raise BadSchema("its types are nested too deeply") from None


def _event(message: Message) -> Any:
    """Returns the event, with names as in the .proto file. A field with presence is left out when it is
    absent; others have their value, 0 and the empty ones included, as the message does not hold those.

    A message's own attributes are its fields, whatever their names: what it can do is asked of its class.
    """
    show: Callable[[Any], Any] = _SHOWN.get(type(message).DESCRIPTOR.full_name, _fields_of)
    return show(message)


def _fields_of(message: Message) -> dict[str, Any]:
    kind = type(message)
    shown = {
        field.name: _value(field, getattr(message, field.name))
        for field in kind.DESCRIPTOR.fields
        if not field.has_presence or kind.HasField(message, field.name)
    }
    if kind.DESCRIPTOR.is_extendable:
        there = [(field, value) for field, value in kind.ListFields(message) if field.is_extension]
        shown |= {_shown_name(field): _value(field, value) for field, value in there}
    return shown


def _value(field: Field, value: Any) -> Any:
    if not field.is_repeated:
        return _one(field)(value)
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        inner = _one(entry.fields_by_name["value"])
        return {_key(key): inner(item) for key, item in value.items()}
    return [*map(_one(field), value)]


def _one(field: Field) -> Callable[[Any], Any]:
    if field.message_type is not None:
        return _event
    if field.enum_type is not None:
        names, unnamed = field.enum_type.values_by_number, f"{_ZERO}{field.enum_type.name}"
        return lambda n: names[n].name if n in names and names[n].name != unnamed else n
    return _same


def _same(value: Any) -> Any:
    return value


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


# Protobuf's own types, as its JSON mapping has them, and those by which Kafka Connect writes dates, times and
# decimals. What cannot be shown so, such as an instant beyond the year 9999, is an object of its fields.
# Source: https://protobuf.dev/programming-guides/json/

_NANOS = 1_000_000_000
_LONGEST = 315_576_000_000  # seconds of a Duration
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
_WHOLE = 2.0**63
_SNAKE = re.compile(r"[^A-Z_,]*(?:_[a-z][^A-Z_,]*)*")
_HUMP = re.compile("_([a-z])")


def _timestamp(message: Any) -> Any:
    seconds, nanos = message.seconds, message.nanos
    if not (_FIRST_SECOND <= seconds <= _LAST_SECOND and 0 <= nanos < _NANOS):
        return _fields_of(message)
    return f"{instant_text(seconds, nanos)}Z"


def _duration(message: Any) -> Any:
    seconds, nanos = message.seconds, message.nanos
    if abs(seconds) > _LONGEST or abs(nanos) >= _NANOS or seconds * nanos < 0:
        return _fields_of(message)
    sign = "-" if seconds < 0 or nanos < 0 else ""
    return f"{sign}{abs(seconds)}{fraction_text(abs(nanos))}s"


def _field_mask(message: Any) -> Any:
    if not all(map(_SNAKE.fullmatch, message.paths)):
        return _fields_of(message)
    return ",".join(_HUMP.sub(lambda hump: hump[1].upper(), path) for path in message.paths)


def _struct(message: Any) -> Any:
    return {name: _any_json(value) for name, value in message.fields.items()}


def _list(message: Any) -> Any:
    return [*map(_any_json, message.values)]


def _any_json(message: Any) -> Any:
    kind = message.WhichOneof("kind")
    if kind is None or kind == "null_value":
        return None
    value = getattr(message, kind)
    if kind == "number_value":
        return int(value) if value.is_integer() and abs(value) < _WHOLE else value
    return _event(value) if kind in ("struct_value", "list_value") else value


def _wrapper(message: Any) -> Any:
    return _one(type(message).DESCRIPTOR.fields_by_name["value"])(message.value)


def _date(message: Any) -> str | None:
    try:
        return date(message.year, message.month, message.day).isoformat()
    except ValueError:  # a year without a day, too
        return None


def _time_of_day(message: Any) -> str | None:
    hours, minutes, seconds = message.hours, message.minutes, message.seconds
    if not (0 <= hours < 24 and 0 <= minutes < 60 and 0 <= seconds < 60 and 0 <= message.nanos < _NANOS):
        return None
    return f"{hours:02}:{minutes:02}:{seconds:02}{fraction_text(message.nanos)}"


def _decimal(message: Any) -> str | None:
    return connect_types.decimal(message.value, message.scale)


def _common(show: Callable[[Any], str | None], *names: str) -> Callable[[Any], Any]:
    """Shows a type that a schema brings along: one with other fields than these is another."""

    def shown(message: Any) -> Any:
        text = show(message) if {*type(message).DESCRIPTOR.fields_by_name} == {*names} else None
        return _fields_of(message) if text is None else text

    return shown


_SHOWN: Mapping[str, Callable[[Any], Any]] = {
    "google.type.Date": _common(_date, "year", "month", "day"),
    "google.type.TimeOfDay": _common(_time_of_day, "hours", "minutes", "seconds", "nanos"),
    _DECIMAL: _common(_decimal, "value", "precision", "scale"),
    f"{_PACKAGE}Timestamp": _timestamp,
    f"{_PACKAGE}Duration": _duration,
    f"{_PACKAGE}FieldMask": _field_mask,
    f"{_PACKAGE}Struct": _struct,
    f"{_PACKAGE}Value": _any_json,
    f"{_PACKAGE}ListValue": _list,
    **{f"{_PACKAGE}{name}": _wrapper for name in wrappers_pb2.DESCRIPTOR.message_types_by_name},
}
