"""What the page shows of payloads: masked ones have structure and field names, and no value."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sluice.clients.lake.open import open_lake
from sluice.manifest import LandedFile
from sluice.page import rejected_samples
from sluice.page.rejected_samples import masked, rejected_records, rejects_of, shown_of
from sluice.slices import Slice
from tests.support.fakes import MemoryLake
from tests.support.page_world import START, manifest, pipeline, unit

CLICKS = ["events.clicks"]
OWN_TABLES = [("rejected", "MergeTree", "", 1)]

CASES = [
    (
        '{"id": 7, "who": {"name": "Ann \\"B\\"", "tags": ["x", null, true, -1.5e3]}}',
        '{"id": number, "who": {"name": text, "tags": [text, null, boolean, number]}}',
    ),
    ('[{"a":1},{}, []]', '[{"a": number}, {}, []]'),
    ('"Ann"', "text"),
    ("false", "boolean"),
    ("{}", "{}"),
    (
        '{"ann@example.org": 1, "+49 30 123": 2, "7": 3, "": 4}',
        '{"…": number, "…": number, "…": number, "…": number}',
    ),
    (
        '{"geo.country": 1, "user-id": 2, "größe": 3}',
        '{"geo.country": number, "user-id": number, "größe": number}',
    ),
    ('{"\\u0061nn": 1}', '{"…": number}'),
    (
        r'{"id": 1, "s": {"note": "a \ud83d", "ok": "\ud83d\ude00", "not": "\\ud83d"}}',
        '{"id": number, "s": {"note": half a surrogate pair, "ok": text, "not": text}}',
    ),
    # Cut anywhere, and what is no JSON: nothing of it is shown from there on.
    ('{"who": "An', '{"who": … (3 characters are hidden)'),
    ('{"who": 12', '{"who": number'),
    ('{"who": tru', '{"who": … (3 characters are hidden)'),
    ('{"who', "{… (4 characters are hidden)"),
    ("Ann,ann@example.org,7", "… (21 characters are hidden)"),
    ("", ""),
    ('{"a": 1} Ann', '{"a": number}… (3 characters are hidden)'),
    ('{"a": Ann}', '{"a": … (4 characters are hidden)'),
    ('{"a": 7x}', '{"a": … (3 characters are hidden)'),
    ('{"a" "Ann": 1}', '{"a"… (9 characters are hidden)'),
    ('{"a": "x" "Ann": 1}', '{"a": text… (9 characters are hidden)'),
    ('{"a": ["x": "Ann"]}', '{"a": [text… (9 characters are hidden)'),
    ("{Ann: 1}", "{… (7 characters are hidden)"),
    ("{'Ann': 1}", "{… (9 characters are hidden)"),
    ('{"a": 1,}', '{"a": number, … (1 characters are hidden)'),
    ("[1]]Ann", "[number]… (4 characters are hidden)"),
    ("null", "null"),
    ("nullAnn", "… (7 characters are hidden)"),
]


@pytest.mark.parametrize(("payload", "shown"), CASES)
def test_a_masked_payload(payload: str, shown: str):
    assert masked(payload) == shown


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), inner),
)


def kinds(value: object) -> object:
    """By Python's own reading of JSON: what a masked value is, as JSON."""
    if isinstance(value, dict):
        return {name: kinds(item) for name, item in value.items()}
    if isinstance(value, list):
        return [kinds(item) for item in value]
    for kind, name in ((type(None), "null"), (bool, "boolean"), (str, "text")):
        if isinstance(value, kind):
            return name
    return "number"


@given(value=VALUES, ascii_only=st.booleans())
def test_any_json_keeps_its_structure(value: object, ascii_only: bool):
    shown = masked(json.dumps(value, ensure_ascii=ascii_only))
    quoted = re.sub(r"(?<![\"\w])(text|number|boolean|null)(?![\"\w])", r'"\1"', shown)
    assert json.loads(quoted) == kinds(value)


@given(text=st.text(alphabet='{}[]:," \\xyznultre01.-\n'))
def test_of_any_text_only_names_of_fields_are_shown(text: str):
    """Letters that are shown are a kind's, or a key's: in quotes, with what has been read behind an opening
    brace."""
    shown = re.sub(r"… \([\d,]+ characters are hidden\)$", "", masked(text))
    names = re.findall(r'"([^"]*)"', shown)
    assert all(f'"{name}"' in text for name in names if name != "…")
    rest = re.sub(r'"[^"]*"(: |$)', "", shown)
    assert not re.sub(r"text|number|boolean|null|[{}\[\],: ]", "", rest)


def test_long_payloads_are_masked_before_they_are_said_to_be_cut():
    secret = b'{"who": "' + b"x" * 3000 + b'"}'
    assert shown_of(secret, "masked") == '{"who": … (1,992 characters are hidden)… (3,011 bytes)'
    assert shown_of(secret, "hidden") == shown_of(None, "shown") == ""
    assert shown_of(b'{"who": 1}', "shown") == '{"who": 1}'
    assert shown_of(b'\xff{"who": 1}', "masked") == "… (14 characters are hidden)"


def test_a_pipeline_file_says_what_is_shown():
    assert pipeline().page.payloads == "masked"
    assert pipeline(page={"payloads": "shown"}).page.payloads == "shown"
    for wrong in ({"payloads": "all"}, {"payload": "hidden"}):
        with pytest.raises(ValidationError):
            pipeline(page=wrong)


@pytest.fixture
def rejected(tmp_path: Path):
    """(lake, the manifest of a file of rejected records): 5,000 of two reasons."""
    lake, key = open_lake(pipeline(lake=f"file://{tmp_path}")), "_rejected/1.parquet"
    rows = [("no type" if n % 2 else "no time", "t", 0, n, b'{"who": "Ann %d"}' % n) for n in range(5000)]
    names = ("_reason", "_topic", "_partition", "_offset", "_payload")
    begun = lake.begin(key)
    pq.write_table(pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows]), begun.path)
    lake.finish(key, begun)
    file = LandedFile(key, "a", None, "", 5000, 1, "0" * 64)
    made = manifest(unit(0), [], rejected_records={"no type": 2500, "no time": 2500})
    return lake, type(made)(**{**vars(made), "rejected": (file,)})


@pytest.mark.parametrize(
    ("payloads", "shown"),
    [("hidden", ""), ("masked", '{"who": text}'), ("shown", '{"who": "Ann %d"}')],
)
def test_samples_of_the_lake(rejected, payloads: str, shown: str):
    """Three of each reason, by hand: the first ones of the file."""
    lake, made = rejected
    found = rejected_records(lake, [made], payloads)
    assert [(one.reason, one.offset) for one in found] == [
        *(("no time", 0), ("no type", 1), ("no time", 2), ("no type", 3), ("no time", 4), ("no type", 5))
    ]
    assert [one.payload for one in found] == [shown.replace("%d", str(n)) for n in range(6)]


def test_few_rows_of_a_file_are_read(rejected, monkeypatch):
    """Also one by one, where a file is so large that a few rows of it may be."""
    lake, made = rejected
    read: list[int] = []
    rows_of = pa.RecordBatch.to_pylist

    class Noted:
        def __init__(self, batch: pa.RecordBatch) -> None:
            self.batch, self.num_rows, self.nbytes = batch, batch.num_rows, batch.nbytes

        def to_pylist(self) -> list[dict]:
            read.append(self.num_rows)
            return rows_of(self.batch)

    class File(pq.ParquetFile):
        def iter_batches(self, *given: object, **more: object):
            return map(Noted, super().iter_batches(*given, **more))

    monkeypatch.setattr(rejected_samples.pq, "ParquetFile", File)
    rejected_records(lake, [made], "masked")
    assert (max(read), sum(read)) == (20, 2000)
    monkeypatch.setattr(rejected_samples, "_MOST_BYTES", 10_000)
    read.clear()
    rejected_records(lake, [made], "masked")
    assert max(read) == 1 and 50 < sum(read) < 500


@pytest.mark.parametrize(
    ("payloads", "hidden", "value", "payload"),
    [
        ("hidden", True, "", ""),
        ("masked", False, "", '{"price": text}'),
        ("shown", False, "Ann", '{"price": "Ann"}'),
    ],
)
def test_rejected_rows(payloads: str, hidden: bool, value: str, payload: str):
    class ClickHouse:
        def rows(self, sql: str, parameters: dict | None = None) -> list[tuple]:
            if parameters is None:
                return OWN_TABLES
            self.asked = parameters
            said = ("", "") if parameters["hidden"] else ("Ann", '{"price": "Ann"}')
            return [("dc1", "t", 0, 7, "events.clicks", "price", "does not fit UInt8", *said)]

    client = ClickHouse()
    (one,) = rejected_samples.rejected_rows(client, pipeline(), CLICKS, Slice(START), payloads)
    assert client.asked["hidden"] is hidden
    assert (one.place, one.offset, one.value, one.payload) == ("events.clicks.price", 7, value, payload)


@pytest.mark.parametrize(
    ("payloads", "place"),
    [
        ("hidden", "events.clicks.contacts[].sent[]"),
        ("masked", "events.clicks.contacts[].sent[]"),
        ("shown", 'events.clicks.contacts["ann \\"A\\" [1]@example.org"].sent[2]'),
    ],
)
def test_the_key_of_a_map_is_shown_as_the_payload_is(payloads: str, place: str):
    """The key is the event's own text. The sample stays in the group of its column."""
    column, reason = 'contacts["ann \\"A\\" [1]@example.org"].sent[2]', "does not fit UInt8"

    class ClickHouse:
        def rows(self, sql: str, parameters: dict | None = None) -> list[tuple]:
            if parameters is None:
                return OWN_TABLES
            return [("dc1", "t", 0, 7, "events.clicks", column, reason, "", "")]

    client, slices = ClickHouse(), [Slice(START)]
    samples = rejected_samples.rejected_rows(client, pipeline(), CLICKS, slices[0], payloads)
    assert samples == rejected_samples.rejected_rows_of(client, pipeline(), CLICKS, slices, 3, payloads)
    counts = [("events.clicks", "contacts[].sent[]", reason, 1)]
    found = rejects_of({}, counts, samples, payloads)
    assert [sample.place for group in found.groups for sample in group.samples] == [place]
    assert ("ann" in found.model_dump_json()) is (payloads == "shown")


@pytest.mark.parametrize("data", [b"garbage" * 100, b"", b"PAR1" * 3])
def test_a_damaged_file_gives_no_samples(data: bytes):
    lake = MemoryLake()
    lake.put("_rejected/x.parquet", data)
    assert list(rejected_samples._first_rows(lake, "_rejected/x.parquet", ["_reason"])) == []
