"""Half a surrogate pair in JSON: named as the reason, or replaced before anything is read."""

from __future__ import annotations

import pytest

from sluice.config.event import Event
from sluice.flow.land.expansion import mended
from sluice.flow.land.task.decode import opener
from sluice.flow.land.task.parse import Parser
from sluice.flow.land.task.records import REASON, TYPE
from tests.support.landing_world import record_table

CASES = [
    (rb'{"t":"\ud83d"}', rb'{"t":"\ufffd"}'),
    (rb'{"t":"\uDE00x"}', rb'{"t":"\ufffdx"}'),
    (rb'{"t":"\ud83d\ud83d\ude00"}', rb'{"t":"\ufffd\ud83d\ude00"}'),
    (rb'{"t":"\ud83d\ude00"}', rb'{"t":"\ud83d\ude00"}'),
    (rb'{"t":"\\ud83d"}', rb'{"t":"\\ud83d"}'),
    (rb'{"t":"\\\ud83d"}', rb'{"t":"\\\ufffd"}'),
    (rb'{"t":"\ud7ff\ue000"}', rb'{"t":"\ud7ff\ue000"}'),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_a_text_is_mended(text: bytes, expected: bytes):
    assert mended(text) == expected


@pytest.mark.parametrize("rows", ["one", "array", "field"])
@pytest.mark.parametrize("surrogates", ["reject", "replace"])
def test_the_file_says_what_becomes_of_it(rows: str, surrogates: str):
    said = {"field": "o.rows"} if rows == "field" else rows
    event = Event.model_validate(
        {"type": {"field": "t"}, "time": {"record": True}, "rows": said, "surrogates": surrogates}
    )
    texts = [rb'{"t":"a\ud83d"}', rb'{"t":"b"}', rb'{"t":"\ud83d",}']
    around = {"one": b"%b", "array": b"[%b]", "field": b'{"o":{"rows":[%b],"n":1}}'}[rows]
    given = [around % text for text in texts]
    landed, reasons = [], []
    for piece in opener(event, None)(record_table(given)):
        parser = Parser(event)
        parsed, rejected = parser.split(piece.events)
        landed += [parser.types.names[code] for code in parsed[TYPE].to_pylist()]
        for refused in (piece.rejected, rejected):
            reasons += [] if refused is None else refused[REASON].to_pylist()
    if surrogates == "replace":
        assert (landed, reasons) == (["a\ufffd", "b"], ["not JSON"])
    else:
        assert (landed, reasons) == (["b"], ["half a surrogate pair", "not JSON"])
