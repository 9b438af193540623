"""The doctor reads Kafka itself: its sample is masked as the landing masks."""

from __future__ import annotations

import json

from sluice.clients.kafka.topics import SampledRecord
from sluice.config.event import Event
from sluice.doctor.events import masked, parse
from sluice.mask.mask_rules import mask_rules
from tests.support.landing_world import pipeline


def test_a_sample_has_nothing_that_is_masked():
    mask = {"email": {"hash": "a key of this test"}, "ip": {"drop": True, "types": ["click"]}}
    spec = pipeline(mask=mask)
    payloads = [
        {"type": kind, "at": "2026-01-01T00:00:00Z", "email": "alice", "ip": "10.0.0.1", "n": 1}
        for kind in ("click", "bid")
    ]
    records = [SampledRecord("bids", 0, n, 1, json.dumps(one).encode(), ()) for n, one in enumerate(payloads)]
    plain = parse(Event.model_validate(spec.event), records)
    assert masked(plain, None) == plain
    click, bid = (one.event for one in masked(plain, mask_rules(spec)).events)
    assert "ip" not in click
    assert bid["ip"] == "10.0.0.1"
    assert click["email"] == bid["email"]
    assert str(click["email"]).startswith("hmac256:")
    assert {name: click[name] for name in ("type", "at")} == {"type": "click", "at": "2026-01-01T00:00:00Z"}
