"""Types from one half of public events take every value of the other half, as the oracle judges."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from sluice.clients.clickhouse.types import parse
from sluice.doctor.proposed_tables import columns_of
from sluice.infer.types import Rules
from sluice.infer.values import loads
from tests.support import oracle
from tests.support.public_events import SHAPES, make
from tests.unit.infer.test_infer_fits import holds, lacks

START = datetime(2026, 11, 20, tzinfo=UTC)
KINDS = {
    "github": {
        "PushEvent": {
            "id": "Nullable(String)",
            "type": "LowCardinality(String)",
            "created_at": "Nullable(DateTime64(3, 'UTC'))",
            "public": "Nullable(Bool)",
            "repo": "Tuple(`id` Nullable(UInt64), `name` Nullable(String), `url` Nullable(String))",
        },
        "PublicEvent": {"payload": "JSON"},
    },
    "cloudevents": {
        "com.example.order.created": {
            "time": "Nullable(DateTime64(6, 'UTC'))",
            "sequence": "Nullable(UInt64)",
            "data": "Tuple(`orderId` Nullable(UUID), `total` Nullable(Decimal(18, 2)), `items` "
            "Array(Tuple(`sku` LowCardinality(String), `quantity` UInt64, `price` Decimal(18, 2))))",
        },
        "com.example.sensor.read": {"data": "Nullable(String)"},
    },
    "segment": {
        "track": {"anonymousId": "Nullable(UUID)", "context": "JSON", "integrations": "JSON"},
        "page": {"properties": "Tuple(`title` Nullable(String), `url` LowCardinality(Nullable(String)), "
                 "`search` LowCardinality(Nullable(String)))"},
    },
}  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("count", [400, 1_500])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_other_half_fits(shape: str, count: int, seed: int):
    texts = [json.dumps(event) for _, event in make(shape, START, 3, count, seed)]
    kinds = {json.loads(text)["type"] for text in texts}
    for kind in kinds:
        first = [event for text in texts[::2] if (event := loads(text))["type"] == kind]
        if len(first) < 20:
            continue  # it would go to the catch-all
        found = columns_of(first, Rules()).columns
        types = {name: parse(one.type) for name, one in found.items()}
        wrong = []
        for text in texts[1::2]:
            event = oracle.loads(text)
            if event["type"] == kind:
                wrong += [
                    (name, types[name].text, event.get(name))
                    for name in types
                    if not (
                        lacks(types[name]) if event.get(name) is None else holds(types[name], event[name])
                    )
                ]
        # A column that is not Nullable takes its default where a field is missing.
        assert [one for one in wrong if one[2] is not None or one[1].startswith("Tuple")] == []


@pytest.mark.parametrize("shape", SHAPES)
def test_the_types_are_what_a_person_would_choose(shape: str):
    events = [loads(json.dumps(event)) for _, event in make(shape, START, 3, 2_500, 1)]
    for kind, expected in KINDS[shape].items():
        columns = columns_of([event for event in events if event["type"] == kind], Rules(), ["type"]).columns
        assert {name: columns[name].type for name in expected} == expected
