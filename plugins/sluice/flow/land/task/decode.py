"""The stage from records to events: a record is one, or several of them, or has to be decoded first.

How a message becomes the bytes of its rows is here, and in opened.py what comes of them. What decodes is made
on the driver, where the schema files are; it travels to the workers.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from sluice.clients import connections as connections
from sluice.config.event import DELIMITED, Codec, Event, RowsSource
from sluice.errors import SchemaRefused
from sluice.field_path import FieldPath, names_of, spellings
from sluice.flow.land import reject_reasons
from sluice.flow.land.expansion import (
    BOUND,
    MOST_LEVELS,
    Room,
    Size,
    mended,
    names_twice,
    not_json,
    too_deep,
    too_many_elements,
)
from sluice.flow.land.formats.framing import bare, is_framed_json
from sluice.flow.land.reject_reasons import Rejected, reason_of
from sluice.flow.land.task.change_events import ChangeEvents, KeyReader
from sluice.flow.land.task.opened import (
    BYTES_AT_ONCE,
    Opened,
    Opener,
    as_they_are,
    decoded,
    delimited,
    exploded,
)
from sluice.flow.land.task.records import split
from sluice.flow.land.task.reports import SchemasAsked
from sluice.manifest import TOMBSTONE
from sluice.mask.unit_mask import quoted

if TYPE_CHECKING:
    from sluice.flow.land.formats.decoders import Decode
    from sluice.flow.land.formats.registry import Address

_RAW = msgspec.json.Decoder(msgspec.Raw)
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_BLANK = b" \t\r\n"


def elements(text: bytes | None, _: Room) -> Sequence[msgspec.Raw]:
    """Returns the elements of an array. Raises Rejected."""
    return elements_of(text)


def unframed(records: pa.Table) -> pa.Table:
    """Returns records in JSON without the schema ids in front of them: JSON says by itself what it is."""
    payloads: list[Any] = records["_payload"].to_pylist()
    texts = pa.array([*map(bare, payloads)], pa.binary())
    return records.set_column(records.column_names.index("_payload"), "_payload", texts)


def _without_ids(records: pa.Table, inner: Opener) -> Iterator[Opened]:
    return inner(unframed(records))


def lines_of(text: bytes | None, room: Room) -> Sequence[bytes]:
    """Returns the lines that say something, whatever it is. Raises Rejected."""
    if text is None:
        raise Rejected(TOMBSTONE)
    room.take(Size(1), text.count(b"\n"))
    return [line for raw in text.split(b"\n") if (line := raw.strip(b" \t\r"))]


def elements_in(text: bytes | None, room: Room, rows: RowsSource) -> Sequence[bytes]:
    """Returns the elements of a field, each with the rest of the message as its first field. An element that
    is no object stays as it is. Raises Rejected."""
    if text is None:
        raise Rejected(TOMBSTONE)
    if too_deep(text):
        raise Rejected(reject_reasons.NESTED_TOO_DEEP)
    array, rest = _taken_out(text, names_of(rows.field))
    elements = elements_of(array)
    if rest == b"{}":
        return [*map(bytes, elements)]
    name = msgspec.json.encode(rows.envelope)
    room.take(Size(0, len(rest) + len(name)), len(elements))
    return [
        _within(bytes(element).strip(_BLANK), rows.envelope, b"%b:%b" % (name, rest)) for element in elements
    ]


def _taken_out(text: bytes, path: FieldPath) -> tuple[bytes, bytes]:
    """Returns the value at the path, and the message without it."""
    for keys in spellings(path):
        levels = [_members(text)]
        for key in keys[:-1]:
            inner = levels[-1].get(key)
            if inner is None or bytes(inner)[:1] != b"{":
                break
            levels.append(_members(bytes(inner)))
        value = levels[-1].get(keys[-1]) if len(levels) == len(keys) else None
        if value is None or bytes(value) == b"null":
            continue
        del levels[-1][keys[-1]]
        for outer, inner_members, key in zip(levels[-2::-1], levels[:0:-1], keys[-2::-1], strict=True):
            outer[key] = msgspec.Raw(msgspec.json.encode(inner_members))
        return bytes(value), msgspec.json.encode(levels[0])
    raise Rejected(reject_reasons.NO_ROWS)


def _members(text: bytes) -> dict[str, msgspec.Raw]:
    """Returns an object's members. Raises Rejected, also where a name is there twice: of the rest of the
    message one of both would be lost."""
    try:
        text.decode()
        members: dict[str, msgspec.Raw] = _OBJECT.decode(text)
    except UnicodeDecodeError:
        raise Rejected(_no_json(text, reject_reasons.NOT_UTF8)) from None
    except msgspec.ValidationError:
        raise Rejected(reject_reasons.NOT_AN_OBJECT) from None
    except msgspec.DecodeError:
        raise Rejected(_no_json(text, not_json(text))) from None
    # Each member has a colon, so that one is missing in what is left of two.
    doubtful = text.count(b":") != msgspec.json.encode(members).count(b":") or b"\\u003" in text
    if doubtful and names_twice(text):
        raise Rejected(reject_reasons.FIELD_TWICE)
    return members


def _within(element: bytes, name: str, member: bytes) -> bytes:
    if element[:1] != b"{":
        return element
    inside = element[1:].lstrip(_BLANK)
    if (quoted(name) in element or b"\\u" in element) and _has(element, name):
        raise Rejected(reject_reasons.FIELD_TWICE)
    return b"{" + member + (b"}" if inside == b"}" else b"," + inside)


def _has(element: bytes, name: str) -> bool:
    try:
        return name in _OBJECT.decode(element)
    except msgspec.DecodeError:  # not UTF-8: the element's own question
        return False


def elements_of(text: bytes | None) -> Sequence[msgspec.Raw]:
    """Returns the bytes of a JSON array's elements. Whether they are UTF-8 is each element's own question.

    Raises Rejected.
    """
    if text is None:
        raise Rejected(TOMBSTONE)
    if too_many_elements(text):
        raise Rejected(reject_reasons.TOO_MANY_VALUES)
    try:
        elements: Sequence[msgspec.Raw] = _ARRAY.decode(text)
    except (msgspec.DecodeError, RecursionError):
        raise Rejected(_verdict(text)) from None
    if any(len(element) > MOST_LEVELS and too_deep(bytes(element)) for element in elements):
        raise Rejected(reject_reasons.NESTED_TOO_DEEP)
    return elements


def _no_json(text: bytes, reason: str) -> str:
    return reject_reasons.FRAMED if is_framed_json(text) else reason


def _verdict(text: bytes) -> str:
    """Returns why `text` is no array of elements: as with a single event, the first reason."""
    try:
        text.decode()
        _RAW.decode(text)
    except UnicodeDecodeError:
        return _no_json(text, reject_reasons.NOT_UTF8)
    except RecursionError:
        return reject_reasons.NESTED_TOO_DEEP
    except msgspec.DecodeError:
        return _no_json(text, not_json(text))
    return reject_reasons.NOT_AN_ARRAY


@dataclass(frozen=True)
class Decoding:
    """`schema`: an Avro schema's text, or the descriptors of a .proto file, of which `message` is meant."""

    kind: str
    schema: bytes | None = None
    message: str | None = None
    registry: Address | None = None
    file: str = ""


def decoding_of(event: Event, schema: bytes | None = None) -> Decoding | None:
    """Returns None for JSON. `schema` is the prepared content of the schema file; without it the file is
    read. Raises SchemaRefused for a file that cannot be used, WrongUse for a connection."""
    form, address = event.format, None
    if not form.decoded:
        return None
    if event.registry is not None:
        from sluice.flow.land.formats.registry import address_of

        address = address_of(connections.find(event.registry.connection))
    content = schema_of(event) if schema is None else schema
    decoding = Decoding(form.kind, content, form.message, address, str(form.schema_file or ""))
    _decode(decoding)  # a schema that cannot be used is refused before anything is read
    return decoding


def schema_of(event: Event) -> bytes | None:
    """Returns the content of the schema file, where there is one. Raises SchemaRefused."""
    form = event.format
    return None if form.schema_file is None else _content(form.kind, form.schema_file)


def opener(
    event: Event, decoding: Decoding | None, bound: Size = BOUND, asked: SchemasAsked | None = None
) -> Opener:
    """Returns what makes events of records, in a task. `bound`: what one may become. `asked` is told of the
    schemas."""
    inner: Opener = as_they_are
    decode = None if decoding is None else _decode(decoding, bound, asked)
    if decode is not None:
        inner = partial(delimited if event.rows == DELIMITED else decoded, decode=decode, bound=bound)
    elif isinstance(event.rows, RowsSource):
        inner = partial(exploded, divide=partial(elements_in, rows=event.rows), bound=bound)
    elif event.rows != "one":
        inner = partial(exploded, divide=lines_of if event.rows == "lines" else elements, bound=bound)
    if event.change is not None:
        inner = partial(
            changes, plain=inner, events=ChangeEvents(event.change, bound, _key_reader(event, decode))
        )
    if decoding is None and event.surrogates == "replace":
        inner = partial(_mended, inner)
    if decoding is None and event.registry is not None:
        inner = partial(_without_ids, inner=inner)
    return inner if event.unpack is None else partial(unpacked, codec=event.unpack, inner=inner, bound=bound)


def _key_reader(event: Event, decode: Decode | None) -> KeyReader | None:
    """Returns what makes JSON of keys with a schema's id. A schema file is that of the values."""
    if event.registry is None:
        return None
    return (lambda key: bare(key) or b"") if decode is None else (lambda key: decode(key, None).text)


def changes(records: pa.Table, plain: Opener, events: ChangeEvents) -> Iterator[Opened]:
    """A record is a change of a row, which has to be opened first."""
    for opened in plain(records):
        if opened.rejected is not None:
            yield Opened(opened.events.slice(0, 0), opened.rejected)
        yield Opened(*events.split(opened.events))


_SKIPPED = tuple(bytes([number]) + b"\x2a\x4d\x18" for number in range(0x50, 0x60))
MAGIC: dict[Codec, tuple[bytes, ...]] = {"gzip": (b"\x1f\x8b",), "zstd": (b"\x28\xb5\x2f\xfd", *_SKIPPED)}
"""How a value begins that is compressed, which may be a frame that readers of zstd skip; no JSON does."""
_CHUNK = 64 << 10


def unpacked(records: pa.Table, codec: Codec, inner: Opener, bound: Size = BOUND) -> Iterator[Opened]:
    """A value is compressed, or is taken as it is; `inner` makes events of what comes out, piece by piece."""
    texts: list[bytes | None] = records["_payload"].to_pylist()
    values: list[bytes | None] = []
    rejected: dict[int, str] = {}
    start = size = 0
    for position, text in enumerate(texts):
        try:
            value = unpack(text, codec, bound.text)
        except (Rejected, MemoryError) as verdict:
            rejected[position], value = reason_of(verdict), text
        values.append(value)
        size += len(value or b"")
        if size >= BYTES_AT_ONCE or position + 1 == len(texts):
            at = records.column_names.index("_payload")
            piece = records.slice(start, len(values)).set_column(
                at, "_payload", pa.array(values, pa.binary())
            )
            here = {number - start: reason for number, reason in rejected.items()}
            kept, refused = split(piece, here)
            if refused is not None:
                yield Opened(kept.slice(0, 0), refused)
            if kept.num_rows:
                yield from inner(kept)
            start, size, values, rejected = position + 1, 0, [], {}


def unpack(text: bytes | None, codec: Codec, most: int) -> bytes | None:
    """Decompresses a value. Raises Rejected if it is damaged, or has more than `most` bytes."""
    if text is None or not text.startswith(MAGIC[codec]):
        return text
    try:
        return _read(pa.CompressedInputStream(pa.BufferReader(text), codec), most)
    except (OSError, pa.ArrowException):
        if codec != "gzip" or not text.endswith(b"\0"):
            raise Rejected(reject_reasons.NOT_UNPACKED) from None
    try:  # zeros that pad it, which gzip ignores and Arrow does not
        return _read(gzip.GzipFile(fileobj=io.BytesIO(text)), most)
    except (OSError, EOFError, zlib.error):
        raise Rejected(reject_reasons.NOT_UNPACKED) from None


def _read(packed: pa.CompressedInputStream | gzip.GzipFile, most: int) -> bytes:
    """Raises Rejected for more than `most` bytes, and what the stream raises."""
    parts: list[bytes] = []
    size = 0
    with packed as stream:
        while part := stream.read(_CHUNK):
            parts.append(part)
            size += len(part)
            if size > most:
                raise Rejected(reject_reasons.BECOMES_TOO_LARGE)
    return b"".join(parts)


def _mended(opened: Opener, records: pa.Table) -> Iterator[Opened]:
    """Replaces half surrogate pairs by U+FFFD, then opens the records."""
    payloads = records["_payload"]
    likely = pc.or_(pc.match_substring(payloads, r"\ud"), pc.match_substring(payloads, r"\uD"))
    if pc.any(likely).as_py():
        texts = [None if text is None else mended(text) for text in payloads.to_pylist()]
        at = records.schema.get_field_index("_payload")
        records = records.set_column(at, "_payload", pa.array(texts, payloads.type))
    yield from opened(records)


def _content(kind: str, file: Path) -> bytes:
    from sluice.flow.land.formats import decoders
    from sluice.flow.land.reject_reasons import BadSchema

    try:
        return decoders.FORMATS[kind].prepare(file)
    except OSError as error:
        raise SchemaRefused(error.filename or str(file), error.strerror or str(error)) from error
    except BadSchema as error:
        raise SchemaRefused(str(file), str(error)) from error


def _decode(decoding: Decoding, bound: Size = BOUND, asked: SchemasAsked | None = None) -> Decode:
    # The clients take a worker half a second to load: only where messages have to be decoded.
    from sluice.flow.land.formats import decoders
    from sluice.flow.land.reject_reasons import BadSchema

    try:
        return decoders.FORMATS[decoding.kind].decoder(decoding, bound, asked or SchemasAsked())
    except (BadSchema, UnicodeDecodeError) as error:
        raise SchemaRefused(decoding.file, str(error)) from error
