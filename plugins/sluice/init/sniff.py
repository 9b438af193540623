"""How messages say events, as far as no option does: by the bytes and the shapes of a sample. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from sluice.clients.kafka.topics import SampledRecord
from sluice.config.event import COMPACTED, DEBEZIUM, JSON, Codec
from sluice.flow.land.expansion import BOUND, are_lines, mended
from sluice.flow.land.formats.framing import bare, is_framed_json
from sluice.flow.land.reject_reasons import Rejected
from sluice.flow.land.task.decode import MAGIC, unpack
from sluice.infer.values import loads
from sluice.init.questions import MessageForm
from sluice.runtime import deeper

REGISTRY = "schema_registry"
"""Of JSON behind schema ids no registry is asked: the file names one, whatever it is called."""


def form_of(form: MessageForm, records: Sequence[SampledRecord]) -> MessageForm:
    """Returns the form with what the records show: compressed values, JSON behind schema ids, several rows in
    a message, changes of a table, and half surrogate pairs."""
    form = replace(form, unpack=_codec(form, records))
    texts = [*_unpacked(form, records)]
    if form.kind != JSON:
        return form
    # What stands alone is read all the same: one record that needs an option is enough.
    if form.registry is None and any(is_framed_json(text) and _json([bare(text)]) for text in texts):
        form = replace(form, registry=REGISTRY)
    texts = [text if form.registry is None else bare(text) or b"" for text in texts]
    if any(mended(text) != text for text in texts):
        form = replace(form, surrogates="replace")
    values = _json(texts)
    if change := _change(values, records):
        return replace(form, change=change)
    return _divided(form, texts, values)


def _codec(form: MessageForm, records: Iterable[SampledRecord]) -> Codec | None:
    """No JSON begins like a compressed value; of other formats some messages may, and most have to."""
    values = [record.value for record in records if record.value]
    counts = {codec: sum(value.startswith(magic) for value in values) for codec, magic in MAGIC.items()}
    codec = max(counts, key=lambda one: counts[one])
    return codec if counts[codec] > (0 if form.kind == JSON else len(values) // 2) else None


def _unpacked(form: MessageForm, records: Iterable[SampledRecord]) -> Iterator[bytes]:
    for record in records:
        with suppress(Rejected, MemoryError):
            value = record.value if form.unpack is None else unpack(record.value, form.unpack, BOUND.text)
            if value:
                yield value


def _json(texts: Iterable[bytes | None]) -> list[Any]:
    values = []
    with deeper():
        for text in texts:
            with suppress(ValueError, RecursionError):
                values.append(loads((text or b"").decode()))
    return values


_OPERATIONS = ("c", "r", "u", "d")


def _change(values: Sequence[Any], records: Iterable[SampledRecord]) -> str:
    """Returns the form of `change` that most of the records, or most of the deleted keys, have; empty where
    they are events themselves."""
    if 2 * sum(map(_is_change, values)) > max(len(values), 1):
        return DEBEZIUM
    deleted = [record.key for record in records if record.value is None and record.key is not None]
    objects = sum(isinstance(key, Mapping) for key in _json(deleted))
    return COMPACTED if 2 * objects > len(deleted) else ""


def _is_change(value: Any) -> bool:
    envelope = value.get("payload") if isinstance(value, Mapping) and "op" not in value else value
    if not isinstance(envelope, Mapping) or not envelope.keys() & {"before", "after"}:
        return False
    return envelope.get("op") in _OPERATIONS


_HOLDERS = ("records", "logevents", "events", "rows", "entries", "messages")
"""Fields that hold a message's rows, in lower case. A list of another name may be a part of one event."""
_ENVELOPES = ("envelope", "message", "rest_of_message")


def _divided(form: MessageForm, texts: Sequence[bytes], values: Sequence[Any]) -> MessageForm:
    """Returns the form with what divides a message into rows."""
    whole = sum(b"\n" in text.strip() and bool(_json([text])) for text in texts)
    if sum(map(are_lines, texts)) > whole:
        return replace(form, rows="lines")
    objects = [value for value in values if isinstance(value, Mapping)]
    arrays = [value for value in values if isinstance(value, list)]
    if any(map(_objects_in, arrays)) and len(arrays) > len(objects):
        return replace(form, rows="array")
    holding = Counter(name for value in objects for name, inner in value.items() if _objects_in(inner))
    for name, count in holding.most_common():
        inner = [value[name] for value in objects if value.get(name) is not None]
        if name.lower() in _HOLDERS and 2 * len(inner) > len(objects) and 2 * count > sum(map(bool, inner)):
            taken = {key for value in objects for row in _objects_in(value.get(name)) for key in row}
            envelope = next((one for one in _ENVELOPES if one not in taken), _ENVELOPES[0])
            return replace(form, rows="field", field=name, envelope=envelope)
    return form


def _objects_in(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
