"""What the records of a topic show of their form, without any option."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import pyarrow as pa
import pytest

from sluice.clients.kafka.topics import SampledRecord
from sluice.init.questions import MessageForm
from sluice.init.sniff import form_of

PLAIN = MessageForm()
ONE = b'{"type":"a","id":1}'
PRETTY = b'{\n  "id": 1,\n  "b": {}\n}'


def framed(text: bytes, head: bytes = b"\0\0\0\0\x14") -> bytes:
    return head + text


def packed(text: bytes) -> bytes:
    return pa.compress(text, "zstd", asbytes=True)


def holding(name: str, **more: object) -> bytes:
    return json.dumps({name: [{"id": 1, **more}, {"id": 2}], "sent": "x"}).encode()


RECORDS = MessageForm(rows="field", field="Records")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([ONE], PLAIN),
        ([framed(ONE), framed(ONE)], MessageForm(registry="schema_registry")),
        ([ONE, ONE, framed(ONE)], MessageForm(registry="schema_registry")),
        ([framed(b"\x02"), framed(b"{ no JSON")], PLAIN),
        ([framed(ONE, b""), b"no json"], PLAIN),
        ([ONE, ONE, gzip.compress(ONE)], MessageForm(unpack="gzip")),
        ([packed(ONE), packed(ONE), gzip.compress(ONE)], MessageForm(unpack="zstd")),
        ([gzip.compress(ONE + b"\n" + ONE)], MessageForm(unpack="gzip", rows="lines")),
        ([b"\x1f\x8b damaged", gzip.compress(ONE)], MessageForm(unpack="gzip")),
        ([ONE + b"\r\n\n" + ONE + b"\n", ONE, ONE], MessageForm(rows="lines")),
        ([PRETTY, PRETTY, ONE + b"\n" + ONE], PLAIN),
        ([PRETTY + b"\n" + PRETTY], PLAIN),
        ([b"1\n2", b"[1]\n[2]"], PLAIN),
        ([b"[" + ONE + b"]", b"[]"], MessageForm(rows="array")),
        ([b"[1, 2]"], PLAIN),
        ([b"[" + ONE + b"]", ONE], PLAIN),
        ([holding("Records"), b'{"Records": []}'], RECORDS),
        ([holding("Records", envelope=1)], replace(RECORDS, envelope="message")),
        ([holding("logEvents")], replace(RECORDS, field="logEvents")),
        ([holding("items"), holding("lines")], PLAIN),
        ([b'{"records": [1, 2]}', b'{"events": 3}'], PLAIN),
        ([holding("Records"), ONE, ONE], PLAIN),
        ([rb'{"a":"\ud83d"}', ONE], MessageForm(surrogates="replace")),
        ([rb'{"a":"\ud83d\ude00"}', ONE], PLAIN),
        ([None, b"", b"null"], PLAIN),
    ],
)  # fmt: skip
def test_of_json(values: list, expected: MessageForm):
    records = [SampledRecord("t", 0, number, 0, value, ()) for number, value in enumerate(values)]
    assert form_of(PLAIN, records) == expected


@pytest.mark.parametrize(("count", "codec"), [(1, None), (2, "gzip")])
def test_of_other_formats_most_have_to_be_compressed(count: int, codec: str | None):
    """Their first bytes may be any."""
    values = [gzip.compress(b"x")] * count + [b"\x02"]
    form = MessageForm("avro", registry="r")
    records = [SampledRecord("t", 0, number, 0, value, ()) for number, value in enumerate(values)]
    assert form_of(form, records) == replace(form, unpack=codec)
